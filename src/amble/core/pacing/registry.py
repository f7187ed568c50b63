"""All domains of one shard: made on first use, forgotten when idle, their learning kept. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from amble.core.pacing.bounds import Random, Rulebook
from amble.core.pacing.learned import Learned, blocked_until, learn, restore, worth_keeping
from amble.core.pacing.machine import MachinePace
from amble.core.pacing.pace import NEVER, Pace
from amble.core.pacing.packed import Packed, pack, unpack
from amble.core.pacing.permit import Permit
from amble.core.pacing.settings import PacingSettings

_EVICT_SHARE = 64  # when full, this fraction of the domains goes at once, so that the search for them is rare


class Registry:
    """Not safe for threads by itself: its shard holds the lock."""

    def __init__(
        self,
        settings: PacingSettings,
        random: Random,
        domains_max: int | None = None,
        machine: MachinePace | None = None,
    ) -> None:
        self.settings = settings
        self.domains_max = settings.max_domains if domains_max is None else domains_max
        self.machine = machine  # what the processes of this machine share
        self.evicted = 0
        self.waited_for: Container[str] = ()  # domains that somebody queues for; they are not forgotten meanwhile
        self._rulebook = Rulebook(settings, random)
        self._paces: dict[str, Pace] = {}
        self._known: dict[str, Packed] = {}  # from earlier runs, and of domains evicted in this one
        self._changed: dict[str, float] = {}  # domain -> when its learning was last handed out
        self._unsaved: set[str] = set()  # evicted ones whose learning was not handed out yet
        self._blocked: dict[str, float] = {}  # until when, of domains of earlier runs that were not met yet
        self._asked_s: dict[str, float] = {}  # what robots.txt asks for, of evicted ones
        self._limits_addresses = settings.limits_addresses  # asked with every answer
        self._addresses: dict[str, Pace] = {}
        self._address_of: dict[str, str] = {}  # of evicted domains
        self._swept_at = NEVER

    def __len__(self) -> int:
        return len(self._paces)

    def __iter__(self) -> Iterator[Pace]:
        return iter(self._paces.values())

    def own(self) -> list[Pace]:
        """Those that this crawl was at: all of them, unless others share the registry."""
        return list(self._paces.values())

    def find(self, domain: str) -> Pace | None:
        return self._paces.get(domain)

    def pace(self, domain: str, now: float, utc: datetime) -> Pace:
        """The pace of a domain; a domain unknown to this run starts from what was learned earlier."""
        pace = self._paces.get(domain)
        if pace is None:
            self._make_room(now, utc)
            pace = Pace(domain, self._rulebook.bounds(domain), now)
            if domain in self._asked_s:
                pace.set_crawl_delay(self._asked_s.pop(domain))
            if domain in self._address_of:
                self.share(pace, self._address_of.pop(domain), now)
            known = self._known.get(domain)
            if known is not None:
                pace.leave_alone(self._blocked.pop(domain, NEVER))
                restore(pace, replace(unpack(domain, known), blocked_until_at=None), now, utc)
            self._paces[domain] = pace
            if self.machine is not None:
                pace.machine = self.machine
                if pace.blocked_until > now:
                    self.machine.block(domain, pace.blocked_until)
        return pace

    def share(self, pace: Pace, address: str, now: float) -> None:
        """From now on this domain also keeps to the budget of the address it was found at."""
        if not self._limits_addresses or (pace.shared is not None and pace.shared.domain == address):
            return
        shared = self._addresses.get(address)
        if shared is None:
            shared = self._addresses[address] = Pace(address, self._rulebook.address_bounds, now)
        pace.shared = shared

    def reserve(self, pace: Pace, now: float) -> Permit | float:
        """A permit to send at once, or the instant before which it is no use to ask again."""
        return pace.reserve(now)

    def set_crawl_delay(self, pace: Pace, crawl_delay_s: float | None) -> None:
        """What robots.txt asks for, as far as this crawl has read it."""
        pace.set_crawl_delay(crawl_delay_s)

    def settled(self, pace: Pace) -> None:
        """Something was settled here; see `commons` for who may want to know."""

    def load(self, rows: Iterable[Learned], now: float, utc: datetime) -> None:
        """Take in what earlier runs learned. Of a domain already in use, this run knows better."""
        for learned in rows:
            if learned.domain not in self._paces:
                self._remember(learned, now, utc)

    def _remember(self, learned: Learned, now: float, utc: datetime) -> None:
        self._known[learned.domain] = pack(learned)
        if learned.blocked_until_at is not None:  # on our own clock from now on, whatever becomes of the other one
            self._blocked[learned.domain] = blocked_until(learned, now, utc)

    def learned(self, now: float, utc: datetime) -> list[Learned]:
        """Everything known, of domains in memory and of those evicted or not met in this run."""
        rows = {domain: unpack(domain, row) for domain, row in self._known.items() if domain not in self._paces}
        rows |= {pace.domain: learn(pace, now, utc) for pace in self._paces.values() if worth_keeping(pace, now)}
        return list(rows.values())

    def changed(self, now: float, utc: datetime, *, force: bool) -> list[Learned]:
        """What was learned since it was last handed out; at most once per domain in `save_debounce` unless forced."""
        due_before = now - self.settings.save_debounce
        rows = [unpack(domain, self._known[domain]) for domain in sorted(self._unsaved)]
        self._unsaved.clear()
        for pace in self._paces.values():
            due = force or self._changed.get(pace.domain, NEVER) <= due_before
            if pace.unsaved and due and worth_keeping(pace, now):
                self._changed[pace.domain] = now
                pace.saved()
                rows.append(learn(pace, now, utc))
        return rows

    def lose_flying(self) -> None:
        """Whoever has a permit will never say what came of it."""
        for pace in (*self._paces.values(), *self._addresses.values()):
            pace.lose_flying()

    def sweep(self, now: float, utc: datetime) -> int:
        """Forget domains idle for longer than `domain_state_ttl`; cheap enough to call often. Returns how many."""
        ttl_s = self.settings.domain_state_ttl
        if now - self._swept_at < ttl_s / 2:
            return 0
        self._swept_at = now
        idle = [pace for pace in self._evictable(now) if pace.idle_since() <= now - ttl_s]
        self._evict(idle, now, utc)
        if self._addresses:
            used = {pace.shared.domain for pace in self if pace.shared is not None}
            for name in [name for name, pace in self._addresses.items() if name not in used and pace.evictable(now)]:
                del self._addresses[name]
        return len(idle)

    def _make_room(self, now: float, utc: datetime) -> None:
        if len(self._paces) < self.domains_max:
            return
        count = max(1, self.domains_max // _EVICT_SHARE)
        self._evict(heapq.nsmallest(count, self._evictable(now), key=Pace.idle_since), now, utc)

    def _evictable(self, now: float) -> Iterator[Pace]:
        return (pace for pace in self if pace.evictable(now) and pace.domain not in self.waited_for)

    def _evict(self, paces: list[Pace], now: float, utc: datetime) -> None:
        for pace in paces:
            if pace.strategy.learned:
                self._known[pace.domain] = pack(learn(pace, now, utc))
                if pace.unsaved:
                    self._unsaved.add(pace.domain)
            if pace.bounds.asked_s is not None:
                self._asked_s[pace.domain] = pace.bounds.asked_s
            if pace.shared is not None:
                self._address_of[pace.domain] = pace.shared.domain
            del self._paces[pace.domain]
            self._changed.pop(pace.domain, None)
        self.evicted += len(paces)
