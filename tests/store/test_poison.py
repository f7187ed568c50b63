"""A row that cannot be stored costs nobody but itself [E4, E5]."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.outcome import Failure
from amble.core.sitemap.document import SitemapEntry
from amble.store.duckdb_store import DuckDBStore, memory_for
from amble.store.poison import isolate
from amble.store.seam import Batch, DomainRow, PageRow, RequestRow, SitemapListing, TaskDone, TaskState
from amble.store.writer import WriterLimits
from tests.store.support import BEGAN, ask, new_job, page, task
from tests.store.test_tables import definition


@given(st.lists(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_isolating_finds_exactly_the_bad_rows_and_keeps_the_order(rows: list[int], poison: set[int]) -> None:
    good, bad = isolate(rows, lambda part: "bad" if poison & set(part) else None)
    assert good == [row for row in rows if row not in poison]
    assert bad == [(row, "bad") for row in rows if row in poison]


@given(st.lists(st.integers(0, 9), min_size=1))
def test_of_rows_that_clash_with_each_other_the_first_stays(rows: list[int]) -> None:
    good, bad = isolate(rows, lambda part: "twice" if len(set(part)) < len(part) else None)
    assert good == list(dict.fromkeys(rows))
    assert len(good) + len(bad) == len(rows)


def test_isolating_one_of_a_hundred_takes_few_tries() -> None:
    tries: list[int] = []

    def fits(part: Sequence[int]) -> str | None:
        tries.append(len(part))
        return "bad" if 77 in part else None

    isolate(range(100), fits)
    assert len(tries) <= 16


@pytest.mark.parametrize(
    "fields",
    [
        {"body": "a\ud800b"},
        {"body": "a\0b"},
        {"title": "\udfff", "description": "\0", "error": "\ud800"},
        {"etag": "e" * 1_000_000, "last_modified": "\r\nX: 1", "content_type": "c" * 1_000_000},
        {"title": "t" * 1_000_000},
        {"http_status": 10**30, "depth": -(10**12), "attempts": 2**31},
        {"final_url": "https://a.test/\ud800", "parent_url": "https://a.test/\0"},
        {"elapsed_ms": float("nan")},
    ],
    ids=lambda fields: "+".join(fields),
)
def test_hostile_values_are_stored_as_far_as_they_can_be(store: DuckDBStore, fields: dict[str, Any]) -> None:
    """E4: sanitised before they meet the database, so that nobody has to look for them."""
    job_id = new_job(store)
    rows = [page(job_id, number, **(fields if number == 50 else {})) for number in range(100)]
    store.submit(Batch(pages=rows), urgent=True).result()
    assert ask(store, "SELECT count(*), count(body), count(*) FILTER (error_type IS NOT NULL) FROM pages") == [
        (100, 100, 0)
    ]
    assert ask(store, "FROM amble.rejected") == []


CHECKED = definition(
    title="VARCHAR CHECK (title <> 'poison')", http_status="SMALLINT", content_hash="VARCHAR UNIQUE"
).replace("SMALLINT", "INTEGER CHECK (http_status < 900)")


@pytest.mark.parametrize(
    ("fields", "why"),
    [({"title": "poison"}, "CHECK"), ({"content_hash": "h3"}, "UNIQUE|Duplicate")],
    ids=["a value that the table refuses", "a value that clashes with another row of the batch"],
)
def test_ninety_nine_are_stored_and_one_with_its_error(store: DuckDBStore, fields: dict[str, Any], why: str) -> None:
    """E5"""
    ask(store, f"CREATE TABLE pages ({CHECKED})")
    job_id = new_job(store)
    rows = [page(job_id, n, **({"content_hash": f"h{n}"} | (fields if n == 50 else {}))) for n in range(100)]
    done = [TaskDone(job_id, row.url, TaskState.DONE) for row in rows]
    store.submit(Batch(pages=rows, done=done), urgent=True).result()
    assert ask(store, "SELECT count(*), count(body) FROM pages") == [(100, 99)]
    ((url, error, error_type, status),) = ask(
        store, "SELECT url, error, error_type, http_status FROM pages WHERE body IS NULL"
    )
    assert url == "https://a.test/50"
    assert error.startswith("could not be stored")
    assert any(word in error for word in why.split("|"))
    assert error_type == Failure.CONTENT_DECODE_ERROR
    assert status == 200
    assert ask(store, "SELECT count(*) FROM amble.settled") == [(100,)]


def test_a_row_that_cannot_be_stored_at_all_is_noted(store: DuckDBStore) -> None:
    ask(store, f"CREATE TABLE pages ({CHECKED})")
    job_id = new_job(store)
    rows = [page(job_id, number, http_status=999 if number == 5 else 200) for number in range(10)]
    store.submit(Batch(pages=rows), urgent=True).result()
    assert ask(store, "SELECT count(*) FROM pages") == [(9,)]
    ((table, rejected_job, text, reason),) = ask(
        store, "SELECT table_name, job_id, row_text, reason FROM amble.rejected"
    )
    assert (table, rejected_job) == ('"main"."pages"', job_id)
    assert "https://a.test/5" in text
    assert "CHECK" in reason


def test_poison_outside_the_pages_costs_only_its_own_row(store: DuckDBStore) -> None:
    job_id = new_job(store)
    receipt = RequestRow(job_id, 1, "a.test", "https://a.test/", 1, 0.0, 0.0, BEGAN, 1.0, None, "minimum")
    batch = Batch(
        pages=[page(job_id, 1)],
        done=[TaskDone(job_id, "https://a.test/1", TaskState.DONE)],
        discovered=[task(job_id, 2), task(job_id, 3, parent_url="https://a.test/\ud800")],
        requests=[receipt, receipt._replace(permit=2**70), receipt._replace(rule="\ud800")],
        listings=[
            SitemapListing(
                job_id, "https://a.test/s.xml", BEGAN, [SitemapEntry("https://a.test/\ud800\n", priority=float("inf"))]
            )
        ],
        domains=[DomainRow("a.test", requests=2**80), DomainRow("b.test", numbers={"\ud800": 1.0})],
    )
    store.submit(batch, urgent=True).result()
    assert ask(store, "SELECT count(*) FROM pages") == [(1,)]
    assert ask(store, "SELECT count(*) FROM amble.requests") == [(2,)]
    assert ask(store, "SELECT count(*) FROM amble.tasks") == [(2,)]
    assert ask(store, "SELECT domain FROM amble.domains") == [("b.test",)]
    assert ask(store, "SELECT table_name FROM amble.rejected ORDER BY 1") == [
        ("amble.domain_log",),
        ("amble.requests",),
    ]
    assert store.state.paused is False


def test_a_batch_of_nothing_but_poison_holds_nobody_up(store: DuckDBStore) -> None:
    ask(store, f"CREATE TABLE pages ({CHECKED})")
    job_id = new_job(store)
    store.submit(Batch(pages=[page(job_id, n, http_status=999) for n in range(8)]))
    store.submit(Batch(pages=[page(job_id, 100)]), urgent=True).result()
    assert ask(store, "SELECT count(*) FROM pages") == [(1,)]
    assert ask(store, "SELECT count(*) FROM amble.rejected") == [(8,)]


def test_the_url_of_a_page_may_be_anything(store: DuckDBStore) -> None:
    job_id = new_job(store)
    store.submit(Batch(pages=[PageRow("\ud800\0", job_id=job_id), PageRow("", job_id=job_id)]), urgent=True).result()
    assert ask(store, "SELECT count(*) FROM pages") == [(2,)]


def test_a_body_that_no_memory_suffices_for_costs_only_itself(tmp_path: Path) -> None:
    """Memory may be short for a moment, so it is tried for some time first; but not for ever."""
    limits = WriterLimits(retry_s=0.001, retry_s_max=0.001)
    with DuckDBStore.open(tmp_path / "pages.duckdb", memory_limit="48MB", limits=limits) as store:
        job_id = new_job(store)
        pages = [page(job_id, 1), page(job_id, 2, body="x" * 40_000_000), page(job_id, 3)]
        store.submit(Batch(pages=pages), urgent=True).result(60)
        rows = ask(store, "SELECT url, body IS NULL, error FROM pages ORDER BY url")
    assert [(url, empty) for url, empty, _ in rows] == [(each.url, each is pages[1]) for each in pages]
    assert "Out of Memory" in rows[1][2]


@pytest.mark.parametrize("body_bytes_max", [10_485_760, 40_000_000, 80_000_000])
def test_bodies_as_long_as_the_settings_allow_find_room(tmp_path: Path, body_bytes_max: int) -> None:
    with DuckDBStore.open(tmp_path / "pages.duckdb", memory_limit=memory_for(body_bytes_max)) as store:
        job_id = new_job(store)
        store.submit(Batch(pages=[page(job_id, 1, body="x" * body_bytes_max)]), urgent=True).result(60)
        assert ask(store, "SELECT length(body) FROM pages") == [(body_bytes_max,)]
