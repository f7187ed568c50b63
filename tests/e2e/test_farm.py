"""Whole crawls of the farm with the settings people start with, judged by the sites' own logs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from amble.core.pacing.events import CircuitClosed, CircuitOpened, Event
from amble.jobs import Job, JobResult
from amble.report.audit import audit
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.testing.farm import Farm, FarmProcess, Pages, Report, Site, slowdown, webs
from amble.testing.farm.graph import Tree
from amble.testing.farm.limits import bucket, refusing
from amble.testing.farm.outages import How, Outage
from amble.testing.lab.servers import LogNormal


@dataclass(frozen=True, slots=True)
class Crawled:
    """What came of a crawl: what the crawler says and what the sites say."""

    result: JobResult
    report: Report
    events: list[Event]


def crawl(farm: Farm | FarmProcess, file: Path, **settings: Any) -> Crawled:
    """Crawl all of a farm, and check what must hold for every crawl."""
    events: list[Event] = []
    ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver, "listeners": [events.append]}
    with DuckDBStore.open(file) as store:
        result = asyncio.run(Job.start(store, farm.roots(), Settings.of(settings), **ways).run())
        counts = store.counts(result.job_id)
        assert counts.accepted == counts.final, "something is stuck"
        assert audit(store.database.connect()).violations == ()
    with duckdb.connect(str(file)) as connection:
        rows = connection.execute("SELECT count(*), count(DISTINCT url) FROM pages").fetchall()
    assert rows == [(counts.accepted, counts.accepted)], "a URL without a row, or with two"
    return Crawled(result, farm.judge(), events)


def crawl_sites(sites: Iterable[Site], file: Path, **settings: Any) -> Crawled:
    with Farm(sites) as farm:
        return crawl(farm, file, **settings)


def missing(report: Report) -> dict[str, tuple[str, ...]]:
    return {site.host: site.missing for site in report.hosts if site.missing}


def test_fast_hosts_finish_beside_a_slow_one_as_they_do_alone(tmp_path: Path) -> None:
    size: dict[str, Any] = {"fast": 6, "pages": 15, "crawl_delay_s": 2.0}
    alone = crawl_sites(webs.isolation(slow_pages=0, **size), tmp_path / "alone.duckdb").report
    beside = crawl_sites(webs.isolation(slow_pages=3, **size), tmp_path / "beside.duckdb").report
    fast = [site.host for site in alone.hosts]
    assert missing(beside) == {}
    assert beside.violations == 0
    # Held up by the slow one even once, they would take twice as long.
    assert slowdown(alone, beside, fast) < 1.5
    assert beside.finished_s(fast) < beside["slow.test"].finished_s


def test_an_aggressive_shop_is_crawled_without_annoying_it(tmp_path: Path) -> None:
    """Told to use 22 workers; the shop takes two at a time, and three a second."""
    crawled = crawl_sites(webs.shop(28), tmp_path / "x.duckdb", max_parallel_per_domain=22)
    assert missing(crawled.report) == {}
    assert crawled.report.violations == 0
    assert crawled.report.refusals <= 15


def test_hidden_limits_are_found_and_kept(tmp_path: Path) -> None:
    crawled = crawl_sites(webs.hidden_limits(6, oracle_s=5.0), tmp_path / "x.duckdb")
    assert missing(crawled.report) == {}
    assert crawled.report.violations == 0, "most of all: nothing inside a Retry-After"
    assert crawled.report.in_flight_max <= 6 * 8, "the caps of the settings hold"
    assert all(site.refusals <= 10 for site in crawled.report.hosts), "the price of learning a host"


def test_a_second_crawl_of_the_same_file_begins_with_what_was_learned(tmp_path: Path) -> None:
    """The same pages are asked for again, whether they have changed, by a crawl that knows the limit already."""
    limited = Site(name="limited.test", pages=Pages(12, graph=Tree(12)), limit=refusing(bucket(2.0, 2.0)))
    with Farm([limited]) as farm:
        first = crawl(farm, tmp_path / "x.duckdb", discover=False, follow_links=True)
        farm.clear()
        second = crawl(farm, tmp_path / "x.duckdb", discover=False, follow_links=True, update_stale=True)
    assert missing(second.report) == {}, "every page was asked for again"
    assert first.report.refusals > second.report.refusals
    assert second.report["limited.test"].robots_fetches == 0, "it is known from the first crawl"


def test_hosts_that_go_down_are_waited_for_and_harm_nobody(tmp_path: Path) -> None:
    """[F7] Each circuit opens, a single trial closes it again, and all pages are got in the end."""
    quick = LogNormal(0.03)
    steady = [Site(name=f"steady{n}.test", pages=Pages(20), latency=quick) for n in (1, 2)]
    ways: tuple[How, ...] = ("reset", "error", "hang")
    down = [Site(name=f"{how}.test", pages=Pages(30), latency=quick, outages=(Outage(1.0, 4.0, how),)) for how in ways]
    settings: dict[str, Any] = {
        "pacing": "fixed", "fixed_delay": 0.1, "discover": False, "follow_links": True, "header_timeout_s": 1.0,
        "open_state_duration": 1.5, "consecutive_fail_threshold": 3,
    }  # fmt: skip
    alone = crawl_sites(steady, tmp_path / "alone.duckdb", **settings).report
    beside = crawl_sites([*steady, *down], tmp_path / "beside.duckdb", **settings)
    assert missing(beside.report) == {}
    assert slowdown(alone, beside.report, [site.name for site in steady]) < 1.5
    for kind in (CircuitOpened, CircuitClosed):
        told = {event.domain.partition(":")[0] for event in beside.events if isinstance(event, kind)}
        assert told == {site.name for site in down}, kind
    for site in down:
        [outage] = beside.report[site.name].outages
        assert outage.requests <= 16, "a site that is down is left in peace"
        assert outage.recovered_s is not None
