"""The gauge strategy: measures the site's limit, runs a little under it, and probes over it rarely. Pure.

At every block the server's limiter is exhausted. So accepted requests divided by time, from release to release, *is*
the limit, for token buckets and windows alike. This file sends and grows; `gauge_track` estimates when a block
closes; `gauge_guard` watches the response times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from amble.core.pacing.block import Block
from amble.core.pacing.permit import Permit
from amble.core.pacing.strategies.base import LONGEST_PAUSE_S, Strategy
from amble.core.pacing.strategies.gauge_climb import climbed
from amble.core.pacing.strategies.gauge_guard import LatencyGuard
from amble.core.pacing.strategies.gauge_track import MARGIN, Evidence, Track
from amble.core.quota import Quota

FIRST_RATE = 2.0
LONGEST_DELAY_S = 60.0
SHORTEST_PAUSE_S = 0.4
QUOTA_SHARE = 0.98
STARVED = 1 / 0.7  # a request this much later than allowed shows that there was nothing to send
LATE_SHARE, LATE_MOST = 0.05, 0.3  # of the newest request in the average; of the delay that is made up for
CROWDED = 3  # with fewer requests under way none of them can be waiting for the others
HEADERLESS_ANSWERS = 50  # so many answers without quota headers end the trust in them


class Gauge(Strategy):
    __slots__ = ("_epoch_at", "_gap_min_s", "_guard", "_headerless", "_late_s", "_track")

    name: ClassVar[str] = "gauge"

    def __init__(self) -> None:
        super().__init__()
        self._gap_min_s = 0.0  # the shell's; no shorter delay need be tried
        self._epoch_at: float | None = None  # the measured span begins: the first send, then each release
        self._track: Track | None = None  # None while nothing is known of the limit (the START phase)
        self._guard: LatencyGuard | None = None
        self._late_s = 0.0  # how much later than allowed requests start, on average, by our own fault
        self._headerless: int | None = None  # answers since the last quota headers, while these set the pace
        self._set_rate(FIRST_RATE, "start")

    @property
    def rate(self) -> float:
        return 1.0 / self.delay_s

    @property
    def limit(self) -> float | None:
        """The site's limit as measured, in requests per second."""
        return self._track.limit if self._track else None

    @property
    def phase(self) -> str:
        if self._headerless is not None:
            return "headers"
        return "track" if self._track else "start"

    @property
    def floor_s(self) -> float:
        return 1.0 / self._track.limit if self._track else 0.0

    @property
    def learned(self) -> bool:
        return self._track is not None

    def limit_to(self, gap_s: float, bursts: bool) -> None:
        self._gap_min_s = gap_s
        if self.delay_s < gap_s:
            self.propose(gap_s, "crawl delay")

    def on_ok(
        self, permit: Permit, latency_s: float | None, usual_s: float | None, in_flight: int, now: float
    ) -> float:
        if self._epoch_at is None:
            self._epoch_at = permit.sent_at
        if self._headerless is not None:
            self._headerless += 1
            if self._headerless > HEADERLESS_ANSWERS:
                self._headerless = None
            return 0.0
        slow = latency_s is not None and self._watch(permit, latency_s, usual_s or latency_s, now)
        guard = self._guard
        if slow and guard is not None and guard.overloaded:
            return self._relieve(guard, permit, in_flight, now)
        track = self._track
        if track is not None:
            track.pages += 1
            track.slots.accept(permit.in_flight)
            self.parallel = track.slots.cap
        # A request sent later than it might have been proves nothing about a higher rate.
        if self._in_time(permit) and not (slow and guard and guard.queueing):
            self._grow(now)
        return 0.0

    def on_quota(self, quota: Quota, in_flight: int) -> None:
        target = max(1 / LONGEST_DELAY_S, QUOTA_SHARE * quota.rate(in_flight))
        self._headerless = 0
        self._set_rate(min(target, 1.3 * self.rate), "quota headers")

    def on_block(self, block: Block, now: float) -> float:
        block.rate = self.rate
        self._headerless = None
        self.note = "limited"
        pause_s = max(SHORTEST_PAUSE_S, 2 * self.delay_s)
        track = self._track
        if track is None:
            return pause_s
        if block.release_at is None:
            needed = track.limit * self._guard.latency_s if self._guard else math.inf
            block.explained = track.slots.refuse(block.in_flight, block.seq, needed)
            self.parallel = track.slots.cap
        return max(pause_s, min(track.expected_block_s(now), LONGEST_PAUSE_S))

    def on_refused(self, block: Block, now: float) -> float:
        # Trials cost refusals, waiting costs pages: a fast site is tried again sooner.
        factor = 2.0 if block.failed_probes < 3 or block.rate > 15 else 2.5
        return min(factor * block.pause_s, LONGEST_PAUSE_S)

    def on_close(self, block: Block, probe: Permit, now: float) -> None:
        release_at = block.last_at if block.release_at is None else block.release_at
        epoch_at = block.first_at if self._epoch_at is None else self._epoch_at
        evidence = Evidence(
            accepted=max(0, block.seq - (self._track.epoch_seq if self._track else 0) - 1),
            span_s=max(release_at - epoch_at, 1e-3),
            blocked_s=max(0.0, release_at - block.first_at),
            rate=block.rate,
            failed_probes=block.failed_probes,
            directed=block.release_at is not None,
        )
        if self._track is None:
            self._track = Track.begin(evidence, now)
        elif not block.explained:
            self._track.close(evidence, now)
        self._track.restart(gap_s=max(0.0, probe.sent_at - release_at), now=now)
        self._track.epoch_seq = probe.seq - 1
        self._epoch_at = release_at
        reason = "limit of requests at once" if block.explained else self._track.reason
        self._set_rate((1 - MARGIN) * self._track.limit, reason)
        self._track.rate_low = self.rate

    def on_outage(self, pause_s: float) -> None:
        if self._epoch_at is not None:
            self._epoch_at += pause_s

    def save(self) -> dict[str, float]:
        numbers = self._track.save() if self._track else {}
        if self._guard is not None:
            numbers |= self._guard.save()
        return numbers

    def load(self, numbers: Mapping[str, float], *, trust: float) -> None:
        self._track = Track.load(numbers, trusted=trust >= 1.0)
        self._guard = LatencyGuard.load(numbers)
        if self._track:
            self._set_rate((1 - MARGIN) * self._track.limit, "learned earlier")
            self._track.rate_low = self.rate

    def _watch(self, permit: Permit, latency_s: float, usual_s: float, now: float) -> bool:
        """Whether the site answers slower than while idle. With so few under way that none waits, there is no need."""
        if self._guard is not None:
            return self._guard.observe(permit, latency_s, now)
        if permit.in_flight >= CROWDED:
            self._guard = LatencyGuard.begin(usual_s, permit.seq)
        return False

    def _in_time(self, permit: Permit) -> bool:
        """Whether there was something to send when this request might have been sent. A busy machine is late all the
        same, if only by little; what it is late on average, the gaps are made shorter by."""
        took_s = permit.sent_at - permit.previous_at
        if took_s > STARVED * (self.delay_s if self.delay_s > permit.gap_s else permit.gap_s):
            return False
        self._late_s += LATE_SHARE * (took_s - permit.gap_s - self._late_s)
        return True

    def _grow(self, now: float) -> None:
        rate, track = 1.0 / self.delay_s, self._track
        if track is None:
            self._set_rate(climbed(rate), "no limit met yet")
        else:
            grown = track.grown(rate, now)
            if grown != rate:
                self._set_rate(grown, "probing above the limit" if track.beyond else "close to the limit")

    def _relieve(self, guard: LatencyGuard, permit: Permit, in_flight: int, now: float) -> float:
        """The site queues our requests: slow down to what it serves and let the queue drain."""
        relief = guard.relieve(self.rate, permit.seq + in_flight, in_flight, now)
        if self._track is None:
            self._track = Track(relief.rate / (1 - MARGIN), now)
        else:
            self._track.unsettle(relief.rate / (1 - MARGIN), now)
        self._set_rate(relief.rate, relief.reason)
        self._track.rate_low = min(self._track.rate_low, self.rate)
        return relief.drain_s

    def _set_rate(self, rate: float, reason: str) -> None:
        delay_s = 1.0 / rate
        if delay_s > LONGEST_DELAY_S:
            delay_s = LONGEST_DELAY_S
        if delay_s < self._gap_min_s:
            delay_s = self._gap_min_s
        self.delay_s = delay_s
        gap_s = delay_s - self._late_s if self._late_s < LATE_MOST * delay_s else (1 - LATE_MOST) * delay_s
        self.gap_s = gap_s if gap_s > self._gap_min_s else self._gap_min_s
        self.note = reason
