"""The fibonacci strategy: full speed, blocks of 1, 1, 2, 3, 5 ... s, slower while responses are slow."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from amble.core.answer import Answer
from amble.core.pacing.events import BlockOpened
from amble.core.pacing.strategies import Fibonacci
from tests.core.pacing.story import LIMITED, NEVER_TRIPS, OK, Story, limited

SLOW = Answer(200, elapsed_s=2.0)


def fibonacci(**settings: Any) -> Story:
    """Without the breaker, which would lengthen the fifth block."""
    return Story("fibonacci", **NEVER_TRIPS, **settings)


def waits_s(story: Story, count: int, answer: Answer = LIMITED) -> list[float]:
    """The blocks that so many limits in a row lead to, measured from answer to next permit."""
    waits = []
    for _ in range(count):
        story.visit(answer)
        answered_at = story.now
        story.pace.cancel(story.next())
        waits.append(story.now - answered_at)
    return waits


def test_an_unknown_domain_is_asked_at_the_full_speed_of_the_shell() -> None:
    story = fibonacci(max_rate=5.0)
    assert story.pace.strategy.delay_s == 0.0
    assert [permit.sent_at for permit in story.burst(4)] == pytest.approx([0.0, 0.2, 0.4, 0.6])


def test_blocks_grow_with_consecutive_limits() -> None:
    assert waits_s(fibonacci(), 9) == pytest.approx([1, 1, 2, 3, 5, 8, 13, 21, 34])


def test_blocks_are_capped() -> None:
    assert waits_s(fibonacci(max_retry_backoff_seconds=4.0), 7) == pytest.approx([1, 1, 2, 3, 4, 4, 4])


def test_a_success_starts_the_series_anew() -> None:
    story = fibonacci()
    assert waits_s(story, 5) == pytest.approx([1, 1, 2, 3, 5])
    story.visit(OK)
    assert waits_s(story, 3) == pytest.approx([1, 1, 2])


def test_retry_after_is_kept_in_place_of_the_series_and_counts_in_it() -> None:
    story = fibonacci()
    assert waits_s(story, 2) == pytest.approx([1, 1])
    assert waits_s(story, 1, limited(30.0)) == pytest.approx([30.02])
    assert waits_s(story, 1) == pytest.approx([3])


def test_a_storm_of_limits_is_one_block() -> None:
    """F5: of 32 in flight, all refused, the domain stays away for one second, not for the 32nd of the series."""
    story = fibonacci(max_parallel_per_domain=32)
    for permit in story.burst(32):
        story.settle(permit, LIMITED)
    opened = [event for event in story.events if isinstance(event, BlockOpened)]
    assert [event.wait_s for event in opened] == pytest.approx([1.0])


def usual(answer_s: float = 0.1, **settings: Any) -> Story:
    """A domain that has answered forty times in the time it usually takes."""
    story = fibonacci(**settings)
    story.visits(40, Answer(200, elapsed_s=answer_s))
    assert story.pace.strategy.delay_s == 0.0
    return story


def test_the_delay_grows_while_responses_are_slow_and_shrinks_again() -> None:
    story = usual()
    delays = []
    for answer in [SLOW, SLOW, SLOW, OK, OK, Answer(200), *[OK] * 8]:
        story.visit(answer)
        delays.append(story.pace.strategy.delay_s)
    grown = [0.1, 0.15, 0.225]
    shrunk = [0.16875, 0.1265625, 0.1265625]
    assert delays[:6] == pytest.approx(grown + shrunk)
    assert delays[6:] == sorted(delays[6:], reverse=True)
    assert delays[-1] == 0.0


SPEEDS = [
    # story                               usual_s  then_s  times  slowed down?
    ("slow by nature", 2.5, 2.5, 200, False),
    ("twenty times slower, yet under 2 s", 0.05, 1.0, 3, True),
    ("a little slower", 1.0, 1.5, 200, False),
    ("one slow page", 0.1, 0.3, 1, False),
    ("three times as slow", 1.0, 3.0, 10, True),
]


@pytest.mark.parametrize(
    ("usual_s", "then_s", "times", "slowed"), [row[1:] for row in SPEEDS], ids=lambda row: str(row)
)
def test_slow_is_what_takes_much_longer_than_this_domain_used_to(
    usual_s: float, then_s: float, times: int, slowed: bool
) -> None:
    story = usual(usual_s)
    delays = []
    for _ in range(times):
        story.visit(Answer(200, elapsed_s=then_s))
        delays.append(story.pace.strategy.delay_s)
    assert (max(delays) > 0) == slowed


def test_what_is_slow_is_set_by_the_factor() -> None:
    slow = Answer(200, elapsed_s=0.28)
    for factor, slowed in ((2.0, True), (3.0, False)):
        story = usual(0.1, latency_degrade_factor=factor)
        story.visits(4, slow)
        assert (story.pace.strategy.delay_s > 0) == slowed


def slower_and_slower(story: Story, longest_s: float) -> float:
    """Each answer takes a tenth longer than the last, until the delay is this long. Returns the last answer's time."""
    took_s = 0.1
    for _ in range(200):
        if story.pace.strategy.delay_s >= longest_s:
            return took_s
        took_s *= 1.1
        story.visit(Answer(200, elapsed_s=took_s))
    raise AssertionError(story.pace)


def test_the_delay_is_capped() -> None:
    story = usual(max_adaptive_delay=3.0)
    slower_and_slower(story, 3.0)
    story.visit(Answer(200, elapsed_s=500.0))
    assert story.pace.strategy.delay_s == 3.0


def test_it_finds_its_way_back_from_the_longest_delay_though_the_site_stays_slow() -> None:
    story = usual()
    took_s = slower_and_slower(story, 60.0)
    began = story.now
    while story.pace.strategy.delay_s:
        story.visit(Answer(200, elapsed_s=took_s))
    assert 100 < story.now - began < 1_800


@pytest.mark.parametrize("robots_s", [0.0, 4.0])
def test_never_under_what_robots_or_the_user_ask(robots_s: float) -> None:
    story = fibonacci(min_crawl_delay=2.0)
    story.pace.set_crawl_delay(robots_s)
    starts = [story.visit(answer).sent_at for answer in [OK] * 3 + [SLOW] * 3 + [OK] * 20]
    assert min(later - earlier for earlier, later in pairwise(starts)) == pytest.approx(max(2.0, robots_s))


def test_there_is_nothing_to_keep_for_the_next_run() -> None:
    story = fibonacci()
    waits_s(story, 3)
    assert isinstance(story.pace.strategy, Fibonacci)
    assert not story.pace.strategy.learned
    assert story.pace.strategy.save() == {}
