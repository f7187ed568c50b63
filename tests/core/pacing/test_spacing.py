"""Who may send when: spacing between starts, requests under way, permits given back or lost [P1, P2, F3]."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from amble.core.pacing.events import PermitLost
from amble.core.pacing.permit import PermitState, Source
from amble.core.pacing.settings import StrategyName
from amble.errors import AlreadySettled, PermitError
from tests.core.pacing.story import BROKEN, CANCELLED, LIMITED, OK, STRATEGIES, Story, limited

GAPS: list[tuple[str, dict[str, Any], float | None, float, Source]] = [
    # story                           settings                                        crawl delay  gap  set by
    ("nothing binds", {"max_rate": "unlimited", "fixed_delay": 0.0}, None, 0.0, Source.NONE),
    ("the highest rate", {"max_rate": 4.0, "fixed_delay": 0.0}, None, 0.25, Source.MAX_RATE),
    ("the minimum", {"min_crawl_delay": 2.0}, None, 2.0, Source.MINIMUM),
    ("a rule", {"rules": {"a.test": {"delay": 3.0}}}, None, 3.0, Source.MINIMUM),
    ("robots.txt", {"min_crawl_delay": 2.0}, 5.0, 5.0, Source.CRAWL_DELAY),
    ("robots.txt, less than the minimum", {"min_crawl_delay": 2.0}, 1.5, 2.0, Source.MINIMUM),
    ("robots.txt, less than a second", {"fixed_delay": 0.1}, 0.5, 0.5, Source.CRAWL_DELAY),
    ("the default in place of robots.txt", {"default_crawl_delay": 4.0}, None, 4.0, Source.CRAWL_DELAY),
    ("robots.txt instead of the default", {"default_crawl_delay": 4.0}, 2.0, 2.0, Source.CRAWL_DELAY),
    ("the strategy", {"fixed_delay": 6.0, "min_crawl_delay": 2.0}, 5.0, 6.0, Source.LEARNED),
]


@pytest.mark.parametrize(
    ("settings", "crawl_delay_s", "gap_s", "source"), [row[1:] for row in GAPS], ids=[row[0] for row in GAPS]
)
def test_starts_are_as_far_apart_as_the_longest_of_all_gaps(
    settings: dict[str, Any], crawl_delay_s: float | None, gap_s: float, source: Source
) -> None:
    """P1; and a permit names the rule that set its gap."""
    story = Story("fixed", crawl_delay_s=crawl_delay_s, **settings)
    permits = [story.visit() for _ in range(4)]
    assert [permit.sent_at for permit in permits] == pytest.approx([0.0, gap_s, 2 * gap_s, 3 * gap_s])
    assert permits[2].gap_s == pytest.approx(gap_s)
    assert permits[2].source is source
    assert permits[2].previous_at == permits[1].sent_at


def test_a_robots_delay_of_nothing_is_no_delay() -> None:
    story = Story("fixed", default_crawl_delay=4.0, fixed_delay=0.0, max_rate="unlimited", crawl_delay_s=0.0)
    assert story.pace.crawl_delay_s is None
    assert [story.visit().sent_at for _ in range(3)] == [0.0, 0.0, 0.0]


def test_asking_too_early_is_answered_with_the_instant() -> None:
    story = Story("fixed", fixed_delay=3.0, now=100.0)
    story.granted(100.0)
    for now in (100.0, 100.1, 102.999):
        assert story.refused(now) == 103.0
    story.granted(103.0)


def test_asking_often_neither_helps_nor_hurts() -> None:
    story = Story("fixed", fixed_delay=3.0)
    story.granted(0.0)
    for _ in range(1_000):
        story.refused(1.0)
    story.granted(3.0)


def test_after_a_long_sleep_there_is_no_burst() -> None:
    """F3: an hour of suspension earns one request, like any other pause."""
    for strategy in ("gauge", "linear", "fixed", "fibonacci"):
        story = Story(strategy, crawl_delay_s=2.0, max_parallel_per_domain=100)
        story.visits(5)
        story.now += 3_600.0
        starts = [permit.sent_at for permit in story.burst(4)]
        assert min(later - earlier for earlier, later in pairwise(starts)) >= 2.0, strategy


def test_a_crawl_delay_that_changes_holds_from_then_on() -> None:
    """B5."""
    story = Story("fixed", crawl_delay_s=1.0)
    story.granted(0.0)
    story.pace.set_crawl_delay(20.0)
    assert story.refused(1.0) == 20.0
    story.pace.set_crawl_delay(2.0)
    assert story.refused(1.0) == 2.0
    story.pace.set_crawl_delay(None)
    story.granted(1.0)


# -- the start is stamped at the send


def test_the_gap_counts_from_the_send_not_from_the_permit() -> None:
    story = Story("fixed", fixed_delay=3.0)
    permit = story.granted(0.0)
    story.pace.sent(permit, 2.0)
    assert permit.sent_at == 2.0
    assert story.refused(3.0) == 5.0
    story.granted(5.0)


def test_a_send_overtaken_by_the_next_one_still_counts() -> None:
    """The first permit's request leaves after the second one's: what follows is spaced from it."""
    story = Story("fixed", fixed_delay=3.0)
    first, second = story.granted(0.0), story.granted(3.0)
    story.pace.sent(second, 3.0)
    story.pace.sent(first, 5.0)
    assert story.refused(6.0) == 8.0


def test_a_late_send_is_not_forgotten_when_the_permit_after_it_is_given_back() -> None:
    story = Story("fixed", fixed_delay=3.0)
    first, second = story.granted(0.0), story.granted(3.0)
    story.pace.sent(first, 4.0)
    story.pace.cancel(second)
    assert story.refused(4.0) == 7.0


def test_a_send_reported_late_does_not_move_the_clock_back() -> None:
    story = Story("fixed", fixed_delay=3.0)
    first, second = story.granted(0.0), story.granted(3.0)
    story.pace.sent(second, 3.5)
    story.pace.sent(first, 0.5)
    assert story.refused(6.0) == 6.5


# -- requests under way


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("parallel", [1, 2, 5])
def test_no_more_than_the_cap_are_under_way(strategy: StrategyName, parallel: int) -> None:
    """P2."""
    story = Story(strategy, max_parallel_per_domain=parallel)
    permits = story.burst(parallel)
    assert story.pace.in_flight == parallel
    story.now += 30.0
    story.refused(story.now)
    story.settle(permits[0], OK)
    story.granted(story.now)
    story.refused(story.now + 30.0)


def test_a_permit_knows_how_many_were_under_way() -> None:
    story = Story("fixed", fixed_delay=0.0, max_rate="unlimited")
    first, second, third = story.burst(3)
    assert [permit.in_flight for permit in (first, second, third)] == [1, 2, 3]
    story.settle(first, OK)
    assert story.next().in_flight == 3


def test_with_all_slots_taken_the_answer_is_when_the_oldest_counts_as_lost() -> None:
    story = Story("fixed", max_parallel_per_domain=2, permit_timeout=60.0)
    story.burst(2)
    assert story.refused(10.0) == 60.0


# -- permits given back


def test_a_permit_given_back_was_never_taken() -> None:
    story = Story("fixed", fixed_delay=3.0)
    story.granted(0.0)
    second = story.granted(3.0)
    story.pace.cancel(second)
    assert second.state is PermitState.SETTLED
    assert story.pace.in_flight == 1
    assert story.granted(3.0).seq == second.seq


def test_the_first_permit_of_all_given_back() -> None:
    story = Story("fixed", fixed_delay=3.0)
    story.pace.cancel(story.granted(5.0))
    story.granted(5.0)


def test_a_permit_given_back_after_others_were_issued_frees_its_slot_only() -> None:
    story = Story("fixed", fixed_delay=3.0)
    first, second = story.granted(0.0), story.granted(3.0)
    story.pace.cancel(first)
    assert story.pace.in_flight == 1
    assert story.refused(4.0) == 6.0
    story.settle(second, OK)
    story.granted(6.0)


def test_permits_given_back_in_any_order_leave_the_spacing_of_the_rest() -> None:
    story = Story("fixed", fixed_delay=3.0)
    first, second, third = story.granted(0.0), story.granted(3.0), story.granted(6.0)
    story.pace.cancel(third)
    story.pace.cancel(second)
    assert story.refused(2.0) == 3.0
    assert story.granted(3.0).seq == first.seq + 1


def test_giving_back_twice_or_after_settling_does_nothing() -> None:
    story = Story("fixed", fixed_delay=3.0)
    permit = story.granted(0.0)
    story.settle(permit, OK)
    story.pace.cancel(permit)
    assert story.refused(1.0) == 3.0
    second = story.granted(3.0)
    story.pace.cancel(second)
    story.pace.cancel(second)
    assert story.pace.in_flight == 0
    story.granted(3.0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_thousand_permits_given_back_change_nothing(strategy: StrategyName) -> None:
    story, untouched = Story(strategy), Story(strategy)
    for each in (story, untouched):
        each.visits(3)
    for _ in range(1_000):
        story.pace.cancel(story.next())
    untouched.pace.cancel(untouched.next())
    assert story.now == untouched.now
    assert repr(story.pace) == repr(untouched.pace)
    assert story.pace.seq == untouched.pace.seq == 3
    assert story.visit().sent_at == untouched.visit().sent_at


# -- permits settled once


@pytest.mark.parametrize("first", [OK, LIMITED, BROKEN, CANCELLED, limited(5.0)], ids=str)
def test_settling_twice_is_the_callers_mistake(first: Any) -> None:
    story = Story()
    permit = story.visit(first)
    before = repr(story.pace)
    with pytest.raises(AlreadySettled) as refused:
        story.settle(permit, OK)
    assert isinstance(refused.value, PermitError)
    assert "a.test" in refused.value.message
    assert refused.value.hint
    assert repr(story.pace) == before


def test_settling_what_was_given_back_is_the_callers_mistake() -> None:
    story = Story()
    permit = story.granted(0.0)
    story.pace.cancel(permit)
    with pytest.raises(AlreadySettled):
        story.settle(permit, OK)


# -- permits lost


def test_a_lost_permit_gives_up_its_slot_in_time() -> None:
    story = Story("fixed", max_parallel_per_domain=1, permit_timeout=60.0)
    lost = story.granted(0.0)
    story.refused(59.9)
    story.granted(60.0)
    assert lost.state is PermitState.LOST
    assert story.pace.in_flight == 1


def test_a_lost_permit_is_reported_with_the_next_answer() -> None:
    story = Story("fixed", max_parallel_per_domain=1, permit_timeout=60.0)
    lost = story.granted(0.0)
    story.settle(story.granted(60.0), OK)
    assert story.events == [PermitLost("a.test", lost.seq, "not settled in time")]


def test_the_time_of_a_permit_counts_from_its_send() -> None:
    story = Story("fixed", max_parallel_per_domain=1, permit_timeout=60.0)
    permit = story.granted(0.0)
    story.pace.sent(permit, 30.0)
    assert story.refused(60.0) == 90.0
    story.granted(90.0)


def test_the_answer_to_a_lost_permit_is_still_heard() -> None:
    """Late is not never: the slot is gone to others, the lesson is not."""
    story = Story("linear", max_parallel_per_domain=1, permit_timeout=60.0)
    lost = story.granted(0.0)
    other = story.granted(60.0)
    story.settle(lost, LIMITED)
    assert story.pace.strategy.delay_s == 1.5
    assert story.pace.in_flight == 1
    story.settle(other, OK)
    assert story.pace.in_flight == 0
    with pytest.raises(AlreadySettled):
        story.settle(lost, OK)


def test_a_lost_permit_given_back_does_not_free_a_second_slot() -> None:
    story = Story("fixed", max_parallel_per_domain=1, permit_timeout=60.0)
    lost = story.granted(0.0)
    story.granted(60.0)
    story.pace.cancel(lost)
    assert story.pace.in_flight == 1
    story.refused(90.0)


def test_thousands_of_lost_permits_are_no_deep_matter() -> None:
    """However many were lost, asking is a loop, not a recursion."""
    story = Story("fixed", fixed_delay=0.0, max_rate="unlimited", max_parallel_per_domain=5_000, permit_timeout=60.0)
    permits = story.burst(5_000)
    story.settle(permits[0], LIMITED)
    story.next()  # the trial, lost like all others
    story.now += 1_000.0
    story.next()
    assert story.pace.in_flight == 1


# -- starting from an earlier run


def test_a_known_domain_begins_with_its_delay_of_silence() -> None:
    """F1: spacing holds across a restart; the last run may have sent a moment ago."""
    story = Story("fixed", fixed_delay=3.0, now=100.0)
    story.pace.resume_silently(100.0)
    assert story.refused(100.0) == 103.0


# -- words


def test_a_permit_can_be_read() -> None:
    story = Story("fixed", fixed_delay=3.0)
    permit = story.granted(0.0)
    assert repr(permit) == "<Permit 1 issued sent_at=0.000 gap=3.000s>"
    story.settle(permit, LIMITED)
    assert repr(permit) == "<Permit 1 settled sent_at=0.000 gap=3.000s>"
    assert repr(story.next()) == "<Permit 2 probe issued sent_at=3.000 gap=3.000s>"


def test_the_first_permit_has_nothing_before_it() -> None:
    assert Story().granted(7.0).previous_at == -math.inf


def test_a_pace_with_nothing_under_way_takes_little_memory() -> None:
    story = Story()
    story.visits(3)
    assert story.pace.flying is None
    assert not hasattr(story.pace, "__dict__")
    assert not hasattr(story.next(), "__dict__")
