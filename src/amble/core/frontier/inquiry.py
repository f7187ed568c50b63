"""Whom to ask, when nearly everything fails, whether the network still works; and what their answers say. Pure.

Sites that answered earlier in this run are asked by the way that fails now: where names fail, their names are looked up
anew; where connects fail, over new connections. If one of them gets through, those that fail have trouble of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from amble.core.frontier.visit import Visit
from amble.core.pacing.permit import Permit
from amble.core.sites import site_of

ASKED_MAX = 3  # at once
REMEMBERED_MAX = 256  # who answered last
ASK_WITHIN_S = 5.0  # whoever may not be asked within this is left out
RECENT_S = 2.0  # a silence shows late: whoever connected no longer before it was asked got through it
ANSWER_WITHIN_S = 15.0  # longer than a connect takes to time out; what comes later ends an outage as well


class Way(NamedTuple):
    """Where requests fail: whoever is asked must pass there, too."""

    new_name: bool
    new_connection: bool

    def taken_by(self, visit: Visit) -> Visit:
        """The same visit, so that it fails as others do if it is the network that fails."""
        return visit._replace(
            new_name=visit.new_name or self.new_name,
            new_connection=visit.new_connection or self.new_connection,
        )


class Finding(Enum):
    """What is known so far."""

    OPEN = "open"
    UP = "up"
    DOWN = "down"
    NOBODY = "nobody"  # could be asked


class Witness(NamedTuple):
    """A domain that has answered in this run."""

    origin: str
    asked: int = 0  # how often it was


class Inquiry:
    """One question at a time, to a few at once."""

    def __init__(self) -> None:
        self.is_open = False
        self._witnesses: dict[str, Witness] = {}  # by domain; who answered last stands last
        self._way = Way(new_name=False, new_connection=False)
        self._to_ask: list[str] = []  # origins
        self._choice: Iterator[str] = iter(())  # of further ones, in place of those that cannot be asked after all
        self._asked: set[Permit] = set()  # whose answer is still to come
        self._overheard: set[Permit] = set()  # requests that were under way already, of those who cannot be asked now
        self._failed = 0
        self._opened_at = self._until = 0.0
        self._counts_from = 0.0  # what was begun before may have been connected while all was well
        self._has_room = False  # somebody could have been asked: not every place was taken

    def remember(self, domain: str, origin: str) -> None:
        """This one answered just now."""
        witnesses = self._witnesses
        known = witnesses.pop(domain, None)
        if known is None or known.origin != origin:  # rarely: this is done for every answer
            known = Witness(origin, 0 if known is None else known.asked)
        witnesses[domain] = known
        if len(witnesses) > REMEMBERED_MAX:
            del witnesses[next(iter(witnesses))]

    def open(
        self, way: Way, failing: Container[str], can_be_asked: Callable[[str], bool], now: float,
        under_way: Callable[[str], Permit | None] = lambda domain: None, *, all_silent: bool = False,
    ) -> None:  # fmt: skip
        """Choose whom to ask: of each site one, rather those that do not fail themselves, and not always the same.
        Where nobody is left to be asked, one with a request `under_way` is heard instead; it may hang by itself.
        `all_silent`: nobody was refused, or lied to."""
        self.is_open, self._way, self._until, self._opened_at = True, way, now + ASK_WITHIN_S, now
        self._counts_from = now - RECENT_S if all_silent else now
        self._has_room = False
        self._asked, self._overheard, self._failed, self._to_ask = set(), set(), 0, []
        self._choice = self._choose(self._by_worth(failing, under_way), can_be_asked, under_way)
        for _ in range(ASKED_MAX):
            next(self._choice, None)

    def _choose(
        self, domains: Iterable[str], can_be_asked: Callable[[str], bool], under_way: Callable[[str], Permit | None]
    ) -> Iterator[str]:
        """One more at each step."""
        sites: set[str] = set()
        for domain in domains:
            site = site_of(domain)
            if site in sites:
                continue
            if (permit := under_way(domain)) is not None:
                self._overheard.add(permit)
                self._until = self._opened_at + ANSWER_WITHIN_S
            elif can_be_asked(domain):
                witness = self._witnesses[domain]
                self._witnesses[domain] = witness._replace(asked=witness.asked + 1)
                self._to_ask.append(witness.origin)
            else:
                continue
            sites.add(site)
            yield domain

    def _by_worth(self, failing: Container[str], under_way: Callable[[str], Permit | None]) -> Iterable[str]:
        latest_first = list(reversed(self._witnesses.items()))
        latest_first.sort(key=lambda one: (one[0] in failing, under_way(one[0]) is not None, one[1].asked))
        return [domain for domain, _ in latest_first]

    # -- asking

    def look(self, now: float) -> list[str]:
        """There is room for a request. Origins that are still to be asked, by `until` if there was none before."""
        if not self._has_room:
            self._has_room, self._until = True, max(self._until, now + ASK_WITHIN_S)
        return self.to_ask

    @property
    def to_ask(self) -> list[str]:
        """Origins that are still to be asked."""
        return list(self._to_ask)

    def leave_out(self, origin: str) -> None:
        """It cannot be asked after all; another is, if there is one."""
        self._to_ask.remove(origin)
        next(self._choice, None)

    def sent(self, origin: str, permit: Permit, visit: Visit, now: float) -> Visit:
        """This one is asked now. Returns its visit, by the way that fails."""
        self._to_ask.remove(origin)
        self._asked.add(permit)
        self._until = now + ANSWER_WITHIN_S
        return self._way.taken_by(visit)._replace(asks_network=True)

    # -- hearing

    def takes(self, permit: Permit) -> bool:
        """Whether this is the answer to the question."""
        return self.is_open and (permit in self._asked or permit in self._overheard)

    def answered(self, permit: Permit, now: float, *, begun_at: float, got_through: bool, reused: bool = False) -> None:
        """One of those who were asked has answered, or could not. What was under way already may have got through by a
        name or a connection from before, and then says nothing; but now its domain can be asked."""
        is_old = reused or self._way.new_name or begun_at < self._counts_from
        known_before = permit in self._overheard and is_old
        self.drop(permit)
        if got_through and known_before:
            if (witness := self._witnesses.get(permit.domain)) is not None:
                self._to_ask.append(witness.origin)
            self._until = max(self._until, now + ASK_WITHIN_S)
            return
        if got_through:
            self._failed = -ASKED_MAX  # one suffices
        else:
            self._failed += 1

    def drop(self, permit: Permit) -> None:
        """Nothing will come of this request, and that says nothing."""
        self._asked.discard(permit)
        self._overheard.discard(permit)

    def finding(self, now: float) -> Finding:
        """What the answers amount to, as far as they have come."""
        if self._failed < 0:
            return Finding.UP
        if self._asked or self._overheard or self._to_ask:
            if now < self._until:
                return Finding.OPEN
            if self._asked or self._failed:
                return Finding.DOWN  # silence is an answer
            return Finding.OPEN if self._to_ask else Finding.NOBODY  # whoever is left is asked, or left out, next
        return Finding.DOWN if self._failed else Finding.NOBODY

    @property
    def until(self) -> float:
        """When it ends, whoever has not answered by then."""
        return self._until

    def close(self) -> None:
        """It is known, or given up."""
        self.is_open = False
        self._asked, self._overheard, self._to_ask = set(), set(), []
