"""The pacing core for asyncio and threads: one budget per domain, whoever asks, turns in order of asking."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any
from zlib import crc32

from amble.clock import Clock, SystemClock
from amble.core.pacing.bounds import Random
from amble.core.pacing.events import Event
from amble.core.pacing.learned import Learned
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Permit
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.snapshot import DomainSnapshot, LimiterSnapshot, Totals, busiest, snapshot_domain
from amble.core.urls import domain_of
from amble.errors import CircuitOpen, SettingsError, TooLate
from amble.limiter.handle import IssuedPermit
from amble.limiter.shard import Shard
from amble.limiter.waiters import TaskWaiter, ThreadWaiter, Waiter
from amble.machine_pace import machine_pace
from amble.pace_log import log, log_changes

Listener = Callable[[Event], None]


class Limiter:
    """Says when a domain may be asked, and learns from every answer how fast.

    Settings are those of `PacingSettings`, by name. One limiter serves any number of tasks, threads and domains.
    """

    def __init__(
        self,
        settings: PacingSettings | None = None,
        *,
        clock: Clock | None = None,
        random: Random = random.random,
        listeners: Iterable[Listener] = (),
        **named: Any,
    ) -> None:
        if settings is not None and named:
            raise SettingsError("settings were given twice", hint="pass PacingSettings or single settings, not both")
        self.settings = settings or PacingSettings(**named)
        self.clock: Clock = clock or SystemClock()
        self._listeners = list(listeners)
        for name, why in self.settings.idle():
            log.warning("%s does nothing: %s", name, why)
        # Domains that share an address share a budget, so they must share a lock.
        shards = 1 if self.settings.limits_addresses else self.settings.shards
        domains_max = max(1, self.settings.max_domains // shards)
        machine = machine_pace(self.settings, self.clock)
        self._shards = [Shard(self.settings, random, domains_max, machine) for _ in range(shards)]

    # -- asking for a turn

    def permit(
        self, url: str, *, deadline_s: float | None = None, wait_if_open: bool = False, attempt: int = 1
    ) -> PermitRequest:
        """`async with limiter.permit(url) as permit:` or `permit = await limiter.permit(url)`: waits its turn.

        Raises `CircuitOpen` while the domain fails (unless `wait_if_open`), `TooLate` when the turn would come only
        after `deadline_s` seconds. `attempt` above 1 counts as a retry.
        """
        return PermitRequest(self, url, deadline_s, wait_if_open, attempt)

    def permit_sync(
        self, url: str, *, deadline_s: float | None = None, wait_if_open: bool = False, attempt: int = 1
    ) -> IssuedPermit:
        """The same for threads: `with limiter.permit_sync(url) as permit:`."""
        turn = _Turn(self, url, deadline_s, wait_if_open, attempt)
        issued = turn.look()
        if issued is not None:
            return issued
        waiter = ThreadWaiter(wait_if_open)
        turn.join(waiter)
        try:
            while (issued := turn.look(waiter)) is None:
                waiter.wait(turn.timeout_s)
            return issued
        finally:
            turn.leave(waiter)

    def try_permit(self, url: str, *, attempt: int = 1) -> IssuedPermit | None:
        """A permit if one is to be had at once, else None. Overtakes nobody who waits."""
        return _Turn(self, url, None, True, attempt).look()

    def not_before(self, url: str) -> float:
        """The monotonic instant before which nothing will be granted; in the past when the domain is free."""
        shard, domain = self._shard_of(url)
        with shard.lock:
            pace = shard.registry.find(domain)
            return self.clock.monotonic() if pace is None else pace.not_before

    def set_crawl_delay(self, url: str, crawl_delay_s: float | None) -> None:
        """What the domain's robots.txt asks for; None where it asks for nothing."""
        if crawl_delay_s is not None and not 0 <= crawl_delay_s < float("inf"):
            raise SettingsError(f"crawl delay {crawl_delay_s!r} is no duration", hint="pass seconds, or None for none")
        shard, domain = self._shard_of(url)
        with shard.lock:
            pace = shard.registry.pace(domain, self.clock.monotonic(), self.clock.utc())
            pace.set_crawl_delay(crawl_delay_s)
            shard.tell_first(domain)
            events = shard.take_events(pace)
        self.tell(events)

    def set_address(self, url: str, address: str) -> None:
        """The IP address a domain was found at; with `max_parallel_per_address` or `min_address_delay` it counts."""
        shard, domain = self._shard_of(url)
        with shard.lock:
            now = self.clock.monotonic()
            shard.registry.share(shard.registry.pace(domain, now, self.clock.utc()), address, now)
            shard.tell_first(domain)

    # -- what was learned

    def save(self) -> list[dict[str, Any]]:
        """Everything learned, as plain rows for JSON or a table."""
        return [row.as_row() for shard, now, utc in self._each() for row in shard.registry.learned(now, utc)]

    def changed(self, *, force: bool = False) -> list[dict[str, Any]]:
        """Rows that changed since they were last handed out; a domain at most every `save_debounce` unless forced."""
        return [
            row.as_row() for shard, now, utc in self._each() for row in shard.registry.changed(now, utc, force=force)
        ]

    def load(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Go on from rows that `save` or `changed` returned; older ones are trusted less, very old ones forgotten."""
        now, utc = self.clock.monotonic(), self.clock.utc()
        for row in rows:
            learned = Learned.from_row(row)
            shard, domain = self._shard_of(learned.domain)
            if learned.domain != domain:
                learned = replace(learned, domain=domain)
            with shard.lock:
                shard.registry.load((learned,), now, utc)

    # -- what happens

    def listen(self, listener: Listener) -> None:
        """Be told of every change of pace, block and circuit, on whatever thread it happened."""
        self._listeners.append(listener)

    def tell(self, events: Sequence[Event]) -> None:
        log_changes(events)
        for event in events:
            for listener in self._listeners:
                try:
                    listener(event)
                except Exception:
                    log.exception("a listener failed on %r", event)

    def snapshot(self, top: int = 20) -> LimiterSnapshot:
        """Totals, and the `top` busiest domains with what binds each."""
        totals, domains, counts = Totals(), list[DomainSnapshot](), dict.fromkeys(_COUNTS, 0)
        for shard, now, _ in self._each():
            totals.add(shard.totals)
            counts["domains_known"] += len(shard.registry)
            counts["domains_evicted"] += shard.registry.evicted
            counts["waiting"] += sum(map(len, shard.queues.values()))
            for pace in shard.registry:
                counts["open_circuits"] += pace.circuit == "open"
                counts["half_open_circuits"] += pace.circuit == "half_open"
                counts["blocked"] += pace.blocked_until > now
                counts["in_flight"] += pace.in_flight
            for pace in busiest(shard.registry, top):
                domains.append(snapshot_domain(pace, now, len(shard.queues.get(pace.domain, ()))))
        domains.sort(key=lambda domain: (-domain.requests, domain.domain))
        named = {name: getattr(totals, name) for name in totals.__slots__}
        return LimiterSnapshot(**named, **counts, domains=tuple(domains[:top]))

    # -- inside

    def _shard_of(self, url: str) -> tuple[Shard, str]:
        domain = domain_of(url)
        return self._shards[crc32(domain.encode()) & (len(self._shards) - 1)], domain

    def _each(self) -> Iterable[tuple[Shard, float, Any]]:
        for shard in self._shards:
            with shard.lock:
                yield shard, self.clock.monotonic(), self.clock.utc()


_COUNTS = (
    "domains_known", "domains_evicted", "open_circuits", "half_open_circuits", "blocked", "waiting", "in_flight"
)  # fmt: skip


class _Turn:
    """One caller's wish for a permit, from asking to having it."""

    __slots__ = ("_asked_at", "_attempt", "_deadline", "_domain", "_limiter", "_shard", "timeout_s", "wait_if_open")

    def __init__(self, limiter: Limiter, url: str, deadline_s: float | None, wait_if_open: bool, attempt: int) -> None:
        if deadline_s is not None and not deadline_s >= 0:
            raise SettingsError(f"deadline_s = {deadline_s!r} is no duration", hint="pass seconds, or None to wait")
        self._limiter = limiter
        self._shard, self._domain = limiter._shard_of(url)
        self._asked_at = limiter.clock.monotonic()
        self._deadline = None if deadline_s is None else self._asked_at + deadline_s
        self.wait_if_open = wait_if_open
        self._attempt = attempt
        self.timeout_s: float | None = None

    def join(self, waiter: Waiter) -> None:
        with self._shard.lock:
            self._shard.totals.throttled += 1
            self._shard.join(self._domain, waiter)

    def leave(self, waiter: Waiter) -> None:
        with self._shard.lock:
            self._shard.leave(self._domain, waiter)

    def look(self, waiter: TaskWaiter | ThreadWaiter | None = None) -> IssuedPermit | None:
        """Try; on None a waiter waits for `timeout_s` at most, having been armed before the lock was let go."""
        shard, clock = self._shard, self._limiter.clock
        with shard.lock:
            now = clock.monotonic()
            # Looked up each time: what is not in the registry any more is nobody's pace.
            pace = shard.registry.find(self._domain) or shard.registry.pace(self._domain, now, clock.utc())
            issued = self._reserve(pace, now, waiter)
            if issued is None and waiter is not None:
                waiter.arm()
            events = shard.take_events(pace) if pace.events or pace.shared is not None else ()
        if events:
            self._limiter.tell(events)
        return issued

    def _reserve(self, pace: Pace, now: float, waiter: Waiter | None) -> IssuedPermit | None:
        shard = self._shard
        trouble = pace.trouble
        if trouble is not None and now < trouble.blocked_until and pace.circuit == "open" and not self.wait_if_open:
            shard.totals.denied += 1
            wait_s = trouble.blocked_until - now
            raise CircuitOpen(
                f"{pace.domain} keeps failing; not asked for another {wait_s:.1f} s",
                domain=pace.domain,
                wait_s=wait_s,
                hint="try another domain meanwhile, or pass wait_if_open=True to wait",
            )
        got = shard.reserve(pace, now, waiter)
        if isinstance(got, Permit):
            shard.totals.retries += self._attempt > 1
            shard.totals.waited_s += now - self._asked_at
            return IssuedPermit(self._limiter.clock, self._limiter.tell, shard, pace, got, now - self._asked_at)
        self._refuse_if_too_late(pace, now)
        ends = [instant for instant in (got, self._deadline) if instant is not None and instant != float("inf")]
        self.timeout_s = max(0.0, min(ends) - now) if ends else None
        return None

    def _refuse_if_too_late(self, pace: Pace, now: float) -> None:
        if self._deadline is not None and (now >= self._deadline or pace.not_before > self._deadline):
            self._shard.totals.denied += 1
            wait_s = max(0.0, pace.not_before - now)
            raise TooLate(
                f"{pace.domain} may be asked in {wait_s:.1f} s at the earliest, past the deadline",
                domain=pace.domain,
                wait_s=wait_s,
                hint="allow a longer deadline_s, or come back later",
            )


class PermitRequest:
    """What `Limiter.permit` returns: await it, or enter it with `async with`."""

    __slots__ = ("_arguments", "_issued")

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments
        self._issued: IssuedPermit | None = None

    def __await__(self) -> Any:
        return self._wait().__await__()

    async def __aenter__(self) -> IssuedPermit:
        self._issued = await self._wait()
        return self._issued

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._issued is not None:
            self._issued._leave(error)

    async def _wait(self) -> IssuedPermit:
        turn = _Turn(*self._arguments)
        issued = turn.look()
        if issued is not None:
            return issued
        waiter = TaskWaiter(turn.wait_if_open)
        turn.join(waiter)
        try:
            while (issued := turn.look(waiter)) is None:
                await waiter.wait(turn.timeout_s)
            return issued
        finally:
            # Also on cancellation: the place in the queue is given up, and whoever is next takes over.
            turn.leave(waiter)
