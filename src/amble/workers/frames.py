"""How items pass between two processes: each packed by `marshal`, its length before it.

Plain tuples: a page of 20 KB takes a fraction of what pickling its objects takes. Both ends are the same program, so no
form has to last. Each item is packed by itself, and what arrives is read where it lies: in one large piece, pages
would be copied five times on their way, into memory that is taken from the system anew each time.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any

Item = tuple[Any, ...]
_LENGTH = Struct(">Q")
_HEAD = _LENGTH.size
ROOM_BYTES = 256 * 1024  # about what the system hands over at once


def pieces(items: Iterable[Item]) -> list[bytes]:
    """Some items, as what is to be written one after the other."""
    written: list[bytes] = []
    for item in items:
        packed = marshal.dumps(item)
        written += (_LENGTH.pack(len(packed)), packed)
    return written


class Frames:
    """Reads items out of whatever pieces they arrive in."""

    def __init__(self, room_bytes: int = ROOM_BYTES) -> None:
        self._least = room_bytes
        self._view = memoryview(bytearray(room_bytes))
        self._begin = self._end = 0  # where that lies which has arrived and was not read

    def room(self) -> memoryview:
        """Where the next piece is to be put: after what is there of an item, with room for the rest of it."""
        rest = self._view[self._begin : self._end]
        size = max(self._least, self._wanted())
        is_new = size != len(self._view)  # for one long item, and back
        if is_new:
            self._view = memoryview(bytearray(size))
        if is_new or self._begin:
            self._view[: len(rest)] = rest
            self._begin, self._end = 0, len(rest)
        return self._view[self._end :]

    def arrived(self, count: int) -> Iterator[Item]:
        """The items that are whole, now that so many bytes were put there."""
        self._end += count
        while self._end - self._begin >= (size := self._wanted()):
            begin, self._begin = self._begin, self._begin + size
            yield marshal.loads(self._view[begin + _HEAD : self._begin])

    def _wanted(self) -> int:
        """How long the next item is with its length before it, as far as that can be told."""
        if self._end - self._begin < _HEAD:
            return _HEAD
        return _HEAD + int(_LENGTH.unpack_from(self._view, self._begin)[0])
