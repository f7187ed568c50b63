"""One budget per domain, whoever crawls it: the paces that all crawls of a process have in common. Pure.

Each crawl has a `Member`, a registry of its own settings over the common paces. Where crawls of one domain differ in
what they were told, the stricter holds while both are there. Not safe for threads: all crawls run on one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import reduce

from amble.core.pacing.bounds import Bounds, Random
from amble.core.pacing.learned import Learned, blocked_until, learn, restore, worth_keeping
from amble.core.pacing.machine import MachinePace
from amble.core.pacing.pace import NEVER, Pace
from amble.core.pacing.packed import Packed, unpack
from amble.core.pacing.permit import Permit
from amble.core.pacing.registry import Registry
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.strategies import make_strategy

AFTER_YOU_S = 0.001  # enough for another crawl to wake up and take its turn


class Turns:
    """Who had the last permit of a domain, and who was refused one since they had theirs."""

    __slots__ = ("last", "refused")

    def __init__(self) -> None:
        self.last: Member | None = None
        self.refused: dict[Member, None] = {}


class Commons:
    """What the members share."""

    def __init__(self) -> None:
        self.paces: dict[str, Pace] = {}
        self.known: dict[str, Packed] = {}
        self.blocked: dict[str, float] = {}  # until when, of domains that nobody has met yet
        self.asked_s: dict[str, float] = {}  # what robots.txt asks for, of evicted domains
        self.addresses: dict[str, Pace] = {}
        self.address_of: dict[str, str] = {}
        self.members: dict[Member, None] = {}
        self._delays: dict[str, dict[Member, float | None]] = {}  # domain -> what each has read in robots.txt
        self._turns: dict[str, Turns] = {}  # of domains that more than one crawls
        self._strictest_of: dict[tuple[Bounds, ...], Bounds] = {}  # few, for any number of domains

    def join(self, settings: PacingSettings, random: Random, machine: MachinePace | None = None) -> Member:
        """A registry for one more crawl; nothing is common before it asks for its first domain."""
        return Member(self, settings, random, machine)

    def bind(self, member: Member, pace: Pace) -> None:
        """From now on this member crawls the domain as well, and its own bounds hold for everybody."""
        self.members[member] = None
        member.domains.add(pace.domain)
        pace.machine = pace.machine or member.machine  # one that shares its pace with other processes is enough
        self._keep(pace, [each.bounds_of(pace.domain) for each in self.crawling(pace.domain)])

    def bind_address(self, member: Member, pace: Pace) -> None:
        member.addresses.add(pace.domain)
        self._keep(pace, [each.address_bounds for each in self.members if pace.domain in each.addresses])

    def crawling(self, domain: str) -> list[Member]:
        """Whose crawls a domain is part of, in the order in which they began."""
        return [member for member in self.members if domain in member.domains]

    def leave(self, member: Member) -> None:
        """A crawl is over: what only it was told does not hold any longer. The paces stay, and so do their blocks."""
        self.members.pop(member, None)
        self._strictest_of.clear()
        for address in member.addresses & self.addresses.keys():
            told = [each.address_bounds for each in self.members if address in each.addresses]
            if told:
                self._keep(self.addresses[address], told)
        for domain in member.domains:
            self._turns.pop(domain, None)
            pace, others = self.paces.get(domain), self.crawling(domain)
            if pace is None or not others:
                self._delays.pop(domain, None)
                continue
            self._keep(pace, [each.bounds_of(domain) for each in others])
            if self._delays.get(domain, {}).pop(member, None) is not None:
                self._slow_to_longest(pace)
            self.tell(member, pace)  # there may be more room now

    def reserve(self, member: Member, pace: Pace, now: float) -> Permit | float:
        """Crawls take turns: whoever had the last permit lets those go first who were refused one since."""
        if len(self.members) < 2 or len(self.crawling(pace.domain)) < 2:
            return pace.reserve(now)
        turns = self._turns.setdefault(pace.domain, Turns())
        others = [other for other in turns.refused if other is not member]
        if turns.last is member and others and pace.ready(now):
            turns.refused.clear()  # once: whoever does not come now has other things to do
            for other in others:
                other.on_settled(pace)
            return now + AFTER_YOU_S
        got = pace.reserve(now)
        if isinstance(got, Permit):
            turns.last = member
            turns.refused.pop(member, None)
        else:
            turns.refused[member] = None
        return got

    def ask_delay(self, member: Member, pace: Pace, crawl_delay_s: float | None) -> None:
        """Robots.txt may ask one crawler for more than the other: the longest delay holds for both."""
        self._delays.setdefault(pace.domain, {})[member] = crawl_delay_s
        self._slow_to_longest(pace)
        self.tell(member, pace)

    def _slow_to_longest(self, pace: Pace) -> None:
        delays = self._delays.get(pace.domain, {}).values()
        pace.set_crawl_delay(max((delay_s for delay_s in delays if delay_s is not None), default=None))

    def tell(self, member: Member, pace: Pace) -> None:
        """Something was settled here: others may have waited for it, at this domain or at the address it shares."""
        if not self.members or (len(self.members) == 1 and member in self.members):
            return
        for other in tuple(self.members if pace.shared is not None else self.crawling(pace.domain)):
            if other is not member:
                other.on_settled(pace)

    def note_unsaved(self) -> None:
        """What was learned is worth keeping for each crawl that was there, in whatever file it keeps it."""
        for pace in self.paces.values():
            if pace.unsaved:
                pace.saved()
                for member in self.crawling(pace.domain):
                    member.to_save.add(pace.domain)

    def held(self, domain: str) -> bool:
        """Whether any crawl queues for a domain."""
        return any(domain in member.waited_for for member in self.members)

    def forget(self, domain: str) -> None:
        self._delays.pop(domain, None)
        self._turns.pop(domain, None)
        for member in self.members:
            member.domains.discard(domain)

    def _keep(self, pace: Pace, told: list[Bounds]) -> None:
        """Bind a pace by the strictest of what was told."""
        strictest = self._strictest(tuple(told))
        if pace.bounds.same(strictest) and pace.strategy.name == strictest.strategy:
            return
        if pace.block is None:  # a block is closed by the strategy that it was opened under
            _hand_over(pace, strictest)
        asked_s, pace.bounds = pace.bounds.asked_s, strictest
        pace.set_crawl_delay(asked_s)

    def _strictest(self, every: tuple[Bounds, ...]) -> Bounds:
        """All of them together. The strategy is that of whoever came first and learns."""
        found = self._strictest_of.get(every)
        if found is None:
            learning_first = sorted(every, key=lambda bounds: bounds.strategy == "fixed")
            found = reduce(Bounds.stricter, learning_first)
            self._strictest_of[every] = found
        return found


class Member(Registry):
    """One crawl's view of the common paces: its own settings, its own list of what it has not saved yet."""

    def __init__(
        self, commons: Commons, settings: PacingSettings, random: Random, machine: MachinePace | None = None
    ) -> None:
        super().__init__(settings, random, machine=machine)
        self._commons = commons
        self._paces, self._known, self._asked_s = commons.paces, commons.known, commons.asked_s
        self._addresses, self._address_of = commons.addresses, commons.address_of
        self._blocked = commons.blocked
        self.domains: set[str] = set()  # that this crawl has met
        self.addresses: set[str] = set()
        self.bounds_of = self._rulebook.bounds
        self.address_bounds = self._rulebook.address_bounds
        self.to_save: set[str] = set()
        self.on_settled: Callable[[Pace], None] = lambda pace: None  # another crawl settled something

    def pace(self, domain: str, now: float, utc: datetime) -> Pace:
        pace = super().pace(domain, now, utc)
        self._commons.bind(self, pace)
        return pace

    def share(self, pace: Pace, address: str, now: float) -> None:
        super().share(pace, address, now)
        if self._limits_addresses and pace.shared is not None:
            self._commons.bind_address(self, pace.shared)

    def load(self, rows: Iterable[Learned], now: float, utc: datetime) -> None:
        """Of two files the newer row holds; of a domain in use, what this process has learned itself."""
        for row in rows:
            pace = self._paces.get(row.domain)
            if pace is None:
                known = self._known.get(row.domain)
                if known is None or unpack(row.domain, known).learned_at < row.learned_at:
                    self._remember(row, now, utc)
            elif pace.flying is None and not pace.strategy.learned:
                restore(pace, row, now, utc)
            elif row.blocked_until_at is not None:
                pace.leave_alone(blocked_until(row, now, utc))

    def changed(self, now: float, utc: datetime, *, force: bool) -> list[Learned]:
        self._commons.note_unsaved()
        rows = []
        for domain in sorted(self.to_save):
            due = force or now - self._changed.get(domain, NEVER) >= self.settings.save_debounce
            pace = self._paces.get(domain)
            if due and (pace is None or worth_keeping(pace, now)):
                self.to_save.discard(domain)
                self._changed[domain] = now
                if pace is not None:
                    rows.append(learn(pace, now, utc))
                elif domain in self._known:  # else there was but a pause, which is over
                    rows.append(unpack(domain, self._known[domain]))
        return rows

    def own(self) -> list[Pace]:
        return [pace for pace in self._paces.values() if pace.domain in self.domains]

    def reserve(self, pace: Pace, now: float) -> Permit | float:
        return self._commons.reserve(self, pace, now)

    def set_crawl_delay(self, pace: Pace, crawl_delay_s: float | None) -> None:
        self._commons.ask_delay(self, pace, crawl_delay_s)

    def settled(self, pace: Pace) -> None:
        self._commons.tell(self, pace)

    def leave(self) -> None:
        self._commons.leave(self)

    def _evictable(self, now: float) -> Iterator[Pace]:
        return (pace for pace in self if pace.evictable(now) and not self._commons.held(pace.domain))

    def _evict(self, paces: list[Pace], now: float, utc: datetime) -> None:
        self._commons.note_unsaved()
        super()._evict(paces, now, utc)
        for pace in paces:
            self._commons.forget(pace.domain)


def _hand_over(pace: Pace, bounds: Bounds) -> None:
    """To the strategy of these bounds, which goes on from the delay in force."""
    was = pace.strategy
    if was.name == bounds.strategy == "gauge":
        return  # its settings are the first crawl's, and it knows more than it would save
    pace.strategy = make_strategy(bounds.strategy, bounds.settings)
    if was.learned:
        numbers = {"delay_s": was.delay_s}
        numbers |= was.save() if was.name == pace.strategy.name else {}
        pace.strategy.load(numbers, trust=1.0, now=pace.idle_since())
