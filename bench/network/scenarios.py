"""The webs that are crawled: how many hosts of which kinds, how many pages each, over what network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from bench.network.hosts import Host, Kind, mix
from bench.network.namespaces import Conditions

HOSTS = 3_000


@dataclass(frozen=True)
class Scenario:
    """One crawl. `says` is its line in the tables; `kinds` are counts of hosts."""

    name: str
    says: str
    kinds: Mapping[Kind, int]
    pages: int = 1
    schemes: Sequence[str] = ("http",)
    conditions: Conditions = field(default_factory=Conditions)
    bound_s: float = 240.0  # it is cut off then
    descriptors: int | None = None  # `ulimit -n`; None: as it is

    @cached_property
    def hosts(self) -> list[Host]:
        return mix(self.kinds, self.schemes)

    def of_size(self, hosts: int) -> Scenario:
        """The same web with so many hosts in all, in the same proportions."""
        share = hosts / sum(self.kinds.values())
        kinds = {kind: max(1, round(count * share)) for kind, count in self.kinds.items()}
        return replace(self, kinds=kinds)


def _share(kind: Kind, share: float, hosts: int = HOSTS) -> dict[Kind, int]:
    """So many hosts, a share of them of one kind in trouble."""
    troubled = round(hosts * share)
    return {Kind.GOOD: hosts - troubled, kind: troubled}


_FAULTY = {Kind.GOOD: 2_700, Kind.RESET: 100, Kind.SILENT: 100, Kind.CUT: 100}
_TLS = ("https",)
_LOSSY_NAMES = Conditions(names_loss=0.3)
_NO_LOSS = Conditions(loss=0.0)
_FAR_DESCRIPTORS = 1_024
_EACH = {  # of everything a little
    Kind.GOOD: 120,
    Kind.SLOW_NAME: 4,
    Kind.DEAD_NAME: 12,
    Kind.SERVFAIL_NAME: 4,
    Kind.DENIED_NAME: 6,
    Kind.PRIVATE_NAME: 4,
    Kind.BLACK_HOLE: 20,
    Kind.RESET: 4,
    Kind.SILENT: 4,
    Kind.CUT: 4,
    Kind.WRONG_PORT: 3,
    Kind.PLAIN_AT_TLS: 3,
    Kind.ONE_DEAD_OF_TWO: 4,
    Kind.DEAD_IPV6: 4,
    Kind.THREE_DEAD_OF_FOUR: 4,
}

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("good", "all names good", {Kind.GOOD: HOSTS}),
        Scenario("dead5", "5 % of the names never answer", _share(Kind.DEAD_NAME, 0.05), bound_s=300),
        Scenario("dead20", "20 % of the names never answer", _share(Kind.DEAD_NAME, 0.2), bound_s=300),
        Scenario("servfail", "5 % of the names fail after 4 s", _share(Kind.SERVFAIL_NAME, 0.05), bound_s=300),
        Scenario("lossy", "30 % of the packets of DNS lost", {Kind.GOOD: HOSTS}, conditions=_LOSSY_NAMES, bound_s=300),
        Scenario("holes30", "30 % of 2,000 hosts are black holes", _share(Kind.BLACK_HOLE, 0.3, 2_000), bound_s=300),
        Scenario("holes10", "10 % black holes", _share(Kind.BLACK_HOLE, 0.1), bound_s=300),
        Scenario("faulty", "10 % faulty hosts: reset, silent, cut", _FAULTY, schemes=("http", "https"), bound_s=300),
        Scenario("twodead", "18 good hosts, 2 dead names", {Kind.GOOD: 18, Kind.DEAD_NAME: 2}, pages=3, bound_s=300),
        Scenario("outage", "900 good hosts, 100 black holes", {Kind.GOOD: 900, Kind.BLACK_HOLE: 100}, bound_s=300),
        Scenario("beside", "900 good hosts", {Kind.GOOD: 900}, pages=5),
        Scenario(
            "beside600",
            "900 good hosts beside 600 black holes",
            {Kind.GOOD: 900, Kind.BLACK_HOLE: 600},
            pages=5,
            bound_s=300,
        ),
        Scenario("https", "500 HTTPS hosts x 10 pages", {Kind.GOOD: 500}, 10, _TLS),
        Scenario("http", "500 plain hosts x 10 pages", {Kind.GOOD: 500}, 10),
        Scenario("crowd", "10,000 HTTPS hosts x 3 pages", {Kind.GOOD: 10_000}, 3, _TLS, bound_s=400),
        Scenario(
            "addresses",
            "dead addresses beside good ones",
            {Kind.GOOD: 20, Kind.ONE_DEAD_OF_TWO: 20, Kind.DEAD_IPV6: 20, Kind.THREE_DEAD_OF_FOUR: 20},
            conditions=_NO_LOSS,
        ),
        Scenario("each", "a little of every kind", _EACH, 3, schemes=("http", "https"), bound_s=300),
        Scenario("denied", "every name denied", {Kind.DENIED_NAME: 100}, bound_s=300),
    )
}
FEW_DESCRIPTORS = {
    f"{name}-1024": replace(
        SCENARIOS[name],
        name=f"{name}-1024",
        says=f"{SCENARIOS[name].says}, under ulimit -n 1024",
        descriptors=_FAR_DESCRIPTORS,
    )
    for name in ("good", "https", "holes30")
}
SCENARIOS |= FEW_DESCRIPTORS
