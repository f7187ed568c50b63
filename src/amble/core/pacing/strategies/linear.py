"""The linear strategy: one step slower on every limit, one step faster on trial after a run of successes. Pure.

A trial (probe) that meets a limit is undone, and the delay it came from becomes the floor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from amble.core.pacing.block import Block
from amble.core.pacing.permit import Permit
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.strategies.base import Strategy


class Linear(Strategy):
    __slots__ = ("_base_s", "_floor_s", "_moved_seq", "_probe_from_s", "_seq", "_settings", "_shell_gap_s", "_streak")

    name: ClassVar[str] = "linear"
    counts_sends: ClassVar[bool] = True

    def __init__(self, settings: PacingSettings) -> None:
        super().__init__()
        self._settings = settings
        self._base_s = settings.base_delay
        self.propose(settings.base_delay, "base delay")
        self._floor_s = 0.0
        self._shell_gap_s = 0.0
        self._streak = 0
        self._seq = 0
        self._moved_seq = 0  # answers to requests sent before the delay last moved say nothing about it
        self._probe_from_s: float | None = None  # the delay to go back to while a shorter one is on trial

    @property
    def floor_s(self) -> float:
        return self._floor_s

    @property
    def learned(self) -> bool:
        return self.delay_s > self._base_s or self._floor_s > 0

    @property
    def probing(self) -> bool:
        return self._probe_from_s is not None

    def limit_to(self, gap_s: float, bursts: bool) -> None:
        self._shell_gap_s = gap_s

    def on_send(self, permit: Permit) -> None:
        self._seq = permit.seq

    def on_cancel(self, permit: Permit) -> None:
        if permit.seq == self._seq:
            self._seq -= 1
            self._moved_seq = min(self._moved_seq, self._seq)

    def on_ok(
        self, permit: Permit, latency_s: float | None, usual_s: float | None, in_flight: int, now: float
    ) -> float:
        if permit.seq <= self._moved_seq:
            return 0.0
        self._streak += 1
        if self._streak >= self._settings.success_probe_threshold:
            self._streak = 0
            self._probe_from_s = None  # a trial that lasted this long is accepted
            self._try_shorter()
        return 0.0

    def on_failed(self, permit: Permit, now: float) -> None:
        self._streak = 0

    def on_block(self, block: Block, now: float) -> float:
        self._streak = 0
        probe_from_s, self._probe_from_s = self._probe_from_s, None
        if probe_from_s is None:
            self._lengthen("limited")
        elif block.seq > self._moved_seq:
            self._floor_s = probe_from_s
            self.propose(probe_from_s, "probe refused: back to the delay before it, which is now the floor")
        else:
            self.delay_s = probe_from_s
            self._lengthen("limited before the probe began")
        return self.delay_s

    def on_refused(self, block: Block, now: float) -> float:
        self._lengthen("limited again")
        return self.delay_s

    def save(self) -> dict[str, float]:
        safe_s = self.delay_s if self._probe_from_s is None else self._probe_from_s
        return {"delay_s": safe_s, "floor_s": self._floor_s}

    def load(self, numbers: Mapping[str, float], *, trust: float, now: float) -> None:
        cap_s = self._settings.max_adaptive_delay
        saved_s = min(cap_s, max(self._base_s, numbers.get("delay_s", self._base_s)))
        # Half-trusted learning lies half-way back to the default, so that one bad day does not pin a domain for ever.
        self.propose(self._base_s + trust * (saved_s - self._base_s), "learned earlier")
        self._floor_s = min(self.delay_s, trust * max(0.0, numbers.get("floor_s", 0.0)))

    def _lengthen(self, reason: str) -> None:
        # The step is added to the delay in force: under a long crawl delay it would otherwise change nothing.
        in_force_s = max(self.delay_s, self._shell_gap_s)
        cap_s = max(self.delay_s, self._settings.max_adaptive_delay)
        self.propose(min(in_force_s + self._settings.delay_step, cap_s), reason)

    def _try_shorter(self) -> None:
        shorter_s = max(self.delay_s - self._settings.delay_step, self._base_s, self._floor_s)
        if shorter_s < self.delay_s:
            self._probe_from_s = self.delay_s
            self._moved_seq = self._seq
            self.propose(shorter_s, "probing a shorter delay")
