"""When a crawl is worth more than one process. Told the time and the processor time; reads no clock."""

from __future__ import annotations

from typing import NamedTuple


class Sharing(NamedTuple):
    """What makes a crawl large enough for more than one process."""

    worth_s: float = 5.0  # of processor time that waits, for each worker: more than ten times what one takes to begin
    busy_min: float = 0.5  # of a processor, for the thread that crawls; a pace that one can keep needs no other
    every_s: float = 1.0  # over which that is judged, at least


AT_ONCE = Sharing(0.0, 0.0, 0.0)


class _Look(NamedTuple):
    at: float
    used_s: float
    made: int


class Demand:
    """How many workers a crawl is worth. Asked again and again until it is any."""

    def __init__(self, sharing: Sharing, workers_max: int) -> None:
        self._sharing = sharing
        self._workers_max = workers_max
        self._last: _Look | None = None

    def is_due(self, now: float) -> bool:
        """Whether it is time to look again: asked before every visit."""
        return self._last is None or now - self._last.at >= self._sharing.every_s

    def workers(self, queued: int, made: int, now: float, used_s: float) -> int:
        """None while the thread that crawls has not been busy since the last look, or would not be for long enough with
        what waits, by what each visit that was `made` meanwhile has cost it."""
        before, self._last = self._last, _Look(now, used_s, made)
        if self._sharing.worth_s <= 0:
            return self._workers_max
        if before is None or made <= before.made:
            return 0
        spent_s = used_s - before.used_s
        if spent_s < self._sharing.busy_min * (now - before.at):
            return 0
        worth = int(queued * spent_s / (made - before.made) / self._sharing.worth_s)
        return min(worth, self._workers_max) if worth > 1 else 0  # one alone would take turns with the crawl
