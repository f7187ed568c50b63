"""EXPLAIN CRAWL against the farm: what it asks for, what it leaves behind, and whether its forecast comes true."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from amble.jobs import Job, JobResult
from amble.jobs.shared import Shared
from amble.report.audit import audit
from amble.report.plan import HEADS, DomainPlan, Explained, explain
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, DomainRow
from amble.testing.farm import Farm, Pages, Robots, Site, Sitemap
from amble.testing.farm.limits import bucket, refusing
from amble.testing.farm.outages import Outage
from amble.testing.lab.servers import LogNormal

SITEMAP = Sitemap()


def listed(name: str, pages: int, **more: Any) -> Site:
    return Site(name=name, pages=Pages(pages), sitemap=SITEMAP, **more)


def plan(farm: Farm, file: Path, *, patience_s: float = 30.0, **settings: Any) -> Explained:
    ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver, "patience_s": patience_s}
    with DuckDBStore.open(file) as store:
        return asyncio.run(explain(store, farm.roots(), Settings.of(settings), **ways))


def crawl(farm: Farm, file: Path, **settings: Any) -> JobResult:
    ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
    with DuckDBStore.open(file) as store:
        return asyncio.run(Job.start(store, farm.roots(), Settings.of(settings), **ways).run())


def row(explained: Explained, name: str) -> DomainPlan:
    return next(domain for domain in explained.domains if domain.domain.startswith(name))


LEARNED = [listed("limited.test", 40, limit=refusing(bucket(8.0)))]
DELAYED = [listed("slow.test", 14, robots=Robots(crawl_delay_s=0.25)), listed("fast.test", 10)]
DISTANT = [listed("far.test", 30, latency=LogNormal(0.2, 0.1))]
UNPACED: dict[str, Any] = {"pacing": "fixed", "fixed_delay": 0, "max_rate": "unlimited"}


@pytest.mark.parametrize(
    ("sites", "settings", "crawled_before", "why"),
    [
        (LEARNED, {"max_rate": "unlimited"}, True, "learned"),
        (DELAYED, {}, False, "robots"),
        (DISTANT, {**UNPACED, "max_parallel_per_domain": 2}, False, "none"),
    ],
    ids=["learned in an earlier crawl", "asked for by robots.txt", "the response time of the site"],
)
def test_the_forecast_comes_true_within_a_fifth_where_the_pace_is_known(
    tmp_path: Path, sites: list[Site], settings: dict[str, Any], crawled_before: bool, why: str
) -> None:
    file = tmp_path / "x.duckdb"
    with Farm(sites) as farm:
        if crawled_before:
            crawl(farm, file, **settings)
            with DuckDBStore.open(file) as store:
                store.database.connect().execute("DELETE FROM pages")
            farm.clear()
        explained = plan(farm, file, **settings)
        result = crawl(farm, file, **settings)
    slowest = explained.domains[0]
    assert (slowest.why, slowest.sure) == (why, True)
    assert explained.total_s == slowest.expected_s
    assert explained.total_s == pytest.approx(result.seconds, rel=0.2)


def test_nothing_but_robots_and_sitemaps_is_asked_for(tmp_path: Path) -> None:
    index = Site(name="index.test", pages=Pages(25), sitemap=Sitemap(kind="index", per_file=10))
    with Farm([index, Site(name="bare.test", pages=Pages(5), robots=None)]) as farm:
        explained = plan(farm, tmp_path / "x.duckdb", **UNPACED)
        asked = {(entry.host.partition(":")[0], entry.path) for entry in farm.log()}
    assert asked == {
        ("index.test", "/robots.txt"),
        ("index.test", "/sitemap_index.xml"),
        *(("index.test", path) for path in ("/sitemap-1.xml", "/sitemap-2.xml", "/sitemap-3.xml")),
        ("bare.test", "/robots.txt"),
        ("bare.test", "/sitemap.xml"),
        ("bare.test", "/sitemap_index.xml"),
    }
    assert explained.requests == len(asked)
    assert (row(explained, "index").known, row(explained, "bare").known) == (25, 1)


def test_a_plan_leaves_receipts_and_robots_and_no_job(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    with Farm([listed("a.test", 5, robots=Robots(crawl_delay_s=0.6))]) as farm:
        plan(farm, file)
        assert sum(site.under_crawl_delay for site in farm.judge().hosts) == 0
        farm.clear()
        again = plan(farm, file)
        assert farm.log() == [], "what was found out is kept"
        fresh = plan(farm, file, sitemap_cache_hours=0)
        assert [entry.path for entry in farm.log()] == ["/sitemap.xml"]
        assert row(fresh, "a").expected_s > row(again, "a").expected_s, "the crawl will read it again, too"
    with DuckDBStore.open(file) as store:
        assert store.jobs() == []
        receipts = (
            store.database.connect().execute("SELECT job_id, count(*) FROM amble.requests GROUP BY job_id").fetchall()
        )
        assert receipts == [(0, 3)]
        assert audit(store.database.connect()).violations == ()
        tables = (
            store.database.connect()
            .execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'pages'")
            .fetchall()
        )
        assert tables == [(0,)], "nor a table for the pages"
    assert row(again, "a").why == "robots"


def test_a_plan_does_not_spoil_what_a_crawl_has_learned(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    with Farm([listed("limited.test", 25)]) as farm:
        numbers = {"limit": 2.0}
        domain = farm.url("limited.test").split("/")[2]
        kept = DomainRow(domain, adaptive_delay_seconds=1.5, learned_at=datetime.now(UTC), requests=70, successes=68,
                         strategy="linear", numbers=numbers)  # fmt: skip
        with DuckDBStore.open(file) as store:
            store.submit(Batch(domains=[kept]))
        found = row(plan(farm, file, pacing="linear"), "limited")
        with DuckDBStore.open(file) as store:
            [known] = store.load_domains()
    assert (found.why, found.delay_s) == ("learned", 1.5)
    assert known._replace(last_reserved_at=None, adaptive_delay_floor_seconds=None) == kept
    assert known.last_reserved_at is not None, "the next crawl keeps its distance to what the plan asked for"


def test_what_is_stored_or_refused_is_not_fetched(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    site = listed("a.test", 20, robots=Robots(disallow=("/people/",)))
    with Farm([site]) as farm:
        crawl(farm, file, **UNPACED, max_crawl_pages=5)
        with DuckDBStore.open(file) as store:
            [(stored,)] = (
                store.database.connect().execute("SELECT count(*) FROM pages WHERE error_type IS NULL").fetchall()
            )
        found = row(plan(farm, file, **UNPACED), "a")
        allowed = sum(1 for _ in site.paths())
    assert found.known == 20
    assert found.refused == 20 - allowed > 0
    assert found.stored == stored > 0
    assert found.to_fetch == allowed - stored


@pytest.mark.parametrize(
    ("stored", "budget", "to_fetch"),
    [(0, 5, 5), (5, 5, 5), (5, 2, 2), (18, 5, 2), (20, 5, 0), (5, None, 15)],
)
def test_a_budget_is_spent_on_what_the_table_lacks(
    tmp_path: Path, stored: int, budget: int | None, to_fetch: int
) -> None:
    """A plan of a crawl that goes on says what the crawl then does."""
    file = tmp_path / "x.duckdb"
    limited: dict[str, Any] = {**UNPACED, "max_crawl_pages": budget} if budget else UNPACED
    with Farm([listed("a.test", 20)]) as farm:
        if stored:
            crawl(farm, file, **UNPACED, max_crawl_pages=stored)
        found = row(plan(farm, file, **limited), "a")
        result = crawl(farm, file, **limited)
    assert (found.known, found.stored, found.to_fetch) == (20, stored, to_fetch)
    assert result.pages == to_fetch


def test_a_budget_goes_to_what_was_never_tried_then_to_what_failed(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    with Farm([listed("a.test", 6), listed("b.test", 6)]) as farm:
        crawl(farm, file, **UNPACED)
        with DuckDBStore.open(file) as store:
            connection = store.database.connect()
            connection.execute("UPDATE pages SET error_type = 'timeout', http_status = NULL WHERE url LIKE '%a.test%'")
            connection.execute("DELETE FROM pages WHERE url LIKE '%b.test%'")
        explained = plan(farm, file, **UNPACED, max_crawl_pages=8)
    assert (row(explained, "a").to_fetch, row(explained, "b").to_fetch) == (2, 6)


@pytest.mark.parametrize(("age", "stale"), [(timedelta(days=1), 0), (timedelta(days=30), 7)])
def test_what_is_stale_is_fetched_again_where_that_is_asked_for(tmp_path: Path, age: timedelta, stale: int) -> None:
    """A page without dates in its sitemap is due after a week."""
    file = tmp_path / "x.duckdb"
    with Farm([Site(name="a.test", pages=Pages(7), sitemap=Sitemap(lastmod=False))]) as farm:
        crawl(farm, file, **UNPACED)
        with DuckDBStore.open(file) as store:
            store.database.connect().execute(
                "UPDATE pages SET crawl_time = $1", [datetime.now(UTC).replace(tzinfo=None) - age]
            )
        kept = row(plan(farm, file, **UNPACED), "a")
        updated = row(plan(farm, file, **UNPACED, update_stale=True), "a")
    assert (kept.stored, kept.stale, kept.to_fetch) == (7, stale, 0)
    assert (updated.stored, updated.stale, updated.to_fetch) == (7, stale, stale)


def test_a_plan_counts_what_the_crawl_would_take(tmp_path: Path) -> None:
    """A statement with a WHERE takes only some of what is found."""
    with Farm([listed("a.test", 20)]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        found = asyncio.run(
            explain(
                store, farm.roots(), Settings.of(UNPACED), **ways,
                judge=lambda visits: [not visit.url.endswith(".html") for visit in visits],
            )
        )  # fmt: skip
    assert row(found, "a").known == 1


def test_a_plan_shares_the_budget_of_running_jobs(tmp_path: Path) -> None:
    """A crawl and a plan of it on one event loop: together they keep the delay."""
    settings = Settings.of({"pacing": "fixed", "fixed_delay": 0.2, "sitemap_cache_hours": 0})
    with Farm([listed("a.test", 6)]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver, "shared": Shared()}

        async def both() -> Explained:
            job = Job.start(store, farm.roots(), settings, **ways)
            assert job.membership is not None
            job.membership.begin(job.plan, job.clock, job.crawl.wake)
            running = asyncio.create_task(job.run())
            await asyncio.sleep(0.3)
            found = await explain(store, farm.roots(), settings, **ways)
            await running
            return found

        assert asyncio.run(both()).requests >= 1
        starts = sorted(entry.arrived for entry in farm.log())
    assert min(after - before for before, after in pairwise(starts)) > 0.15


@pytest.mark.parametrize(
    ("settings", "why", "delay_s"),
    [
        ({"rules": {"*": {"delay": 0.3}}}, "rule", 0.3),
        ({"min_crawl_delay": 0.3}, "min_crawl_delay", 0.3),
        ({"default_crawl_delay": 0.3}, "default", 0.3),
        ({"pacing": "fixed", "fixed_delay": 0.3}, "default", 0.3),
        ({"max_rate": 4.0}, "max_rate", 0.25),
        ({}, "max_rate", 0.125),
        ({"pacing": "linear"}, "default", 0.5),
    ],
)
def test_the_plan_says_what_sets_the_delay(tmp_path: Path, settings: dict[str, Any], why: str, delay_s: float) -> None:
    with Farm([listed("a.test", 80)]) as farm:
        [found] = plan(farm, tmp_path / "x.duckdb", **settings).domains
    assert found.why == why
    assert found.delay_s == pytest.approx(delay_s, rel=0.01)


def test_what_cannot_be_found_out_in_time_is_said(tmp_path: Path) -> None:
    hangs = Outage(0.0, 60.0, "hang")
    with Farm([Site(name="mute.test", outages=(hangs,)), listed("a.test", 4)]) as farm:
        explained = plan(farm, tmp_path / "x.duckdb", patience_s=1.5, **UNPACED)
    mute = row(explained, "mute")
    assert not mute.sure
    assert "robots.txt could not be read; 1 URLs wait for it" in explained.as_text()
    assert row(explained, "a").known == 4


def test_a_plan_reads_well_in_every_form(tmp_path: Path) -> None:
    with Farm([listed("a.test", 4), listed("b.test", 2)]) as farm:
        explained = plan(farm, tmp_path / "x.duckdb")
    lines = explained.as_rows()
    assert [len(line) for line in lines] == [len(HEADS)] * 3
    assert lines[-1][:2] == ("total", 6)
    assert lines[-1][-2] == explained.total_s == max(line[-2] for line in lines)
    assert lines[-1][-1] == lines[0][-1] == "at best: its pace is still to be learned"
    assert json.loads(json.dumps(explained.as_dict()))["sure"] is False
    assert explained.as_text().splitlines()[-1].startswith("* the pace")
    assert "<td>a.test:" in explained._repr_html_()


@pytest.mark.parametrize(
    ("site", "follow_links", "leads_on"),
    [
        (listed("a.test", 4), "auto", False),
        (listed("a.test", 4), True, True),
        (Site(name="a.test", pages=Pages(4)), "auto", True),
        (Site(name="a.test", pages=Pages(4)), False, False),
    ],
)
def test_a_plan_says_where_links_will_lead_further(
    tmp_path: Path, site: Site, follow_links: str | bool, leads_on: bool
) -> None:
    with Farm([site]) as farm:
        explained = plan(farm, tmp_path / "x.duckdb", follow_links=follow_links, **UNPACED)
    assert ("its links will lead to more pages" in explained.as_rows()[0][-1]) is leads_on
    assert ("its links will lead to more pages" in explained.as_text()) is leads_on


def test_a_plan_without_domains_is_all_zeros() -> None:
    assert Explained((), 0.0, 0, 0.0).as_rows()[-1][:2] == ("total", 0)
    assert "total" in Explained((), 0.0, 0, 0.0).as_text()
