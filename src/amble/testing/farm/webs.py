"""Webs for the tests and the benchmarks: lists of sites that put one question each."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from amble.testing.farm.demo import demo_web
from amble.testing.farm.graph import Tree
from amble.testing.farm.limits import Limit, bucket, in_flight, penalty_box, refusing, together
from amble.testing.farm.outages import Outage, flapping
from amble.testing.farm.pages import Pages
from amble.testing.farm.robots import Robots
from amble.testing.farm.site import Site
from amble.testing.farm.traps import TRAPS, Trap
from amble.testing.lab.servers import LogNormal

QUICK = LogNormal(0.03)


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number:0{len(str(count))}}.test" for number in range(1, count + 1)]


# --- Limits ----------------------------------------------------------------------------------------------------------


def _hidden(kind: int, rate: float) -> Limit:
    """The ways in which sites refuse; silence is the most frequent."""
    if kind == 1:
        return refusing(bucket(rate), "seconds")
    if kind == 2:
        return refusing(bucket(rate), "date", 503)
    if kind == 3:
        return refusing(penalty_box(bucket(rate), 3.0), "seconds")
    return refusing(bucket(rate))


def hidden_limits(hosts: int = 30, *, oracle_s: float = 20.0, seed: int = 0) -> list[Site]:
    """Token buckets of 2 to 20/s that nobody announces; a client that knew them would need `oracle_s` for each."""
    random = Random(f"hidden limits {seed}")
    rates = [2.0 * 10.0 ** (number / max(1, hosts - 1)) for number in range(hosts)]
    random.shuffle(rates)
    return [
        Site(
            name=name,
            pages=Pages(max(1, round(rate * oracle_s)), graph=Tree(40)),
            limit=_hidden(number % 5, rate),
            latency=QUICK,
            seed=seed,
            note=f"{rate:.1f}/s",
        )
        for number, (name, rate) in enumerate(zip(_names("hidden", hosts), rates, strict=True))
    ]


def shop(urls: int = 500) -> list[Site]:
    """One aggressive shop: it refuses the third request at a time, and more than about 3/s."""
    return [
        Site(
            name="shop.test",
            pages=Pages(urls, graph=Tree(urls)),
            limit=refusing(together(in_flight(2, 0.25), bucket(3.0, 3.0))),
            latency=LogNormal(0.2),
            note="2 at a time, 3/s",
        )
    ]


# --- One site beside others ------------------------------------------------------------------------------------------


def isolation(fast: int = 20, *, pages: int = 60, slow_pages: int = 6, crawl_delay_s: float = 5.0) -> list[Site]:
    """Fast sites beside one with a long crawl delay, the last. Without slow pages: the fast ones alone."""
    sites = [Site(name=name, pages=Pages(pages), latency=QUICK, note="fast") for name in _names("fast", fast)]
    slow = Site(
        name="slow.test",
        pages=Pages(slow_pages),
        robots=Robots(crawl_delay_s=crawl_delay_s),
        latency=QUICK,
        note=f"Crawl-delay: {crawl_delay_s:g}",
    )
    return [*sites, slow] if slow_pages else sites


def outages(steady: int = 6, *, pages: int = 60) -> list[Site]:
    """Sites that go down in every way, once or again and again, beside some that stay up [F7]."""
    down = {
        "reset.test": (Outage(3.0, 13.0, "reset"),),
        "gateway.test": (Outage(3.0, 13.0, "error"),),
        "maintenance.test": (Outage(3.0, 13.0, "maintenance"),),
        "hanging.test": (Outage(3.0, 13.0, "hang"),),
        "flapping.test": flapping(10.0, 40.0),
    }
    return [
        *(Site(name=n, pages=Pages(pages), latency=QUICK, note="stays up") for n in _names("steady", steady)),
        *(Site(name=n, pages=Pages(pages), latency=QUICK, outages=when, note="goes down") for n, when in down.items()),
    ]


def traps(good: int = 93, *, pages: int = 20) -> list[Site]:
    """A site without end of every kind, beside good ones that must not suffer for them [C7]."""
    endless = [
        Site(
            name=f"{kind}.test",
            pages=Pages(5),
            features=(Trap(kind),),
            subdomains=kind == "subdomains",
            note="endless",
        )
        for kind in TRAPS
    ]
    return [*(Site(name=name, pages=Pages(pages), note="good") for name in _names("good", good)), *endless]


# --- Work ------------------------------------------------------------------------------------------------------------


def throughput(pages: int = 5000, *, hosts: int = 1, size_bytes: int = 20_000) -> list[Site]:
    """Sites without limits: how fast can a client be?"""
    return [Site(name=name, pages=Pages(pages, size_bytes, Tree(20))) for name in _names("host", hosts)]


def many_hosts(hosts: int = 200, *, pages: int = 25) -> list[Site]:
    """Many sites of few pages."""
    return throughput(pages, hosts=hosts)


def ten_thousand(hosts: int = 10_000, *, pages: int = 3) -> list[Site]:
    """So many sites that each is hardly more than its robots.txt."""
    return throughput(pages, hosts=hosts, size_bytes=5_000)


WEBS: dict[str, Callable[[], list[Site]]] = {
    "demo": demo_web,
    "hidden-limits": hidden_limits,
    "isolation": isolation,
    "shop": shop,
    "outages": outages,
    "traps": traps,
    "throughput": throughput,
    "many-hosts": many_hosts,
    "ten-thousand": ten_thousand,
}
