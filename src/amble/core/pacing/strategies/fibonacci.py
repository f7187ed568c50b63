"""The fibonacci strategy: full speed up to the caps; blocks of 1, 1, 2, 3, 5 ... s by consecutive limits. Pure.

Between blocks the delay grows while the domain answers slower than it used to, and shrinks again when it does not.
"""

from __future__ import annotations

from typing import ClassVar

from amble.core.pacing.backoff import fibonacci_s
from amble.core.pacing.block import Block
from amble.core.pacing.permit import Permit
from amble.core.pacing.phase import PacePhase
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.strategies.base import Strategy

_FIRST_DELAY_S = 0.1
_GROWTH = 1.5
_DECAY = 0.75
_BASELINE_SHARE = 0.05  # of the newest answer, once there were twenty


class Fibonacci(Strategy):
    """The baseline is a slow average of all answers: a site that stays slow is in time no longer called slow."""

    __slots__ = ("_answers", "_baseline_s", "_limits", "_settings")

    name: ClassVar[str] = "fibonacci"

    def __init__(self, settings: PacingSettings) -> None:
        super().__init__()
        self._settings = settings
        self._limits = 0  # consecutive
        self._baseline_s = 0.0
        self._answers = 0  # in the baseline

    @property
    def pace_phase(self) -> PacePhase:
        return PacePhase.AT_LIMIT if self.delay_s > 0 else PacePhase.SET

    def on_ok(
        self, permit: Permit, latency_s: float | None, usual_s: float | None, in_flight: int, now: float
    ) -> float:
        if latency_s is None:
            return 0.0
        factor, baseline_s = self._settings.latency_degrade_factor, self._baseline_s
        slow = self._answers > 0 and latency_s >= factor * baseline_s
        # One slow page is no slow site: the average of the last few must be half-way there.
        slow = slow and (usual_s or latency_s) >= (1.0 + factor) / 2.0 * baseline_s
        self._answers += 1
        self._baseline_s += max(1.0 / self._answers, _BASELINE_SHARE) * (latency_s - self._baseline_s)
        if slow:
            longer_s = min(max(_FIRST_DELAY_S, self.delay_s * _GROWTH), self._settings.max_adaptive_delay)
            self.propose(longer_s, "responses slow down")
        elif self.delay_s > 0:
            shorter_s = self.delay_s * _DECAY if self.delay_s > _FIRST_DELAY_S else 0.0
            self.propose(shorter_s, "responses are quick again")
        return 0.0

    def on_block(self, block: Block, now: float) -> float:
        return self._pause_s()

    def on_refused(self, block: Block, now: float) -> float:
        return self._pause_s()

    def on_close(self, block: Block, probe: Permit, now: float) -> None:
        self._limits = 0

    def _pause_s(self) -> float:
        self._limits += 1
        return fibonacci_s(self._limits, self._settings.max_retry_backoff_seconds)
