"""The two clocks: monotonic seconds for pacing, UTC for records. Both are replaceable; the core is told the time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds that never go back and never jump: the only time that pacing knows."""

    def utc(self) -> datetime:
        """Wall-clock time, for records and for dates that servers send."""


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def utc(self) -> datetime:
        return datetime.now(UTC)
