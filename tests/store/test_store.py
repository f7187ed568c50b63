"""What a store remembers besides pages and tasks: jobs, domains, robots.txt, sitemaps, receipts, links."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from amble.core.page.links import Link
from amble.core.robots.verdict import RobotsRow
from amble.core.sitemap.document import ChangeFreq, SitemapEntry
from amble.errors import StoreError
from amble.store.database import Database
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import (
    Batch,
    DomainRow,
    JobChange,
    JobRow,
    JobStatus,
    LinkRow,
    RequestRow,
    SitemapListing,
    SitemapUrlRow,
    TaskDone,
    TaskState,
)
from tests.store.conftest import QUICK
from tests.store.support import BEGAN, ask, new_job, page_links, task, visit

LATER = BEGAN + timedelta(hours=2)


def test_what_is_handed_to_duckdb_in_several_portions_is_stored_whole(store: DuckDBStore) -> None:
    job_id = new_job(store)
    ends = [TaskDone(job_id, f"https://a.test/{number}", TaskState.DONE) for number in range(2_500)]
    store.submit(Batch(done=ends)).result()
    assert ask(store, "SELECT count(*), count(DISTINCT url) FROM amble.settled") == [(2_500, 2_500)]


def test_a_job_is_kept_with_its_settings_and_seeds(path: Path) -> None:
    settings = {"follow_links": True, "max_crawl_pages": 5, "user_agent": "amble/1 (ü \ud800)"}
    with DuckDBStore.open(path, limits=QUICK) as store:
        job = store.create_job("crawls.pages", settings, ["https://a.test/", "b.test"], BEGAN)
        assert job == store.jobs()[0]
        assert job.target == '"crawls"."pages"'
        store.set_job_state(JobChange(job.id, JobStatus.RUNNING, BEGAN)).result()
        store.set_job_state(JobChange(job.id, JobStatus.RUNNING, LATER)).result()
        change = JobChange(job.id, JobStatus.FAILED, LATER, "no domain left", {"pages": 3})
        store.set_job_state(change).result()
        assert store.create_job("pages", {}, [], LATER).id == job.id + 1
    with DuckDBStore.open(path, limits=QUICK) as store:
        assert store.jobs()[0] == JobRow(
            job.id, JobStatus.FAILED, settings, ("https://a.test/", "b.test"), '"crawls"."pages"', BEGAN, BEGAN, LATER,
            {"pages": 3}, "no domain left",
        )  # fmt: skip
        store.submit(visit(job.id, 1), urgent=True).result()  # the target is known again
        assert ask(store, "SELECT count(*) FROM crawls.pages") == [(1,)]


def test_a_job_whose_process_died_is_found_paused(path: Path) -> None:
    with DuckDBStore.open(path, limits=QUICK) as store:
        running, queued = new_job(store), new_job(store)
        store.set_job_state(JobChange(running, JobStatus.RUNNING, BEGAN)).result()
    with DuckDBStore.open(path, limits=QUICK) as store:
        assert {job.id: job.status for job in store.jobs()} == {running: JobStatus.PAUSED, queued: JobStatus.QUEUED}


def test_the_last_word_on_a_domain_holds(path: Path) -> None:
    learned = DomainRow(
        "a.test", 1.5, 2.25, 1.0, 4, BEGAN, LATER, None, BEGAN, 10, 9, 1, 0, "gauge", {"rate": 0.125}, LATER, BEGAN
    )
    with DuckDBStore.open(path, limits=QUICK) as store:
        store.submit(Batch(domains=[learned._replace(requests=1), DomainRow("b.test")]))
        store.submit(Batch(domains=[learned]), urgent=True).result()
        assert store.load_domains(["a.test", "nowhere.test"]) == [learned]
    with DuckDBStore.open(path, limits=QUICK) as store:
        store.submit(Batch(domains=[DomainRow("b.test", requests=7)]), urgent=True).result()
        assert sorted(store.load_domains()) == [learned, DomainRow("b.test", requests=7)]
        assert sorted(row for part in store.domains_in_parts() for row in part) == sorted(store.load_domains())


def test_replaced_rows_of_domains_are_dropped_in_time(path: Path) -> None:
    with DuckDBStore.open(path, limits=QUICK) as store:
        for number in range(30):
            store.submit(Batch(domains=[DomainRow(f"d{d}.test", requests=number) for d in range(100)])).result()
    with DuckDBStore.open(path, limits=QUICK) as store:
        assert ask(store, "SELECT count(*) FROM amble.domain_log") == [(100,)]
        assert {row.requests for row in store.load_domains()} == {29}


def test_a_confirmed_robots_txt_keeps_its_body(store: DuckDBStore) -> None:
    first = RobotsRow("https://a.test", 200, b"User-agent: *\xff\0", '"1"', None, "https://a.test/robots.txt", BEGAN)
    store.submit(Batch(robots=[first, RobotsRow("https://b.test", 404, b"")]), urgent=True).result()
    store.submit(Batch(robots=[first._replace(body=None, etag=None, fetched_at=LATER)]), urgent=True).result()
    assert store.load_robots(["https://a.test"]) == [first._replace(etag=None, fetched_at=LATER)]
    assert [row.origin for row in sorted(store.load_robots())] == ["https://a.test", "https://b.test"]


def test_a_sitemap_is_remembered_as_it_was_last_read(store: DuckDBStore) -> None:
    sitemap = "https://a.test/s.xml"
    old = [SitemapEntry(f"https://a.test/{n}") for n in range(3)]
    new = SitemapEntry("https://a.test/9", BEGAN, ChangeFreq.DAILY, 0.8)
    store.submit(Batch(listings=[SitemapListing(0, sitemap, BEGAN, old)]), urgent=True).result()
    store.submit(Batch(listings=[SitemapListing(2, sitemap, LATER, [new])]), urgent=True).result()
    assert store.load_sitemap_urls(sitemap) == [SitemapUrlRow(new.url, sitemap, BEGAN, "daily", 0.8, LATER, 2)]
    assert store.load_sitemap_urls("https://a.test/other.xml") == []


def test_receipts_are_rows_to_be_queried(store: DuckDBStore) -> None:
    row = RequestRow(
        1, 77, "a.test", "https://a.test/", 3, 1.5, 1.75, BEGAN, 1.0, 1.25, "crawl_delay", 2, 200, "success", 0.1
    )
    store.submit(Batch(requests=[row, row._replace(permit=4, actual_gap_s=None)]), urgent=True).result()
    (stored,) = ask(store, "SELECT * FROM amble.requests WHERE permit = 3")
    assert stored == tuple(row._replace(started_at=BEGAN.replace(tzinfo=None)))
    assert ask(store, "SELECT count(*) FROM amble.requests WHERE actual_gap_s < required_gap_s") == [(0,)]


def test_links_are_rows_in_sql_and_those_of_the_last_reading_in_the_seam(store: DuckDBStore) -> None:
    old = [Link("https://a.test/old", "")]
    new = [
        Link("https://a.test/1", "first\tlink\n", ("nofollow",)),
        Link("https://b.test/", "zweiter – Link"),
        Link("https://b.test/x", "", ("ugc",)),
    ]
    other = [Link("https://a.test/", "")]
    here, there = "https://a.test/", "https://c.test/"
    store.submit(Batch(page_links=[page_links(1, here, old)]), urgent=True).result()
    store.submit(Batch(page_links=[page_links(2, here, new), page_links(2, there, other)]), urgent=True).result()
    assert store.links_of([here, "https://d.test/"]) == {
        here: [
            LinkRow("https://a.test/1", "nofollow", "first link "),
            LinkRow("https://b.test/", None, "zweiter – Link"),
            LinkRow("https://b.test/x", "ugc", None),
        ]
    }
    assert ask(store, "SELECT to_url FROM amble.links WHERE from_url = 'https://c.test/'") == [("https://a.test/",)]
    assert ask(store, "SELECT count(*) FROM amble.links") == [(5,)]


def test_a_batch_is_all_or_nothing_for_readers(path: Path) -> None:
    """Rows become visible together: a reader never sees a page without the tasks found on it."""
    seen: list[list[tuple[int, ...]]] = []

    def step(name: str) -> None:
        if name in ("pages_written", "before_commit", "committed") and armed:
            seen.append(ask(store, "SELECT (SELECT count(*) FROM pages), (SELECT count(*) FROM amble.tasks)"))

    armed: list[bool] = []
    with DuckDBStore.open(path, limits=QUICK, step=step) as store:
        job_id = new_job(store)
        armed.append(True)
        store.submit(visit(job_id, 1, links=5), urgent=True).result()
        armed.clear()
    assert seen == [[(0, 0)], [(0, 0)], [(1, 6)]]


def test_a_store_over_somebody_elses_connection_leaves_it_theirs() -> None:
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE mine AS SELECT 1 AS n")
    store = DuckDBStore(Database.over(connection), limits=QUICK)
    job_id = new_job(store)
    store.submit(visit(job_id, 1, links=2), urgent=True).result()
    assert len(store.claim(job_id, 9)) == 2
    store.close()
    assert connection.execute("SELECT count(*) FROM pages").fetchall() == [(1,)]
    assert connection.execute("FROM mine").fetchall() == [(1,)]
    connection.close()


def test_files_with_awkward_names_can_be_crawled_into(tmp_path: Path) -> None:
    for name in ("amble", "main", "memory", 'it\'s "odd" ünïcode', "a.b"):
        with DuckDBStore.open(tmp_path / f"{name}.duckdb", limits=QUICK) as store:
            job_id = new_job(store)
            store.submit(Batch(discovered=[task(job_id, 1)], pages=visit(job_id, 2).pages), urgent=True).result()
            assert len(store.claim(job_id, 1)) == 1
        assert (tmp_path / f"{name}.duckdb").exists()


def test_a_closed_store_says_so(path: Path) -> None:
    store = DuckDBStore.open(path, limits=QUICK)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.submit(Batch())


def test_the_file_can_be_read_by_plain_duckdb_afterwards(path: Path) -> None:
    with DuckDBStore.open(path, limits=QUICK) as store:
        store.submit(visit(new_job(store), 1), urgent=True).result()
    with duckdb.connect(path, read_only=True) as connection:
        assert connection.execute("SELECT url, body FROM pages").fetchall() == [("https://a.test/1", "page 1")]
        assert connection.execute("SELECT state FROM amble.tasks").fetchall() == [("done",)]
    assert not Path(f"{path}.wal").exists()


def test_a_file_may_be_renamed(path: Path) -> None:
    with DuckDBStore.open(path, limits=QUICK) as store:
        job_id = new_job(store)
        store.submit(visit(job_id, 1, links=2), urgent=True).result()
    moved = path.with_name("amble.duckdb")
    path.rename(moved)
    with DuckDBStore.open(moved, limits=QUICK) as store:
        assert store.counts(job_id).waiting == 2
        assert ask(store, "SELECT count(*) FROM amble.tasks") == [(3,)]
    moved = moved.rename(path.with_name("other.duckdb"))
    with duckdb.connect(moved, read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM amble.tasks").fetchall() == [(3,)]


def test_a_database_that_would_hide_our_schema_is_refused(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "amble.duckdb") as connection, pytest.raises(StoreError, match="named amble"):
        Database.over(connection)
