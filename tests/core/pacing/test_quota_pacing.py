"""Servers that state their quota are taken at their word: it sets the pace, never above the caps."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from amble.core.answer import Answer
from amble.core.pacing.permit import Source
from amble.core.pacing.settings import StrategyName
from amble.core.quota import LONGEST_RESET_S, Quota
from tests.core.pacing.story import LIMITED, OK, STRATEGIES, Story

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def stating(remaining: float, reset_s: float, limit: float | None = None, window_s: float | None = None) -> Answer:
    return Answer(200, elapsed_s=0.1, quota=Quota(remaining, reset_s, limit, window_s))


GAPS: list[tuple[str, Quota, dict[str, Any], float, Source]] = [
    # story                                     quota                settings          gap after it   set by
    ("long: 98 % of what is left, evenly", Quota(20, 980), {}, 50.0, Source.QUOTA),
    ("a minute: twice as fast as evenly", Quota(19, 60), {}, 1.5, Source.QUOTA),
    ("short: three times as fast", Quota(9, 15), {}, 0.5, Source.QUOTA),
    ("a window is no longer than its policy says", Quota(19, 600, 20, 60), {}, 1.5, Source.QUOTA),
    ("never faster than the highest rate", Quota(10_000, 10), {"max_rate": 2.0}, 0.5, Source.MAX_RATE),
    ("never faster than a rule", Quota(10_000, 10), {"rules": {"a.test": {"delay": 3.0}}}, 3.0, Source.MINIMUM),
]


@pytest.mark.parametrize(
    ("quota", "settings", "gap_s", "source"), [row[1:] for row in GAPS], ids=[row[0] for row in GAPS]
)
@pytest.mark.parametrize("strategy", ["fixed", "fibonacci"])
def test_the_gap_a_quota_leads_to(
    strategy: StrategyName, quota: Quota, settings: dict[str, Any], gap_s: float, source: Source
) -> None:
    story = Story(strategy, fixed_delay=0.0, **settings)
    story.visit(Answer(200, quota=quota))
    assert story.pace.gap_s == pytest.approx(gap_s)
    assert story.pace.source is source


@every_strategy
@pytest.mark.parametrize("remaining", [0, 0.5])
def test_an_exhausted_quota_is_a_pause_until_its_reset(strategy: StrategyName, remaining: float) -> None:
    story = Story(strategy)
    story.settle(story.granted(0.0), stating(remaining, 45.0))
    until = story.refused(0.0)
    assert 45.0 < until < 45.1
    assert not story.granted(until).probe
    assert story.pace.block is None


@every_strategy
def test_nobody_returns_at_the_very_instant_of_a_reset(strategy: StrategyName) -> None:
    """Many domains of one server reset together: as after a Retry-After, each comes a little later than the others."""
    untils = []
    for luck in (0.0, 0.5, 0.99):
        story = Story(strategy, random=partial(float, luck))
        story.settle(story.granted(0.0), stating(0, 100.0))
        untils.append(story.pace.blocked_until)
    assert 100.0 < untils[0] < untils[1] < untils[2] < 102.1


@every_strategy
@pytest.mark.parametrize(("remaining", "paused"), [(3, True), (4, True), (5, False)])
def test_requests_under_way_spend_what_is_left(strategy: StrategyName, remaining: int, paused: bool) -> None:
    """Four more are on their way: with four left or fewer, nothing may be added before the reset."""
    story = Story(strategy)
    first, *_ = story.burst(5)
    story.settle(first, stating(remaining, 45.0))
    assert (story.pace.blocked_until > story.now + 45.0) is paused


def test_requests_under_way_slow_the_rest_down() -> None:
    story = Story("fixed", fixed_delay=0.5)
    first, *_ = story.burst(5)
    story.settle(first, stating(14, 980.0))
    assert story.pace.gap_s == pytest.approx(100.0)


@every_strategy
def test_a_quota_does_not_shorten_a_retry_after(strategy: StrategyName) -> None:
    story = Story(strategy)
    story.settle(story.granted(0.0), Answer(429, retry_after_s=100.0, quota=Quota(0, 5)))
    story.refused(99.0)
    story = Story(strategy)
    story.settle(story.granted(0.0), Answer(429, retry_after_s=5.0, quota=Quota(0, 100)))
    story.refused(99.0)


@every_strategy
def test_the_pause_of_a_quota_is_not_shortened_by_a_later_one(strategy: StrategyName) -> None:
    story = Story(strategy)
    first, second = story.burst(2)
    story.settle(first, stating(0, 45.0))
    until = story.pace.not_before
    story.settle(second, stating(100, 1.0))
    assert story.pace.not_before >= until


@pytest.mark.parametrize("strategy", ["fixed", "linear", "fibonacci"])
def test_a_quota_holds_until_its_window_ends_whatever_other_pages_leave_out(strategy: StrategyName) -> None:
    """Ten left for a minute: a picture without the headers, in between, does not set us free."""
    story = Story(strategy, fixed_delay=0.5)
    story.visit(stating(10, 60.0))
    gap_s = story.pace.gap_s
    while story.pace.not_before < 60.0:
        story.visit(OK)
        if story.now < 60.0:
            assert (story.pace.source, story.pace.gap_s) == (Source.QUOTA, gap_s)
    story.visit(OK)
    assert story.pace.source is not Source.QUOTA


def test_a_pause_that_was_asked_for_without_a_refusal_is_to_be_kept_as_well() -> None:
    """By a redirect with Retry-After, or by a quota that is used up: the next run must know."""
    for answer in (Answer(301, retry_after_s=100.0), stating(0, 100.0)):
        story = Story("fixed")
        story.visit(OK)
        assert not story.pace.unsaved
        story.visit(answer)
        assert story.pace.unsaved


@every_strategy
@pytest.mark.parametrize(
    "quota",
    [
        Quota(50, 30, 0, 60),
        Quota(50, 30, 100, 0),
        Quota(1, 3_600, 1, 1e15),
        Quota(1e15, 1e-3),
        Quota(1, 1e-3, 1e15, 1e-9),
    ],
    ids=str,
)
def test_no_quota_can_stop_a_crawl_for_ever_or_break_it(strategy: StrategyName, quota: Quota) -> None:
    story = Story(strategy)
    story.visit(Answer(200, elapsed_s=0.1, quota=quota))
    answered_at = story.now
    story.visit(OK)
    assert story.now - answered_at <= 1.1 * LONGEST_RESET_S


@every_strategy
def test_the_quota_is_spent_and_not_exceeded(strategy: StrategyName) -> None:
    """An exact server of 100 requests a minute that says what is left: no request too many, in ten minutes."""
    story = Story(strategy, max_rate=100.0, fixed_delay=0.1)
    window, used, over, served = -1, 0, 0, 0
    while story.now < 600.0:
        permit = story.next()
        if int(story.now // 60) != window:
            window, used = int(story.now // 60), 0
        if used >= 100:
            over += 1
            story.settle(permit, LIMITED)
            continue
        used, served = used + 1, served + 1
        story.settle(permit, stating(100 - used, (window + 1) * 60 - story.now + 1e-6, 100, 60))
    assert over == 0
    assert served > (800 if strategy != "linear" else 500)
