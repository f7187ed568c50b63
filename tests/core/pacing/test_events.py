"""Everything that changes is told, once, in order, with its reason; and a pace can be read at a glance."""

from __future__ import annotations

from itertools import pairwise

import pytest

from amble.core.answer import Answer
from amble.core.outcome import Failure
from amble.core.pacing.events import (
    BlockClosed,
    BlockOpened,
    CircuitClosed,
    CircuitHalfOpened,
    CircuitOpened,
    Event,
    NetworkBack,
    PaceChanged,
    Paused,
    PermitLost,
    TailBegan,
)
from amble.core.pacing.settings import StrategyName
from amble.core.quota import Quota
from tests.core.pacing.story import BROKEN, LIMITED, OK, TIMEOUT, Story, limited

A = "a.test"


def rounded(events: list[Event]) -> list[tuple[object, ...]]:
    """Seconds to the hundredth, for events to be compared whole."""
    return [tuple(round(part, 2) if isinstance(part, float) else part for part in event) for event in events]


def told(story: Story, *expected: Event) -> None:
    assert rounded(story.events) == rounded(list(expected))
    assert [type(event) for event in story.events] == [type(event) for event in expected]


def test_the_story_of_a_limit_and_a_probe_refused() -> None:
    """Seed 000's own story: limited, slower, a run of successes, a shorter delay on trial, refused, the floor."""
    story = Story("linear", success_probe_threshold=3)
    story.visit(OK)
    assert story.events == []
    story.visit(LIMITED)  # at 0.5 s
    story.visit(limited(7.0))  # the trial at 2.0 s
    story.visit(OK)  # the next one at 9.02 s
    story.visits(3, OK)
    story.visit(LIMITED)
    story.visit(OK)
    told(
        story,
        BlockOpened(A, 1.5, None, 1, "HTTP 429"),
        PaceChanged(A, 1.5, 0.5, 1, "limited"),
        BlockOpened(A, 7.02, 7.0, 2, "HTTP 429, Retry-After 7 s"),
        PaceChanged(A, 2.5, 1.5, 2, "limited again"),
        BlockClosed(A, 8.52, 2.5, "limited again"),
        PaceChanged(A, 1.5, 2.5, 0, "probing a shorter delay"),
        BlockOpened(A, 2.5, None, 1, "HTTP 429"),
        PaceChanged(A, 2.5, 1.5, 1, "probe refused: back to the delay before it, which is now the floor"),
        BlockClosed(A, 2.5, 2.5, "probe refused: back to the delay before it, which is now the floor"),
    )


def test_the_story_of_an_outage() -> None:
    story = Story("fixed", consecutive_fail_threshold=3)
    story.visits(3, BROKEN)  # at 0, 1 and 2 s
    story.visit(TIMEOUT)  # the trial at 3 s
    story.visit(limited(60.0))  # the next one at 4.35 s
    story.visit(OK)
    told(
        story,
        CircuitOpened(A, 1.0, 3, "3 failures in a row"),
        CircuitHalfOpened(A, "trial sent"),
        CircuitOpened(A, 1.35, 4, "trial failed"),
        CircuitHalfOpened(A, "trial sent"),
        CircuitOpened(A, 60.02, 5, "trial refused"),
        BlockOpened(A, 60.02, 60.0, 5, "HTTP 429, Retry-After 60 s"),
        CircuitHalfOpened(A, "trial sent"),
        BlockClosed(A, 62.37, 1.0, "fixed delay"),
        CircuitClosed(A, 62.37, "trial succeeded"),
    )


def test_the_story_of_too_many_failures_among_others() -> None:
    story = Story("fixed")
    for answer in [OK, BROKEN] * 5:
        story.visit(answer)
    told(story, CircuitOpened(A, 1.0, 1, "5 of 10 answers failed"))


def test_the_story_of_a_permit_lost() -> None:
    story = Story("fixed", max_parallel_per_domain=1, permit_timeout=10.0)
    story.granted(0.0)
    story.settle(story.granted(10.0), OK)
    assert story.events == [PermitLost(A, 1, "not settled in time")]


REASONS = [
    (LIMITED, "HTTP 429"),
    (limited(120.0), "HTTP 429, Retry-After 120 s"),
    (Answer(503, retry_after_s=5.0), "HTTP 503, Retry-After 5 s"),
    (Answer(403, challenge=True), "challenge page"),
    (Answer(failure=Failure.BLOCKED_BY_BOT_PROTECTION), "blocked_by_bot_protection"),
    (Answer(failure=Failure.HTTP_RATE_LIMITED), "http_rate_limited"),
]


@pytest.mark.parametrize(("answer", "reason"), REASONS, ids=[reason for _, reason in REASONS])
def test_a_block_says_why_it_opened(answer: Answer, reason: str) -> None:
    story = Story("fixed")
    story.visit(answer)
    (event,) = story.events
    assert isinstance(event, BlockOpened)
    assert event.reason == reason


@pytest.mark.parametrize("strategy", ["linear", "fibonacci", "fixed"])
def test_quiet_visits_tell_nothing(strategy: StrategyName) -> None:
    story = Story(strategy, crawl_delay_s=5.0)
    story.visits(50, OK)
    assert story.events == []


@pytest.mark.parametrize(("strategy", "was_s"), [("gauge", 0.25), ("aimd", 0.5)])
def test_a_crawl_delay_is_told_once(strategy: StrategyName, was_s: float) -> None:
    story = Story(strategy, crawl_delay_s=4.0)
    story.visits(50, OK)
    assert story.events == [PaceChanged(A, 4.0, was_s, 0, "crawl delay")]


@pytest.mark.parametrize("strategy", ["gauge", "aimd"])
def test_small_steps_are_told_in_sum_not_one_by_one(strategy: StrategyName) -> None:
    """A delay that moved by less than a tenth is not worth a line; over time none of it is lost."""
    story = Story(strategy, max_rate=50.0, max_rps=50.0, max_parallel_per_domain=64)
    story.visits(60, OK, took_s=0.01)
    changes = [event for event in story.events if isinstance(event, PaceChanged)]
    assert 5 < len(changes) < 40
    for earlier, later in pairwise(changes):
        assert later.was_s == earlier.delay_s
        assert abs(later.delay_s - later.was_s) > 0.1 * later.was_s
    assert story.pace.strategy.delay_s == pytest.approx(changes[-1].delay_s, rel=0.11)


def test_each_event_is_handed_out_once() -> None:
    story = Story("linear")
    first = story.settle(story.next(), LIMITED)
    assert len(first) == 2
    assert len(story.settle(story.next(), OK)) == 1
    assert list(story.settle(story.next(), OK)) == []


def test_every_event_names_its_domain_and_reason() -> None:
    story = Story("linear", max_parallel_per_domain=2, success_probe_threshold=2, permit_timeout=5.0)
    for answer in [LIMITED] * 8 + [OK] * 10 + [BROKEN] * 8:
        story.visit(answer)
    story.next()
    story.visits(3, OK)
    assert len({type(event) for event in story.events}) >= 6
    for event in story.events:
        assert event.domain == A
        assert not isinstance(event, NetworkBack | TailBegan)
        assert event.reason


READABLE: list[tuple[StrategyName, list[Answer], str]] = [
    ("linear", [], "<Pace a.test linear delay=0.50s floor=0.00s in_flight=0/8>"),
    ("linear", [LIMITED], "<Pace a.test linear delay=1.50s floor=0.00s in_flight=0/8 blocked>"),
    ("fixed", [BROKEN] * 5, "<Pace a.test fixed delay=1.00s floor=0.00s in_flight=0/8 blocked open>"),
    ("gauge", [], "<Pace a.test gauge delay=0.25s floor=0.00s in_flight=0/8>"),
    ("aimd", [], "<Pace a.test aimd delay=0.50s floor=0.12s in_flight=0/8>"),
    ("fibonacci", [], "<Pace a.test fibonacci delay=0.00s floor=0.00s in_flight=0/8>"),
]


@pytest.mark.parametrize(("strategy", "answers", "text"), READABLE, ids=[row[2] for row in READABLE])
def test_a_pace_can_be_read(strategy: StrategyName, answers: list[Answer], text: str) -> None:
    story = Story(strategy)
    for answer in answers:
        story.visit(answer)
    assert repr(story.pace) == text


def test_a_pace_on_trial_can_be_read() -> None:
    story = Story("fixed")
    story.visits(5, BROKEN)
    story.next()
    assert repr(story.pace) == "<Pace a.test fixed delay=1.00s floor=0.00s in_flight=1/8 blocked half_open>"


@pytest.mark.parametrize("strategy", ["linear", "aimd", "gauge"])
def test_what_is_learned_between_refusals_is_to_be_kept_as_well(strategy: StrategyName) -> None:
    """A crash must not lose that a domain bears more than when it was last refused."""
    story = Story(strategy, success_probe_threshold=3, max_rate=100.0)
    story.visits(20)
    story.visits(2, LIMITED)
    story.visits(2)
    assert story.pace.block is None
    story.pace.saved()  # handed out
    for _ in range(2_000):
        told = len(story.events)
        story.visit(OK)
        if any(isinstance(event, PaceChanged) for event in story.events[told:]):
            break
    assert story.pace.unsaved


def test_a_pace_that_stays_as_it_is_costs_no_saving() -> None:
    story = Story("gauge", max_rate=8.0)
    story.visits(50)
    assert not story.pace.unsaved, "nothing was refused: nothing is known that the next run would not start with"


PAUSES: list[tuple[str, Answer, list[Event]]] = [
    # story                        answer                                         told
    ("a redirect", Answer(301, retry_after_s=50.0), [Paused(A, 50.02, "HTTP 301, Retry-After 50 s")]),
    ("a quota used up", Answer(200, quota=Quota(0, 50.0)), [Paused(A, 50.02, "quota used up for 50 s")]),
    (
        "a redirect and a longer quota",
        Answer(301, retry_after_s=5.0, quota=Quota(0, 50.0)),
        [Paused(A, 50.02, "quota used up for 50 s")],
    ),
    (
        "a refusal and a longer quota",
        Answer(429, retry_after_s=5.0, quota=Quota(0, 50.0)),
        [BlockOpened(A, 5.02, 5.0, 1, "HTTP 429, Retry-After 5 s"), Paused(A, 50.02, "quota used up for 50 s")],
    ),
    (
        "a refusal and a shorter quota",
        Answer(429, retry_after_s=50.0, quota=Quota(0, 5.0)),
        [BlockOpened(A, 50.02, 50.0, 1, "HTTP 429, Retry-After 50 s")],
    ),
    ("a quota that is not used up", Answer(200, quota=Quota(1_000, 10.0)), []),
]


@pytest.mark.parametrize(("answer", "expected"), [row[1:] for row in PAUSES], ids=[row[0] for row in PAUSES])
def test_every_pause_that_a_server_asks_for_is_told(answer: Answer, expected: list[Event]) -> None:
    story = Story("fixed")
    story.visit(answer)
    told(story, *expected)


def test_a_pause_asked_for_by_many_answers_is_told_once_unless_it_gets_longer() -> None:
    story = Story("fixed", fixed_delay=0.0)
    for asked_s, permit in zip((50.0, 51.0, 20.0, 90.0), story.burst(4), strict=True):
        story.settle(permit, Answer(301, retry_after_s=asked_s))
    told(story, Paused(A, 50.02, "HTTP 301, Retry-After 50 s"), Paused(A, 90.02, "HTTP 301, Retry-After 90 s"))


WINDOWS = [
    # story                          pauses asked for, in s      told, in s
    ("many windows", [10.0, 8.0, 12.0, 10.0, 19.0], [10.02]),
    ("then a day's quota", [10.0, 10.0, 3600.0, 3000.0], [10.02, 3600.02]),
]


@pytest.mark.parametrize(("asked", "expected"), [row[1:] for row in WINDOWS], ids=[row[0] for row in WINDOWS])
def test_pauses_for_a_quota_are_told_once_unless_one_is_of_another_kind(
    asked: list[float], expected: list[float]
) -> None:
    story = Story("fixed")
    for asked_s in asked:
        story.visit(Answer(200, quota=Quota(0, asked_s)))
        story.visit(Answer(200, quota=Quota(5, asked_s)))
    assert [event.wait_s for event in story.events if isinstance(event, Paused)] == pytest.approx(expected)


def test_a_pause_that_is_no_quota_is_told_each_time() -> None:
    story = Story("fixed")
    story.visit(Answer(200, quota=Quota(0, 10.0)))
    for _ in range(2):
        story.visit(Answer(301, retry_after_s=10.0))
    assert len([event for event in story.events if isinstance(event, Paused)]) == 3


def test_a_late_refusal_that_asks_for_longer_is_told() -> None:
    """One event per block; but what it lasts must not be told wrong."""
    story = Story("fixed", fixed_delay=0.0)
    first, second, third = story.burst(3)
    for permit, asked_s in ((first, 10.0), (second, 10.0), (third, 600.0)):
        story.settle(permit, limited(asked_s))
    assert [type(event) for event in story.events] == [BlockOpened, Paused]
    assert rounded(story.events)[1] == (A, 600.02, "HTTP 429, Retry-After 600 s")
