"""Hostile text in WHERE, EXTRACT, selectors, table names and arguments: judged or refused, never run [E1, E3]."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

import duckdb
import pytest

from amble.errors import AmbleError
from amble.sql.connection import Connection, connect
from amble.store.clauses import Clauses, add_columns
from amble.store.database import quote_text
from amble.store.names import TableName
from amble.store.tables import create
from tests.conformance import conformance

FILES = ("Generic-SQLi.txt", "SQLi-Polyglots.txt", "XSS-Vectors-Mario.txt")


def strings() -> list[str]:
    found = [text for text in json.loads(conformance("security/blns.json").read_text()) if isinstance(text, str)]
    for name in FILES:
        found += conformance(f"security/{name}").read_text(errors="replace").splitlines()
    # Each costs several queries, so those that could break out of somewhere stand for all.
    sharp = [text for text in dict.fromkeys(found) if "\0" not in text and any(sign in text for sign in "';()\"-")]
    return sharp[::36]


@pytest.fixture
def con() -> Iterator[Connection]:
    con = connect()
    con.execute("CREATE TABLE treasure AS SELECT 42 AS x")
    yield con
    con.close()


def check(con: Connection, tables: int = 1) -> None:
    assert con.execute("SELECT x FROM treasure").fetchall() == [(42,)]
    rows = con.execute("SELECT count(*) FROM duckdb_tables() WHERE NOT temporary").fetchall()
    assert rows == [(tables,)]


def test_as_clauses_they_are_refused_or_change_nothing(con: Connection) -> None:
    for text in strings():
        with suppress(AmbleError, UnicodeEncodeError), con._duck.cursor() as cursor:
            Clauses.of(cursor, text, ())
        with suppress(AmbleError, UnicodeEncodeError), con._duck.cursor() as cursor:
            Clauses.of(cursor, None, [(text, "x")])
    check(con)


def test_a_clause_that_closes_our_parentheses_runs_nothing(con: Connection) -> None:
    for text in (
        "1)); DROP TABLE treasure; --",
        "true) FROM treasure; DELETE FROM treasure; --",
        "(SELECT x FROM treasure); --",
    ):
        with pytest.raises(AmbleError):
            Clauses.of(con._duck, text, ())
        with pytest.raises(AmbleError):
            Clauses.of(con._duck, None, [(text, "x")])
    check(con)


def test_as_names_of_columns_they_are_names(con: Connection) -> None:
    name = TableName.of("main", "pages")
    create(con._duck, name)
    for number, text in enumerate(strings()):
        with suppress(AmbleError, UnicodeEncodeError):
            (column,) = Clauses.of(con._duck, None, [("length(url)", f"{number} {text}")]).extract
            add_columns(con._duck, name, [column])
            assert column.name in {row[0] for row in con.execute("DESCRIBE pages").fetchall()}
    check(con, tables=2)


def test_as_arguments_they_are_values(con: Connection) -> None:
    for text in strings():
        try:
            text.encode()
        except UnicodeEncodeError:
            continue
        with suppress(duckdb.Error):
            con.execute("SELECT css_select('<p>', $1), htmlpath('<p>', $1), surt($1), domain_of($1)", [text]).fetchall()
        quoted = quote_text(text)
        for call in (f"links({quoted})", f"crawl({quoted}, no_such := 1)"):
            with pytest.raises((duckdb.Error, AmbleError)):
                con.execute(f"FROM {call}")
    check(con)
