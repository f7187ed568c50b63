"""The aimd strategy: additive increase, multiplicative decrease, and a token bucket that keeps to the rate."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.answer import Answer
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.strategies import Aimd
from tests.core.pacing.story import BROKEN, BUSY, LIMITED, NEVER_TRIPS, OK, TIMEOUT, Story, limited

SLOW = Answer(200, elapsed_s=2.0)  # twice the target of 1 s
ALMOST_SLOW = Answer(200, elapsed_s=1.99)
FAST = Answer(200, elapsed_s=0.01)
UNTIMED = Answer(200)


def aimd(story: Story) -> Aimd:
    strategy = story.pace.strategy
    assert isinstance(strategy, Aimd)
    return strategy


def play(story: Story, rows: list[tuple[int, Answer, float]]) -> None:
    """Rows of (visits, their answer, rate after them)."""
    for number, (visits, answer, rate) in enumerate(rows):
        story.visits(visits, answer)
        assert aimd(story).rate == rate, f"row {number} of the story"
        assert aimd(story).delay_s == 1.0 / rate


def test_each_fast_success_adds_a_quarter_up_to_the_highest_rate() -> None:
    play(Story("aimd"), [(1, OK, 2.25), (1, UNTIMED, 2.5), (1, FAST, 2.75), (20, OK, 7.75), (1, OK, 8.0), (9, OK, 8.0)])


def test_each_limit_halves_the_rate_down_to_the_lowest() -> None:
    play(
        Story("aimd", **NEVER_TRIPS),
        [(1, LIMITED, 1.0), (1, limited(3.0), 0.5), (1, LIMITED, 0.25), (5, LIMITED, 0.25)],
    )


def test_a_slow_answer_halves_the_rate() -> None:
    play(Story("aimd"), [(1, ALMOST_SLOW, 2.25), (1, Answer(200, elapsed_s=2.4), 1.125), (1, OK, 1.375)])


def test_a_server_error_halves_the_rate() -> None:
    play(Story("aimd"), [(1, BROKEN, 1.0), (1, OK, 1.25), (1, TIMEOUT, 0.625), (1, OK, 0.875), (1, BUSY, 0.4375)])


def test_the_steps_are_settings() -> None:
    story = Story("aimd", initial_rps=4.0, min_rps=2.5, max_rps=5.0, aimd_increase=0.75, aimd_decrease=0.75)
    play(story, [(1, OK, 4.75), (1, OK, 5.0), (1, LIMITED, 3.75), (1, LIMITED, 2.8125), (1, LIMITED, 2.5)])


def test_the_domain_stays_at_or_under_the_rate_of_the_shell() -> None:
    play(Story("aimd", max_rate=3.0), [(3, OK, 2.75), (1, OK, 3.0), (5, OK, 3.0)])


def test_what_counts_as_slow_follows_the_answers_but_stays_anchored() -> None:
    """The target moves a fifth of the way to each answer, between the expectation and the slow threshold."""
    story = Story("aimd")
    story.visits(40, FAST)
    story.visit(ALMOST_SLOW)  # fast answers do not make ordinary ones slow
    assert aimd(story).rate == 8.0
    story.visits(40, Answer(200, elapsed_s=1.9))  # the target creeps up to 1.9 s: slow is now 3.8 s
    story.visit(Answer(200, elapsed_s=3.7))
    assert aimd(story).rate == 8.0
    story.visit(Answer(200, elapsed_s=4.0))  # never over twice the expectation: slow is 4 s at most
    assert aimd(story).rate == 4.0


def test_the_bucket_starts_full_and_then_keeps_to_the_rate() -> None:
    story = Story("aimd", max_rate="unlimited", max_parallel_per_domain=100)
    starts = [permit.sent_at for permit in story.burst(7)]
    assert starts == [0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 1.5]


def test_bursts_keep_to_the_rate_of_the_shell() -> None:
    story = Story("aimd", max_rate=8.0, max_parallel_per_domain=100)
    starts = [permit.sent_at for permit in story.burst(7)]
    # Four from the bucket; the three quarters refilled meanwhile bring the fifth forward.
    assert starts == pytest.approx([0.0, 0.125, 0.25, 0.375, 0.5, 1.0, 1.5])


@pytest.mark.parametrize(
    ("idle_s", "at_once"), [(0.4, 0), (0.5, 1), (0.9, 1), (1.0, 2), (2.0, 4), (3.0, 4), (86_400.0, 4)]
)
def test_an_idle_bucket_refills_to_its_capacity_and_no_further(idle_s: float, at_once: int) -> None:
    """F3: not even a night's sleep earns more than one burst."""
    story = Story("aimd", max_rate="unlimited", max_parallel_per_domain=100)
    story.burst(4)
    story.now += idle_s
    now, got = story.now, 0
    while not isinstance(story.pace.reserve(now), float):
        got += 1
    assert got == at_once


def test_the_capacity_is_a_setting() -> None:
    story = Story("aimd", max_rate="unlimited", token_bucket_capacity=2.5, max_parallel_per_domain=100)
    assert [permit.sent_at for permit in story.burst(4)] == [0.0, 0.0, 0.25, 0.75]


def test_with_a_crawl_delay_there_are_no_bursts() -> None:
    story = Story("aimd", crawl_delay_s=1.0, max_parallel_per_domain=100)
    assert [permit.sent_at for permit in story.burst(4)] == [0.0, 1.0, 2.0, 3.0]
    story.now = 1_000.0
    assert [permit.sent_at for permit in story.burst(3)] == [1_000.0, 1_001.0, 1_002.0]


def test_with_a_crawl_delay_not_even_idle_time_earns_a_burst_above_the_learned_rate() -> None:
    story = Story("aimd", crawl_delay_s=0.5, max_parallel_per_domain=100)
    story.visits(3, limited(1.0))
    story.visit(OK)  # ends the block
    assert aimd(story).rate == 0.25
    story.now += 1_000.0
    assert [permit.sent_at - story.now for permit in story.burst(3)] == [-8.0, -4.0, 0.0]


@pytest.mark.parametrize(("max_rate", "rate", "gap_s"), [("unlimited", 8.0, 0.0), (8.0, 8.0, 0.125), (5.0, 5.0, 0.2)])
def test_when_the_crawl_delay_is_lifted_bursts_and_rates_come_back(
    max_rate: float | str, rate: float, gap_s: float
) -> None:
    """B5: robots.txt changes in the middle of a crawl."""
    story = Story("aimd", crawl_delay_s=10.0, max_rate=max_rate, max_parallel_per_domain=100)
    story.visits(5, OK)
    story.pace.set_crawl_delay(None)
    story.visits(40, OK)
    assert aimd(story).rate == rate
    story.now += 100.0
    starts = [permit.sent_at for permit in story.burst(4)]
    assert [later - earlier for earlier, later in pairwise(starts)] == pytest.approx([gap_s] * 3)


@pytest.mark.parametrize("answer", [LIMITED, limited(3.0), SLOW, BROKEN, TIMEOUT], ids=str)
def test_answers_of_one_moment_are_one_cut(answer: Answer) -> None:
    """F5: requests in flight together say the same thing once."""
    story = Story("aimd", **NEVER_TRIPS)
    for permit in story.burst(4):
        story.settle(permit, answer)
    assert aimd(story).rate == 1.0


def test_fast_answers_to_requests_from_before_the_cut_do_not_speed_up() -> None:
    story = Story("aimd")
    first, *others = story.burst(4)
    story.settle(first, SLOW)
    for permit in others:
        story.settle(permit, OK)
    assert aimd(story).rate == 1.0
    story.visit(OK)
    assert aimd(story).rate == 1.25


def test_a_cut_leaves_no_burst() -> None:
    story = Story("aimd", max_rate="unlimited", max_parallel_per_domain=100)
    story.visit(BROKEN)
    story.now += 0.001
    first, second, third = story.burst(3)
    assert first.sent_at == 0.001
    assert second.sent_at - first.sent_at == pytest.approx(1.0, abs=0.01)
    assert third.sent_at - second.sent_at == pytest.approx(1.0)


def test_a_permit_given_back_gives_its_token_back() -> None:
    story = Story("aimd", max_rate="unlimited", max_parallel_per_domain=100)
    for _ in range(10):
        story.pace.cancel(story.granted(0.0))
    assert aimd(story).tokens == 4.0
    assert [permit.sent_at for permit in story.burst(5)] == [0.0, 0.0, 0.0, 0.0, 0.5]


LOADS = [
    # story                  saved            trust  rate
    ("fresh", {"rate": 5.0}, 1.0, 5.0),
    ("old: half-way back", {"rate": 5.0}, 0.5, 3.5),
    ("faster than allowed", {"rate": 90.0}, 1.0, 8.0),
    ("slower than allowed", {"rate": 0.01}, 1.0, 0.25),
    ("nothing", {}, 1.0, 2.0),
]


@pytest.mark.parametrize(("saved", "trust", "rate"), [row[1:] for row in LOADS], ids=[row[0] for row in LOADS])
def test_what_was_saved_is_loaded(saved: dict[str, float], trust: float, rate: float) -> None:
    strategy = Aimd(PacingSettings(pacing="aimd"))
    strategy.load(saved, trust=trust, now=0.0)
    assert strategy.rate == rate
    assert strategy.delay_s == 1.0 / rate


def test_the_next_run_goes_on_where_this_one_was() -> None:
    story = Story("aimd")
    assert not aimd(story).learned
    play(story, [(4, OK, 3.0), (1, LIMITED, 1.5)])
    assert aimd(story).learned
    again = Aimd(story.settings)
    again.load(aimd(story).save(), trust=1.0, now=0.0)
    assert again.rate == 1.5


@given(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.5, 1.0]))
def test_whatever_is_loaded_the_rate_stays_in_its_bounds(rate: float, trust: float) -> None:
    strategy = Aimd(PacingSettings(pacing="aimd"))
    strategy.load({"rate": rate}, trust=trust, now=0.0)
    assert 0.25 <= strategy.rate <= 8.0


ANSWERS = st.sampled_from([OK, OK, OK, SLOW, UNTIMED, LIMITED, limited(2.0), BROKEN, TIMEOUT])


@given(st.lists(st.tuples(ANSWERS, st.sampled_from([0.0, 0.1, 5.0])), max_size=80))
def test_over_any_stretch_no_more_is_sent_than_the_bucket_holds(steps: list[tuple[Answer, float]]) -> None:
    """The bucket's promise: in any time t at most capacity + t * the highest rate."""
    story = Story("aimd", max_rate="unlimited", max_parallel_per_domain=100)
    starts = []
    for answer, idle_s in steps:
        permit = story.next()
        starts.append(permit.sent_at)
        story.settle(permit, answer)
        story.now += idle_s
        assert 0.25 <= aimd(story).rate <= 8.0
        assert aimd(story).tokens >= -1e-9
        assert aimd(story).tokens <= 4.0
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            assert last - first + 1 <= 4 + 8.0 * (starts[last] - starts[first]) + 1e-6
