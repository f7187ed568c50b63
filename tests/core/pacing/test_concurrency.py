"""How many at once: one fewer for every five seconds of delay, given back when the delay falls [P7]."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.pacing.events import ConcurrencyChanged, ConcurrencyReason
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.strategies import Fixed
from tests.core.pacing.story import LIMITED, OK, Story

TABLE = [
    # limits  delay  at once, of 8
    (0, 0.5, 8),
    (4, 4.5, 8),
    (5, 5.5, 7),
    (6, 6.5, 7),
    (9, 9.5, 7),
    (10, 10.5, 6),
    (34, 34.5, 2),
    (35, 35.5, 1),
    (59, 59.5, 1),
    (90, 60.0, 1),
]


@pytest.mark.parametrize(("limits", "delay_s", "parallel"), TABLE)
def test_every_five_seconds_over_the_baseline_cost_one_slot(limits: int, delay_s: float, parallel: int) -> None:
    story = Story("linear")
    story.visits(limits, LIMITED)
    assert story.pace.strategy.delay_s == delay_s
    assert story.pace.parallel == parallel


def test_the_step_is_a_setting() -> None:
    story = Story("linear", concurrency_step=2.0, max_parallel_per_domain=4)
    slots = []
    for _ in range(7):
        story.visit(LIMITED)
        slots.append(story.pace.parallel)
    assert slots == [4, 3, 3, 2, 2, 1, 1]


def test_a_crawl_delay_is_part_of_the_baseline() -> None:
    """A site that asks for 20 s is not thereby in trouble."""
    story = Story("linear", crawl_delay_s=20.0)
    assert story.pace.parallel == 8
    story.visits(4, LIMITED)
    assert (story.pace.strategy.delay_s, story.pace.parallel) == (24.0, 8)
    story.visit(LIMITED)
    assert (story.pace.strategy.delay_s, story.pace.parallel) == (25.0, 7)


def test_slots_are_given_back_when_the_delay_falls() -> None:
    story = Story("linear", success_probe_threshold=2)
    story.visits(12, LIMITED)
    assert story.pace.parallel == 6
    story.visit(OK)
    slots = [story.pace.parallel]
    while story.pace.strategy.delay_s > 0.5:
        story.visit(OK)
        slots.append(story.pace.parallel)
    assert slots == sorted(slots)
    assert slots[-1] == 8


def test_a_slot_taken_away_is_not_taken_from_those_under_way() -> None:
    story = Story("linear", max_parallel_per_domain=2, delay_step=5.0)
    first, second = story.burst(2)
    story.settle(first, LIMITED)
    assert story.pace.parallel == 1
    assert story.pace.in_flight == 1
    story.refused(story.now + 50.0)  # the trial waits for the one slot there is
    story.settle(second, OK)
    story.granted(story.now)


class Capped(Fixed):
    """Told how many at once."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(PacingSettings(fixed_delay=0.0))

    def to(self, story: Story, parallel: int | None, delay_s: float = 0.0) -> None:
        self.parallel = parallel
        self.propose(delay_s, "told")
        story.visit()


CAP, LIFTED = ConcurrencyReason.CAP_FOUND, ConcurrencyReason.CAP_LIFTED
GREW, FELL = ConcurrencyReason.DELAY_GREW, ConcurrencyReason.DELAY_FELL

Step = tuple[int | None, float]
Change = tuple[int, int, ConcurrencyReason]
REASONS: list[tuple[str, list[Step], list[Change]]] = [
    # story          cap, delay_s                              at once, was, reason
    ("a delay", [(None, 10.6), (None, 0.0)], [(6, 8, GREW), (8, 6, FELL)]),
    ("a cap", [(3, 0.0), (4, 0.0), (3, 0.0), (None, 0.0)],
     [(3, 8, CAP), (4, 3, LIFTED), (3, 4, CAP), (8, 3, LIFTED)]),
    ("a cap, then a delay that binds more", [(7, 0.0), (7, 10.6), (7, 0.0), (None, 0.0)],
     [(7, 8, CAP), (6, 7, GREW), (7, 6, FELL), (8, 7, LIFTED)]),
    ("a cap over what the delay allows", [(7, 10.6)], [(6, 8, GREW)]),
    ("a cap that binds nothing", [(8, 0.0), (None, 0.0)], []),
    ("a delay under a cap that binds more", [(2, 0.0), (2, 10.6), (2, 0.0)], [(2, 8, CAP)]),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "expected"), [row[1:] for row in REASONS], ids=[row[0] for row in REASONS])
def test_changes_are_told_with_what_changed_them(steps: list[Step], expected: list[Change]) -> None:
    story = Story("fixed", fixed_delay=0.0)
    story.pace.strategy = strategy = Capped()
    for parallel, delay_s in steps:
        strategy.to(story, parallel, delay_s)
    assert changes(story) == expected


def test_a_delay_that_is_learned_is_the_reason_both_ways() -> None:
    story = Story("linear", success_probe_threshold=2)
    story.visits(5, LIMITED)
    story.visits(3, OK)
    assert changes(story) == [(7, 8, GREW), (8, 7, FELL)]


def test_what_robots_txt_and_the_settings_say_is_a_reason_of_its_own_both_ways() -> None:
    bounds = ConcurrencyReason.BOUNDS
    story = Story("fixed", fixed_delay=30.0)
    story.visit()
    story.pace.set_crawl_delay(30.0)  # now that delay is no sign of trouble
    story.visit()
    story.pace.set_crawl_delay(None)
    story.visit()
    assert changes(story) == [(3, 8, bounds), (8, 3, bounds), (3, 8, bounds)]


def changes(story: Story) -> list[tuple[int, int, ConcurrencyReason]]:
    told = [event for event in story.events if isinstance(event, ConcurrencyChanged)]
    return [(event.parallel, event.was, event.reason) for event in told]


@given(st.floats(0.5, 60.0), st.integers(1, 40))
def test_the_formula(delay_s: float, base: int) -> None:
    story = Story("linear", max_parallel_per_domain=base)
    story.pace.strategy.load({"delay_s": delay_s}, trust=1.0, now=0.0)
    story.pace.resume_silently(0.0)
    assert story.pace.parallel == max(1, base - math.floor((delay_s - 0.5) / 5.0))
