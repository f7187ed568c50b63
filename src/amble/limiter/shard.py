"""One lock and the domains behind it: who is next at each domain, first come first served."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from datetime import datetime

from amble.core.answer import Answer
from amble.core.pacing.bounds import Random
from amble.core.pacing.events import CircuitOpened, Event, PermitLost
from amble.core.pacing.machine import MachinePace
from amble.core.pacing.pace import NEVER, Pace
from amble.core.pacing.permit import ISSUED, Permit
from amble.core.pacing.registry import Registry
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.snapshot import Totals
from amble.limiter.lines import Lines
from amble.limiter.waiters import Waiter

_SOONER = 0.1  # a turn that comes earlier by less than this share of the gap is not worth waking anybody for


_shards: weakref.WeakSet[Shard] = weakref.WeakSet()
_forking = threading.Lock()


class Shard:
    """Callers hold `lock` around every method. Nothing here blocks, sleeps or calls out."""

    def __init__(
        self, settings: PacingSettings, random: Random, domains_max: int, machine: MachinePace | None = None
    ) -> None:
        # Reentrant: letting go of a waiter may end its coroutine, which then leaves the queue on this very thread.
        self.lock = threading.RLock()
        self.registry = Registry(settings, random, domains_max, machine)
        self.totals = Totals()
        self.queues: dict[str, deque[Waiter]] = {}
        self.lines = Lines()
        self.registry.waited_for = self.queues
        _shards.add(self)

    def after_fork(self) -> None:
        """In a child of the process that made it: whoever held the lock, waits here or has a permit is not here."""
        self.lock = threading.RLock()
        self.queues.clear()
        self.lines = Lines()
        self.registry.lose_flying()

    def reserve(self, pace: Pace, now: float, waiter: Waiter | None = None) -> Permit | float:
        """A permit for whoever is first at this domain; anyone else is told to wait for a word."""
        first = self._first(pace.domain)
        if first is not None and first is not waiter:
            return float("inf")
        if pace.shared is not None and not self._is_next_at_address(pace, pace.shared.domain, now, waiter):
            return float("inf")
        got = pace.reserve(now)
        if isinstance(got, Permit):
            self.totals.requests += 1
        elif waiter is not None:
            waiter.on_settle = now >= pace.not_before
        return got

    def _is_next_at_address(self, pace: Pace, address: str, now: float, waiter: Waiter | None) -> bool:
        """Whether nobody of another domain has waited longer for this address. A domain held up by itself may look."""
        if not pace.ready(now):
            if waiter is not None:
                self.lines.leave(waiter)
            return True
        if waiter is not None:
            self.lines.join(address, waiter)
        head = self.lines.head(address)
        return head is None or head is waiter

    def join(self, domain: str, waiter: Waiter) -> None:
        self.queues.setdefault(domain, deque()).append(waiter)

    def leave(self, domain: str, waiter: Waiter) -> None:
        """Served or gone: whoever is now first looks for itself, and nobody else is woken."""
        self.lines.leave(waiter)
        queue = self.queues.get(domain)
        if queue is None or waiter not in queue:
            return
        was_first = queue[0] is waiter
        queue.remove(waiter)
        if not queue:
            del self.queues[domain]
        elif was_first:
            self.tell_first(domain)

    def settle(self, pace: Pace, permit: Permit, answer: Answer, now: float, utc: datetime) -> Sequence[Event]:
        """Take in an answer; whoever waits here is told what concerns them. Returns what changed."""
        queue = self.queues.get(pace.domain)
        not_before = pace.not_before if queue else NEVER
        successes, trouble = pace.successes, pace.trouble
        limited, failures = (trouble.limited, trouble.failures) if trouble else (0, 0)
        events = pace.settle(permit, answer, now)
        totals, trouble = self.totals, pace.trouble
        totals.successes += pace.successes - successes
        if trouble:
            totals.limited += trouble.limited - limited
            totals.failures += trouble.failures - failures
        if queue:
            self._tell_impatient(queue, events)
            if queue[0].on_settle or not_before - pace.not_before > _SOONER * pace.gap_s:
                self.tell_first(pace.domain)
        if permit.holder is not None:
            self.lines.tell(permit.holder.domain)
        self.registry.sweep(now, utc)
        return self._counted(events)

    def cancel(self, pace: Pace, permit: Permit) -> None:
        self.totals.requests -= permit.state is ISSUED
        pace.cancel(permit)
        self.tell_first(pace.domain)
        if permit.holder is not None:
            self.lines.tell(permit.holder.domain)

    def take_events(self, pace: Pace) -> Sequence[Event]:
        """What happened while asking, not yet told to anybody: a permit was lost, a circuit is on trial."""
        events = pace.take_events()
        address = pace.shared
        if address is not None and address.events:
            events = (*events, *address.take_events())
        if events and pace.domain in self.queues:
            self._tell_impatient(self.queues[pace.domain], events)
        return self._counted(events)

    def tell_first(self, domain: str) -> None:
        """A slot is free, or the turn comes sooner: that concerns the first in the queue only."""
        first = self._first(domain)
        if first is not None:
            first.wake()

    def _first(self, domain: str) -> Waiter | None:
        """Who is next. Those whose event loop is gone will never be."""
        queue = self.queues.get(domain)
        if queue is None:
            return None
        while queue and queue[0].gone:
            queue.popleft()
        if queue:
            return queue[0]
        self.queues.pop(domain, None)
        return None

    @staticmethod
    def _tell_impatient(queue: deque[Waiter], events: Sequence[Event]) -> None:
        """The circuit opened: those who do not wait for a failing domain leave at once, wherever they stand."""
        if any(isinstance(event, CircuitOpened) for event in events):
            for waiter in tuple(queue):
                if not waiter.wait_if_open:
                    waiter.wake()

    def _counted(self, events: Sequence[Event]) -> Sequence[Event]:
        for event in events:
            self.totals.lost += isinstance(event, PermitLost)
        return events


_held: list[Shard] = []


def _before_fork() -> None:
    """A child begins with what lies in memory: no thread may be in the midst of changing it."""
    _forking.acquire()
    _held.extend(sorted(_shards, key=id))
    for shard in _held:
        shard.lock.acquire()


def _after_in_parent() -> None:
    for shard in _held:
        shard.lock.release()
    _held.clear()
    _forking.release()


def _after_in_child() -> None:
    global _forking
    _forking = threading.Lock()
    for shard in _held:
        shard.after_fork()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
