"""SQL from people we do not know: one SELECT, no files, no writes, no end of time [E3]."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from amble.errors import QueryRefused
from amble.store import query
from amble.store.duckdb_store import DuckDBStore
from amble.store.query import BYTES_MAX, _memory_bytes
from tests.store.conftest import QUICK
from tests.store.support import ask, new_job, visit


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBStore]:
    path = tmp_path_factory.mktemp("served") / "site.duckdb"
    with DuckDBStore.open(path, limits=QUICK, sealed=True) as store:
        ask(store, "CREATE SEQUENCE ids")
        job_id = new_job(store)
        for number in range(20):
            store.submit(visit(job_id, number))
        store.flush().result()
        yield store


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(*) FROM pages", [(20,)]),
        ("FROM pages SELECT count(*);", [(20,)]),
        ("WITH p AS (SELECT * FROM pages) SELECT count(*) FROM p -- one; statement", [(20,)]),
        ("VALUES ('a;b')", [("a;b",)]),
        ("SELECT count(*) FROM amble.tasks WHERE state = 'done'", [(20,)]),
        ("SELECT surt('http://a.test/b'), css_select('<p>x</p>', 'p')", [("test,a)/b", ["x"])]),
    ],
)
def test_a_select_is_answered(served: DuckDBStore, sql: str, rows: list[tuple[object, ...]]) -> None:
    assert served.read_only_query(sql, 10).rows == rows


REFUSED = [
    "",
    ";",
    "SELEC 1",
    "SELECT 1; SELECT 2",
    "SELECT ?",
    "INSERT INTO pages (url) VALUES ('x')",
    "UPDATE pages SET url = 'x'",
    "DELETE FROM pages",
    "DROP TABLE pages",
    "CREATE TABLE x (n INTEGER)",
    "WITH x AS (INSERT INTO pages (url) VALUES ('x') RETURNING *) FROM x",
    "WITH x AS (DELETE FROM pages RETURNING *) FROM x",
    "WITH x AS (UPDATE amble.jobs SET status = 'failed' RETURNING *) FROM x",
    "SELECT nextval('ids')",
    "SELECT * FROM query('DELETE FROM pages')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "FROM '/etc/passwd'",
    "FROM 'https://example.com/x.csv'",
    "FROM served",  # a Python variable of this process
    "SELECT getenv('HOME')",
    "FROM duckdb_secrets()",
    "COPY pages TO 'out.csv'",
    "ATTACH 'other.duckdb' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit = '1GB'",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "EXPLAIN ANALYZE DELETE FROM pages",
    "CHECKPOINT",
    "BEGIN",
    "SELECT '\ud800'",
    "CRAWL (SELECT 'https://example.com/') INTO pages",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_anything_else_is_refused_and_changes_nothing(served: DuckDBStore, sql: str) -> None:
    """E3"""
    with pytest.raises(QueryRefused) as refused:
        served.read_only_query(sql, 10)
    assert refused.value.hint
    assert ask(served, "SELECT count(*), count(DISTINCT url) FROM pages") == [(20, 20)]
    assert [job.status for job in served.jobs()] == ["queued"]


def test_a_query_that_takes_too_long_is_stopped_and_the_next_is_answered(served: DuckDBStore) -> None:
    endless = "SELECT count(*) FROM range(100000000000) a, range(1000) b WHERE a.range % 7 = b.range"
    with pytest.raises(QueryRefused, match=r"longer than 0\.2 s"):
        served.read_only_query(endless, 0.2)
    assert served.read_only_query("SELECT 1", 10).rows == [(1,)]


def test_only_the_first_rows_are_given(served: DuckDBStore) -> None:
    result = served.read_only_query("SELECT range AS n FROM range(100000000000)", 20, rows_max=3)
    assert result == (("n",), [(0,), (1,), (2,)], True)
    assert not served.read_only_query("SELECT 1 AS n", 10, rows_max=1).truncated


def test_the_crawl_goes_on_while_it_is_asked(served: DuckDBStore) -> None:
    counts: list[int] = []

    def look() -> None:
        counts.extend(served.read_only_query("SELECT count(*) FROM pages", 20).rows[0][0] for _ in range(15))

    job_id = new_job(served, "others")
    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(200):
        served.submit(visit(job_id, number))
    served.flush().result(30)
    for thread in threads:
        thread.join(30)
    assert counts == [20] * 45
    assert ask(served, "SELECT count(*) FROM others") == [(200,)]


def test_a_store_that_is_not_sealed_answers_no_strangers(path: Path) -> None:
    with DuckDBStore.open(path, limits=QUICK) as store, pytest.raises(QueryRefused, match="sealed"):
        store.read_only_query("SELECT 1", 1)


def test_a_sealed_store_writes_checkpoints_and_closes_like_any_other(path: Path) -> None:
    with DuckDBStore.open(path, limits=QUICK, sealed=True) as store:
        job_id = new_job(store)
        for number in range(300):
            store.submit(visit(job_id, number))
        store.flush().result()
        ask(store, "CHECKPOINT")
        store.submit(visit(job_id, 999), urgent=True).result()
    with DuckDBStore.open(path, limits=QUICK) as store:
        assert ask(store, "SELECT count(*) FROM pages") == [(301,)]


# --- no question may end the crawl -----------------------------------------------------------------------------------


def test_an_answer_is_cut_at_so_many_bytes_and_says_so(served: DuckDBStore) -> None:
    found = served.read_only_query("SELECT repeat('x', 100000) FROM range(5000)", 30)
    assert found.truncated
    assert 70 <= len(found.rows) <= 80
    assert sum(len(row[0]) for row in found.rows) <= BYTES_MAX


def test_what_is_nested_counts_as_well(served: DuckDBStore) -> None:
    found = served.read_only_query("SELECT [{'a': repeat('x', 100000)}] FROM range(500)", 30)
    assert found.truncated
    assert len(found.rows) <= 80


def test_a_row_that_is_longer_than_an_answer_is_refused_with_a_hint(served: DuckDBStore) -> None:
    with pytest.raises(QueryRefused, match="first row alone") as refused:
        served.read_only_query("SELECT repeat('x', 9000000)", 30)
    assert "left(" in str(refused.value.hint)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list(repeat('x', 1000)) FROM range(1000000)",
        "SELECT range FROM range(100000000) ORDER BY hash(range)",
        "SELECT string_agg(repeat('x', 1000000), '') FROM range(3000)",
    ],
)
def test_a_query_that_needs_much_memory_is_refused_and_the_writer_goes_on(served: DuckDBStore, sql: str) -> None:
    before = _memory_bytes()
    with pytest.raises(QueryRefused):
        served.read_only_query(sql, 60)
    assert _memory_bytes() - before < 1_000_000_000
    job_id = new_job(served)
    served.submit(visit(job_id, 1000)).result(60)


def test_a_query_that_grows_beyond_what_can_be_spared_is_interrupted(
    served: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = iter([0, 10_000_000_000])
    monkeypatch.setattr(query, "_memory_bytes", lambda: next(sizes, 10_000_000_000))
    with pytest.raises(QueryRefused, match="more memory"):
        served.read_only_query("SELECT count(*) FROM range(100000000000)", 60)


def test_a_query_is_interrupted_when_nobody_waits_for_it(served: DuckDBStore) -> None:
    gone = threading.Event()
    threading.Timer(0.2, gone.set).start()
    with pytest.raises(QueryRefused, match="nobody waits"):
        served.read_only_query("SELECT count(*) FROM range(100000000000)", 60, is_gone=gone.is_set)
