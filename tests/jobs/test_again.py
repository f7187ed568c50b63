"""A second crawl into the same table, and windows so small that most tasks lie in the store: real files and sockets."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from amble.core.frontier.backlog import Window
from amble.jobs import Job, JobResult
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Counts, JobStatus
from amble.store.writer import WriterLimits
from amble.testing.farm import Farm, Pages, Robots, Site, Sitemap
from amble.testing.farm.outages import Outage

QUICK: dict[str, Any] = {"pacing": "fixed", "fixed_delay": 0, "max_rate": "unlimited"}
LINKS = {**QUICK, "discover": False, "follow_links": True}
SOON = WriterLimits(linger_s=0.02)
COUNT = 25


def crawl(farm: Farm, file: Path, window: Window | None = None, stop_after: int | None = None,
          job_id: int | None = None, **settings: Any) -> tuple[JobResult, Counts]:  # fmt: skip
    """Crawl the farm into a file, or take up a job; `stop_after` so many pages it is drained."""
    ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver, "window": window or Window()}

    async def run(store: DuckDBStore) -> JobResult:
        if job_id is None:
            job = Job.start(store, farm.roots(), Settings.of({**LINKS, **settings}), **ways)
        else:
            job = Job.take_up(store, job_id, **ways)
        if stop_after is not None:
            on_changes = job.crawl._on_changes

            def stopping(*told: Any) -> None:
                on_changes(*told)
                if job.result.pages >= stop_after and not job.plan.frontier.draining:
                    job.crawl.drain()

            job.crawl._on_changes = stopping
        return await job.run()

    with DuckDBStore.open(file, limits=SOON) as store:
        result = asyncio.run(run(store))
        return result, store.counts(result.job_id)


def asked(farm: Farm) -> Counter[str]:
    """What the farm was asked for since it was last cleared, by path, without robots.txt."""
    return Counter(entry.target for entry in farm.log() if not entry.is_robots)


def rows(file: Path, sql: str) -> list[tuple[Any, ...]]:
    with DuckDBStore.open(file) as store:
        cursor = store.database.connect()
        found = cursor.execute(sql).fetchall()
        cursor.close()
    return found


def test_a_second_crawl_asks_for_nothing_that_is_there(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    with Farm([Site(name="a.test", pages=Pages(COUNT))]) as farm:
        crawl(farm, file)
        before = rows(file, "SELECT url, crawl_time, job_id, content_hash FROM pages ORDER BY url")
        farm.clear()
        again, counts = crawl(farm, file)
        assert asked(farm) == Counter()
    assert (again.status, again.pages, again.stored) == (JobStatus.COMPLETED, 0, COUNT)
    assert counts.skipped == counts.accepted == COUNT
    assert rows(file, "SELECT url, crawl_time, job_id, content_hash FROM pages ORDER BY url") == before


@pytest.mark.parametrize("window", [Window(), Window(2, 5, 2)], ids=["large", "tiny"])
def test_a_second_crawl_finds_what_the_first_did_not_finish(tmp_path: Path, window: Window) -> None:
    file = tmp_path / "x.duckdb"
    with Farm([Site(name="a.test", pages=Pages(COUNT))]) as farm:
        crawl(farm, file, max_crawl_pages=7)
        farm.clear()
        crawl(farm, file, window)
        assert sum(asked(farm).values()) == COUNT - 7
        assert [host.missing for host in farm.judge().hosts if host.missing] != []
    assert rows(file, "SELECT count(*), count(DISTINCT url), count(body) FROM pages") == [(COUNT, COUNT, COUNT)]


@pytest.mark.parametrize("window", [Window(), Window(2, 5, 2)], ids=["large", "tiny"])
def test_a_budget_is_for_what_is_not_there_also_over_a_resumption(tmp_path: Path, window: Window) -> None:
    file = tmp_path / "x.duckdb"
    with Farm([Site(name="a.test", pages=Pages(COUNT))]) as farm:
        crawl(farm, file, max_crawl_pages=7)
        farm.clear()
        first, _ = crawl(farm, file, window, stop_after=3, max_crawl_pages=10)
        assert first.status is JobStatus.PAUSED
        with DuckDBStore.open(file) as store:
            store.resume(first.job_id)
            assert 3 <= store.spent(first.job_id) <= 10
        second, counts = crawl(farm, file, window, job_id=first.job_id)
        assert second.status is JobStatus.COMPLETED
        assert (sum(asked(farm).values()), max(asked(farm).values())) == (10, 1)
    assert (counts.done, counts.skipped) == (10, 7)
    assert rows(file, "SELECT count(*), count(body) FROM pages") == [(17, 17)]


def test_failed_urls_are_tried_again_and_replace_their_row(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    sites = [
        Site(name="a.test", pages=Pages(3)),
        Site(name="b.test", pages=Pages(3), outages=(Outage(0, 600, "error"),)),
    ]
    impatient: dict[str, Any] = {"max_retries": 0, "robots_unreachable": "allow"}
    with Farm(sites) as farm:
        crawl(farm, file, **impatient)
        failed = rows(file, "SELECT count(*) FROM pages WHERE error_type IS NOT NULL")
        farm.replace(Site(name="b.test", pages=Pages(3)))
        farm.clear()
        crawl(farm, file, **impatient)
        assert {entry.host for entry in farm.log() if not entry.is_robots} == {"b.test"}
    assert failed[0][0] > 0
    assert rows(file, "SELECT count(*), count(error_type) FROM pages") == [(6, 0)]


def test_stale_pages_are_asked_conditionally_and_a_304_keeps_the_row(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    with Farm([Site(name="a.test", pages=Pages(COUNT))]) as farm:
        crawl(farm, file)
        before = dict(rows(file, "SELECT url, (body, title, content_hash, etag) FROM pages"))
        times = dict(rows(file, "SELECT url, crawl_time FROM pages"))
        farm.replace(Site(name="a.test", pages=Pages(COUNT, edition=2)))
        farm.clear()
        again, counts = crawl(farm, file, update_stale=True)
        statuses = Counter(entry.status for entry in farm.log() if not entry.is_robots)
    assert statuses == {304: 20, 200: 5}
    assert (again.pages, counts.done, counts.accepted) == (COUNT, COUNT, COUNT)
    after = dict(rows(file, "SELECT url, (body, title, content_hash, etag) FROM pages"))
    assert sum(after[url] != before[url] for url in before) == 5
    assert rows(file, "SELECT DISTINCT job_id FROM pages") == [(2,)]
    assert all(time >= times[url] for url, time in rows(file, "SELECT url, crawl_time FROM pages"))


@pytest.mark.parametrize(("hours", "fetched"), [(24.0, 0), (0.0, 2)], ids=["cached", "not cached"])
def test_sitemaps_read_lately_are_not_fetched_again(tmp_path: Path, hours: float, fetched: int) -> None:
    file = tmp_path / "x.duckdb"
    listed = Site(name="a.test", pages=Pages(8), sitemap=Sitemap(kind="index", per_file=50))
    with Farm([listed]) as farm:
        settings: dict[str, Any] = {"discover": True, "follow_links": "auto", "sitemap_cache_hours": hours}
        crawl(farm, file, **settings)
        farm.clear()
        again, _ = crawl(farm, file, **settings)
        assert sum("sitemap" in path for path in asked(farm).elements()) == fetched
    assert again.stored == 8


@pytest.mark.parametrize(("hours", "asked_again"), [(24.0, 0), (0.0, 2)], ids=["cached", "not cached"])
def test_that_there_is_no_sitemap_is_kept_for_sitemap_cache_hours(
    tmp_path: Path, hours: float, asked_again: int
) -> None:
    file = tmp_path / "x.duckdb"
    with Farm([Site(name="a.test", pages=Pages(8))]) as farm:
        settings: dict[str, Any] = {"discover": True, "follow_links": "auto", "sitemap_cache_hours": hours}
        first, _ = crawl(farm, file, **settings)
        assert sum("sitemap" in path for path in asked(farm).elements()) == 2
        farm.clear()
        again, _ = crawl(farm, file, **settings)
        assert sum("sitemap" in path for path in asked(farm).elements()) == asked_again
    assert first.pages == again.stored == 8, "its links are followed all the same"
    assert rows(file, "SELECT DISTINCT failure FROM amble.bare_sitemaps") == [("http_client_error",)]


def test_what_a_sitemap_calls_fresh_is_not_asked_for_though_stale_pages_are_updated(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    listed = Site(name="a.test", pages=Pages(8), sitemap=Sitemap())
    with Farm([listed]) as farm:
        settings: dict[str, Any] = {"discover": True, "follow_links": "auto", "update_stale": True}
        crawl(farm, file, **settings)
        farm.clear()
        again, _ = crawl(farm, file, **settings)
        assert asked(farm) == Counter()
    assert again.stored == 8


# --- Windows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [Window(1, 1, 1), Window(3, 4, 2), Window(10)], ids=str)
def test_a_crawl_whose_tasks_lie_in_the_store_visits_all_of_them(tmp_path: Path, window: Window) -> None:
    sites = [Site(name="a.test", pages=Pages(60)), Site(name="b.test", pages=Pages(30), sitemap=Sitemap())]
    with Farm(sites) as farm:
        result, counts = crawl(farm, tmp_path / "x.duckdb", window, discover=None)
        assert [host.missing for host in farm.judge().hosts] == [(), ()]
    assert result.status is JobStatus.COMPLETED
    assert counts == Counts(done=90)


def test_a_job_is_taken_up_from_its_windows(tmp_path: Path) -> None:
    """L1, L2: accepted = waiting + running + deferred + final, in every run, and nothing is asked for twice."""
    file, window = tmp_path / "x.duckdb", Window(4, 8, 2)
    with Farm([Site(name="a.test", pages=Pages(60))]) as farm:
        result, counts = crawl(farm, file, window, stop_after=10, max_pages_per_domain=50)
        assert (result.status, counts.running) == (JobStatus.PAUSED, 0)
        assert counts.waiting > 0
        result, counts = crawl(farm, file, window, stop_after=10, job_id=result.job_id)
        assert counts.final >= 20
        result, counts = crawl(farm, file, window, job_id=result.job_id)
        assert max(asked(farm).values()) == 1
    assert (result.status, counts) == (JobStatus.COMPLETED, Counts(done=50))


def test_a_domain_that_robots_closes_ends_from_the_store_too(tmp_path: Path) -> None:
    closed = Site(name="a.test", pages=Pages(40), robots=Robots(disallow=("/essays", "/notes")), sitemap=Sitemap())
    with Farm([closed]) as farm:
        result, counts = crawl(farm, tmp_path / "x.duckdb", Window(3), discover=True, follow_links=False)
    assert result.status is JobStatus.COMPLETED
    assert counts.skipped > 10
    assert counts.done + counts.skipped == counts.accepted == 40


def test_links_and_sitemap_entries_are_stored_as_they_were_read(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    with Farm([Site(name="a.test", pages=Pages(6), sitemap=Sitemap())]) as farm:
        crawl(farm, file, discover=True)
    home = rows(file, "SELECT url FROM pages WHERE depth = 0 ORDER BY length(url)")[0][0]
    assert rows(file, f"SELECT count(*) > 3 FROM amble.links WHERE from_url = '{home}'") == [(True,)]
    assert rows(file, "SELECT count(*) FROM amble.links WHERE rel = 'canonical'") == [(6,)]
    assert rows(file, "SELECT count(*), count(lastmod), count(DISTINCT sitemap) FROM amble.sitemap_urls") == [(6, 6, 1)]


def test_a_budget_goes_to_what_was_never_tried_before_what_failed(tmp_path: Path) -> None:
    """The same list with the same budget again and again: it gets through, though its beginning never works."""
    gone = [f"/gone/{number}" for number in range(5)] + [f"/private/{number}" for number in range(5)]
    settings = Settings.of({**QUICK, "discover": False, "follow_links": False, "max_crawl_pages": 10})
    robots = Robots(disallow=("/private/",))
    with Farm([Site(name="a.test", pages=Pages(15), robots=robots)]) as farm:
        good = list(farm.sites[0].paths())
        seeds = [farm.url("a.test", path) for path in (*gone, *good)]
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        runs = []
        with DuckDBStore.open(tmp_path / "x.duckdb") as store:
            for _ in range(4):
                farm.clear()
                result = asyncio.run(Job.start(store, seeds, settings, **ways).run())
                runs.append((sum(asked(farm).values()), result.pages, result.left_out["max_crawl_pages"]))
    assert runs == [
        (5, 0, 15),  # what robots.txt forbids is in the budget once
        (10, 10, 15),
        (10, 5, 5),  # nothing is left that was never tried: five of those that failed
        (5, 0, 0),  # all that is left
    ]
