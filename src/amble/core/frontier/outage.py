"""Whether it is the network, the resolver or the proxy that is down, and not the sites [F8, F9, F10]. Pure.

One site that fails has trouble of its own. When nearly all that were asked within a short time fail alike, what they
have in common may be us: that is doubted first, and `inquiry` asks those who answered before. If they fail as well,
nobody is blamed, nothing is tried but now and then, and the crawl waits for the network.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from amble.core.addresses import may_be_public
from amble.core.frontier.changes import Fetched
from amble.core.frontier.inquiry import Way
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.sites import site_of
from amble.core.urls import domain_of

WINDOW_S = 20.0  # what a domain last said counts for so long
FRESH_S = 1.0  # within this it need not be written down that it answers still
SHARE = 0.9  # of the domains heard of in the window
DOMAINS_MIN = 3  # fewer may well fail by chance
DOMAINS_MIN_UNPROVEN = 8  # while nobody has answered yet: a list of dead names is no outage
SITES_MIN = 2  # where not one is heard but these, and all of them fell silent together
PARDONS_MAX = 3  # outages in a row without an answer of its own: then what fails there is not the network
OWN_MIN = 3  # faults of our own in a row: these need no comparison
PROBE_EVERY_S = 8.0
SURE_FOR_S = 5.0  # after somebody who was asked has answered: a crawl that ends with many dead hosts asks seldom


class Fault(Enum):
    """What one answer says about the network."""

    ANSWERED = "answered"  # somebody out there spoke to us
    REFUSED = "refused"  # the site's fault, or the network's: something out there cut us off
    SILENT = "silent"  # likewise, and nothing came
    NAMELESS = "nameless"  # its name's servers, or our resolver, said nothing
    DENIED = "denied"  # a resolver says that there is no such name, which may be true
    PRIVATE = "private"  # a resolver gives an address that is nobody's on the web
    UNTRUSTED = "untrusted"  # whoever answers there has the certificate of another
    OWN = "own"  # our proxy's, or this machine's


_NETWORK = {
    Failure.NETWORK_CONNECTION_REFUSED: Fault.REFUSED,
    Failure.NETWORK_RESET: Fault.REFUSED,
    Failure.NETWORK_TIMEOUT: Fault.SILENT,
    Failure.NETWORK_DNS_FAILURE: Fault.NAMELESS,
}
# What a portal or a resolver says that answers for everybody. Of those who never answered, it is what it seems to be.
LIES = frozenset({Fault.DENIED, Fault.PRIVATE, Fault.UNTRUSTED})
_BY_NAME = frozenset({Fault.NAMELESS, Fault.DENIED, Fault.PRIVATE})
_BEYOND_NAMES = frozenset({Fault.REFUSED, Fault.SILENT, Fault.UNTRUSTED})
_SILENT_OR_LIES = LIES | {Fault.SILENT}
_SILENCE = frozenset({Fault.SILENT, Fault.ANSWERED})
DOUBTFUL = frozenset(_NETWORK.values()) | LIES  # the site's fault, or the network's
_ANSWERED = Fault.ANSWERED  # by a plain name, as it is looked up for every answer
LIES_TOLD = {
    Fault.DENIED: "every name is denied: is this machine online, behind a portal?",
    Fault.PRIVATE: "every name has a private address: is this machine behind a portal?",
    Fault.UNTRUSTED: "every certificate is another's: is this machine behind a portal?",
}


class Turn(Enum):
    """What one answer changed."""

    NONE = "none"
    DOUBT = "doubt"  # nearly all fail, and some have answered before: they are to be asked
    DOWN = "down"
    BACK = "back"


_NO_TURN = Turn.NONE


def fault_of(fetched: Fetched, url: str) -> Fault | None:
    """None where the answer says nothing: the network was not tried."""
    failure = fetched.failure
    if fetched.local_fault or fetched.proxy_fault:
        return Fault.OWN
    if failure is Failure.CANCELLED:
        return None
    if failure is Failure.ADDRESS_FORBIDDEN:
        return Fault.PRIVATE if may_be_public(domain_of(url)) else None
    if fetched.status is not None or failure is None:
        return _ANSWERED  # though its body may have dripped away
    if fetched.untrusted:
        return Fault.UNTRUSTED
    if fetched.dns_error == "no_such_name":
        return Fault.DENIED
    return _NETWORK.get(failure, _ANSWERED)


class Heard(NamedTuple):
    """The last word of a domain."""

    at: float
    fault: Fault
    known: bool  # it answered before

    @property
    def failed(self) -> bool:
        return self.fault is not Fault.ANSWERED


class Outage:
    """Told of every answer. While `is_down`, only `probe_at` lets a request through."""

    def __init__(self, give_up_after_s: float = math.inf) -> None:
        self._give_up_after_s = give_up_after_s
        self.since: float | None = None  # down from then on
        self.probe_at = -math.inf
        self._heard: dict[str, Heard] = {}  # the last word of each domain; the oldest first
        self._failing = self._lying = 0  # of these; whoever is lied about fails as well
        self._ailing: dict[str, float] = {}  # domain -> when it began to fail, of those that have not answered since
        self._burnt: dict[tuple[Kind, str], tuple[float, int]] = {}  # visits that failed in the window, and how often
        self._forgiven: dict[tuple[Kind, str], int] = {}
        self._pardoned: dict[str, int] = {}  # domain -> outages that it was part of, without an answer since
        self._own_since: dict[str, float] = {}  # domain -> the first fault of our own there, without an answer since
        self._own_streak = 0
        self._proven = False  # somebody answered, in this run
        self._lies: dict[Fault, set[str]] = {}  # before that: about which sites, as far as it matters
        self._met_others = False  # before that: what is no lie
        # Domains lied about since a name was last looked up with success, or a connection made: what is answered
        # meanwhile comes over connections that were there before.
        self._lied_by_name: set[str] = set()
        self._lied_by_connect: set[str] = set()
        self._lied_at = -math.inf  # when the first of them was
        self._doubts_lies = False
        self._sure_until = -math.inf  # somebody who was asked has answered: until then, what fails fails by itself
        self._way: Way | None = None  # by which it is down,
        self._down_by: frozenset[Fault] = frozenset()  # and as what that shows
        self._gave_up = False  # it lasted too long: what fails, fails, until somebody answers

    @property
    def is_down(self) -> bool:
        return self.since is not None

    # -- asking

    def hold_until(self, now: float) -> float:
        """Nothing may be sent before this instant; minus infinity while the network is up."""
        if self.since is None:
            return -math.inf
        if now - self.since >= self._give_up_after_s:
            self.since, self._gave_up = None, True
            return -math.inf
        return self.probe_at

    def excuses(self, domain: str, fault: Fault | None, now: float) -> bool:
        """Whether a failure of this kind is held against nobody, as things stand."""
        if fault is Fault.OWN:
            return self._is_patient(domain, now)
        return self.since is not None and fault in DOUBTFUL

    def _is_patient(self, domain: str, now: float) -> bool:
        """Whether faults of our own may still pass; not where they are met at one domain for ever, and at no other."""
        return not self._gave_up and now - self._own_since.get(domain, now) < self._give_up_after_s

    @property
    def reason(self) -> str:
        """In words, whose fault it seems to be."""
        if self._own_streak >= OWN_MIN:
            return "the proxy or this machine fails"
        return f"{self._failing} of {len(self._heard)} domains fail"

    def sent(self, now: float) -> None:
        """A request goes out; while the network is down it is the only one for a while."""
        if self.since is not None:
            self.probe_at = now + PROBE_EVERY_S

    def failing(self) -> Iterable[str]:
        """Domains that failed in the window: while the network is down, none of them is to blame."""
        return [domain for domain, heard in self._heard.items() if heard.failed]

    def way(self) -> Way:
        """Where those fail that fail."""
        faults = {heard.fault for heard in self._heard.values()}
        return Way(new_name=not faults.isdisjoint(_BY_NAME), new_connection=not faults.isdisjoint(_BEYOND_NAMES))

    @property
    def is_silence(self) -> bool:
        """Whether those that fail heard nothing: neither a refusal nor a lie."""
        return {heard.fault for heard in self._heard.values()} <= _SILENCE

    @property
    def way_down(self) -> Way | None:
        """By which the network is down, and has to be tried."""
        return self._way if self.since is not None else None

    @property
    def lie(self) -> str | None:
        """What to say where nobody ever answered, and somebody answers for everybody."""
        if self._proven or self._met_others:
            return None
        most = max(self._lies, key=lambda fault: len(self._lies[fault]), default=None)
        return LIES_TOLD[most] if most is not None and len(self._lies[most]) >= SITES_MIN else None

    def forgive(self, visit: Visit) -> Visit:
        """A visit without the attempts that the outage cost it."""
        spent = self._forgiven.pop((visit.kind, visit.url), 0) if self._forgiven else 0
        return visit._replace(attempt=max(1, visit.attempt - spent), spared=0) if spent else visit

    # -- learning

    def observe(
        self, domain: str, visit: Visit, fault: Fault | None, now: float, *, known: bool, reused: bool = False,
        begun_at: float = math.inf,
    ) -> Turn:  # fmt: skip
        """Take in what one answer says. `known`: the domain answered before; `reused`: over a kept connection;
        `begun_at`: what was connected then may have been so before anything failed."""
        if fault is None:
            return Turn.NONE
        if fault is _ANSWERED:
            if self._lied_by_name or self._lied_by_connect:
                self._hear_truth(visit, known, reused, begun_at)
            return self._answered(domain, visit, now, known, reused, begun_at)
        self._hear(domain, Heard(now, fault, known), now)
        self._own_streak = self._own_streak + 1 if fault is Fault.OWN else 0
        if fault is Fault.OWN:
            self._own_since.setdefault(domain, now)
        if not self._proven:
            self._note_lie(domain, fault)
        if self.since is not None and fault in LIES and fault not in self._down_by:
            return self._end()  # there is somebody who says no
        if self.since is not None or self._gave_up:
            return Turn.NONE
        if self._own_streak >= OWN_MIN:
            return self.go_down(now)
        odd = self._proven and fault in LIES and self._is_odd(domain, fault, now, known)
        if now < self._sure_until or not (odd or self._all_fail()):
            if fault is not Fault.OWN:
                self._burn((visit.kind, visit.url), now)
            return Turn.NONE
        self._doubts_lies = self._doubts_lies or odd
        return Turn.DOUBT if self._proven else self.go_down(now)

    def _is_odd(self, domain: str, fault: Fault, now: float, known: bool) -> bool:
        """Whether it is odd that this should be true of a site: it answered before, or it is true of several now."""
        lied = self._lied_by_name if fault in _BY_NAME else self._lied_by_connect
        if domain not in self._heard:
            return False  # it has trouble of its own
        if not self._lied_by_name and not self._lied_by_connect:
            self._lied_at = now
        if len(lied) < DOMAINS_MIN:
            lied.add(domain)
        return known or len(lied) >= DOMAINS_MIN

    def _note_lie(self, domain: str, fault: Fault) -> None:
        if fault not in LIES:
            self._met_others = True
            return
        sites = self._lies.setdefault(fault, set())
        if len(sites) < SITES_MIN:
            sites.add(site_of(domain))

    @property
    def is_doubtful(self) -> bool:
        """Whether nearly all fail still, or none was reached meanwhile by the way on which lies are told."""
        return bool(self._lied_by_name or self._lied_by_connect) if self._doubts_lies else self._all_fail()

    @property
    def is_shared(self) -> bool:
        """Whether more than one site fails. Where a single one does, nothing tells it from the network."""
        return self._failing >= DOMAINS_MIN or len({site_of(domain) for domain in self.failing()}) >= SITES_MIN

    @property
    def fell_together(self) -> bool:
        """Whether those that fail have answered before, and are of several sites: as good as asking somebody else."""
        return (
            len({site_of(domain) for domain, heard in self._heard.items() if heard.failed and heard.known}) >= SITES_MIN
        )

    def clear(self, now: float) -> None:
        """The network is up. Whoever fails has trouble of its own, and proves nothing until it answers."""
        self._sure_until, self._doubts_lies = now + SURE_FOR_S, False
        self._lied_by_name.clear()
        self._lied_by_connect.clear()
        for domain in self.failing():
            del self._heard[domain]
            self._ailing[domain] = -math.inf
        self._failing = self._lying = 0

    def go_down(self, now: float) -> Turn:
        """Nobody answers any more."""
        self._way, self._down_by = self.way(), frozenset(heard.fault for heard in self._heard.values())
        self.since, self.probe_at = now, now + PROBE_EVERY_S
        for key, (_, spent) in self._burnt.items():
            self._forgiven[key] = self._forgiven.get(key, 0) + spent
        self._burnt.clear()
        for failing in self.failing():
            self._pardoned[failing] = self._pardoned.get(failing, 0) + 1
        return Turn.DOWN

    def has_just_heard(self, domain: str, now: float) -> bool:
        """Whether an answer of this domain would change nothing: it has just given one, and nobody is doubted."""
        before = self._heard.get(domain)
        if before is None or before.fault is not _ANSWERED or now - before.at >= FRESH_S:
            return False
        doubts = self._lied_by_name or self._lied_by_connect or self._own_streak or self._gave_up
        return self.since is None and not doubts

    def _answered(self, domain: str, visit: Visit, now: float, known: bool, reused: bool, begun_at: float) -> Turn:
        self._proven, self._own_streak, self._gave_up = True, 0, False
        before = self._heard.get(domain)
        if before is not None and before.fault is _ANSWERED and now - before.at < FRESH_S and self.since is None:
            return _NO_TURN  # it has just said so: nothing has failed there since
        self._hear(domain, Heard(now, _ANSWERED, known), now)
        self._ailing.pop(domain, None)
        self._pardoned.pop(domain, None)
        self._own_since.pop(domain, None)
        return self._end() if self.since is not None and self._is_way_back(visit, reused, begun_at) else _NO_TURN

    def _hear_truth(self, visit: Visit, known: bool, reused: bool, begun_at: float) -> None:
        """Somebody was reached. It says nothing where it was set out for before lies were told."""
        if begun_at > self._lied_at:
            if not reused:
                self._lied_by_connect.clear()
            if not known or visit.new_name:
                self._lied_by_name.clear()

    def _is_way_back(self, visit: Visit, reused: bool, begun_at: float) -> bool:
        """Whether it was answered by the way that failed, and not over a connection, or by a name, known before. Where
        nothing came at all, whatever comes now says that something does."""
        way = self._way
        if way is None:
            return True
        if begun_at < (self.since or 0.0) and not self._down_by <= _SILENCE:
            return False
        connected = not way.new_connection or visit.new_connection or not reused
        return connected and (not way.new_name or visit.new_name)

    def _all_fail(self) -> bool:
        failing = self._failing if self._proven else self._failing - self._lying
        if not failing or failing < SHARE * len(self._heard):
            return False
        enough = DOMAINS_MIN if self._proven else DOMAINS_MIN_UNPROVEN
        return failing >= enough or self._few_fell_silent()

    def _few_fell_silent(self) -> bool:
        """Whether sites that have nothing in common but us fell silent, or have no names any more, and nobody speaks.

        What is refused or cut off was somewhere; and a site that never spoke may not be there at all. Of what a portal
        says, one site that answered before is enough: whoever else did is asked.
        """
        heard = self._heard.values()
        if self._proven and all(one.fault in LIES and one.known for one in heard):
            return True
        silent = all(one.fault is Fault.NAMELESS or (one.fault in _SILENT_OR_LIES and one.known) for one in heard)
        return silent and len({site_of(domain) for domain in self._heard}) >= SITES_MIN

    def _end(self) -> Turn:
        self.since, self._doubts_lies = None, False
        self._heard.clear()  # what failed until now says nothing about what comes
        self._ailing.clear()
        self._failing = self._lying = 0
        return Turn.BACK

    def _hear(self, domain: str, word: Heard, now: float) -> None:
        heard = self._heard
        before = heard.pop(domain, None)
        if before is not None:
            self._count(before, -1)
        if not word.failed or self._may_be_the_networks(domain, now):
            heard[domain] = word
            self._count(word, +1)
        while heard and heard[oldest := next(iter(heard))].at < now - WINDOW_S:
            self._count(heard.pop(oldest), -1)

    def _count(self, word: Heard, step: int) -> None:
        if word.failed:
            self._failing += step
            self._lying += step * (word.fault in LIES)

    def _may_be_the_networks(self, domain: str, now: float) -> bool:
        """Who failed for long while others did well has trouble of its own, and still has when the others are done.
        So has who fails whenever somebody else found the network to be back: or it would be waited for again and again.
        """
        lately = now - self._ailing.setdefault(domain, now) <= WINDOW_S
        return lately and self._pardoned.get(domain, 0) < PARDONS_MAX

    def _burn(self, key: tuple[Kind, str], now: float) -> None:
        burnt = self._burnt
        _, spent = burnt.pop(key, (now, 0))
        burnt[key] = (now, spent + 1)
        while burnt[oldest := next(iter(burnt))][0] < now - WINDOW_S:
            del burnt[oldest]
