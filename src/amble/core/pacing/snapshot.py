"""What the limiter is doing, as frozen values: totals, and the busiest domains with what binds each. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from amble.core.pacing.latency import percentile_s
from amble.core.pacing.machine import TOGETHER_S
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Source
from amble.core.pacing.phase import PacePhase


@dataclass(slots=True)
class Totals:
    """Counters that outlive the eviction of domains."""

    requests: int = 0
    successes: int = 0
    limited: int = 0
    failures: int = 0
    throttled: int = 0  # permits that had to wait
    denied: int = 0  # refused by an open circuit or a deadline
    retries: int = 0
    lost: int = 0  # permits never settled
    waited_s: float = 0.0

    def add(self, other: Totals) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True)
class DomainSnapshot:
    domain: str
    strategy: str
    phase: str  # of its pace, in a word
    delay_s: float  # between request starts, as it stands
    source: str  # what sets it
    rate: float | None  # its inverse; None for no limit
    floor_s: float
    reason: str  # of the last decision
    crawl_delay_s: float | None
    next_in_s: float
    in_flight: int
    parallel: int
    waiting: int
    latency_s: float | None
    latency_p95_s: float | None
    error_rate: float
    circuit: str
    success_streak: int
    error_streak: int
    blocked_s: float
    requests: int
    successes: int
    limited: int
    failures: int
    others_ask: bool = False  # another process of this machine asks it, too


@dataclass(frozen=True, slots=True)
class LimiterSnapshot:
    requests: int
    successes: int
    limited: int
    failures: int
    throttled: int
    denied: int
    retries: int
    lost: int
    waited_s: float
    domains_known: int
    domains_evicted: int
    open_circuits: int
    half_open_circuits: int
    blocked: int
    waiting: int
    in_flight: int
    domains: tuple[DomainSnapshot, ...]  # the busiest


def snapshot_domain(pace: Pace, now: float, waiting: int = 0) -> DomainSnapshot:
    trouble = pace.troubles
    return DomainSnapshot(
        domain=pace.domain,
        strategy=pace.strategy.name,
        phase=phase_of(pace, now).value,
        delay_s=pace.gap_s,
        source=pace.source.value,
        rate=1.0 / pace.gap_s if pace.gap_s > 0 else None,
        floor_s=pace.strategy.floor_s,
        reason=pace.strategy.note,
        crawl_delay_s=pace.crawl_delay_s,
        next_in_s=max(0.0, pace.not_before - now),
        in_flight=pace.in_flight,
        parallel=pace.parallel,
        waiting=waiting,
        latency_s=pace.latency_s,
        latency_p95_s=percentile_s(pace.latency_ring),
        error_rate=trouble.window.error_rate(now) if trouble.window else 0.0,
        circuit=pace.circuit,
        success_streak=pace.success_streak,
        error_streak=trouble.error_streak,
        blocked_s=max(0.0, pace.blocked_until - now),
        requests=pace.seq,
        successes=pace.successes,
        limited=trouble.limited,
        failures=trouble.failures,
        others_ask=pace.machine is not None and pace.machine.others_at(pace.domain) > now - TOGETHER_S,
    )


def phase_of(pace: Pace, now: float) -> PacePhase:
    """What holds at this moment; what the strategy is at counts only where its own delay binds."""
    block = pace.block
    if block is not None and block.tripped and block.failing:
        return PacePhase.DOWN
    spent = pace.quota is not None and pace.quota.spent_until(pace.in_flight) > now
    if spent or pace.blocked_until > now:
        return PacePhase.WAITING
    return pace.strategy.pace_phase if pace.source is Source.LEARNED else PacePhase.SET


def busiest(paces: Iterable[Pace], count: int) -> list[Pace]:
    return heapq.nlargest(count, paces, key=lambda pace: (pace.seq, pace.domain))
