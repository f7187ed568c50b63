"""WHERE and EXTRACT: what DuckDB refuses is told before anything is fetched; what it takes is judged row by row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from amble.core.frontier.visit import FoundBy, Visit
from amble.errors import StatementError, StoreError
from amble.store.clauses import Clauses, Column, add_columns, insert_extracted
from amble.store.database import Database
from amble.store.judge import WhereJudge
from amble.store.names import TableName
from amble.store.seam import PageRow
from amble.store.tables import TargetTable

PAGES = TableName.of("main", "pages")


@pytest.fixture
def database() -> Iterator[Database]:
    database = Database.open(":memory:")
    yield database
    database.close()


@pytest.fixture
def connection(database: Database) -> Iterator[duckdb.DuckDBPyConnection]:
    with database.reading() as connection:
        yield connection


def visit(url: str, depth: int = 0) -> Visit:
    return Visit(url, task=url, depth=depth, found_by=FoundBy.LINK, parent="https://a.test/")


@pytest.mark.parametrize(
    ("where", "taken"),
    [
        ("url LIKE '%/product/%'", [True, False, False]),
        ("path LIKE '/product/%' OR depth = 0", [True, True, False]),
        ("host = 'a.test' AND scheme = 'https' AND port = 443", [True, True, False]),
        ("domain = 'b.test:81'", [False, False, True]),
        ("query = 'x=1'", [False, False, True]),
        ("query IS NULL", [True, True, False]),
        ("page.depth < 2", [True, True, False]),
        ("discovered_by = 'link' AND parent_url = 'https://a.test/'", [True, True, True]),
        ("NULL", [False, False, False]),  # as in SQL: not known to be true
        ("split_part(path, '/', 3)::INTEGER = 7", [True, False, False]),  # a path without a number is an error, and no
        ("url NOT IN (SELECT u FROM (VALUES ('https://a.test/')) t(u))", [True, False, True]),
        ("surt(url) LIKE 'test,a)%'", [True, True, False]),
        ("true -- always", [True, True, True]),
    ],
)
def test_where_takes_urls_by_their_parts(database: Database, where: str, taken: list[bool]) -> None:
    with database.reading() as connection:
        clauses = Clauses.of(connection, where, ())
    judge = WhereJudge(database, Clauses.load(clauses.dump()))
    visits = [visit("https://a.test/product/7", 1), visit("https://a.test/"), visit("http://b.test:81/?x=1", 2)]
    assert judge(visits) == taken
    assert judge(visits[::-1]) == taken[::-1]  # from memory
    judge.close()


def test_an_error_that_cannot_be_caught_in_the_query_refuses_one_url_only(database: Database) -> None:
    where = "split_part(path, '/', 2)::INTEGER IN (SELECT x FROM range(10) t(x))"
    with database.reading() as connection:
        clauses = Clauses.of(connection, where, ())
    assert not clauses.where_tries
    judge = WhereJudge(database, clauses)
    assert judge([visit("https://a.test/7"), visit("https://a.test/x"), visit("https://a.test/8")]) == [
        True,
        False,
        True,
    ]
    judge.close()


def test_too_little_memory_says_nothing_about_a_url(path: Path) -> None:
    database = Database.open(path, memory_limit="200MB")
    with database.reading() as connection:
        clauses = Clauses.of(connection, "len((SELECT list(i) FROM range(3_000_000) AS r(i))) > depth", ())
        judge = WhereJudge(database, clauses)
        assert judge([visit("https://a.test/1")]) == [True]
        connection.execute("SET GLOBAL memory_limit = '16MB'")
        with pytest.raises(StoreError, match="WHERE cannot be judged: Out of Memory"):
            judge([visit("https://a.test/2"), visit("https://a.test/3")])
    judge.close()
    database.close()


def test_what_is_remembered_of_urls_is_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amble.store.judge._REMEMBERED_MAX", 10)
    with database.reading() as connection:
        judge = WhereJudge(database, Clauses.of(connection, "path < '/5'", ()))
    for begin in range(0, 10, 3):
        urls = [visit(f"https://a.test/{n}") for n in range(begin, begin + 7)]
        assert judge(urls) == [f"/{n}" < "/5" for n in range(begin, begin + 7)]
        assert len(judge._said) <= 10
    judge.close()


@pytest.mark.parametrize(
    "where",
    [
        "body LIKE 'x'",
        "url LIKE",
        "count(*) > 1",
        "1) OR (SELECT 1",
        "url; DROP TABLE x",
        "(",
        "unnest([true])",
        "1) --",
    ],
)
def test_a_where_that_is_no_condition_on_urls_is_refused(connection: duckdb.DuckDBPyConnection, where: str) -> None:
    with pytest.raises(StatementError, match="WHERE") as refused:
        Clauses.of(connection, where, ())
    assert "parent_url" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("expression", "name", "column"),
    [
        ("htmlpath(body, 'h1')", "head", ("head", "VARCHAR")),
        ("css_select(body, 'a', '@href')", "links", ("links", "VARCHAR[]")),
        ("length(body)", None, ("length(body)", "BIGINT")),
        ("http_status", "Code", ("Code", "INTEGER")),
        ("NULL", "nothing", ("nothing", "VARCHAR")),
        ("title -- so it is called", "what", ("what", "VARCHAR")),
        ("page.url", 'odd "name"', ('odd "name"', "VARCHAR")),
    ],
)
def test_extracted_columns_get_the_type_of_their_expression(
    connection: duckdb.DuckDBPyConnection, expression: str, name: str | None, column: tuple[str, str]
) -> None:
    (found,) = Clauses.of(connection, None, [(expression, name)]).extract
    assert (found.name, found.kind) == column


@pytest.mark.parametrize(
    "extract",
    [
        [("nowhere", "x")],
        [("count(*)", "x")],
        [("unnest([1, 2])", "x")],
        [("*", None)],
        [("css_select(body, '[')", "x")],  # wrong on every page
        [("htmlpath(body, 'a@')", "x")],
        [("length(body)", "Title")],  # a column of every page
        [("1", "x"), ("2", "X")],
        [("1, 2", "x")],
        [("1) FROM pages; DROP TABLE pages; --", "x")],
    ],
)
def test_an_extract_that_cannot_be_is_refused(
    connection: duckdb.DuckDBPyConnection, extract: list[tuple[str, str | None]]
) -> None:
    connection.execute("CREATE TABLE pages (x INTEGER)")
    if extract == [("1, 2", "x")]:
        assert Clauses.of(connection, None, [("(1, 2)", "x")])  # a row is one value
    with pytest.raises(StatementError, match="EXTRACT"):
        Clauses.of(connection, None, extract)
    assert connection.execute("SELECT count(*) FROM pages").fetchall() == [(0,)]


@pytest.mark.parametrize("body", ["VARCHAR", "BLOB"])
def test_what_cannot_be_read_from_a_page_is_null_in_its_row(connection: duckdb.DuckDBPyConnection, body: str) -> None:
    target = TargetTable.open(connection, PAGES)
    if body == "BLOB":
        connection.execute("ALTER TABLE pages ALTER body TYPE BLOB")
        target = TargetTable.open(connection, PAGES)
    clauses = Clauses.of(connection, None, [("htmlpath(body, 'p')::INTEGER", "n"), ("upper(url)", "loud")])
    add_columns(connection, PAGES, clauses.extract)
    rows = [PageRow("u1", body="<p>1"), PageRow("u2", body="<p>x"), PageRow("u3")]
    insert_extracted(connection, PAGES, (body, "TIMESTAMP"), clauses.extract, [target.encode(row) for row in rows])
    stored = connection.execute("SELECT url, body::VARCHAR, n, loud FROM pages ORDER BY url").fetchall()
    assert stored == [("u1", "<p>1", 1, "U1"), ("u2", "<p>x", None, "U2"), ("u3", None, None, "U3")]


def test_a_column_that_is_there_must_have_the_type(connection: duckdb.DuckDBPyConnection) -> None:
    TargetTable.open(connection, PAGES)
    connection.execute("ALTER TABLE pages ADD COLUMN N VARCHAR")
    add_columns(connection, PAGES, [Column("n", "upper(url)", "VARCHAR")])
    with pytest.raises(StatementError, match="has it as VARCHAR") as refused:
        add_columns(connection, PAGES, [Column("other", "1", "INTEGER"), Column("n", "length(url)", "BIGINT")])
    assert "::VARCHAR" in (refused.value.hint or "")
    assert "other" not in {row[0] for row in connection.execute("DESCRIBE pages").fetchall()}
