"""Limits of requests at once: a cap is tried at the refusal that suggests it, and given up when it does not help."""

from __future__ import annotations

import pytest

from amble.core.pacing.strategies.gauge_slots import Slots


def served(slots: Slots, *in_flight: int, times: int = 1) -> None:
    for _ in range(times):
        for count in in_flight:
            slots.accept(count)


def capped(cap: int = 4) -> Slots:
    """A site that has refused one too many."""
    slots = Slots()
    served(slots, *range(1, cap + 1), times=3)
    assert slots.refuse(cap + 1, 20, needed=1.0)
    return slots


def test_no_cap_at_first() -> None:
    assert Slots().cap is None


@pytest.mark.parametrize("cap", range(1, 9))
def test_the_first_refusal_of_one_too_many_suggests_a_cap(cap: int) -> None:
    assert capped(cap).cap == cap


SUGGESTS = [
    # story                                                  served before     refused  needed  a cap
    ("alone: no cap could be lower", [1, 1], 1, 0.5, False),
    ("requests overtake each other: two alike say little", [1, 2, 3, 3], 3, 1.0, True),
    ("three alike were served: a limit of rate", [1, 3, 3, 3], 3, 1.0, False),
    ("more under way were served: a limit of rate", [5, 6, 7], 3, 1.0, False),
    ("such slots would carry the rate", [1, 2], 3, 2.5, True),
    ("... or would not: then they explain nothing", [1, 2], 3, 2.6, False),
    ("before anything was served", [], 2, 0.0, True),
]


@pytest.mark.parametrize(
    ("before", "refused", "needed", "explained"), [row[1:] for row in SUGGESTS], ids=[row[0] for row in SUGGESTS]
)
def test_what_suggests_a_cap(before: list[int], refused: int, needed: float, explained: bool) -> None:
    slots = Slots()
    served(slots, *before)
    assert slots.refuse(refused, 20, needed=needed) is explained
    assert slots.cap == (refused - 1 if explained else None)


def test_a_trial_alone_that_is_refused_ends_it_for_three_thousand_requests() -> None:
    """A window refuses whoever comes: that is what tells it from a limit of requests at once."""
    slots = capped()
    slots.give_up(30)
    assert slots.cap is None
    assert not slots.refuse(5, 3_029, needed=1.0)
    assert slots.refuse(5, 3_030, needed=1.0)


def test_refused_at_the_cap_before_it_ever_held_it_is_one_lower() -> None:
    slots = capped(4)
    served(slots, 1, 2, 3, 4, 4)
    assert slots.refuse(4, 40, needed=1.0)
    assert slots.cap == 3


def test_a_cap_of_one_that_is_refused_is_none() -> None:
    slots = capped(1)
    assert not slots.refuse(1, 40, needed=1.0)
    assert slots.cap is None


def test_refused_under_a_cap_that_has_held_it_is_the_rate_and_the_cap_stays() -> None:
    """Two at once and thirty a second: both are true."""
    slots = capped(2)
    served(slots, 2, times=10)
    assert not slots.refuse(2, 40, needed=1.0)
    assert slots.cap == 2


def test_refused_under_a_cap_that_was_never_filled_it_is_another_kind_of_limit() -> None:
    slots = capped(4)
    served(slots, 1, 2, times=20)
    assert not slots.refuse(2, 40, needed=1.0)
    assert slots.cap is None


def test_after_six_hundred_pages_one_more_is_tried_and_kept_if_it_goes_well() -> None:
    slots = capped(4)
    served(slots, 4, times=599)
    assert slots.cap == 4
    served(slots, 4)
    assert slots.cap == 5
    served(slots, 5, times=600)
    assert slots.cap == 5  # kept
    served(slots, 5, times=600)
    assert slots.cap == 6  # and the next one tried


def test_one_more_that_is_refused_is_taken_back_and_tried_half_as_often() -> None:
    slots = capped(4)
    served(slots, 4, times=600)
    assert slots.refuse(5, 1_000, needed=1.0)
    assert slots.cap == 4
    served(slots, 4, times=1_199)
    assert slots.cap == 4
    served(slots, 4)
    assert slots.cap == 5


def test_thousands_under_way_are_no_trouble() -> None:
    slots = Slots()
    served(slots, 100_000, times=50)
    assert not slots.refuse(100_000, 1, needed=1.0)
    assert slots.cap is None
