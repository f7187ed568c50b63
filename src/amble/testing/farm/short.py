"""The laboratory's short hosts as sites over real sockets: the same limits, latencies, outages and pages.

A site is named by its group, its number and the seed, and drawn anew where it is served: what a draw makes of them
need not be sent to a process.
"""

from __future__ import annotations

from functools import cache, partial
from random import Random
from typing import NamedTuple

from amble.testing.farm.graph import Tree
from amble.testing.farm.limits import Limit
from amble.testing.farm.outages import Outage
from amble.testing.farm.pages import Pages
from amble.testing.farm.site import Site
from amble.testing.lab.limiters import Limiter, Quota
from amble.testing.lab.servers import TellsQuota
from amble.testing.lab.short.groups import GROUPS
from amble.testing.lab.short.host import FANOUT, ShortHost
from amble.testing.lab.short.oracle import oracle_s

HOSTS = 20
PAGE_BYTES = 2_000  # what is compared is the pace, and not how fast pages are read


class Drawn(NamedTuple):
    """Which host of the laboratory."""

    group: str
    number: int
    seed: int


@cache
def host_of(drawn: Drawn) -> ShortHost:
    return GROUPS[drawn.group].host(drawn.number, drawn.seed)


class OnItsClock:
    """A limiter whose clock shows something else than the farm's, which begins with the first request."""

    def __init__(self, inner: Limiter, ahead_s: float) -> None:
        self._inner = inner
        self._ahead_s = ahead_s

    def admit(self, now: float, service_s: float) -> float | None:
        return self._inner.admit(now + self._ahead_s, service_s)

    def wait_s(self, now: float) -> float:
        return self._inner.wait_s(now + self._ahead_s)

    def ideal_s(self, pages: int) -> float:
        return self._inner.ideal_s(pages)


class TellingOnItsClock(OnItsClock):
    """One that can say how much it has left."""

    def quota(self, now: float) -> Quota:
        assert isinstance(self._inner, TellsQuota)
        return self._inner.quota(now + self._ahead_s)


def _limiter(drawn: Drawn, random: Random) -> Limiter:
    host = host_of(drawn)
    inner = host.limiter()
    return (TellingOnItsClock if isinstance(inner, TellsQuota) else OnItsClock)(inner, host.clock_s)


def short_site(drawn: Drawn) -> Site:
    host = host_of(drawn)
    told = host.refusal if host.tells_downtime else None
    return Site(
        name=f"{drawn.group}-{drawn.number:02}.test",
        pages=Pages(host.pages, PAGE_BYTES, Tree(FANOUT), related=0),
        limit=Limit(partial(_limiter, drawn), host.refusal, host.dialect, pages_only=True),
        latency=host.latency,
        outages=tuple(
            Outage(down.from_s - host.clock_s, down.to_s - host.clock_s, "maintenance", told, cuts_off=True)
            for down in host.downtimes
        ),
        oracle_s=oracle_s(host),
        seed=drawn.seed,
        note=host.name,
    )


def short_group(name: str, hosts: int = HOSTS, seed: int = 0) -> list[Site]:
    """So many hosts of a group."""
    return [short_site(Drawn(name, number, seed)) for number in range(hosts)]
