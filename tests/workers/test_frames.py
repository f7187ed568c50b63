"""Items come out as they went in, in whatever pieces they arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.workers.frames import Frames, Item, pieces


def put(frames: Frames, data: bytes, piece: int = 1 << 20) -> list[Item]:
    """As an event loop does it: no more at a time than there is room."""
    found: list[Item] = []
    while data:
        room = frames.room()
        assert len(room) > 0, "where there is no room, a connection ends"
        count = min(len(room), len(data), piece)
        room[:count] = data[:count]
        data = data[count:]
        found += frames.arrived(count)
    return found


def through(*items: Item) -> list[Item]:
    return put(Frames(), b"".join(pieces(items)))


@given(sizes=st.lists(st.integers(0, 300), max_size=6), piece=st.integers(1, 400), room_bytes=st.integers(8, 400))
def test_items_are_found_in_any_pieces_and_in_any_room(sizes: list[int], piece: int, room_bytes: int) -> None:
    items = [(n, bytes([n]) * size) for n, size in enumerate(sizes)]
    assert put(Frames(room_bytes), b"".join(pieces(items)), piece) == items


def test_the_room_for_a_long_item_is_not_kept() -> None:
    frames = Frames(100)
    long, short = (b"".join(pieces([(0, b"x" * size)])) for size in (5_000, 10))
    assert put(frames, long) == [(0, b"x" * 5_000)]
    assert len(frames.room()) == 100
    assert put(frames, short) == [(0, b"x" * 10)]


def test_what_is_read_of_an_item_stays_when_the_next_is_put_in_its_place() -> None:
    frames = Frames(100)
    [(first,)], [(second,)] = (put(frames, b"".join(pieces([(text,)]))) for text in ("one", "two"))
    assert (first, second) == ("one", "two")


def test_a_reader_that_fails_at_an_item_finds_the_ones_after_it() -> None:
    frames, data = Frames(100), b"".join(pieces([(number,) for number in range(3)]))
    frames.room()[: len(data)] = data

    def read() -> None:
        for (number,) in frames.arrived(len(data)):
            raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        read()
    assert len(frames.room()) > 0
    assert list(frames.arrived(0)) == [(1,), (2,)]
