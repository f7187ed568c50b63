"""When a crawl is more than one process can do. Told the time and the processor time; reads no clock."""

from __future__ import annotations

from typing import NamedTuple


class Sharing(NamedTuple):
    """What makes a crawl large enough for more than one process."""

    queued_min: int = 200  # pages that wait
    busy_min: float = 0.5  # of a processor, for the thread that crawls; a pace that one can keep needs no other
    every_s: float = 1.0  # over which that is judged, at least


class Demand:
    """Asked again and again until the answer is yes."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._looked: tuple[float, float] | None = None  # when, and how much processor time had been used

    def is_large(self, queued: int, now: float, used_s: float) -> bool:
        """Whether so much waits, and the thread has been so busy since the last look."""
        if queued < self._sharing.queued_min:
            self._looked = None
            return False
        if self._looked is None:
            self._looked = now, used_s
            return self._sharing.busy_min <= 0
        wall_s = now - self._looked[0]
        if wall_s < self._sharing.every_s:
            return False
        busy = (used_s - self._looked[1]) / wall_s
        self._looked = now, used_s
        return busy >= self._sharing.busy_min
