"""How decisions become rows: what a receipt says of requests that overtake each other."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from amble.core.frontier.changes import Ready
from amble.core.frontier.visit import Visit
from amble.core.pacing.bounds import Rulebook
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Permit
from amble.core.pacing.settings import PacingSettings
from amble.fetcher import FetchResult
from amble.jobs.rows import request_row

URL = "http://a.test/"


def reserve(pace: Pace, now: float) -> Permit:
    permit = pace.reserve(now)
    assert isinstance(permit, Permit)
    return permit


@pytest.mark.parametrize(
    ("first_sent_s", "second_sent_s", "gap_s"),
    [(0.0, 0.5, 0.5), (0.3, 0.5, 0.2), (0.5, 0.5, 0.0), (0.6, 0.5, 0.0)],
    ids=["in their order", "the first was held up", "at once", "the second overtakes the first"],
)
def test_a_receipt_states_the_gap_between_what_was_sent(
    first_sent_s: float, second_sent_s: float, gap_s: float
) -> None:
    """Where no gap is required, none that was kept is too short."""
    settings = PacingSettings(pacing="fixed", fixed_delay=0.0, max_rate=None)
    pace = Pace("a.test", Rulebook(settings, lambda: 0.0).bounds("a.test"), 0.0)
    first, second = reserve(pace, 0.0), reserve(pace, 0.0)
    for permit, sent_s in sorted([(first, first_sent_s), (second, second_sent_s)], key=lambda sent: sent[1]):
        pace.sent(permit, sent_s)
    row = request_row(Ready(Visit(URL), second), FetchResult(URL, 200), 1, 1, 9.0, datetime.now(UTC))
    assert row.actual_gap_s == pytest.approx(gap_s)
    assert row.required_gap_s == 0.0
    assert (row.in_flight, row.at_once_max, row.ended_s) == (2, 8, 9.0)
