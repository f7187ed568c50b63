"""What kinds of hosts there are: how a name is answered, who is at its address, and what that one serves."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

ZONES = 100  # sites of different registered names; few enough for one certificate
PORTAL = "11.1.255.254"  # a good server that a search domain's wildcard leads to


class Lookup(StrEnum):
    """What the server of names does when it is asked."""

    GOOD = "good"
    SLOW = "slow"  # 3 s
    DEAD = "dead"  # never answers
    SERVFAIL = "servfail"  # after 4 s
    DENIED = "denied"  # there is no such name
    PRIVATE = "private"  # an address of somebody's own network


class Serves(StrEnum):
    """Who is at an address. Each kind has a range of its own; the value is its second number."""

    GOOD = "1"
    NOBODY = "2"  # packets vanish
    RESET = "3"  # the connection, as soon as something was said
    SILENT = "4"  # accepts, and says nothing
    CUT = "5"  # robots.txt whole, then pages to their half


class Kind(StrEnum):
    """What a host is like, in a word, as it stands in its name."""

    GOOD = "good"
    SLOW_NAME = "slow"
    DEAD_NAME = "dead"
    SERVFAIL_NAME = "servfail"
    DENIED_NAME = "denied"
    PRIVATE_NAME = "private"
    BLACK_HOLE = "hole"
    RESET = "reset"
    SILENT = "silent"
    CUT = "cut"
    WRONG_PORT = "refused"
    PLAIN_AT_TLS = "notls"  # https at a port that speaks http
    ONE_DEAD_OF_TWO = "onedead"
    DEAD_IPV6 = "deadsix"
    THREE_DEAD_OF_FOUR = "threedead"


@dataclass(frozen=True, slots=True)
class Host:
    """One host of the web that is crawled."""

    kind: Kind
    name: str
    lookup: Lookup
    serves: Serves
    addresses: tuple[str, ...]  # what the name leads to, in this order
    scheme: str = "http"
    port: int | None = None

    @property
    def root(self) -> str:
        return f"{self.scheme}://{self.name}{'' if self.port is None else f':{self.port}'}/"

    @property
    def good(self) -> bool:
        """Whether its pages can be had."""
        return self.lookup in (Lookup.GOOD, Lookup.SLOW) and self.serves is Serves.GOOD and self.port is None

    def urls(self, pages: int) -> list[str]:
        return [f"{self.root}page/{number}" if number else self.root for number in range(pages)]


_LOOKUPS = {
    Kind.SLOW_NAME: Lookup.SLOW,
    Kind.DEAD_NAME: Lookup.DEAD,
    Kind.SERVFAIL_NAME: Lookup.SERVFAIL,
    Kind.DENIED_NAME: Lookup.DENIED,
    Kind.PRIVATE_NAME: Lookup.PRIVATE,
}
_SERVES = {
    Kind.BLACK_HOLE: Serves.NOBODY,
    Kind.RESET: Serves.RESET,
    Kind.SILENT: Serves.SILENT,
    Kind.CUT: Serves.CUT,
}


def make_host(kind: Kind, number: int, scheme: str) -> Host:
    lookup, serves = _LOOKUPS.get(kind, Lookup.GOOD), _SERVES.get(kind, Serves.GOOD)
    port = {Kind.WRONG_PORT: 81, Kind.PLAIN_AT_TLS: 80}.get(kind)
    if kind is Kind.PLAIN_AT_TLS:
        scheme = "https"
    name = f"{kind}-{number}.z{number % ZONES:02}.test"
    return Host(kind, name, lookup, serves, _addresses(kind, serves, number), scheme, port)


def _addresses(kind: Kind, serves: Serves, number: int) -> tuple[str, ...]:
    here = _address(serves, number)
    if kind is Kind.ONE_DEAD_OF_TWO:
        return _address(Serves.NOBODY, number), here
    if kind is Kind.DEAD_IPV6:
        return f"2a0f:ffff::{number:x}", here
    if kind is Kind.THREE_DEAD_OF_FOUR:
        return *(_address(Serves.NOBODY, number + step) for step in (0, 10_000, 20_000)), here
    if kind is Kind.PRIVATE_NAME:
        return (f"10.1.{number // 250}.{number % 250 + 1}",)
    return (here,)


def _address(serves: Serves, number: int) -> str:
    """An address of its own for each number, in a range that the guard takes for public."""
    return f"11.{serves}.{number // 250}.{number % 250 + 1}"


def mix(kinds: Mapping[Kind, int], schemes: Sequence[str] = ("http",), *, seed: int = 1) -> list[Host]:
    """So many hosts of each kind, shuffled. Schemes take turns within a kind."""
    wanted = [(kind, turn) for kind, count in kinds.items() for turn in range(count)]
    random.Random(seed).shuffle(wanted)
    return [make_host(kind, number, schemes[turn % len(schemes)]) for number, (kind, turn) in enumerate(wanted)]


def good_of(hosts: Iterable[Host]) -> list[Host]:
    return [host for host in hosts if host.good]
