"""Servers bound by what they can do at once: workers, slots, queues. Haste shows as latency before it is refused."""

from __future__ import annotations

import heapq

ROUNDING_S = 1e-6  # who has the answer in hand finds its slot free, whatever sums of seconds on two clocks come to


class LeakyQueue:
    """Requests queue and leave evenly at `rate`; past `depth` waiting, one is refused. Ideal: pages / rate."""

    def __init__(self, rate: float, depth: int) -> None:
        self.rate = rate
        self.depth = depth
        self._empty_at = 0.0

    def admit(self, now: float, service_s: float) -> float | None:
        start = max(now, self._empty_at)
        if (start - now) * self.rate > self.depth:
            return None
        self._empty_at = start + 1.0 / self.rate
        return start - now

    def wait_s(self, now: float) -> float:
        return max(0.0, self._empty_at - now - self.depth / self.rate)

    def ideal_s(self, pages: int) -> float:
        return pages / self.rate


class FifoQueue(LeakyQueue):
    """The same with one server behind the queue: an answer comes when all before it are served, and then it itself."""

    def admit(self, now: float, service_s: float) -> float | None:
        backlog_s = super().admit(now, service_s)
        return None if backlog_s is None else backlog_s + 1.0 / self.rate


class InFlight:
    """At most `slots` requests are served at once; the next is refused.

    Ideal: a client that keeps exactly `slots` requests in flight. It learns of a free slot only when the answer
    arrives, so a slot is taken for the whole round trip: pages * round_trip_s / slots.
    """

    def __init__(self, slots: int, round_trip_s: float) -> None:
        self.slots = slots
        self.round_trip_s = round_trip_s
        self._ends: list[float] = []

    def _release(self, now: float) -> None:
        while self._ends and self._ends[0] <= now + ROUNDING_S:
            heapq.heappop(self._ends)

    def admit(self, now: float, service_s: float) -> float | None:
        self._release(now)
        if len(self._ends) >= self.slots:
            return None
        heapq.heappush(self._ends, now + service_s)
        return 0.0

    def wait_s(self, now: float) -> float:
        self._release(now)
        return self._ends[0] - now if len(self._ends) >= self.slots else 0.0

    def ideal_s(self, pages: int) -> float:
        return pages * self.round_trip_s / self.slots


class Overloading:
    """`workers` serve a common queue; past `depth` waiting requests it refuses. Latency grows long before that.

    Ideal: all workers busy all the time, pages * service_s / workers. A client that keeps about two requests per worker
    under way has that at some twice the unloaded latency. A page slower than `patience` times the unloaded round trip
    was got by harming the site, and the score does not count it (`slow_s` of the scenario).
    """

    patience = 3.0

    def __init__(self, workers: int, service_s: float, depth: int) -> None:
        self.workers = workers
        self.service_s = service_s
        self.depth = depth
        self._free = [0.0] * workers
        self._starts: list[float] = []

    def _waiting(self, now: float) -> int:
        while self._starts and self._starts[0] <= now:
            heapq.heappop(self._starts)
        return len(self._starts)

    def admit(self, now: float, service_s: float) -> float | None:
        if self._waiting(now) >= self.depth:
            return None
        start = max(now, self._free[0])
        heapq.heapreplace(self._free, start + service_s)
        if start > now:
            heapq.heappush(self._starts, start)
        return start - now

    def wait_s(self, now: float) -> float:
        return max(0.0, self._free[0] - now)

    def ideal_s(self, pages: int) -> float:
        return pages * self.service_s / self.workers
