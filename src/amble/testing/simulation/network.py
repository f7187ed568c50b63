"""The network between crawler and sites: names that are looked up, connections that are kept, and what befalls both.

A fault strikes where it belongs: who knows a name asks nobody for it, and who has a connection need not connect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import Literal, NamedTuple

from amble.core.outcome import Failure
from amble.fetcher import DnsError, Phase

LOOKUP_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 10.0
NAME_LIVES_S = 15.0
CONNECTION_IDLES_S = 20.0


class Way(NamedTuple):
    """How a request ends that never reaches its site: where, as what, after how long (None: soon)."""

    phase: Literal[Phase.RESOLVE, Phase.CONNECT]
    failure: Failure
    takes_s: float | None = None
    dns_error: DnsError | None = None
    local_fault: bool = False
    proxy_fault: bool = False
    untrusted: bool = False


UNSENT = {
    "dns": Way(Phase.RESOLVE, Failure.NETWORK_DNS_FAILURE, dns_error=DnsError.TRY_AGAIN),
    "servfail": Way(Phase.RESOLVE, Failure.NETWORK_DNS_FAILURE, 4.0, DnsError.TRY_AGAIN),
    "silent_name": Way(Phase.RESOLVE, Failure.NETWORK_DNS_FAILURE, LOOKUP_TIMEOUT_S, DnsError.TIMEOUT),
    "no_such_name": Way(Phase.RESOLVE, Failure.NETWORK_DNS_FAILURE, dns_error=DnsError.NO_SUCH_NAME),
    "forbidden_address": Way(Phase.RESOLVE, Failure.ADDRESS_FORBIDDEN),
    "refused": Way(Phase.CONNECT, Failure.NETWORK_CONNECTION_REFUSED),
    "black_hole": Way(Phase.CONNECT, Failure.NETWORK_TIMEOUT, CONNECT_TIMEOUT_S),
    "no_tls": Way(Phase.CONNECT, Failure.NETWORK_TLS_ERROR),  # an http port, say
    "tls": Way(Phase.CONNECT, Failure.NETWORK_TLS_ERROR, untrusted=True),
    "local": Way(Phase.CONNECT, Failure.NETWORK_RESET, local_fault=True),
    "proxy": Way(Phase.CONNECT, Failure.NETWORK_CONNECTION_REFUSED, proxy_fault=True),
}
NOBODY = ("silent_name", "servfail", "no_such_name", "black_hole", "refused", "no_tls", "tls")
LIES = ("no_such_name", "forbidden_address", "tls")  # a portal, or a resolver that answers for everybody
DARK = (*LIES, "silent_name", "servfail", "black_hole")
SLOW = "slow resolver"

Keeps = Literal["nothing", "all", "some", "one"]


class Spell(NamedTuple):
    """A time in which names or connects fail for everybody, or the resolver is slow."""

    begins: float
    ends: float
    fault: str


@dataclass(eq=False, slots=True)
class Connection:
    """One of HTTP/1.1 that is kept, or one of HTTP/2 for all requests at once."""

    opened_at: float
    idle_since: float
    breaks: bool = False  # as it is used the next time
    timed_out: bool = False


@dataclass(slots=True)
class Network:
    """What one run of the crawler knows of the network, and how the network is."""

    spells: tuple[Spell, ...]
    random: Random
    names: dict[str, float] = field(default_factory=dict)  # known until
    kept: dict[str, list[Connection]] = field(default_factory=dict)  # that nobody uses, or HTTP/2

    def forget(self) -> None:
        """Another process."""
        self.names.clear()
        self.kept.clear()

    def spell(self, now: float) -> str | None:
        """What befalls everybody."""
        return next((spell.fault for spell in self.spells if spell.begins <= now < spell.ends), None)

    def was_dark(self, since: float, until: float) -> bool:
        """Whether any request may have failed in this time for a reason that is no site's."""
        return any(spell.fault in DARK and spell.begins < until and spell.ends > since for spell in self.spells)

    # -- names

    def knows(self, host: str, now: float) -> bool:
        return self.names.get(host, -math.inf) > now

    def lookup_s(self, now: float) -> float:
        return self.random.uniform(1.0, 8.0) if self.spell(now) == SLOW else 0.0

    def learn(self, host: str, now: float) -> None:
        self.names[host] = now + NAME_LIVES_S

    # -- connections

    def take(self, origin: str, keeps: Keeps, now: float) -> Connection | None:
        """One that is there."""
        idle = self.kept.get(origin, [])
        idle[:] = [one for one in idle if now - one.idle_since < CONNECTION_IDLES_S and not one.timed_out]
        if not idle:
            return None
        return idle[0] if keeps == "one" else idle.pop()

    def open(self, origin: str, keeps: Keeps, now: float) -> Connection:
        connection = Connection(now, now)
        if keeps == "one":
            self.kept.setdefault(origin, []).append(connection)
        return connection

    def give_back(self, origin: str, keeps: Keeps, connection: Connection, now: float) -> None:
        """After an answer."""
        connection.idle_since = now
        if keeps in ("all", "some"):
            connection.breaks = keeps == "some" and self.random.random() < 0.5
            self.kept.setdefault(origin, []).append(connection)

    def drop(self, origin: str, connection: Connection) -> None:
        """It is of no use any more."""
        if connection in self.kept.get(origin, ()):
            self.kept[origin].remove(connection)
