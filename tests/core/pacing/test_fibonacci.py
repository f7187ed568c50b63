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


def test_the_delay_grows_while_responses_are_slow_and_shrinks_again() -> None:
    story = fibonacci()
    delays = []
    for answer in [SLOW, SLOW, SLOW, OK, OK, Answer(200), *[OK] * 8]:
        story.visit(answer)
        delays.append(story.pace.strategy.delay_s)
    grown = [0.1, 0.15, 0.225]
    shrunk = [0.2025, 0.18225, 0.18225]
    assert delays[:6] == pytest.approx(grown + shrunk)
    assert delays[6:] == sorted(delays[6:], reverse=True)
    assert delays[-1] == 0.0


def test_what_is_slow_is_set_by_target_and_factor() -> None:
    story = fibonacci(latency_target=0.5, latency_degrade_factor=3.0)
    story.visit(Answer(200, elapsed_s=1.49))
    assert story.pace.strategy.delay_s == 0.0
    story.visit(Answer(200, elapsed_s=1.5))
    assert story.pace.strategy.delay_s == 0.1


def test_the_delay_is_capped() -> None:
    story = fibonacci(max_adaptive_delay=3.0)
    story.visits(40, SLOW)
    assert story.pace.strategy.delay_s == 3.0


@pytest.mark.parametrize("robots_s", [0.0, 4.0])
def test_never_under_what_robots_or_the_user_ask(robots_s: float) -> None:
    story = fibonacci(min_crawl_delay=2.0)
    story.pace.set_crawl_delay(robots_s)
    starts = [story.visit(answer).sent_at for answer in [SLOW] * 3 + [OK] * 20]
    assert min(later - earlier for earlier, later in pairwise(starts)) == pytest.approx(max(2.0, robots_s))


def test_there_is_nothing_to_keep_for_the_next_run() -> None:
    story = fibonacci()
    waits_s(story, 3)
    assert isinstance(story.pace.strategy, Fibonacci)
    assert not story.pace.strategy.learned
    assert story.pace.strategy.save() == {}
