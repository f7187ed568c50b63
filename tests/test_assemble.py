"""What is put together fits together: settings of different parts that must agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amble.assemble import make_plan
from amble.core.pacing.registry import Registry
from amble.jobs.shared import Shared
from amble.settings import Settings
from amble.testing.virtual import VirtualClock


def of_a_plan(settings: Settings) -> Registry:
    return make_plan(settings, [], lambda: 0.5).frontier.registry


def of_a_job(settings: Settings) -> Registry:
    return Shared(lambda: 0.5).join(settings, VirtualClock()).registry


ROWS = [
    # story                                          permit_timeout   http_timeout   lost after
    ("as it is by default", 120, 30, 120),
    ("requests may take an hour", 120, 3_600, 3_630),
    ("requests may take as long as permits", 120, 120, 150),
    ("permits that outlast every request", 7_200, 3_600, 7_200),
]


@pytest.mark.parametrize("registry_of", [of_a_plan, of_a_job])
@pytest.mark.parametrize(("permit_s", "request_s", "lost_s"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_no_permit_is_lost_while_its_request_may_still_run(
    permit_s: float, request_s: float, lost_s: float, registry_of: Callable[[Settings], Registry]
) -> None:
    settings = Settings.of({"permit_timeout": permit_s, "http_timeout": request_s})
    assert registry_of(settings).settings.permit_timeout == lost_s
    assert settings.pacing.permit_timeout == permit_s, "what was asked for is still told as such"
