"""The demonstration web: a dozen sites, each with a character of its own, crawled in under a minute."""

from __future__ import annotations

from amble.testing.farm.faults import Errors, Private
from amble.testing.farm.graph import Paged, Tree
from amble.testing.farm.limits import announcing, bucket, changing, refusing, window
from amble.testing.farm.outages import Outage
from amble.testing.farm.pages import Pages
from amble.testing.farm.redirects import Redirects
from amble.testing.farm.robots import Robots
from amble.testing.farm.site import Site
from amble.testing.farm.sitemap import Sitemap
from amble.testing.lab.servers import LogNormal

QUICK = LogNormal(0.03)


def demo_web() -> list[Site]:
    """Sizes are chosen for the shipped settings: at most 8 requests a second per site, 2 at first."""
    return [*_plain(), *_limited(), *_troubled()]


def _plain() -> list[Site]:
    """Sites that set no traps: only size, order and robots.txt differ."""
    return [
        Site(
            name="books.demo.test",
            note="bears any pace; compressed",
            pages=Pages(60, compress=True),
            latency=QUICK,
        ),
        Site(
            name="news.demo.test",
            note="an index of compressed sitemaps",
            pages=Pages(50),
            sitemap=Sitemap("index", compressed=True, per_file=20),
            latency=QUICK,
        ),
        Site(
            name="forum.demo.test",
            note="pages of a list, duplicates, noindex, nofollow; /private/ is disallowed",
            pages=Pages(45, graph=Paged(12), quirks=True),
            robots=Robots(disallow=("/private/",)),
            features=(Private(5),),
            latency=QUICK,
        ),
        Site(
            name="closed.demo.test",
            note="robots.txt disallows everything",
            pages=Pages(10),
            robots=Robots(disallow=("/",)),
        ),
        Site(
            name="archive.demo.test",
            note="Crawl-delay: 1",
            pages=Pages(25),
            robots=Robots(crawl_delay_s=1.0),
            latency=QUICK,
        ),
    ]


def _limited() -> list[Site]:
    """Sites that refuse those who are too fast, each in its own words."""
    return [
        Site(
            name="shop.demo.test",
            note="429 above 3/s; from its eighth second on it bears 20/s",
            pages=Pages(150, graph=Tree(25)),
            limit=refusing(changing(bucket(3.0, 3.0), bucket(20.0, 10.0), 8.0)),
            latency=QUICK,
        ),
        Site(
            name="busy.demo.test",
            note="503 above 4/s, with a date in Retry-After",
            pages=Pages(60),
            limit=refusing(bucket(4.0, 6.0), "date", 503),
            latency=QUICK,
        ),
        Site(
            name="quota.demo.test",
            note="40 requests in 10 s, announced in RateLimit fields",
            pages=Pages(50),
            limit=announcing(window(4.0, 10.0)),
            latency=QUICK,
        ),
    ]


def _troubled() -> list[Site]:
    """Sites where something is wrong."""
    return [
        Site(
            name="library.demo.test",
            note="answers in 1.2 s or so",
            pages=Pages(20),
            latency=LogNormal(1.2),
        ),
        Site(
            name="moved.demo.test",
            note="redirects: to new addresses, to another site, in a chain, in a circle",
            pages=Pages(12),
            features=(Redirects(moved=6, away=2, to="books.demo.test", loops=1, hops=3),),
            latency=QUICK,
        ),
        Site(
            name="museum.demo.test",
            note="down from its fourth to its tenth second",
            pages=Pages(40),
            outages=(Outage(4.0, 10.0, "reset"),),
            latency=QUICK,
        ),
        Site(
            name="attic.demo.test",
            note="pages that are gone, broken, or broken at the first try",
            pages=Pages(20),
            features=(Errors(missing=4, broken=1, flaky=2),),
            latency=QUICK,
        ),
    ]
