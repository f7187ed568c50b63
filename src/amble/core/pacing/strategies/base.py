"""What a strategy is: it proposes a delay and learns from what the shell tells it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from amble.core.pacing.block import Block
from amble.core.pacing.permit import Permit
from amble.core.pacing.phase import PacePhase

LONGEST_PAUSE_S = 300.0
ALONE_S = 1.0  # so long a first request may hold up the second


class Strategy:
    """Proposes a delay between request starts; the shell may be slower, never faster.

    `delay_s` is the pace as learned and shown; `gap_s` is what must pass after the last start, which is the same
    unless the strategy has burst credit; `parallel` caps requests at once where there is reason to; while `alone` is
    set, a domain that was just met is asked for one thing at a time; `note` is the reason of the last decision, for
    the event that reports it.
    """

    __slots__ = ("alone", "delay_s", "gap_s", "note", "parallel")

    name: ClassVar[str]
    counts_sends: ClassVar[bool] = False  # whether on_send has anything to do, and may change the gap

    def __init__(self) -> None:
        self.delay_s = self.gap_s = 0.0
        self.parallel: int | None = None
        self.alone = False
        self.note = "start"

    @property
    def floor_s(self) -> float:
        """Shortest delay not known to be too short."""
        return 0.0

    @property
    def pace_phase(self) -> PacePhase:
        """Where its own delay binds: finding out, at what it found, or at a constant."""
        return PacePhase.AT_LIMIT if self.learned else PacePhase.SET

    @property
    def learned(self) -> bool:
        """Whether there is anything worth keeping for the next run."""
        return False

    def propose(self, delay_s: float, reason: str) -> None:
        self.delay_s = self.gap_s = delay_s
        self.note = reason

    def limit_to(self, gap_s: float, bursts: bool) -> None:
        """The shell's own shortest gap; no rate beyond it need be tried. Bursts only where no crawl delay exists."""

    def end_alone(self) -> None:
        """The only request under way takes too long to wait for."""
        self.alone = False

    def on_send(self, permit: Permit) -> None:
        """A request starts."""

    def on_cancel(self, permit: Permit) -> None:
        """It did not start after all."""

    def on_ok(
        self, permit: Permit, latency_s: float | None, usual_s: float | None, in_flight: int, now: float
    ) -> float:
        """An answer in time; `usual_s` is the domain's moving average. Returns seconds in which to send nothing."""
        return 0.0

    def on_failed(self, permit: Permit, now: float) -> None:
        """No answer, or an error of the server's."""

    def on_quota(self, gap_s: float) -> None:
        """The server stated its limit: with such a gap what is left is spent."""

    def on_block(self, block: Block, now: float) -> float:
        """A block opened. Returns the pause before the first trial where the server named none."""
        return max(1.0, self.delay_s)

    def on_refused(self, block: Block, now: float) -> float:
        """The trial was refused as well. Returns the next pause."""
        return min(2 * block.pause_s, LONGEST_PAUSE_S)

    def on_close(self, block: Block, probe: Permit, now: float) -> None:
        """The trial succeeded."""

    def on_outage(self, pause_s: float) -> None:
        """Nothing was sent for a while for reasons that say nothing about the server's limit."""

    def save(self) -> dict[str, float]:
        """The few numbers worth keeping."""
        return {}

    def load(self, numbers: Mapping[str, float], *, trust: float, now: float) -> None:
        """Go on from saved numbers; trust 1 is fresh, 0.5 old."""
