"""Whether it is the network, the resolver or the proxy that is down, and not the sites [F8, F9, F10]. Pure.

One site that fails has trouble of its own. When nearly all that were asked within a short time fail alike, what they
have in common is us. Then nobody is blamed, nothing is tried but now and then, and the crawl waits for the network.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from amble.core.frontier.changes import Fetched
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.sites import site_of

WINDOW_S = 20.0  # what a domain last said counts for so long
FRESH_S = 1.0  # within this it need not be written down that it answers still
SHARE = 0.9  # of the domains heard of in the window
DOMAINS_MIN = 3  # fewer may well fail by chance
DOMAINS_MIN_UNPROVEN = 8  # while nobody has answered yet: a list of dead names is no outage
SITES_MIN = 2  # where not one is heard but these, and all of them fell silent together
PARDONS_MAX = 3  # outages in a row without an answer of its own: then what fails there is not the network
OWN_MIN = 3  # faults of our own in a row: these need no comparison
PROBE_EVERY_S = 8.0

_UNTRIED = frozenset({Failure.CANCELLED, Failure.ADDRESS_FORBIDDEN})


class Fault(Enum):
    """What one answer says about the network."""

    ANSWERED = "answered"  # somebody out there spoke to us
    REFUSED = "refused"  # the site's fault, or the network's: something out there cut us off
    SILENT = "silent"  # likewise, and nothing came
    NAMELESS = "nameless"  # its name's servers, or our resolver, said nothing
    OWN = "own"  # our proxy's, or this machine's
    STALE = "stale"  # a kept connection was closed as it was used: a new one tells more, and nobody is to blame


_NETWORK = {
    Failure.NETWORK_CONNECTION_REFUSED: Fault.REFUSED,
    Failure.NETWORK_RESET: Fault.REFUSED,
    Failure.NETWORK_TIMEOUT: Fault.SILENT,
    Failure.NETWORK_DNS_FAILURE: Fault.NAMELESS,
}
_SITES_OR_NETWORKS = frozenset(_NETWORK.values())
_ANSWERED = Fault.ANSWERED  # by a plain name, as it is looked up for every answer


class Turn(Enum):
    """What one answer changed."""

    NONE = "none"
    DOWN = "down"
    BACK = "back"


_NO_TURN = Turn.NONE


def fault_of(fetched: Fetched) -> Fault | None:
    """None where the answer says nothing: the network was not tried."""
    failure, is_local = fetched.failure, fetched.local_fault
    if is_local or fetched.proxy_fault:
        return Fault.STALE if is_local and failure is Failure.NETWORK_RESET else Fault.OWN
    if failure in _UNTRIED:
        return None
    if fetched.status is not None:
        return _ANSWERED  # though its body may have dripped away
    if failure is None or fetched.dns_error == "no_such_name":  # a resolver that says no is up
        return _ANSWERED
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
        self._failing = 0  # of these
        self._ailing: dict[str, float] = {}  # domain -> when it began to fail, of those that have not answered since
        self._burnt: dict[tuple[Kind, str], tuple[float, int]] = {}  # visits that failed in the window, and how often
        self._forgiven: dict[tuple[Kind, str], int] = {}
        self._pardoned: dict[str, int] = {}  # domain -> outages that it was part of, without an answer since
        self._own_since: dict[str, float] = {}  # domain -> the first fault of our own there, without an answer since
        self._own_streak = 0
        self._proven = False  # somebody answered, in this run
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
        if fault is Fault.STALE:
            return True
        if fault is Fault.OWN:
            return self._is_patient(domain, now)
        return self.since is not None and fault in _SITES_OR_NETWORKS

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
        """Domains that failed in the window: none of them is to blame."""
        return [domain for domain, heard in self._heard.items() if heard.fault is not Fault.ANSWERED]

    def forgive(self, visit: Visit) -> Visit:
        """A visit without the attempts that the outage cost it."""
        spent = self._forgiven.pop((visit.kind, visit.url), 0) if self._forgiven else 0
        return visit._replace(attempt=max(1, visit.attempt - spent)) if spent else visit

    # -- learning

    def observe(self, domain: str, visit: Visit, fault: Fault | None, now: float, *, known: bool) -> Turn:
        """Take in what one answer says. `known`: the domain answered before."""
        if fault is None or fault is Fault.STALE:
            return Turn.NONE
        if fault is _ANSWERED:
            return self._answered(domain, now, known)
        self._hear(domain, Heard(now, fault, known), now)
        self._own_streak = self._own_streak + 1 if fault is Fault.OWN else 0
        if fault is Fault.OWN:
            self._own_since.setdefault(domain, now)
        if self.since is not None or self._gave_up:
            return Turn.NONE
        if not self._all_fail():
            if fault is not Fault.OWN:
                self._burn((visit.kind, visit.url), now)
            return Turn.NONE
        self.since, self.probe_at = now, now + PROBE_EVERY_S
        for key, (_, spent) in self._burnt.items():
            self._forgiven[key] = self._forgiven.get(key, 0) + spent
        self._burnt.clear()
        for failing in self.failing():
            self._pardoned[failing] = self._pardoned.get(failing, 0) + 1
        return Turn.DOWN

    def _answered(self, domain: str, now: float, known: bool) -> Turn:
        self._proven, self._own_streak, self._gave_up = True, 0, False
        before = self._heard.get(domain)
        if before is not None and before.fault is _ANSWERED and now - before.at < FRESH_S and self.since is None:
            return _NO_TURN  # it has just said so: nothing has failed there since
        self._hear(domain, Heard(now, _ANSWERED, known), now)
        self._ailing.pop(domain, None)
        self._pardoned.pop(domain, None)
        self._own_since.pop(domain, None)
        return _NO_TURN if self.since is None else self._end()

    def _all_fail(self) -> bool:
        if self._own_streak >= OWN_MIN:
            return True
        if self._failing < SHARE * len(self._heard):
            return False
        enough = DOMAINS_MIN if self._proven else DOMAINS_MIN_UNPROVEN
        return self._failing >= enough or self._few_fell_silent()

    def _few_fell_silent(self) -> bool:
        """Whether sites that have nothing in common but us fell silent, or have no names any more, and nobody speaks.

        What is refused or cut off was somewhere; and a site that never spoke may not be there at all.
        """
        silent = all(
            heard.fault is Fault.NAMELESS or (heard.fault is Fault.SILENT and heard.known)
            for heard in self._heard.values()
        )
        return silent and len({site_of(domain) for domain in self._heard}) >= SITES_MIN

    def _end(self) -> Turn:
        self.since = None
        self._heard.clear()  # what failed until now says nothing about what comes
        self._ailing.clear()
        self._failing = 0
        return Turn.BACK

    def _hear(self, domain: str, word: Heard, now: float) -> None:
        heard = self._heard
        before = heard.pop(domain, None)
        self._failing -= before is not None and before.failed
        if not word.failed or self._may_be_the_networks(domain, now):
            heard[domain] = word
            self._failing += word.failed
        while heard and heard[oldest := next(iter(heard))].at < now - WINDOW_S:
            self._failing -= heard.pop(oldest).failed

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
