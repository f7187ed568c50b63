"""The aimd strategy: a token bucket whose rate grows by a step per fast success and is halved by a limit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from amble.core.pacing.block import Block
from amble.core.pacing.permit import Permit
from amble.core.pacing.phase import PacePhase
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.strategies.base import Strategy

_EWMA_SHARE = 0.2


class Aimd(Strategy):
    __slots__ = (
        "_capacity",
        "_cut_seq",
        "_limited_once",
        "_rate_cap",
        "_rate_min",
        "_refilled_at",
        "_seq",
        "_settings",
        "_target_s",
        "_tokens",
        "rate",
    )

    name: ClassVar[str] = "aimd"
    counts_sends: ClassVar[bool] = True

    def __init__(self, settings: PacingSettings) -> None:
        super().__init__()
        self._settings = settings
        self._rate_cap = settings.max_rps
        self._rate_min = min(max(settings.min_rps, 1.0 / settings.max_adaptive_delay), settings.max_rps)
        self.rate = max(settings.initial_rps, self._rate_min)
        self._capacity = self._tokens = settings.token_bucket_capacity
        self._refilled_at: float | None = None
        self._target_s = settings.latency_target
        self._seq = 0
        self._cut_seq = 0  # answers to requests sent before the last cut say nothing about the new rate
        self._limited_once = False
        self.delay_s = 1.0 / self.rate  # gap_s stays 0: the bucket starts full

    @property
    def learned(self) -> bool:
        return self._limited_once

    @property
    def pace_phase(self) -> PacePhase:
        climbs = not self._limited_once and self.rate < self._rate_cap
        return PacePhase.FINDING if climbs else super().pace_phase

    @property
    def floor_s(self) -> float:
        return 1.0 / self._rate_cap

    @property
    def tokens(self) -> float:
        return self._tokens

    def limit_to(self, gap_s: float, bursts: bool) -> None:
        settings = self._settings
        fastest = min(settings.max_rps, 1.0 / gap_s) if gap_s > 0 else settings.max_rps
        self._rate_cap = max(self._rate_min, fastest)
        # Burst credit would break a crawl delay the moment the credit is spent.
        self._capacity = settings.token_bucket_capacity if bursts else 1.0
        self._tokens = min(self._tokens, self._capacity)
        if self.rate > self._rate_cap:
            self.rate = self._rate_cap
            self.note = "crawl delay"
            self._propose()

    def on_send(self, permit: Permit) -> None:
        now = permit.sent_at
        if self._refilled_at is not None:
            self._tokens = min(self._capacity, self._tokens + (now - self._refilled_at) * self.rate)
        elif self._tokens < 1.0:
            self._tokens = 1.0  # loaded empty, and its token was waited for
        self._refilled_at = now
        self._tokens -= 1.0
        self._seq = permit.seq
        self._propose()

    def on_cancel(self, permit: Permit) -> None:
        self._tokens = min(self._capacity, self._tokens + 1.0)
        self._propose()

    def on_ok(
        self, permit: Permit, latency_s: float | None, usual_s: float | None, in_flight: int, now: float
    ) -> float:
        slow = latency_s is not None and latency_s >= self._settings.latency_degrade_factor * self._target_s
        if latency_s is not None:
            self._learn_target(latency_s)
        if permit.seq > self._cut_seq:
            if slow:
                self._cut("responses slow down")
            elif self.rate < self._rate_cap:
                self.rate = min(self._rate_cap, self.rate + self._settings.aimd_increase)
                self.note = "fast successes"
                self._propose()
        return 0.0

    def on_failed(self, permit: Permit, now: float) -> None:
        if permit.seq > self._cut_seq:
            self._cut("server error")

    def on_block(self, block: Block, now: float) -> float:
        self._limited_once = True
        self._cut("limited")
        return 1.0 / self.rate

    def on_refused(self, block: Block, now: float) -> float:
        self._cut("limited again")
        return max(2 * block.pause_s, 1.0 / self.rate) if block.pause_s < 60 else block.pause_s

    def save(self) -> dict[str, float]:
        return {"rate": self.rate}

    def load(self, numbers: Mapping[str, float], *, trust: float, now: float) -> None:
        settings = self._settings
        saved = min(
            settings.max_rps,
            max(self._rate_min, numbers.get("rate", 1 / (numbers.get("delay_s") or 1 / settings.initial_rps))),
        )
        first = max(settings.initial_rps, self._rate_min)
        self.rate = first + trust * (saved - first)
        self._limited_once = True
        self._tokens = 0.0  # the last run may have spent its burst a moment ago
        self.note = "learned earlier"
        self._propose()

    def _cut(self, reason: str) -> None:
        self.rate = max(self._rate_min, self.rate * self._settings.aimd_decrease)
        self._cut_seq = self._seq
        self._tokens = min(self._tokens, 1.0)
        self.note = reason
        self._propose()

    def _learn_target(self, latency_s: float) -> None:
        """The target follows what is observed but stays anchored: never under the expectation, nor far above."""
        anchor_s = self._settings.latency_target
        moved_s = self._target_s + _EWMA_SHARE * (latency_s - self._target_s)
        self._target_s = min(max(moved_s, anchor_s), anchor_s * self._settings.latency_degrade_factor)

    def _propose(self) -> None:
        """The gap after the last send until the bucket holds a whole token."""
        self.delay_s = 1.0 / self.rate
        self.gap_s = max(0.0, (1.0 - self._tokens) / self.rate)
