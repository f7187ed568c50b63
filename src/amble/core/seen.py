"""Which URLs have been met: exact on a 64-bit hash, 11 to 17 bytes each where there are many. Pure.

The first are in a plain set, which is fastest; few crawls need more. The others are packed: open addressing with linear
probing, cut into so many shards that growing one takes a few milliseconds: never a frozen event loop, never a second
copy of everything. The hash is Python's own, which is keyed per process, so that no site can choose URLs that collide.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable

_FEW_MAX = 50_000  # some 100 bytes each
_SHARDS = 2_048  # a power of two
_SHARD = _SHARDS - 1
_SLOTS_AT_FIRST = 31
_FULL = 3, 4  # a shard grows when more than 3/4 full ...
_GROWTH = 3, 2  # ... by half, so that it is never less than half full
_ZERO = 1  # an empty slot holds 0; the one hash that is 0 stands as 1


def hash_of(url: object) -> int:
    return hash(url) or _ZERO


def _zeros(count: int) -> array[int]:
    return array("q", bytes(8 * count))


class Shard:
    """One part of what is packed: hashes, and beside each a number if the table keeps any."""

    __slots__ = ("count", "count_max", "keys", "slots", "values")

    def __init__(self, *, valued: bool) -> None:
        self.count = 0
        self._make(_SLOTS_AT_FIRST, valued=valued)

    def _make(self, slots: int, *, valued: bool) -> None:
        self.slots = slots
        self.count_max = slots * _FULL[0] // _FULL[1]
        self.keys = _zeros(slots)
        self.values = _zeros(slots) if valued else None

    def find(self, key: int) -> int:
        """The slot of a hash, or the free slot where it belongs."""
        keys, slots = self.keys, self.slots
        slot = key % slots
        while (held := keys[slot]) and held != key:
            slot += 1
            if slot == slots:
                slot = 0
        return slot

    def put(self, key: int, value: int = 0) -> bool:
        """Whether the hash is new. Slots move when the shard grows."""
        slot = self.find(key)
        if self.values is not None:
            self.values[slot] = value
        if self.keys[slot]:
            return False
        self.keys[slot] = key
        self.count += 1
        if self.count > self.count_max:
            self._grow()
        return True

    def get(self, key: int) -> int | None:
        slot = self.find(key)
        return self.values[slot] if self.values is not None and self.keys[slot] else None

    def _grow(self) -> None:
        old_keys, old_values = self.keys, self.values
        self._make((self.slots * _GROWTH[0] // _GROWTH[1]) | 1, valued=old_values is not None)
        keys, values, slots = self.keys, self.values, self.slots
        for old_slot, key in enumerate(old_keys):
            if not key:
                continue
            slot = key % slots  # then `find` for what is not there, unrolled: most of what a million URLs cost
            while keys[slot]:
                slot += 1
                if slot == slots:
                    slot = 0
            keys[slot] = key
            if values is not None and old_values is not None:
                values[slot] = old_values[old_slot]


def _nbytes(few: set[int] | dict[int, int], shards: Iterable[Shard]) -> int:
    packed = sum(shard.keys.itemsize * shard.slots * (1 if shard.values is None else 2) for shard in shards)
    numbers = len(few) * (1 if isinstance(few, set) else 2)
    return sys.getsizeof(few) + numbers * sys.getsizeof(sys.maxsize) + packed


class SeenSet:
    """A set of URLs that can be added to and asked, not taken from."""

    __slots__ = ("_few", "_shards")

    def __init__(self, urls: Iterable[str] = ()) -> None:
        self._few: set[int] = set()
        self._shards: list[Shard] = []
        self.add_many(urls)

    def add(self, url: str) -> bool:
        """Whether the URL is new."""
        key = hash_of(url)
        few = self._few
        if key in few:
            return False
        if len(few) < _FEW_MAX:
            few.add(key)
            return True
        if not self._shards:
            self._shards = [Shard(valued=False) for _ in range(_SHARDS)]
        return self._shards[key & _SHARD].put(key)

    def add_many(self, urls: Iterable[str]) -> None:
        for url in urls:
            self.add(url)

    def __contains__(self, url: object) -> bool:
        key = hash(url) or _ZERO  # `hash_of`, unrolled: asked for every link of every page
        if key in self._few:
            return True
        if not self._shards:
            return False
        shard = self._shards[key & _SHARD]
        return shard.keys[shard.find(key)] != 0

    def __len__(self) -> int:
        return len(self._few) + sum(shard.count for shard in self._shards)

    @property
    def nbytes(self) -> int:
        return _nbytes(self._few, self._shards)

    def __repr__(self) -> str:
        return f"<SeenSet of {len(self)} URLs in {self.nbytes / 1e6:.1f} MB>"


class SeenAt:
    """When each URL was last stored, in microseconds since 1970: the same table with a number beside each hash."""

    __slots__ = ("_few", "_shards")

    def __init__(self) -> None:
        self._few: dict[int, int] = {}
        self._shards: list[Shard] = []

    def put_many(self, urls: Iterable[str], times_us: Iterable[int]) -> None:
        few = self._few
        for url, time_us in zip(urls, times_us, strict=True):
            key = hash_of(url)
            if len(few) < _FEW_MAX or key in few:
                few[key] = time_us
                continue
            if not self._shards:
                self._shards = [Shard(valued=True) for _ in range(_SHARDS)]
            self._shards[key & _SHARD].put(key, time_us)

    def get(self, url: str) -> int | None:
        key = hash_of(url)
        time_us = self._few.get(key)
        if time_us is None and self._shards:
            return self._shards[key & _SHARD].get(key)
        return time_us

    def __len__(self) -> int:
        return len(self._few) + sum(shard.count for shard in self._shards)

    @property
    def nbytes(self) -> int:
        return _nbytes(self._few, self._shards)
