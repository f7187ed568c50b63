"""The linear strategy: a step slower on a limit, a step faster on trial, a floor under the trials [P6]."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.answer import Answer
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.strategies import Linear
from tests.core.pacing.story import BROKEN, LIMITED, NEVER_TRIPS, NOT_FOUND, OK, Story, limited

RETRY_7 = limited(7.0)


def linear(story: Story) -> Linear:
    strategy = story.pace.strategy
    assert isinstance(strategy, Linear)
    return strategy


def play(story: Story, rows: list[tuple[int, Answer, float, float]]) -> None:
    """Rows of (visits, their answer, delay after them, floor after them)."""
    for number, (visits, answer, delay_s, floor_s) in enumerate(rows):
        story.visits(visits, answer)
        strategy = linear(story)
        assert (strategy.delay_s, strategy.floor_s) == (delay_s, floor_s), f"row {number} of the story"


def test_an_unknown_domain_starts_at_the_base_delay() -> None:
    assert linear(Story()).delay_s == 0.5
    assert linear(Story(base_delay=2.0)).delay_s == 2.0
    assert not linear(Story()).learned


def test_each_limit_adds_a_second() -> None:
    play(
        Story(),
        [
            (1, OK, 0.5, 0.0),
            (1, LIMITED, 1.5, 0.0),
            (1, LIMITED, 2.5, 0.0),  # the trial of the half-open block
            (1, RETRY_7, 3.5, 0.0),
            (1, OK, 3.5, 0.0),  # the block closes; what was learned stays [F5]
            (1, LIMITED, 4.5, 0.0),
        ],
    )


def test_limits_for_ever_lengthen_the_delay_to_the_cap_and_no_further() -> None:
    """F6."""
    play(Story(), [(59, LIMITED, 59.5, 0.0), (1, LIMITED, 60.0, 0.0), (40, LIMITED, 60.0, 0.0), (20, OK, 60.0, 0.0)])


def test_step_and_cap_are_settings() -> None:
    play(
        Story(base_delay=1.0, delay_step=4.0, max_adaptive_delay=10.0),
        [(1, LIMITED, 5.0, 0.0), (1, LIMITED, 9.0, 0.0), (1, LIMITED, 10.0, 0.0)],
    )


def test_twenty_successes_in_a_row_try_a_second_less() -> None:
    play(
        Story(),
        [
            (3, LIMITED, 3.5, 0.0),
            (1, OK, 3.5, 0.0),  # closes the block
            (19, OK, 3.5, 0.0),
            (1, OK, 2.5, 0.0),  # on trial
            (19, OK, 2.5, 0.0),
            (1, OK, 1.5, 0.0),  # accepted, and the next one on trial
        ],
    )


def test_the_number_of_successes_is_a_setting() -> None:
    play(
        Story(success_probe_threshold=3),
        [(2, LIMITED, 2.5, 0.0), (1, OK, 2.5, 0.0), (2, OK, 2.5, 0.0), (1, OK, 1.5, 0.0)],
    )


@pytest.mark.parametrize("interruption", [BROKEN, Answer(503)], ids=["500", "a lone 503"])
def test_a_failure_breaks_the_run_of_successes(interruption: Answer) -> None:
    play(
        Story(),
        [
            (2, LIMITED, 2.5, 0.0),
            (1, OK, 2.5, 0.0),
            (19, OK, 2.5, 0.0),
            (1, interruption, 2.5, 0.0),
            (19, OK, 2.5, 0.0),
            (1, OK, 1.5, 0.0),
        ],
    )


def test_an_answer_without_a_page_is_an_answer_in_time() -> None:
    play(Story(), [(1, LIMITED, 1.5, 0.0), (1, OK, 1.5, 0.0), (20, NOT_FOUND, 0.5, 0.0)])


def test_no_trial_goes_under_the_base_delay() -> None:
    story = Story()
    play(story, [(100, OK, 0.5, 0.0)])
    assert not linear(story).probing
    play(Story(base_delay=1.5), [(1, LIMITED, 2.5, 0.0), (1, OK, 2.5, 0.0), (20, OK, 1.5, 0.0), (100, OK, 1.5, 0.0)])
    play(Story(max_adaptive_delay=0.75), [(1, LIMITED, 0.75, 0.0), (1, OK, 0.75, 0.0), (100, OK, 0.5, 0.0)])


def test_a_limit_during_the_trial_goes_back_and_makes_the_floor() -> None:
    story = Story()
    play(story, [(3, LIMITED, 3.5, 0.0), (1, OK, 3.5, 0.0), (20, OK, 2.5, 0.0)])
    assert linear(story).probing
    play(story, [(5, OK, 2.5, 0.0), (1, LIMITED, 3.5, 3.5)])
    assert not linear(story).probing


def test_no_trial_goes_under_the_floor() -> None:
    story = Story()
    play(
        story,
        [
            (3, LIMITED, 3.5, 0.0),
            (21, OK, 2.5, 0.0),
            (1, LIMITED, 3.5, 3.5),  # refused: the floor
            (100, OK, 3.5, 3.5),
            (1, LIMITED, 4.5, 3.5),  # no trial was under way: an ordinary limit
            (21, OK, 3.5, 3.5),
            (20, OK, 3.5, 3.5),
        ],
    )


def test_a_second_limit_of_the_same_block_adds_a_second_to_what_was_gone_back_to() -> None:
    play(Story(), [(3, LIMITED, 3.5, 0.0), (21, OK, 2.5, 0.0), (1, LIMITED, 3.5, 3.5), (1, LIMITED, 4.5, 3.5)])


def test_requests_in_flight_together_are_one_limit() -> None:
    """F5: thirty-two refusals of one moment are one event."""
    story = Story(max_parallel_per_domain=32)
    permits = story.burst(32)
    for permit in permits:
        story.settle(permit, LIMITED)
    assert linear(story).delay_s == 1.5


def test_a_success_from_before_the_trial_says_nothing_for_it() -> None:
    """Evidence carries its date: only what was sent at the shorter delay counts as a success of it."""
    story = Story()
    play(story, [(2, LIMITED, 2.5, 0.0), (1, OK, 2.5, 0.0), (19, OK, 2.5, 0.0)])
    late = story.burst(5)
    story.visit(OK)
    assert linear(story).delay_s == 1.5  # on trial
    for permit in late:
        story.settle(permit, OK)
    story.visits(15, OK)
    assert linear(story).delay_s == 1.5
    assert linear(story).probing
    story.visits(5, OK)
    assert linear(story).delay_s == 0.5


def test_a_limit_from_before_the_trial_is_no_verdict_on_it() -> None:
    """The longer delay was too short itself: it grows from there, and no floor is known."""
    story = Story()
    play(story, [(2, LIMITED, 2.5, 0.0), (1, OK, 2.5, 0.0), (19, OK, 2.5, 0.0)])
    late = story.next()
    story.visit(OK)
    assert linear(story).delay_s == 1.5  # on trial
    story.settle(late, LIMITED)
    assert (linear(story).delay_s, linear(story).floor_s) == (3.5, 0.0)
    assert not linear(story).probing


def test_a_cancelled_request_does_not_pass_for_the_first_of_the_trial() -> None:
    story = Story()
    play(story, [(2, LIMITED, 2.5, 0.0), (1, OK, 2.5, 0.0), (19, OK, 2.5, 0.0)])
    waiting = story.next()
    given_back = story.next()
    story.settle(waiting, OK)
    assert linear(story).delay_s == 1.5  # on trial
    story.pace.cancel(given_back)
    story.visit(LIMITED)  # takes over the number of the one given back
    assert (linear(story).delay_s, linear(story).floor_s) == (2.5, 2.5)


def test_under_a_crawl_delay_the_step_is_added_to_the_delay_in_force() -> None:
    story = Story(crawl_delay_s=10.0)
    play(story, [(1, OK, 0.5, 0.0), (1, LIMITED, 11.0, 0.0), (1, LIMITED, 12.0, 0.0)])
    assert story.pace.gap_s == 12.0


def test_a_trial_never_comes_under_the_crawl_delay() -> None:
    story = Story(crawl_delay_s=2.0)
    story.visit(LIMITED)
    starts = [story.visit(OK).sent_at for _ in range(60)]
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert min(gaps) == pytest.approx(2.0)
    assert max(gaps) == pytest.approx(3.0)


def test_streaks_and_the_last_success_are_there_to_see() -> None:
    story = Story(now=100.0)

    def seen() -> tuple[int, int, float | None]:
        return story.pace.success_streak, story.pace.troubles.error_streak, story.pace.last_success

    assert seen() == (0, 0, None)
    story.visits(3, OK)
    assert seen() == (3, 0, 101.0)
    story.visits(2, LIMITED)
    assert seen() == (0, 2, 101.0)


LOADS = [
    # story                       saved                                trust  delay  floor
    ("fresh", {"delay_s": 4.5, "floor_s": 2.5}, 1.0, 4.5, 2.5),
    ("fractions are kept", {"delay_s": 1.75, "floor_s": 0.25}, 1.0, 1.75, 0.25),
    ("old: half-way back", {"delay_s": 4.5, "floor_s": 2.0}, 0.5, 2.5, 1.0),
    ("longer than the cap", {"delay_s": 900.0, "floor_s": 0.0}, 1.0, 60.0, 0.0),
    ("shorter than the base", {"delay_s": 0.1, "floor_s": 0.0}, 1.0, 0.5, 0.0),
    ("floor over the delay", {"delay_s": 2.0, "floor_s": 9.0}, 1.0, 2.0, 2.0),
    ("no floor", {"delay_s": 2.0}, 1.0, 2.0, 0.0),
    ("nothing", {}, 1.0, 0.5, 0.0),
]


@pytest.mark.parametrize(
    ("saved", "trust", "delay_s", "floor_s"), [row[1:] for row in LOADS], ids=[row[0] for row in LOADS]
)
def test_what_was_saved_is_loaded(saved: dict[str, float], trust: float, delay_s: float, floor_s: float) -> None:
    strategy = Linear(PacingSettings(pacing="linear"))
    strategy.load(saved, trust=trust, now=0.0)
    assert (strategy.delay_s, strategy.floor_s) == (delay_s, floor_s)


def test_a_trial_under_way_is_not_saved_as_if_it_had_been_accepted() -> None:
    story = Story()
    play(story, [(3, LIMITED, 3.5, 0.0), (21, OK, 2.5, 0.0)])
    assert linear(story).save() == {"delay_s": 3.5, "floor_s": 0.0}


def test_the_next_run_goes_on_where_this_one_was() -> None:
    story = Story()
    play(story, [(3, LIMITED, 3.5, 0.0), (21, OK, 2.5, 0.0), (1, LIMITED, 3.5, 3.5)])
    again = Linear(story.settings)
    again.load(linear(story).save(), trust=1.0, now=0.0)
    assert (again.delay_s, again.floor_s) == (3.5, 3.5)
    assert again.learned


NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


@given(NUMBERS, NUMBERS, st.sampled_from([0.5, 1.0]))
def test_whatever_is_loaded_floor_delay_and_cap_stay_in_order(delay_s: float, floor_s: float, trust: float) -> None:
    """P6."""
    strategy = Linear(PacingSettings(pacing="linear"))
    strategy.load({"delay_s": delay_s, "floor_s": floor_s}, trust=trust, now=0.0)
    assert 0 <= strategy.floor_s <= strategy.delay_s <= 60.0
    assert strategy.delay_s >= 0.5


RUNS = st.tuples(st.just(OK), st.integers(1, 25)) | st.tuples(st.sampled_from([LIMITED, RETRY_7, BROKEN]), st.just(1))


@given(st.lists(RUNS, max_size=30))
def test_whatever_the_answers_the_delay_moves_by_its_rules(runs: list[tuple[Answer, int]]) -> None:
    """P6: a step up per limit, a step down only after twenty successes, never under base or floor or over the cap."""
    story = Story(**NEVER_TRIPS)
    successes = 0
    for answer in (answer for answer, times in runs for _ in range(times)):
        was_s, floor_was_s = linear(story).delay_s, linear(story).floor_s
        story.visit(answer)
        delay_s, floor_s = linear(story).delay_s, linear(story).floor_s
        successes = successes + 1 if answer is OK else 0
        assert max(0.5, floor_s) <= delay_s <= 60.0
        assert floor_s >= floor_was_s or floor_s <= delay_s
        if delay_s < was_s:
            assert successes >= 20
            assert was_s - delay_s <= 1.0
            successes = 0
        elif delay_s > was_s:
            assert answer in (LIMITED, RETRY_7)
            assert delay_s - was_s <= 1.0
