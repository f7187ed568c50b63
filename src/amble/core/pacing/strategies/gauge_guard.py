"""Whether a site answers more slowly because of us: response times against a baseline taken while it was idle. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from amble.core.pacing.permit import Permit

_LEVEL = 0.1  # share of the newest sample in the level
_SPREAD = 0.02
_DRIFT = 0.005
_BASELINE_SAMPLES = 400
_ENOUGH = 10
_QUEUE_MAX = 2.5
_CUTS_MAX = 4
_IMPROVED = -0.2
_SHORTEST_S = 1e-4
_LOWEST = math.log(_SHORTEST_S)
_STRETCH = 10  # answers over which the served rate is measured
_LN2 = math.log(2)
_LN15 = math.log(1.5)
_LN13 = math.log(1.3)


class Relief(NamedTuple):
    rate: float
    drain_s: float
    reason: str


class LatencyGuard:
    """All levels are natural logarithms of seconds: ratios matter, not differences."""

    __slots__ = (
        "_base",
        "_base_n",
        "_cuts",
        "_in_flight",
        "_level",
        "_level_at_cut",
        "_lowest",
        "_n",
        "_rate_before",
        "_served",
        "_served_at",
        "_served_rate",
        "_since_seq",
        "_spread",
    )

    def __init__(self) -> None:
        self._n = 0
        self._level = 0.0
        self._base = 0.0
        self._base_n = 0
        self._spread = 0.0
        self._in_flight = 1.0
        self._since_seq = 0  # answers to requests sent before the last cut are not looked at
        self._cuts = 0
        self._level_at_cut = 0.0
        self._lowest = 0.0
        self._rate_before = 0.0
        self._served = 0  # answers since _served_at: what the site gets done, however fast we ask
        self._served_at: float | None = None  # not measured yet; clocks begin anywhere
        self._served_rate = 0.0

    @classmethod
    def begin(cls, mean_s: float, samples: int) -> LatencyGuard:
        """Begin with what the first answers showed."""
        guard = cls()
        guard._base = math.log(max(mean_s, _SHORTEST_S))
        guard._base_n = samples
        return guard

    def observe(self, permit: Permit, latency_s: float, now: float) -> bool:
        """Take in one answer. True when the site answers slower than it did while idle, so that a look is worth it."""
        if self._served_at is None:
            self._served_at = now  # the stretch begins with this answer, which is none of it
        else:
            self._served += 1
        if self._served >= _STRETCH:
            self._served_rate = self._served / (now - self._served_at) if now > self._served_at else 0.0
            self._served, self._served_at = 0, now
        if permit.seq <= self._since_seq:
            return False
        sample = math.log(latency_s) if latency_s > _SHORTEST_S else _LOWEST
        self._n = n = self._n + 1
        if n == 1:
            self._level = self._lowest = sample
        deviation = sample - self._level
        self._level = level = self._level + (_LEVEL if n > 10 else 1 / n) * deviation
        if level < self._lowest:
            self._lowest = level
        self._spread += _SPREAD * (deviation * deviation - self._spread)
        self._in_flight += _LEVEL * (permit.in_flight - self._in_flight)
        if permit.in_flight <= 2 and self._base_n < _BASELINE_SAMPLES:
            self._base_n += 1
            self._base += (_SPREAD if self._base_n > 50 else 1 / self._base_n) * (sample - self._base)
        elif level < self._base + _LN13:
            self._base += _DRIFT * (sample - self._base)
        return level - self._base > _LN15

    def pause(self) -> None:
        """Nothing was sent for a while: what the site serves is measured from its next answer."""
        self._served, self._served_at = 0, None

    @property
    def latency_s(self) -> float:
        return math.exp(self._level)

    @property
    def queue(self) -> float:
        """Requests of ours that wait at the server, by Little's law."""
        return self._in_flight * (1 - math.exp(self._base - self._level)) if self._level > self._base else 0.0

    @property
    def queueing(self) -> bool:
        return self._level - self._base > _LN15 and self.queue > 1

    @property
    def overloaded(self) -> bool:
        excess = self._level - self._base
        if self._n <= _ENOUGH or excess <= _LN2:
            return False
        return excess > 3 * math.sqrt(self._spread / 19) and self.queue >= _QUEUE_MAX

    def relieve(self, rate: float, last_seq: int, in_flight: int, now: float) -> Relief:
        """Nine tenths of the rate, after a pause in which the queue drains.

        When four cuts in a row changed nothing, the site is slow by itself: its level becomes the new baseline.
        """
        if self._served_rate:
            rate = min(rate, self._served_rate)
        if self._cuts == 0 or self._lowest - self._level_at_cut <= _IMPROVED:
            self._cuts = 0
            self._rate_before = rate
        self._cuts += 1
        excess, level_s = self._level - self._base, math.exp(self._level)
        self._level_at_cut = self._level
        self._since_seq = last_seq
        self._n = 0
        if self._cuts > _CUTS_MAX:
            self._base = self._level
            self._cuts = 0
            return Relief(0.9 * self._rate_before, 0.0, "the site is slow by itself")
        queue = in_flight * (1 - math.exp(-excess))
        drain_s = min(queue / rate, level_s)
        self._served, self._served_at = 0, now + drain_s
        return Relief(0.9 * rate, drain_s, "responses slow down: letting the queue drain")

    def save(self) -> dict[str, float]:
        return {"baseline_s": math.exp(self._base)} if self._base_n else {}

    @classmethod
    def load(cls, numbers: Mapping[str, float]) -> LatencyGuard | None:
        baseline_s = numbers.get("baseline_s", 0.0)
        if not 0 < baseline_s < math.inf:
            return None
        return cls.begin(baseline_s, _ENOUGH)
