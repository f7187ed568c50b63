"""One lock and the domains behind it: who is next at each domain, first come first served."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from datetime import datetime

from amble.core.answer import Answer
from amble.core.pacing.bounds import Random
from amble.core.pacing.events import Event
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Permit
from amble.core.pacing.registry import Registry
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.snapshot import Totals
from amble.limiter.waiters import Waiter


class Shard:
    """Callers hold `lock` around every method. Nothing here blocks, sleeps or calls out."""

    def __init__(self, settings: PacingSettings, random: Random, domains_max: int) -> None:
        self.lock = threading.Lock()
        self.registry = Registry(settings, random, domains_max)
        self.totals = Totals()
        self.queues: dict[str, deque[Waiter]] = {}

    def reserve(self, pace: Pace, now: float, waiter: Waiter | None = None) -> Permit | float:
        """A permit for whoever is first at this domain; anyone else is told to wait for a word."""
        queue = self.queues.get(pace.domain)
        if queue is not None and queue[0] is not waiter:
            return float("inf")
        got = pace.reserve(now)
        if isinstance(got, Permit):
            self.totals.requests += 1
        elif waiter is not None:
            waiter.on_settle = now >= pace.not_before
        return got

    def join(self, domain: str, waiter: Waiter) -> None:
        self.queues.setdefault(domain, deque()).append(waiter)

    def leave(self, domain: str, waiter: Waiter) -> None:
        """Served or gone: whoever is now first looks for itself, and nobody else is woken."""
        queue = self.queues[domain]
        was_first = queue[0] is waiter
        queue.remove(waiter)
        if not queue:
            del self.queues[domain]
        elif was_first:
            queue[0].wake()

    def settle(self, pace: Pace, permit: Permit, answer: Answer, now: float, utc: datetime) -> Sequence[Event]:
        successes, trouble = pace.successes, pace.troubles
        limited, failures = trouble.limited, trouble.failures
        events = pace.settle(permit, answer, now)
        totals, trouble = self.totals, pace.troubles
        totals.successes += pace.successes - successes
        totals.limited += trouble.limited - limited
        totals.failures += trouble.failures - failures
        self._tell_first(pace)
        self.registry.sweep(now, utc)
        return events

    def cancel(self, pace: Pace, permit: Permit) -> None:
        pace.cancel(permit)
        self._tell_first(pace, always=True)

    def _tell_first(self, pace: Pace, *, always: bool = False) -> None:
        """A slot is free, the circuit opened, or a turn was given back: that concerns the first in the queue only."""
        queue = self.queues.get(pace.domain)
        if queue is not None and (always or queue[0].on_settle or pace.circuit != "closed"):
            queue[0].wake()
