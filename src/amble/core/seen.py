"""Which URLs have been met: exact on a 64-bit hash, 11 to 17 bytes each. Pure.

Open addressing with linear probing in numpy arrays. The table is cut into shards that grow one at a time: growing
costs a few milliseconds, never a frozen event loop, and never a second copy of everything. The hash is Python's own,
which is keyed per process, so that no site can choose URLs that collide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_SHARDS = 64  # a power of two
_SHARD = _SHARDS - 1
_SLOTS_AT_FIRST = 31
_FULL = 3, 4  # a shard grows when more than 3/4 full ...
_GROWTH = 3, 2  # ... by half, so that it is never less than half full
_ZERO = 1  # an empty slot holds 0; the one hash that is 0 stands as 1


def hash_of(url: object) -> int:
    return hash(url) or _ZERO


class Shard:
    """One part of the table: hashes, and beside each a number if the table keeps any."""

    __slots__ = ("_keys", "_values", "count", "count_max", "keys", "slots", "values")

    def __init__(self, *, valued: bool) -> None:
        self.count = 0
        self._set(np.zeros(_SLOTS_AT_FIRST, np.int64), np.zeros(_SLOTS_AT_FIRST, np.int64) if valued else None)

    def _set(self, keys: NDArray[np.int64], values: NDArray[np.int64] | None) -> None:
        self._keys, self._values = keys, values
        self.slots = len(keys)
        self.count_max = self.slots * _FULL[0] // _FULL[1]
        self.keys = keys.data  # access to items of a memoryview is several times faster than on an array
        self.values = values.data if values is not None else None

    def find(self, key: int) -> int:
        """The slot of a hash, or the free slot where it belongs."""
        keys, slots = self.keys, self.slots
        slot = key % slots
        while (held := keys[slot]) and held != key:
            slot += 1
            if slot == slots:
                slot = 0
        return slot

    def insert(self, slot: int, key: int) -> None:
        """Take a free slot that `find` gave. Slots move when the shard grows."""
        self.keys[slot] = key
        self.count += 1
        if self.count > self.count_max:
            self.grow()

    def grow(self) -> None:
        """Move to a larger array, laying every hash where linear probing would have put it."""
        used = np.flatnonzero(self._keys)
        slots = (self.slots * _GROWTH[0] // _GROWTH[1]) | 1
        home = self._keys[used] % slots
        order = np.argsort(home, kind="stable")
        used, home = used[order], home[order]
        # Sorted by home, each goes to its home or right after the one before it, whichever is later.
        steps = np.arange(len(used))
        place = np.maximum.accumulate(home - steps) + steps
        keys = np.zeros(slots, np.int64)
        values = np.zeros(slots, np.int64) if self._values is not None else None
        inside = place < slots
        keys[place[inside]] = self._keys[used[inside]]
        if values is not None and self._values is not None:
            values[place[inside]] = self._values[used[inside]]
        past_the_end = used[~inside].tolist()
        old_keys, old_values = self.keys, self.values
        self._set(keys, values)
        for old in past_the_end:  # these wrap around to the first free slots
            slot = self.find(old_keys[old])
            self.keys[slot] = old_keys[old]
            if self.values is not None and old_values is not None:
                self.values[slot] = old_values[old]

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + (self._values.nbytes if self._values is not None else 0)


class SeenSet:
    """A set of URLs that can be added to and asked, not taken from."""

    __slots__ = ("_shards",)

    def __init__(self, urls: Iterable[str] = ()) -> None:
        self._shards = [Shard(valued=False) for _ in range(_SHARDS)]
        for url in urls:
            self.add(url)

    def add(self, url: str) -> bool:
        """Whether the URL is new."""
        key = hash_of(url)
        shard = self._shards[key & _SHARD]
        slot = shard.find(key)
        if shard.keys[slot]:
            return False
        shard.insert(slot, key)
        return True

    def add_many(self, urls: Sequence[str]) -> NDArray[np.bool_]:
        """Which of the URLs are new; of equal ones in the batch, the first."""
        new = bytearray(len(urls))
        shards = self._shards
        for i, key in enumerate(map(hash, urls)):  # `add`, unrolled: this is the hot path of every page
            key = key or _ZERO
            shard = shards[key & _SHARD]
            keys, slots = shard.keys, shard.slots
            slot = key % slots
            while held := keys[slot]:
                if held == key:
                    break
                slot += 1
                if slot == slots:
                    slot = 0
            else:
                new[i] = True
                keys[slot] = key
                shard.count += 1
                if shard.count > shard.count_max:
                    shard.grow()
        return np.frombuffer(new, np.bool_)

    def __contains__(self, url: object) -> bool:
        key = hash_of(url)  # then `Shard.find`, unrolled: asked for every link of every page
        shard = self._shards[key & _SHARD]
        keys, slots = shard.keys, shard.slots
        slot = key % slots
        while held := keys[slot]:
            if held == key:
                return True
            slot += 1
            if slot == slots:
                slot = 0
        return False

    def __len__(self) -> int:
        return sum(shard.count for shard in self._shards)

    @property
    def nbytes(self) -> int:
        return sum(shard.nbytes for shard in self._shards)

    def __repr__(self) -> str:
        return f"<SeenSet of {len(self)} URLs in {self.nbytes / 1e6:.1f} MB>"


class SeenAt:
    """When each URL was last stored, in microseconds since 1970: the same table with a number beside each hash."""

    __slots__ = ("_shards",)

    def __init__(self) -> None:
        self._shards = [Shard(valued=True) for _ in range(_SHARDS)]

    def put_many(self, urls: Iterable[str], times_us: Iterable[int]) -> None:
        for url, time_us in zip(urls, times_us, strict=True):
            key = hash_of(url)
            shard = self._shards[key & _SHARD]
            slot = shard.find(key)
            assert shard.values is not None
            shard.values[slot] = time_us
            if not shard.keys[slot]:
                shard.insert(slot, key)

    def get(self, url: str) -> int | None:
        key = hash_of(url)
        shard = self._shards[key & _SHARD]
        slot = shard.find(key)
        assert shard.values is not None
        return shard.values[slot] if shard.keys[slot] else None

    def __len__(self) -> int:
        return sum(shard.count for shard in self._shards)

    @property
    def nbytes(self) -> int:
        return sum(shard.nbytes for shard in self._shards)
