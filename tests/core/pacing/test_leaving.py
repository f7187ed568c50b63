"""Who may set out while the request before is still connecting: where there is a gap, nobody [P1]."""

from __future__ import annotations

from typing import Any

import pytest

from amble.core.pacing.permit import Permit
from tests.core.pacing.story import CANCELLED, OK, Story

GAPPED: dict[str, Any] = {"fixed_delay": 1.0, "permit_timeout": 60.0}


def setting_out(story: Story, now: float) -> Permit:
    permit = story.granted(now)
    story.pace.expect(permit)
    return permit


def test_the_gap_begins_when_the_request_leaves() -> None:
    story = Story("fixed", **GAPPED)
    slow = setting_out(story, 0.0)
    assert story.refused(1.0) == 60.0, "as long as its slot, should nobody ever say that it left"
    assert not story.pace.ready(1.0)
    assert slow.awaited
    story.pace.sent(slow, 1.5)
    assert story.refused(1.6) == 2.5
    assert story.granted(2.5).previous_at == 1.5


def test_who_asks_while_nobody_is_leaving_awaits_nothing() -> None:
    story = Story("fixed", **GAPPED)
    first = setting_out(story, 0.0)
    story.pace.sent(first, 0.0)
    story.refused(0.5)
    assert not first.awaited
    story.granted(1.0)


def test_without_a_gap_all_connect_side_by_side() -> None:
    story = Story("fixed", fixed_delay=0.0, max_rate="unlimited", max_parallel_per_domain=4)
    for _ in range(4):
        setting_out(story, 0.0)


ENDS = [
    ("it was answered without anybody saying that it left", lambda story, permit: story.settle(permit, OK)),
    ("it came to nothing", lambda story, permit: story.settle(permit, CANCELLED)),
    ("it was given back", lambda story, permit: story.pace.cancel(permit)),
]


@pytest.mark.parametrize("end", [row[1] for row in ENDS], ids=[row[0] for row in ENDS])
def test_what_is_over_is_not_waited_for(end: Any) -> None:
    story = Story("fixed", **GAPPED)
    permit = setting_out(story, 0.0)
    story.refused(1.2)
    end(story, permit)
    story.granted(1.5)


def test_a_request_of_which_nobody_hears_again_holds_up_nobody_for_ever() -> None:
    story = Story("fixed", **GAPPED)
    setting_out(story, 0.0)
    story.refused(59.9)
    story.granted(60.0)
