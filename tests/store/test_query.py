"""SQL from people we do not know: one SELECT, no files, no writes, no end of time [E3]."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from amble import spare_memory
from amble.errors import QueryRefused, StoreError
from amble.spare_memory import SPARE, resident_bytes
from amble.store.duckdb_store import DuckDBStore
from amble.store.guests import AT_ONCE
from amble.store.query import BYTES_MAX, MESSAGE_CHARS_MAX, _first_rows
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


def test_what_is_not_ascii_counts_as_what_it_takes(served: DuckDBStore) -> None:
    found = served.read_only_query("SELECT repeat('\u00e9', 100000) FROM range(500)", 30)
    assert found.truncated
    assert len(found.rows) <= 20


def test_long_rows_are_not_fetched_together() -> None:
    """Sixty-four of a hundred megabytes would be six gigabytes."""
    asked: list[int] = []

    class Fetched:
        def fetchmany(self, size: int) -> list[tuple[str]]:
            asked.append(size)
            return [("x" * 1_000_000,)] * size

    rows, truncated = _first_rows(Fetched(), 1_000, BYTES_MAX)  # type: ignore[arg-type]
    assert truncated
    assert (len(rows), asked) == (7, [1, 6, 1])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list(repeat('x', 1000)) FROM range(1000000)",
        "SELECT range FROM range(100000000) ORDER BY hash(range)",
        "SELECT string_agg(repeat('x', 1000000), '') FROM range(3000)",
    ],
)
def test_a_query_that_needs_much_memory_is_refused_and_the_writer_goes_on(served: DuckDBStore, sql: str) -> None:
    with growth_below(1_500_000_000), pytest.raises(QueryRefused):
        served.read_only_query(sql, 60)
    job_id = new_job(served)
    served.submit(visit(job_id, 1000)).result(60)


def test_queries_that_grow_beyond_what_can_be_spared_are_interrupted(
    served: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = iter([0, 10_000_000_000])
    monkeypatch.setattr(spare_memory, "resident_bytes", lambda: next(sizes, 10_000_000_000))
    with pytest.raises(QueryRefused, match="more memory"):
        served.read_only_query("SELECT count(*) FROM range(100000000000)", 60)


# Each in one step of a query, in which nothing interrupts it.
IN_ONE_STEP = [
    "SELECT list_transform(range(100000), lambda i: repeat('y', 1000000 + i::INTEGER))",
    "SELECT repeat('x', 100000000 + range::INTEGER % 2) FROM range(2000)",
    "SELECT range(2000000000)",
    "SELECT upper(repeat('x\u00e9', 50000000 + range::INTEGER % 2)) FROM range(2000)",
    "SELECT len(list_transform(range(1000000), lambda i: range(100000 + i)))",
]


@contextmanager
def growth_below(bytes_max: int) -> Iterator[None]:
    """Even for a moment, this process does not get so much longer."""
    peak = Path("/proc/self/clear_refs")
    if not peak.exists():
        pytest.skip("this system does not say what a process had")
    peak.write_text("5")
    before = resident_bytes()
    yield
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    assert int(line.split()[1]) * 1024 - before < bytes_max


@pytest.mark.parametrize("sql", IN_ONE_STEP)
def test_one_step_of_a_query_that_would_take_any_amount_is_refused(
    served: DuckDBStore, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    """Their first steps alone would take from ten to two hundred gigabytes."""
    monkeypatch.setattr(spare_memory, "GROWTH_BYTES_MAX", 60_000_000)
    with growth_below(1_200_000_000), pytest.raises(QueryRefused):
        served.read_only_query(sql, 60)
    job_id = new_job(served)
    served.submit(visit(job_id, 1001)).result(60)


def test_a_message_that_quotes_a_page_is_cut(served: DuckDBStore) -> None:
    for sql in ("SELECT error(repeat('x', 5000000))", "SELECT repeat('x', 5000000)::INTEGER", "SELEC '" + "x" * 50_000):
        with pytest.raises(QueryRefused) as refused:
            served.read_only_query(sql, 60)
        assert len(str(refused.value)) < MESSAGE_CHARS_MAX + 200


def test_so_many_queries_run_at_once_and_others_wait_for_them(served: DuckDBStore) -> None:
    over, waited = threading.Event(), threading.Event()

    def ask_on() -> None:
        with pytest.raises(QueryRefused, match="nobody waits"):
            served.read_only_query("SELECT count(*) FROM range(100000000000)", 60, is_gone=over.is_set)

    def ask_too() -> None:
        with pytest.raises(QueryRefused, match="other queries"):
            served.read_only_query("SELECT 1", 0.2)
        waited.set()
        assert served.read_only_query("SELECT 1", 60).rows == [(1,)]

    threads = [threading.Thread(target=ask_on) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    while len(served.database.guests._here) < AT_ONCE:
        pass
    threads.append(threading.Thread(target=ask_too))
    threads[-1].start()
    assert waited.wait(30)
    over.set()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def test_a_writer_without_memory_sends_the_queries_away_and_blames_no_row(path: Path) -> None:
    """However long they would have stayed: a row is set apart only for what it takes itself."""
    with DuckDBStore.open(path, limits=QUICK._replace(retry_s=0.001), sealed=True) as store:
        job_id = new_job(store)
        real, starved = store._committer._transact, [0]

        def starving(*how: object) -> None:
            if store.database.guests._here:
                starved[0] += 1
                raise duckdb.OutOfMemoryException("no room")
            real(*how)  # type: ignore[arg-type]

        store._committer._transact = starving  # type: ignore[method-assign,assignment]
        refused: list[str] = []

        def look() -> None:
            with pytest.raises(QueryRefused) as raised:
                store.read_only_query("SELECT count(*) FROM range(100000000000)", 60)
            refused.append(raised.value.message)

        thread = threading.Thread(target=look)
        thread.start()
        while not store.database.guests._here:
            pass
        store.submit(visit(job_id, 1), urgent=True).result(60)
        thread.join(60)
        assert starved[0] > 0
        assert refused == ["the crawl needs its memory"]
        assert ask(store, "SELECT count(*), count(error) FROM pages") == [(1, 0)]
        assert store.read_only_query("SELECT 1", 60).rows == [(1,)]


def test_duckdb_has_more_memory_while_it_is_asked_and_as_much_as_before_after_that(served: DuckDBStore) -> None:
    def limit() -> str:
        return str(ask(served, "SELECT current_setting('memory_limit')")[0][0])

    before = limit()
    assert served.read_only_query("SELECT current_setting('memory_limit')", 60).rows != [(before,)]
    assert limit() == before


def test_the_limit_of_the_system_is_as_before_and_children_never_have_ours(served: DuckDBStore) -> None:
    resource = pytest.importorskip("resource")

    def limit() -> int:
        return int(resource.getrlimit(resource.RLIMIT_DATA)[0])

    before = limit()
    with SPARE.lent():
        bound = limit()
        if spare_memory.mapped_bytes():
            assert 0 < bound < 100_000_000_000
        with SPARE.lent(), SPARE.as_usual():
            assert limit() == before
        assert limit() != before or not spare_memory.mapped_bytes()
    assert limit() == before


def test_a_query_is_interrupted_when_nobody_waits_for_it(served: DuckDBStore) -> None:
    gone = threading.Event()
    threading.Timer(0.2, gone.set).start()
    with pytest.raises(QueryRefused, match="nobody waits"):
        served.read_only_query("SELECT count(*) FROM range(100000000000)", 60, is_gone=gone.is_set)


def test_whoever_lets_go_of_the_file_interrupts_those_who_read_it(path: Path) -> None:
    store = DuckDBStore.open(path, limits=QUICK, sealed=True)
    reading = threading.Event()

    def read() -> None:
        with store.database.reading() as connection:
            reading.set()
            with pytest.raises(duckdb.InterruptException):
                connection.execute("SELECT count(*) FROM range(100000000000)")

    thread = threading.Thread(target=read)
    thread.start()
    assert reading.wait(30)
    store.close()
    thread.join(30)
    assert not thread.is_alive()
    with pytest.raises(StoreError, match="being closed"):
        store.jobs()
    DuckDBStore.open(path, limits=QUICK).close()
