"""A small web of sites, crawled as users crawl and judged from the server's side alone [P1, P3, P5, F5, F14, L1]."""

from __future__ import annotations

from amble.core.frontier.changes import State
from amble.testing.farm import Farm, Pages, Robots, Site, Sitemap
from amble.testing.farm.faults import Errors, Private
from amble.testing.farm.limits import bucket, refusing
from amble.testing.farm.redirects import Redirects
from tests.crawl.rig import crawl

SITES = [
    Site(name="plain.test", pages=Pages(20)),
    Site(name="listed.test", pages=Pages(15), sitemap=Sitemap("index", compressed=True, per_file=4)),
    Site(name="slow.test", pages=Pages(4), robots=Robots(crawl_delay_s=0.8)),
    Site(name="closed.test", pages=Pages(5), robots=Robots(disallow=("/",))),
    Site(name="private.test", pages=Pages(8), robots=Robots(disallow=("/private/",)), features=(Private(4),)),
    Site(name="moved.test", pages=Pages(5), features=(Redirects(moved=4, away=2, to="plain.test", loops=1, hops=3),)),
    Site(name="limited.test", pages=Pages(6), limit=refusing(bucket(1.5, 1.0))),
    Site(name="attic.test", pages=Pages(6), features=(Errors(missing=2, flaky=2),)),
]


async def test_a_web_of_many_characters_is_got_whole_and_no_rule_is_broken() -> None:
    with Farm(SITES) as farm:
        crawled = await crawl(
            farm.roots(), policy=farm.policy, resolver=farm.resolver, discover=None, pacing="gauge", max_rate=20.0,
            max_retries=5, retry_backoff="fibonacci", open_state_duration=2.0, open_state_duration_max=10.0,
        )  # fmt: skip
        report = farm.judge()
        log = farm.log()
    shown = "\n".join(report.table())
    assert report.violations == 0, shown
    assert (report.got, report.pages) == (report.pages, report.pages), shown
    assert all(one.robots_fetches == 1 for one in report.hosts), shown
    assert report["limited.test"].refusals > 0  # there was something to keep to
    assert report["slow.test"].under_crawl_delay == 0
    assert crawled.count(State.DEFERRED) == 0
    ends = crawled.ends()
    assert ends[farm.url("closed.test")] == "robots_disallowed"
    assert sum(end == "too_many_redirects" for end in ends.values()) == 1
    assert [entry for entry in log if {"cookie", "authorization", "referer"} & entry.headers.keys()] == []
