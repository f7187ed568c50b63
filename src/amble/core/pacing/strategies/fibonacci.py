"""The fibonacci strategy: full speed up to the caps; blocks of 1, 1, 2, 3, 5 ... s by consecutive limits. Pure.

Between blocks the delay grows while responses are slow and shrinks again when they are not.
"""

from __future__ import annotations

from typing import ClassVar

from amble.core.pacing.backoff import fibonacci_s
from amble.core.pacing.block import Block
from amble.core.pacing.permit import Permit
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.strategies.base import Strategy

_FIRST_DELAY_S = 0.1
_GROWTH = 1.5
_DECAY = 0.9


class Fibonacci(Strategy):
    __slots__ = ("_limits", "_settings")

    name: ClassVar[str] = "fibonacci"

    def __init__(self, settings: PacingSettings) -> None:
        super().__init__()
        self._settings = settings
        self._limits = 0  # consecutive

    def on_ok(
        self, permit: Permit, latency_s: float | None, usual_s: float | None, in_flight: int, now: float
    ) -> float:
        if latency_s is None:
            return 0.0
        settings = self._settings
        if latency_s >= settings.latency_degrade_factor * settings.latency_target:
            longer_s = min(max(_FIRST_DELAY_S, self.delay_s * _GROWTH), settings.max_adaptive_delay)
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
