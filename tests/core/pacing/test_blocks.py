"""Blocks: nothing is sent in one, one trial ends it, many refusals are one event [P3, P4, F4, F5]."""

from __future__ import annotations

import pytest

from amble.core.answer import Answer
from amble.core.pacing.events import BlockClosed, BlockOpened
from amble.core.pacing.permit import Permit
from amble.core.pacing.settings import StrategyName
from tests.core.pacing.story import BROKEN, CANCELLED, LIMITED, NEVER_TRIPS, OK, STRATEGIES, TIMEOUT, Story, limited

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def opened(story: Story) -> int:
    return sum(isinstance(event, BlockOpened) for event in story.events)


def closed(story: Story) -> int:
    return sum(isinstance(event, BlockClosed) for event in story.events)


def seen(story: Story) -> dict[str, object]:
    """Everything an answer may change but the slot it frees."""
    pace, hidden = story.pace, ("flying", "latency_s", "latency_ring", "successes", "trouble", "block", "events")
    slots: list[str] = [name for kind in type(pace).__mro__ for name in getattr(kind, "__slots__", ())]
    names = [name for name in slots if name not in hidden]
    strategy = {"delay_s": pace.strategy.delay_s, "floor_s": pace.strategy.floor_s, "saved": pace.strategy.save()}
    streaks = {"error_streak": pace.troubles.error_streak, "blocked": pace.block is not None}
    return {name: getattr(pace, name) for name in names} | strategy | streaks


# -- nothing during a block


@every_strategy
def test_nothing_is_sent_in_the_time_the_server_named(strategy: StrategyName) -> None:
    """P3, F5."""
    story = Story(strategy)
    story.settle(story.granted(0.0), limited(30.0))
    for now in (0.0, 0.1, 29.9, 30.0, 30.01):
        assert story.refused(now) >= 30.02
    story.granted(max(30.02, story.pace.not_before))


@every_strategy
def test_without_a_named_time_the_domain_is_left_alone_all_the_same(strategy: StrategyName) -> None:
    """F4: an absent or unreadable Retry-After is never 'no back-off'."""
    story = Story(strategy)
    story.settle(story.granted(0.0), LIMITED)
    assert story.refused(0.0) >= 0.4


@every_strategy
def test_in_a_half_open_block_there_is_one_trial_at_a_time(strategy: StrategyName) -> None:
    """P3: the probe budget is one, however long its answer takes."""
    story = Story(strategy, permit_timeout=600.0)
    story.settle(story.granted(0.0), limited(5.0))
    trial = story.next()
    assert trial.probe
    for later_s in (0.0, 1.0, 60.0, 500.0):
        story.refused(trial.sent_at + later_s)
    story.settle(trial, OK)
    assert not story.next().probe


@every_strategy
def test_requests_under_way_when_the_block_opens_are_waited_for_but_do_not_stand_in_for_the_trial(
    strategy: StrategyName,
) -> None:
    story = Story(strategy)
    early = story.burst(3)
    story.settle(early[0], limited(5.0))
    trial = story.next()
    assert trial.probe
    assert not early[1].probe
    story.refused(story.now + 20.0)
    story.settle(early[1], OK)  # says nothing about the trial
    story.refused(story.now)
    story.settle(trial, OK)
    assert not story.next().probe


@every_strategy
def test_jitter_only_lengthens_a_block(strategy: StrategyName) -> None:
    """F7: domains released together do not return in step, and none returns early."""
    waits = []
    for draw in (0.0, 0.5, 0.999):
        story = Story(strategy, random=lambda draw=draw: draw)  # type: ignore[misc]
        story.settle(story.granted(0.0), limited(100.0))
        waits.append(story.refused(0.0))
    assert waits == pytest.approx([100.02, 101.02, 102.018])


# -- which success ends it


@every_strategy
def test_only_a_success_of_the_trial_ends_the_block(strategy: StrategyName) -> None:
    """P4, F5: a success that was on its way before the block was known changes nothing."""
    story = Story(strategy)
    first, second = story.burst(2)
    story.settle(first, limited(10.0))
    before = seen(story)
    story.settle(second, OK)
    assert seen(story) == before
    assert closed(story) == 0
    story.visit(OK)
    assert closed(story) == 1
    assert story.pace.block is None


@every_strategy
def test_a_stale_success_after_the_block_closed_changes_nothing(strategy: StrategyName) -> None:
    story = Story(strategy)
    first, second = story.burst(2)
    story.settle(first, LIMITED)
    story.visit(OK)
    before = seen(story)
    story.settle(second, OK)
    assert seen(story) == before


@every_strategy
def test_a_stale_refusal_after_the_block_closed_opens_no_new_one(strategy: StrategyName) -> None:
    story = Story(strategy)
    first, second = story.burst(2)
    story.settle(first, LIMITED)
    story.visit(OK)
    before = seen(story)
    story.settle(second, LIMITED)
    assert seen(story) == before
    assert opened(story) == 1


@every_strategy
def test_a_stale_failure_is_no_failure_of_the_trial(strategy: StrategyName) -> None:
    story = Story(strategy)
    first, second, third = story.burst(3)
    story.settle(first, LIMITED)
    not_before = story.pace.not_before
    story.settle(second, TIMEOUT)
    story.settle(third, BROKEN)
    assert story.pace.not_before == not_before


def test_a_success_ends_the_block_and_the_error_streak_but_not_the_learned_delay() -> None:
    story = Story("linear")
    story.visits(3, LIMITED)
    assert story.pace.troubles.error_streak == 3
    story.visit(OK)
    assert story.pace.troubles.error_streak == 0
    assert story.pace.strategy.delay_s == 3.5


@every_strategy
@pytest.mark.parametrize("answer", [LIMITED, limited(7.0), BROKEN, TIMEOUT], ids=str)
def test_a_trial_that_fails_keeps_the_block(strategy: StrategyName, answer: Answer) -> None:
    story = Story(strategy, **NEVER_TRIPS)
    story.visit(LIMITED)
    story.visit(answer)
    assert story.pace.block is not None
    assert story.next().probe


@every_strategy
def test_pauses_grow_while_trials_fail(strategy: StrategyName) -> None:
    story = Story(strategy, **NEVER_TRIPS)
    pauses = []
    for _ in range(12):
        story.visit(LIMITED)
        pauses.append(story.pace.blocked_until - story.now)
    assert pauses == sorted(pauses)
    assert pauses[-1] > 2 * pauses[0]


@every_strategy
def test_pauses_do_not_shrink_when_trials_break_instead(strategy: StrategyName) -> None:
    story = Story(strategy, **NEVER_TRIPS, open_state_duration=1.0, open_state_duration_max=2.0)
    story.visits(8, LIMITED)
    refused_s = story.pace.blocked_until - story.now
    story.visit(BROKEN)
    assert story.pace.blocked_until - story.now >= refused_s * (1 - 1e-9)


def test_a_trial_that_was_cancelled_on_the_way_says_nothing() -> None:
    story = Story("linear")
    story.visit(LIMITED)
    story.visit(CANCELLED)
    assert story.pace.block is not None
    assert story.next().probe


@every_strategy
def test_a_trial_given_back_can_be_taken_by_another(strategy: StrategyName) -> None:
    story = Story(strategy)
    story.visit(LIMITED)
    trial = story.next()
    story.refused(story.now)
    story.pace.cancel(trial)
    other = story.granted(story.now)
    assert other.probe
    story.settle(other, OK)
    assert story.pace.block is None


@every_strategy
def test_a_lost_trial_does_not_block_for_ever(strategy: StrategyName) -> None:
    """The half-open race: a trial whose owner died must time out."""
    story = Story(strategy, permit_timeout=60.0)
    story.visit(LIMITED)
    trial = story.next()
    story.refused(trial.sent_at + 59.0)
    again = story.granted(trial.sent_at + 60.0)
    assert again.probe
    story.settle(again, OK)
    assert story.pace.block is None


@pytest.mark.parametrize("answer", [None, LIMITED, BROKEN, CANCELLED], ids=["given back", "429", "500", "cancelled"])
@every_strategy
def test_a_trial_that_is_over_makes_room_for_the_next_while_others_are_still_under_way(
    strategy: StrategyName, answer: Answer | None
) -> None:
    """What was sent before the block takes a slot, and no part of the budget of trials."""
    story = Story(strategy, permit_timeout=600.0)
    first, _ = story.burst(2)
    story.settle(first, LIMITED)
    trial = story.next()
    if answer is None:
        story.pace.cancel(trial)
    else:
        story.settle(trial, answer)
    assert story.granted(max(story.now, story.pace.not_before)).probe


@every_strategy
def test_the_late_success_of_a_lost_trial_counts(strategy: StrategyName) -> None:
    story = Story(strategy, permit_timeout=60.0)
    story.visit(LIMITED)
    trial = story.next()
    again = story.granted(trial.sent_at + 60.0)
    story.settle(trial, OK)
    assert story.pace.block is None
    story.settle(again, OK)


# -- one event per block


@every_strategy
@pytest.mark.parametrize("answer", [LIMITED, limited(10.0)], ids=["429", "429 with Retry-After"])
def test_refusals_of_requests_sent_before_the_block_was_known_are_one_event(
    strategy: StrategyName, answer: Answer
) -> None:
    """F5: 32 in flight, all refused."""
    one, many = Story(strategy, max_parallel_per_domain=32), Story(strategy, max_parallel_per_domain=32)
    for story, refused in ((one, 1), (many, 32)):
        permits = story.burst(32)
        for permit in permits[:refused]:
            story.settle(permit, answer)
    assert opened(many) == 1
    assert many.pace.troubles.error_streak == 1
    assert many.pace.strategy.delay_s == one.pace.strategy.delay_s
    assert many.pace.blocked_until == one.pace.blocked_until
    assert many.pace.epoch == one.pace.epoch == 1


@every_strategy
def test_a_limit_after_the_block_closed_is_a_second_event(strategy: StrategyName) -> None:
    story = Story(strategy)
    story.visit(LIMITED)
    story.visits(3, OK)
    story.visit(LIMITED)
    assert (opened(story), closed(story), story.pace.epoch) == (2, 1, 2)


# -- Retry-After is never shortened

HOLDS = [
    # story                                              second answer, to a request sent before the block
    ("a smaller Retry-After", limited(5.0)),
    ("a refusal without one", LIMITED),
    ("a success", OK),
    ("a server error", BROKEN),
    ("a timeout", TIMEOUT),
    ("a cancelled request", CANCELLED),
    ("a redirect that asks for less", Answer(302, retry_after_s=3.0)),
]


@every_strategy
@pytest.mark.parametrize("second", [row[1] for row in HOLDS], ids=[row[0] for row in HOLDS])
def test_nothing_shortens_a_retry_after(strategy: StrategyName, second: Answer) -> None:
    """P4, F4."""
    story = Story(strategy)
    first, other = story.burst(2)
    story.settle(first, limited(100.0))
    story.now += 1.0
    until = story.pace.blocked_until
    story.settle(other, second)
    assert story.pace.blocked_until == until
    story.refused(until - 0.001)


@every_strategy
def test_a_longer_retry_after_lengthens_the_block(strategy: StrategyName) -> None:
    story = Story(strategy)
    first, other = story.burst(2)
    story.settle(first, limited(10.0))
    story.settle(other, limited(100.0))
    assert story.pace.blocked_until == pytest.approx(story.now + 100.02)


@every_strategy
def test_the_success_of_a_trial_does_not_shorten_what_a_late_refusal_asks_for(strategy: StrategyName) -> None:
    story = Story(strategy)
    first, late = story.burst(2)
    story.settle(first, limited(5.0))
    trial = story.next()
    story.settle(late, limited(50.0))
    until = story.pace.blocked_until
    story.settle(trial, OK)
    assert story.pace.block is None
    story.refused(until - 0.001)


@every_strategy
def test_the_pause_of_a_strategy_does_not_shorten_it(strategy: StrategyName) -> None:
    story = Story(strategy)
    story.visit(limited(1_000.0))
    until = story.pace.blocked_until
    late = Permit(story.pace.domain, 99, 0.0, 0.0, story.pace.epoch, 0.0, story.pace.source, 1, probe=False)
    late.state = late.state.LOST
    story.settle(late, LIMITED)  # a refusal without Retry-After, in the same block
    assert story.pace.blocked_until >= until


@every_strategy
def test_a_year_is_a_year(strategy: StrategyName) -> None:
    """F4: a huge value defers the domain; it is never retried early."""
    story = Story(strategy)
    story.visit(limited(365 * 86_400.0))
    story.refused(364 * 86_400.0)


@every_strategy
@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_may_ask_for_time_too(strategy: StrategyName, status: int) -> None:
    """A 3xx with Retry-After is an answer in time: no limit, no event, but nothing is sent before."""
    story = Story(strategy)
    story.visit(Answer(status, elapsed_s=0.1, retry_after_s=20.0))
    assert story.pace.block is None
    assert opened(story) == 0
    assert story.refused(19.9) == pytest.approx(20.02)
    assert not story.granted(20.1).probe


@every_strategy
def test_a_503_with_retry_after_is_a_limit(strategy: StrategyName) -> None:
    story = Story(strategy)
    story.visit(Answer(503, retry_after_s=20.0))
    assert opened(story) == 1
    assert story.refused(19.9) >= 20.02
