"""How a server decides that a client is too fast: buckets, windows and logs, each told the time.

A limiter answers `admit(now, service_s)` with the seconds a request waits inside the server before its service
begins, or `None` for a refusal, and `wait_s(now)` with the seconds until it would admit one. Arrivals come in order
of time. What an ideal client could get out of it is `ideal_s(pages)`: the seconds it needs for that many pages. The
ideal client knows the limit and asks evenly at exactly that rate from the first moment; the one-time credit of a full
bucket or an untouched window is left out of the reckoning, because it says nothing about pace.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Quota:
    """What a limiter tells of itself in RateLimit fields: `left` until the reset, of `limit` per `window_s`."""

    limit: int
    window_s: float
    left: int
    reset_s: float


class Limiter(Protocol):
    """Decides which arrivals are served."""

    def admit(self, now: float, service_s: float) -> float | None: ...

    def wait_s(self, now: float) -> float: ...

    def ideal_s(self, pages: int) -> float: ...


class Unlimited:
    """Serves everyone; for crawl delays and caps, where only the client's own settings bind. Ideal: no time at all."""

    def admit(self, now: float, service_s: float) -> float | None:
        return 0.0

    def wait_s(self, now: float) -> float:
        return 0.0

    def ideal_s(self, pages: int) -> float:
        return 0.0


class TokenBucket:
    """`rate` tokens a second drip into a bucket of `burst`; each request takes one. Ideal: pages / rate."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate = rate
        self.burst = burst
        self._tokens = burst
        self._at = 0.0

    def _refill(self, now: float) -> None:
        self._tokens = min(self.burst, self._tokens + (now - self._at) * self.rate)
        self._at = now

    def admit(self, now: float, service_s: float) -> float | None:
        self._refill(now)
        if self._tokens < 1.0:
            return None
        self._tokens -= 1.0
        return 0.0

    def wait_s(self, now: float) -> float:
        self._refill(now)
        return max(0.0, (1.0 - self._tokens) / self.rate)

    def quota(self, now: float) -> Quota:
        self._refill(now)
        window_s = self.burst / self.rate
        return Quota(int(self.burst), window_s, int(self._tokens), (self.burst - self._tokens) / self.rate)

    def ideal_s(self, pages: int) -> float:
        return pages / self.rate


class Gcra:
    """The generic cell rate algorithm: a request more than `tolerance_s` before its theoretical time is refused.

    With no tolerance it is the strictest of all: every single gap must last 1 / rate *as the server sees it*, so that a
    client behind a jittery network cannot use the whole rate. Ideal: pages / rate, which nobody behind a network
    reaches.
    """

    def __init__(self, rate: float, tolerance_s: float = 0.0) -> None:
        self.rate = rate
        self.gap_s = 1.0 / rate
        self.tolerance_s = tolerance_s
        self._due = 0.0

    def admit(self, now: float, service_s: float) -> float | None:
        if now < self._due - self.tolerance_s:
            return None
        self._due = max(now, self._due) + self.gap_s
        return 0.0

    def wait_s(self, now: float) -> float:
        return max(0.0, self._due - self.tolerance_s - now)

    def ideal_s(self, pages: int) -> float:
        return pages / self.rate


class FixedWindow:
    """`rate * window_s` requests in each window of the clock, `phase_s` into one at first. Ideal: pages / rate."""

    def __init__(self, rate: float, window_s: float, phase_s: float = 0.0) -> None:
        self.limit = max(1, round(rate * window_s))
        self.rate = self.limit / window_s
        self.window_s = window_s
        self.phase_s = phase_s
        self._window = -1
        self._used = 0

    def _turn(self, now: float) -> None:
        window = int((now + self.phase_s) // self.window_s)
        if window != self._window:
            self._window = window
            self._used = 0

    def _left_s(self, now: float) -> float:
        return (self._window + 1) * self.window_s - self.phase_s - now

    def admit(self, now: float, service_s: float) -> float | None:
        self._turn(now)
        if self._used >= self.limit:
            return None
        self._used += 1
        return 0.0

    def wait_s(self, now: float) -> float:
        self._turn(now)
        return self._left_s(now) if self._used >= self.limit else 0.0

    def quota(self, now: float) -> Quota:
        self._turn(now)
        return Quota(self.limit, self.window_s, self.limit - self._used, self._left_s(now))

    def ideal_s(self, pages: int) -> float:
        return pages / self.rate


class WindowFromFirst:
    """`limit` requests in a window that begins with the first request after the one before. Ideal: pages / rate."""

    def __init__(self, limit: int, window_s: float) -> None:
        self.limit = limit
        self.rate = limit / window_s
        self.window_s = window_s
        self._ends = -math.inf
        self._used = 0

    def _turn(self, now: float) -> None:
        if now >= self._ends:
            self._used = 0

    def admit(self, now: float, service_s: float) -> float | None:
        self._turn(now)
        if self._used >= self.limit:
            return None
        if not self._used:
            self._ends = now + self.window_s
        self._used += 1
        return 0.0

    def wait_s(self, now: float) -> float:
        self._turn(now)
        return self._ends - now if self._used >= self.limit else 0.0

    def quota(self, now: float) -> Quota:
        self._turn(now)
        reset_s = self._ends - now if self._used else self.window_s
        return Quota(self.limit, self.window_s, self.limit - self._used, reset_s)

    def ideal_s(self, pages: int) -> float:
        return pages / self.rate


class SlidingLog:
    """At most `rate * window_s` requests in any stretch of `window_s`; refused ones are free. Ideal: pages / rate."""

    def __init__(self, rate: float, window_s: float) -> None:
        self.limit = max(1, round(rate * window_s))
        self.rate = self.limit / window_s
        self.window_s = window_s
        self._log: deque[float] = deque()

    def _forget(self, now: float) -> None:
        while self._log and self._log[0] <= now - self.window_s:
            self._log.popleft()

    def admit(self, now: float, service_s: float) -> float | None:
        self._forget(now)
        if len(self._log) >= self.limit:
            return None
        self._log.append(now)
        return 0.0

    def wait_s(self, now: float) -> float:
        self._forget(now)
        return self._log[0] + self.window_s - now if len(self._log) >= self.limit else 0.0

    def quota(self, now: float) -> Quota:
        self._forget(now)
        reset_s = self._log[0] + self.window_s - now if self._log else 0.0
        return Quota(self.limit, self.window_s, self.limit - len(self._log), reset_s)

    def ideal_s(self, pages: int) -> float:
        return pages / self.rate


def whole_seconds(wait_s: float) -> int:
    """A Retry-After in seconds is an integer, and an honest server rounds up; 0 would mean nothing to wait for."""
    return max(1, math.ceil(wait_s - 1e-6))  # what rounding adds to a sum of seconds is no second
