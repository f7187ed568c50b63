"""Who holds a place while requests are under way: whoever is looked for in vain does not, for longer than a second."""

from __future__ import annotations

import random

from amble.core.frontier.in_flight import SOON_S, Places
from amble.core.pacing.permit import Permit, Source


def permit(gap_s: float = 0.5) -> Permit:
    return Permit("a.test", 1, 0.0, 0.0, 0, gap_s, Source.LEARNED, 1, False)


def test_a_request_holds_its_place_until_it_is_over() -> None:
    places, one = Places(1), permit()
    assert places.has_room(0.0)
    places.take(one, 0.0)
    places.sent(one)
    assert not places.has_room(100.0), "it was written, and the answer is slow"
    assert places.room_at() is None
    places.leave(one)
    assert places.has_room(100.0)


def test_a_request_to_a_black_hole_gives_its_place_away_after_a_second() -> None:
    places, hole = Places(1), permit()
    places.take(hole, 10.0)
    assert not places.has_room(10.0 + SOON_S - 0.01)
    assert places.room_at() == 10.0 + SOON_S
    assert places.has_room(10.0 + SOON_S)
    places.take(good := permit(), 11.0)
    places.sent(good)
    assert not places.has_room(12.0), "there is one place, and it is taken"
    places.leave(hole)
    assert not places.has_room(12.0), "that gave its place away before"


def test_a_request_that_is_written_late_holds_a_place_again() -> None:
    places, late = Places(1), permit()
    places.take(late, 0.0)
    assert places.has_room(2.0)
    places.sent(late)
    assert not places.has_room(2.0)
    places.leave(late)
    assert places.has_room(2.0)


def test_what_waits_without_a_place_is_bounded() -> None:
    places = Places(2, unsent_max=3)
    holes = []
    for now in range(10):
        while places.has_room(now):
            holes.append(permit())
            places.take(holes[-1], now)
    assert len(holes) == 5
    assert places.room_at() is None, "nothing changes before one of them is over"
    places.leave(holes[0])
    assert places.has_room(10.0)


def test_where_no_gap_is_kept_nobody_hears_when_it_is_written_so_it_holds_its_place() -> None:
    places = Places(1)
    places.take(permit(gap_s=0.0), 0.0)
    assert not places.has_room(60.0)


def test_places_are_counted_right_whatever_the_order() -> None:
    dice, places = random.Random(1), Places(5, unsent_max=4)
    now, alive, unsent = 0.0, [], set()
    for _ in range(5_000):
        now += dice.random() / 2
        if places.has_room(now) and dice.random() < 0.6:
            alive.append(new := permit())
            places.take(new, now)
            unsent.add(new)
        elif alive:
            one = dice.choice(alive)
            if dice.random() < 0.4:
                places.sent(one)
                unsent.discard(one)
            else:
                alive.remove(one)
                places.leave(one)
                unsent.discard(one)
        assert len([one for one in alive if one not in unsent]) <= 5 + 4
        assert len(alive) <= 5 + 4
    for one in alive:
        places.leave(one)
    for _ in range(5):
        assert places.has_room(now)
        places.take(permit(), now)
    assert not places.has_room(now)
