"""The target table: made, checked, written in its own types, one row per URL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from amble.errors import StoreError
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, PageConfirmed, PageRow
from amble.store.tables import COLUMNS
from tests.store.conftest import QUICK
from tests.store.support import BEGAN, ask, new_job, page, visit


def definition(**changes: str | None) -> str:
    """The columns of a user's own table; None leaves one out."""
    columns = {name: kinds[0] for name, kinds in COLUMNS.items()} | changes
    return ", ".join(f'"{name}" {kind}' for name, kind in columns.items() if kind is not None)


def test_the_table_is_made_with_the_columns_of_a_page_in_order(store: DuckDBStore) -> None:
    new_job(store, "crawls.pages")
    assert tuple(row[0] for row in ask(store, "DESCRIBE crawls.pages")) == PageRow._fields


def test_every_field_comes_back_as_it_was_given(store: DuckDBStore) -> None:
    job_id = new_job(store)
    row = PageRow(
        "https://a.test/", "test,a)/", 200, "körper", "text/html", datetime(2025, 3, 1, 12, 0, 0, 123456, tzinfo=UTC),
        None, None, '"e"', "Mon, 01 Jan 2024 00:00:00 GMT", "ff", "https://a.test/x", 1, "a.test", 12.5, 3,
        "https://a.test/p", "link", "title", "description", "https://a.test/c", "noindex", 2, job_id,
    )  # fmt: skip
    store.submit(Batch(pages=[row]), urgent=True).result()
    stored = ask(store, "FROM pages")[0]
    assert stored == tuple(row._replace(crawl_time=row.crawl_time.replace(tzinfo=None)))  # type: ignore[union-attr]


def test_times_are_stored_in_utc_whatever_zone_they_came_in(store: DuckDBStore) -> None:
    job_id = new_job(store)
    east = datetime(2025, 3, 1, 17, tzinfo=timezone(timedelta(hours=5)))
    store.submit(Batch(pages=[page(job_id, 1, crawl_time=east)]), urgent=True).result()
    assert ask(store, "SELECT crawl_time FROM pages") == [(datetime(2025, 3, 1, 12),)]  # noqa: DTZ001


@pytest.mark.parametrize(
    ("columns", "stored"),
    [
        (definition(extra="INTEGER", noted="VARCHAR DEFAULT 'by us'"), "extra IS NULL AND noted = 'by us'"),
        (definition(body="BLOB"), "decode(body) = 'page 1'"),
        (definition(crawl_time="TIMESTAMPTZ"), f"crawl_time = TIMESTAMPTZ '{BEGAN.isoformat()}' + INTERVAL 1 SECOND"),
        (definition(http_status="BIGINT", depth="SMALLINT", elapsed_ms="FLOAT"), "http_status = 200"),
        (definition(url="VARCHAR PRIMARY KEY"), "http_status = 200"),
        (definition(url=None, body=None) + ', body VARCHAR, "URL" VARCHAR', "url = 'https://a.test/1'"),
    ],
    ids=["more columns", "body as BLOB", "times with a zone", "wider numbers", "a primary key", "another order"],
)
def test_an_existing_table_may_be_used_and_a_second_crawl_replaces_its_rows(
    path: Path, columns: str, stored: str
) -> None:
    for _ in range(2):
        with DuckDBStore.open(path, limits=QUICK) as store:
            ask(store, f"CREATE TABLE IF NOT EXISTS pages ({columns})")
            ask(store, "SET timezone = 'America/New_York'")
            job_id = new_job(store)
            store.submit(visit(job_id, 1), urgent=True).result()
            store.submit(visit(job_id, 1), urgent=True).result()
            assert ask(store, f"SELECT count(*), bool_and({stored}), max(job_id) FROM pages") == [(1, True, job_id)]
            assert ask(store, "FROM amble.rejected") == []


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        (f"CREATE TABLE pages ({definition(title=None, etag=None)})", "lacks the columns etag, title"),
        (f"CREATE TABLE pages ({definition(title='INTEGER')})", "has title INTEGER"),
        (f"CREATE TABLE pages ({definition(mine='INTEGER NOT NULL')})", "demands values for mine"),
        ("CREATE VIEW pages AS SELECT 1 AS url", "is a view"),
    ],
    ids=["a column missing", "a wrong type", "a column that we cannot fill", "a view"],
)
def test_a_table_that_cannot_take_pages_is_refused_before_the_crawl(store: DuckDBStore, sql: str, words: str) -> None:
    ask(store, sql)
    with pytest.raises(StoreError, match=words) as refused:
        new_job(store)
    assert refused.value.hint
    assert store.jobs() == []


def test_a_url_keeps_one_row_over_many_crawls(path: Path) -> None:
    for day in range(4):
        with DuckDBStore.open(path, limits=QUICK) as store:
            job_id = new_job(store)
            for number in range(60):
                later = BEGAN + timedelta(days=day, seconds=number % 7)
                store.submit(visit(job_id, number + 20 * day, crawl_time=later, body=f"day {day}"))
            store.flush().result()
            # 60 URLs the first day; each day 20 of them are left behind and 20 are new
            assert ask(store, "SELECT count(*), count(DISTINCT url) FROM pages") == [(60 + 20 * day, 60 + 20 * day)]
            assert ask(store, f"SELECT count(*) FROM pages WHERE body = 'day {day}'") == [(60,)]


def test_the_last_of_several_rows_for_a_url_in_one_batch_counts(store: DuckDBStore) -> None:
    job_id = new_job(store)
    store.submit(Batch(pages=[page(job_id, 1, body="first"), page(job_id, 1, body="second")]), urgent=True).result()
    assert ask(store, "SELECT body FROM pages") == [("second",)]


def test_two_jobs_of_one_table_meet_in_one_transaction(store: DuckDBStore) -> None:
    first, second = new_job(store), new_job(store)
    store.submit(Batch(pages=[page(first, 1), page(second, 1)]), urgent=True).result()
    assert ask(store, "SELECT job_id FROM pages") == [(second,)]


def test_rows_that_somebody_changed_meanwhile_are_replaced_all_the_same(store: DuckDBStore) -> None:
    """The time of a row leads to it; where it was changed, the whole table is looked through."""
    job_id = new_job(store)
    store.submit(Batch(pages=[page(job_id, 1), page(job_id, 2)]), urgent=True).result()
    ask(store, "UPDATE pages SET crawl_time = crawl_time + INTERVAL 1 DAY WHERE url LIKE '%/1'")
    ask(store, "DELETE FROM pages WHERE url LIKE '%/2'")
    store.submit(Batch(pages=[page(job_id, 1), page(job_id, 2)]), urgent=True).result()
    assert ask(store, "SELECT count(*), count(DISTINCT url) FROM pages") == [(2, 2)]


def test_rows_of_a_table_that_had_a_url_several_times_are_replaced_by_one(path: Path) -> None:
    with DuckDBStore.open(path, limits=QUICK) as store:
        new_job(store)
        ask(
            store,
            "INSERT INTO pages (url, crawl_time) VALUES ('https://a.test/1', NULL), "
            "('https://a.test/1', '2020-01-01'), ('https://a.test/1', '2021-01-01')",
        )
    with DuckDBStore.open(path, limits=QUICK) as store:
        store.submit(visit(new_job(store), 1), urgent=True).result()
        assert ask(store, "SELECT http_status FROM pages") == [(200,)]


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMPTZ"])
def test_an_unchanged_page_keeps_its_content_and_gets_a_new_date(store: DuckDBStore, kind: str) -> None:
    ask(store, f"CREATE TABLE pages ({definition(crawl_time=kind)})")
    first = new_job(store)
    store.submit(Batch(pages=[page(first, 1, etag='"1"', last_modified="then"), page(first, 2)]), urgent=True).result()
    second, later = new_job(store), BEGAN + timedelta(days=3)
    confirmed = [
        PageConfirmed(second, "https://a.test/1", later, etag='"2"', elapsed_ms=4.0),
        PageConfirmed(second, "https://a.test/unknown", later),
    ]
    store.submit(Batch(confirmed=confirmed), urgent=True).result()
    assert ask(store, "SELECT body, etag, last_modified, job_id FROM pages ORDER BY url") == [
        ("page 1", '"2"', "then", second),
        ("page 2", None, None, first),
    ]
    assert store.known_pages(second, ["https://a.test/1"])["https://a.test/1"].crawl_time == later
    store.submit(Batch(pages=[page(second, 1, body="news")]), urgent=True).result()
    assert ask(store, "SELECT count(*) FROM pages") == [(2,)]


def test_known_pages_tell_what_a_conditional_request_needs(store: DuckDBStore) -> None:
    job_id = new_job(store)
    rows = [page(job_id, n, etag=f'"{n}"', content_hash=str(n)) for n in range(50)]
    store.submit(Batch(pages=rows), urgent=True).result()
    known = store.known_pages(job_id, ["https://a.test/7", "https://a.test/49", "https://a.test/nowhere"])
    assert set(known) == {"https://a.test/7", "https://a.test/49"}
    seventh = known["https://a.test/7"]
    assert seventh[:7] == ("https://a.test/7", 200, BEGAN + timedelta(seconds=7), None, '"7"', None, "7")
