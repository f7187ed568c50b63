"""What is worth keeping of a domain between runs, and how far it can be trusted when it is old. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from amble.core.pacing.pace import Pace
from amble.core.pacing.settings import PacingSettings
from amble.errors import SettingsError

_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Learned:
    """One domain's learning: two delays that mean the same to every strategy, and the strategy's own few numbers."""

    domain: str
    strategy: str
    adaptive_delay_seconds: float
    adaptive_delay_floor_seconds: float
    learned_at: datetime
    numbers: Mapping[str, float] = field(default_factory=dict)
    blocked_until_at: datetime | None = None

    def __post_init__(self) -> None:
        times = (self.learned_at, self.blocked_until_at or self.learned_at)
        if any(time.tzinfo is None for time in times):
            raise SettingsError(
                f"learned state of {self.domain}: a time has no zone", hint="store times in UTC, with their zone"
            )
        values = (self.adaptive_delay_seconds, self.adaptive_delay_floor_seconds, *self.numbers.values())
        if not all(0 <= float(value) < math.inf for value in values):
            raise SettingsError(
                f"learned state of {self.domain}: a number is negative or not finite",
                hint="drop this row; the domain will be learned anew",
            )

    def as_row(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "domain": self.domain,
            "strategy": self.strategy,
            "adaptive_delay_seconds": self.adaptive_delay_seconds,
            "adaptive_delay_floor_seconds": self.adaptive_delay_floor_seconds,
            "learned_at": self.learned_at.isoformat(),
            "numbers": dict(self.numbers),
            "blocked_until_at": self.blocked_until_at.isoformat() if self.blocked_until_at else None,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Learned:
        try:
            blocked = row.get("blocked_until_at")
            return cls(
                domain=str(row["domain"]),
                strategy=str(row["strategy"]),
                adaptive_delay_seconds=row["adaptive_delay_seconds"],
                adaptive_delay_floor_seconds=row["adaptive_delay_floor_seconds"],
                learned_at=datetime.fromisoformat(row["learned_at"]),
                numbers=dict(row.get("numbers") or {}),
                blocked_until_at=datetime.fromisoformat(blocked) if blocked else None,
            )
        except (KeyError, TypeError, ValueError) as bad:
            raise SettingsError(
                f"learned state is unreadable: {bad!r}", hint="pass rows as `as_row` made them, or drop this one"
            ) from None


def worth_keeping(pace: Pace, now: float) -> bool:
    """Whether the next run must know: a pace that was learned, or a block, however short: restarts are quick."""
    return pace.strategy.learned or pace.blocked_until > now


def learn(pace: Pace, now: float, utc: datetime) -> Learned:
    """The learning of a pace as it stands; a delay of zero where there is but a block to remember."""
    strategy = pace.strategy
    left_s = pace.blocked_until - now
    return Learned(
        domain=pace.domain,
        strategy=strategy.name,
        adaptive_delay_seconds=strategy.delay_s if strategy.learned else 0.0,
        adaptive_delay_floor_seconds=strategy.floor_s if strategy.learned else 0.0,
        learned_at=utc,
        numbers=strategy.save() if strategy.learned else {},
        blocked_until_at=utc + timedelta(seconds=left_s) if left_s > 0 else None,
    )


def trust(learned: Learned, utc: datetime, settings: PacingSettings) -> float:
    """1 while fresh, a half when older than a week, 0 when it is to be forgotten."""
    age_days = (utc - learned.learned_at).total_seconds() / 86_400
    if age_days >= settings.learned_forget_after:
        return 0.0
    return _HALF if age_days >= settings.learned_half_trust_after else 1.0


def blocked_until(learned: Learned, now: float, utc: datetime) -> float:
    """A block of an earlier run on the clock of this one.

    Wall-clock times are only ever used across a restart, and re-anchored at once.
    """
    until_at = learned.blocked_until_at
    return -math.inf if until_at is None else now + (until_at - utc).total_seconds()


def restore(pace: Pace, learned: Learned, now: float, utc: datetime) -> None:
    """Go on from an earlier run. A known domain begins with its delay of silence: the last run may just have ended."""
    pace.leave_alone(blocked_until(learned, now, utc))
    trusted = trust(learned, utc, pace.bounds.settings)
    if trusted and learned.adaptive_delay_seconds > 0:
        numbers: dict[str, float] = {"delay_s": learned.adaptive_delay_seconds}
        if learned.strategy == pace.strategy.name:
            numbers |= learned.numbers
        pace.strategy.load(numbers, trust=trusted, now=now)
    pace.resume_silently(now)
