"""Limits of requests at once: inferred from which requests are refused, tried, and given up when they do not help."""

from __future__ import annotations

import pytest

from amble.core.pacing.strategies.gauge_slots import Slots


def served(slots: Slots, *in_flight: int, times: int = 1) -> None:
    for _ in range(times):
        for count in in_flight:
            slots.accept(count)


def convinced(limit: int = 4) -> Slots:
    """A site that serves so many at once and refuses the next, five times."""
    slots = Slots()
    for seq in range(5):
        served(slots, *range(1, limit + 1), times=3)
        slots.refuse(limit + 1, seq + 1, needed=1.0)
    return slots


def test_no_cap_at_first() -> None:
    assert Slots().cap is None


def test_five_refusals_of_one_too_many_are_a_limit_of_requests_at_once() -> None:
    slots, explained = Slots(), []
    for seq in range(5):
        served(slots, 1, 2, 3, 4, times=3)
        explained.append(slots.refuse(5, seq + 1, needed=1.0))
    assert explained == [False, False, False, False, True]
    assert slots.cap == 4


def test_refusals_that_served_requests_resemble_are_a_limit_of_rate() -> None:
    slots = Slots()
    for seq in range(50):
        served(slots, 3, 4, 5, 6, times=3)
        assert not slots.refuse(5, seq + 1, needed=1.0)
    assert slots.cap is None


def test_with_two_under_way_the_two_limits_look_alike() -> None:
    slots = Slots()
    for seq in range(50):
        served(slots, 1, times=10)
        assert not slots.refuse(2, seq + 1, needed=1.0)
    assert slots.cap is None


def test_before_anything_was_served_nothing_is_inferred() -> None:
    slots = Slots()
    for seq in range(20):
        assert not slots.refuse(9, seq + 1, needed=1.0)


def test_a_cap_that_could_not_carry_the_known_rate_is_not_believed() -> None:
    slots = Slots()
    for seq in range(20):
        served(slots, 1, 2, 3, 4, times=3)
        assert not slots.refuse(5, seq + 1, needed=6.0)
    assert slots.cap is None


def test_one_that_overtook_others_on_the_way_does_not_lower_the_cap() -> None:
    slots = Slots()
    for seq, in_flight in enumerate([8, 8, 3, 8, 8]):
        served(slots, 1, 2, times=10)
        slots.refuse(in_flight, seq + 1, needed=1.0)
    assert slots.cap == 7


def test_after_two_hundred_pages_one_more_is_tried_and_kept_if_it_goes_well() -> None:
    slots = convinced(4)
    served(slots, 4, times=199)
    assert slots.cap == 4
    served(slots, 4)
    assert slots.cap == 5
    served(slots, 5, times=200)
    assert slots.cap == 5  # kept
    served(slots, 5, times=200)
    assert slots.cap == 6  # and the next one tried


def test_one_more_that_is_refused_is_taken_back_and_tried_half_as_often() -> None:
    slots = convinced(4)
    served(slots, 4, times=200)
    assert slots.cap == 5
    assert slots.refuse(5, 1_000, needed=1.0)
    assert slots.cap == 4
    served(slots, 4, times=399)
    assert slots.cap == 4
    served(slots, 4)
    assert slots.cap == 5


def test_a_refusal_at_the_cap_after_a_while_lowers_it() -> None:
    slots = convinced(4)
    served(slots, 4, times=50)
    assert slots.refuse(4, 1_000, needed=1.0)
    assert slots.cap == 3


def test_the_cap_never_falls_under_one() -> None:
    slots = convinced(4)
    for seq in range(10):
        served(slots, 1, times=50)
        slots.refuse(9, 1_000 + seq, needed=1.0)
    assert slots.cap == 1


@pytest.mark.parametrize(("pages", "in_flight"), [(10, 4), (50, 3)], ids=["soon again", "under the cap"])
def test_a_cap_that_does_not_help_is_dropped_for_three_thousand_requests(pages: int, in_flight: int) -> None:
    slots = convinced(4)
    served(slots, 4, times=pages)
    assert not slots.refuse(in_flight, 1_000, needed=1.0)
    assert slots.cap is None
    for seq in range(3_999 - 50, 3_999):
        served(slots, 1, 2, 3, 4)
        assert not slots.refuse(5, seq, needed=1.0)
    assert slots.cap is None
    for seq in range(4_000, 4_005):
        served(slots, 1, 2, 3, 4)
        slots.refuse(5, seq, needed=1.0)
    assert slots.cap == 4


def test_thousands_under_way_are_no_trouble() -> None:
    slots = Slots()
    served(slots, 100_000, times=50)
    slots.refuse(100_000, 1, needed=1.0)
    assert slots.cap is None
