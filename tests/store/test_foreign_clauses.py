"""SQL that a file brings along with a job: an expression over a page is run, anything else refused and shown [E3]."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amble
from amble.cli import main
from amble.errors import StoreDamaged, StoreError, UntrustedClause
from amble.jobs.job import Job
from amble.store.clauses import Clauses, Column
from amble.store.duckdb_store import DuckDBStore
from amble.store.foreign_clauses import refuse_foreign, refuse_gone
from amble.store.functions import prepare
from amble.store.seam import Batch, PageRow
from tests.sql.web import FAST, web

HARMLESS = [
    "css_select(body, 'h1')[1]", "nullif(title, '')", "lower(title) || 'x'", "body::JSON ->> '$.a'", "title[1:3]",
    "list_transform(css_select(body, 'a'), lambda x: lower(x))", "[x for x in css_select(body, 'a') if x <> '']",
    "CASE WHEN title IS NULL THEN 1 ELSE 2 END", "TRY_CAST(title AS DATE)", "coalesce(title, 'a')", "page.title",
    "page_info(body, url).title", "date_diff('day', crawl_time, now())", "title IN ('a', 'b')", "{'a': title}",
    "title LIKE '%a' AND depth < 3", "regexp_extract(body, 'x(.)', 1)", "title COLLATE nocase",
    "split_part(title, 'a', 1)",
    "title -- a comment", "/* a comment */ title", "htmlpath(body, '/html')",
]  # fmt: skip
HARMFUL = [
    "(SELECT 1)", "url IN (SELECT url FROM pages)", "EXISTS (SELECT 1)", "read_text('/etc/passwd')", "count(*)",
    "sum(1) OVER ()", "main.lower(title)", "current_setting('http_proxy')", "getvariable('x')", "random()",
    "nextval('s')", "write_log('x')", "1; DROP TABLE pages", "1)) FROM t; COPY (SELECT 1) TO 'x.csv'; --",
    "(1)); COPY (SELECT 1) TO 'x.csv'; SELECT TRY((1", "COLUMNS(*)", "*", "$1", "stolen(title)", "t.title", "",
    "title))--", "a(((", "getenv('HOME')", "query('SELECT 1')", "1) FROM pages --", "'\0'", "shell(1)", "current_user",
]  # fmt: skip


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect()
    prepare(con)
    con.execute("CREATE SEQUENCE s; CREATE TABLE pages (url VARCHAR); CREATE MACRO stolen(x) AS x")
    yield con
    con.close()


@pytest.mark.parametrize("sql", HARMLESS)
def test_an_expression_over_a_page_is_run(con: duckdb.DuckDBPyConnection, sql: str) -> None:
    refuse_foreign(con, 1, Clauses(extract=(Column("x", sql, "VARCHAR"),)))


@pytest.mark.parametrize("sql", HARMFUL)
@pytest.mark.parametrize("clause", ["WHERE", "EXTRACT"])
def test_anything_else_is_refused_and_shown(con: duckdb.DuckDBPyConnection, clause: str, sql: str) -> None:
    clauses = Clauses(where_sql=sql) if clause == "WHERE" else Clauses(extract=(Column("x", sql, "VARCHAR"),))
    with pytest.raises(UntrustedClause) as refused:
        refuse_foreign(con, 7, clauses)
    assert clause in refused.value.message
    assert sql in refused.value.message
    assert "resume FILE 7 --trust-clauses" in str(refused.value.hint)


@pytest.mark.parametrize("name", ["lower", "array_extract", "surt", "+", "css_select"])
def test_a_macro_of_the_file_in_place_of_a_function_is_refused(con: duckdb.DuckDBPyConnection, name: str) -> None:
    con.execute(f"""CREATE MACRO "{name}"(x, y) AS (SELECT content FROM read_text('/etc/passwd'))""")
    with pytest.raises(UntrustedClause, match="macro"):
        refuse_foreign(con, 1, Clauses(where_sql="url[1] = 'h'"))


def test_a_column_of_a_page_is_none_of_a_url(con: duckdb.DuckDBPyConnection) -> None:
    refuse_foreign(con, 1, Clauses(where_sql="path LIKE '/a%' AND depth < 2"))
    with pytest.raises(UntrustedClause, match="body is no column"):
        refuse_foreign(con, 1, Clauses(where_sql="body IS NULL"))


# Pieces from which anything harmful could be made, and what is needed to leave an expression.
_PIECES = st.sampled_from([
    "1", "title", "url", "(", ")", "((", "))", ";", "--", "/*", "*/", "'", '"', "$$", "SELECT", "FROM", "pages", ",",
    "COPY", "TO", "'never.csv'", "read_text", "stolen", "nextval('s')", "UNION", "WITH", "AS", "x", "[", "]", "::",
    "\n", "lower", "IN", "EXISTS", "VALUES", "CASE", "WHEN", "END", "lambda x:", "->", "{", "}", "TRY", "OVER", "*",
    "COLUMNS",
    "INSERT INTO pages", "DROP TABLE pages", "\0", "\u00a0", "$1", "?",
])  # fmt: skip


@pytest.fixture(scope="module")
def file_of_others() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        prepare(con)
        con.execute("CREATE SEQUENCE s; CREATE TABLE pages (url VARCHAR); CREATE MACRO stolen(x) AS error('it ran')")
        yield con


@given(sql=st.lists(_PIECES, min_size=1, max_size=14).map(" ".join))
@settings(max_examples=max(300, settings().max_examples))  # `make soak` asks for more
def test_whatever_is_let_through_changes_nothing_and_reads_nothing(
    file_of_others: duckdb.DuckDBPyConnection, sql: str
) -> None:
    """Fuzzed; `make soak` tries many more."""
    con = file_of_others
    clauses = Clauses(where_tries=True, where_sql=None, extract=(Column("x", sql, "VARCHAR"),))
    with suppress(UntrustedClause, StoreError, duckdb.Error):
        refuse_foreign(con, 1, clauses)
        refuse_gone(con, 1, clauses)
    assert con.execute("SELECT count(*) FROM pages").fetchall() == [(0,)]
    assert con.execute("SELECT last_value FROM duckdb_sequences()").fetchall() == [(None,)]
    assert not Path("never.csv").exists()


# --- through the product ---------------------------------------------------------------------------------------------


def foreign_file(path: Path, where_sql: str | None = None, extract: tuple[tuple[str, str], ...] = ()) -> None:
    """A file as somebody hands it over: a job that waits, with SQL of their own."""
    with amble.connect(path) as con:
        con.execute("CRAWL (SELECT NULL::VARCHAR) INTO pages WITH (max_rate = 50)")
        con.execute("UPDATE amble.jobs SET status = 'paused', seeds = $1", [json.dumps(["http://a.invalid/"])])
        columns = [[name, sql, "VARCHAR"] for name, sql in extract]
        con.execute("INSERT INTO amble.clauses VALUES (1, $1)", [json.dumps([where_sql, False, columns])])
        for name, _ in extract:
            con.execute(f'ALTER TABLE pages ADD COLUMN "{name}" VARCHAR')


@pytest.mark.parametrize("way", ["the command", "SQL", "Python"])
@pytest.mark.parametrize("clause", ["WHERE", "EXTRACT"])
def test_a_foreign_file_runs_no_sql_of_its_own(way: str, clause: str, tmp_path: Path) -> None:
    file, out = tmp_path / "x.duckdb", tmp_path / "written"
    evil = f"true) THEN 1 END)); COPY (SELECT 1) TO '{out}'; SELECT TRY((CASE WHEN (true"
    foreign_file(file, evil if clause == "WHERE" else None, (("x", evil),) if clause == "EXTRACT" else ())
    if way == "the command":
        assert main(["resume", str(file)]) == 1
    elif way == "SQL":
        with amble.connect(file) as con, pytest.raises(UntrustedClause):
            con.execute("RESUME CRAWL 1")
    else:
        with pytest.raises(UntrustedClause):
            amble.resume(file)
    assert not out.exists()
    with duckdb.connect(str(file)) as plain:
        assert plain.execute("SELECT status FROM amble.jobs").fetchall() == [("paused",)], "nothing is lost"


def test_settings_of_a_foreign_file_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign_file(tmp_path / "x.duckdb", "(SELECT true)")
    assert main(["resume", str(tmp_path / "x.duckdb")]) == 1
    said = capsys.readouterr().err
    assert "max_rate = 50" in said
    assert "(SELECT true)" in said
    assert "--trust-clauses" in said


def test_sql_that_is_trusted_is_run(tmp_path: Path) -> None:
    with web() as (farm, con):
        con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages WHERE (SELECT true) {FAST}")
        con.execute("UPDATE amble.jobs SET status = 'paused'")
        with pytest.raises(UntrustedClause):
            con.execute("RESUME CRAWL 1")
        assert con.execute("RESUME CRAWL 1 WITH (trust_clauses = true)").fetchall()[0][0] == 1


def test_a_job_whose_macro_is_gone_fails_to_start_says_so_and_loses_nothing(tmp_path: Path) -> None:
    """A catalog error is not the disk."""
    file = tmp_path / "x.duckdb"
    foreign_file(file, None, (("x", "gone_macro(title)"),))
    with DuckDBStore.open(file) as store:
        with pytest.raises(StoreError, match="gone_macro"):
            Job.take_up(store, 1, trust_clauses=True)
        assert [job.status.value for job in store.jobs()] == ["paused"]


@pytest.mark.parametrize("text", ["", "{}", "[1, 2]", "nonsense", "[null, true, [[1, 2, 3]]]", "[null, 3, []]", "null"])
def test_damaged_clauses_are_told_so(text: str, tmp_path: Path) -> None:
    foreign_file(tmp_path / "x.duckdb")
    with duckdb.connect(str(tmp_path / "x.duckdb")) as con:
        con.execute("UPDATE amble.clauses SET clauses = $1", [text])
    with pytest.raises(StoreDamaged):
        DuckDBStore.open(tmp_path / "x.duckdb")


@pytest.mark.parametrize(
    "change",
    [
        "DROP MACRO twice",
        "CREATE OR REPLACE MACRO twice(x, y) AS x || y",
        "CREATE OR REPLACE MACRO twice(x) AS error('gone')",
        "CREATE OR REPLACE MACRO twice(x) AS (SELECT content FROM read_text('/nowhere'))",
        "ALTER TABLE pages DROP COLUMN double",
    ],
)
def test_an_extract_that_breaks_while_a_crawl_runs_ends_it_instead_of_waiting_for_the_disk(change: str) -> None:
    with DuckDBStore.open(":memory:") as store:
        with store.database.reading() as connection:
            connection.execute("CREATE MACRO twice(x) AS x || x")
            clauses = Clauses.of(connection, None, [("twice(title)", "double")])
        job = store.create_job("pages", {}, [], datetime.now(UTC), clauses)
        with store.database.reading() as connection:
            connection.execute(change)
        stored = store.submit(Batch(pages=[PageRow("http://a.test/", title="a", job_id=job.id)]), urgent=True)
        with pytest.raises(StoreError, match="EXTRACT of job 1 cannot be run"):
            stored.result(60)
        assert not store.state.paused


@pytest.mark.parametrize("change", ["DROP MACRO twice", "CREATE OR REPLACE MACRO twice(x, y) AS x || y"])
def test_an_extract_that_broke_before_a_resumption_fails_to_start_and_loses_nothing(
    change: str, tmp_path: Path
) -> None:
    file = tmp_path / "x.duckdb"
    with amble.connect(file) as con:
        con.execute("CREATE MACRO twice(x) AS x || x")
        con.execute("CRAWL (SELECT NULL::VARCHAR) INTO pages EXTRACT (twice(title) AS double)")
        con.execute("UPDATE amble.jobs SET status = 'paused', seeds = $1", [json.dumps(["http://a.invalid/"])])
        con.execute(change)
    with DuckDBStore.open(file) as store:
        with pytest.raises(StoreError, match="twice"):
            Job.take_up(store, 1, trust_clauses=True)
        assert [job.status.value for job in store.jobs()] == ["paused"]
