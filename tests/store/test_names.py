"""Table names: read as SQL reads them, quoted when written; nothing in them runs [E1]."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from amble.errors import StoreError
from amble.store.database import Database, quote
from amble.store.duckdb_store import DuckDBStore
from amble.store.names import TableName
from amble.store.seam import PageRow
from amble.store.tables import TargetTable
from tests.conformance import conformance
from tests.store.support import ask, new_job, visit


@pytest.mark.parametrize(
    ("text", "schema", "name"),
    [
        ("pages", "main", "pages"),
        ("crawls.pages", "crawls", "pages"),
        ("site.crawls.pages", "crawls", "pages"),
        ("SITE.crawls.pages", "crawls", "pages"),
        ('"select"', "main", "select"),
        ('"a.b"."c d"', "a.b", "c d"),
        ('"say ""hi"""', "main", 'say "hi"'),
        ("seiten_für_alle", "main", "seiten_für_alle"),
        ("x; DROP TABLE pages;--", "main", "x; DROP TABLE pages;--"),
    ],
)
def test_names_are_read_as_sql_reads_them(text: str, schema: str, name: str) -> None:
    assert TableName.parse(text, "site") == TableName(schema, name)


@pytest.mark.parametrize(
    "text",
    ["", ".", "a.", ".a", '""', '"open', 'a"b', '"a"b', "a.b.c.d", "other.main.pages", "amble.tasks", "AMBLE.jobs",
     "temp.pages", "pg_catalog.t", "information_schema.tables", "a\0b", "a\ud800b"],
)  # fmt: skip
def test_what_is_no_table_of_ours_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(StoreError) as refused:
        TableName.parse(text, "site")
    assert refused.value.hint


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_any_quoted_name_comes_back(name: str) -> None:
    assume(name.casefold() not in {"amble", "temp", "system", "pg_catalog", "information_schema"})
    assert TableName.parse(f"{quote(name)}.{quote(name)}", "site") == TableName(name, name)


HOSTILE = [
    'x"; DROP TABLE victim;--',
    "x'; DROP TABLE victim;--",
    "select",
    "table",
    "a.b",
    "Größe 🦆",
    "x" * 10_000,
    "main.pg_catalog.t",
    ");DELETE FROM victim;(",
    "\\",
    "%s",
    "$1",
    "\t",
    "--",
]


def crawl_into(store: DuckDBStore, names: list[str]) -> None:
    ask(store, "CREATE TABLE victim AS SELECT 7 AS n")
    for name in names:
        job_id = new_job(store, quote(name))
        store.submit(visit(job_id, 1), urgent=True).result()
        store.submit(visit(job_id, 1), urgent=True).result()  # by another path: the old row is found and replaced
        assert ask(store, f"SELECT count(*) FROM {quote(name)}") == [(1,)]
    assert ask(store, "SELECT n FROM victim") == [(7,)]


def test_hostile_names_are_tables_like_any_other(store: DuckDBStore) -> None:
    crawl_into(store, HOSTILE)


@pytest.mark.parametrize("source", ["security/blns.json", "security/Generic-SQLi.txt"])
def test_strings_made_to_break_things_are_tables_like_any_other(source: str) -> None:
    """E1"""
    text = conformance(source).read_text("utf-8")
    names = json.loads(text) if source.endswith("json") else text.splitlines()
    distinct = list({name.casefold(): name for name in names if name and "\0" not in name}.values())
    for at in range(0, len(distinct), 40):  # a catalogue of hundreds of tables is slow to ask
        database = Database.open(":memory:")
        with database.reading() as connection:
            connection.execute("CREATE TABLE victim AS SELECT 7 AS n")
            for name in distinct[at : at + 40]:
                target = TargetTable.open(connection, TableName.parse(quote(name), database.name))
                with connection.appender(str(target.name)) as appender:
                    appender.append_row(*target.encode(PageRow("https://a.test/")))
                assert connection.execute(f"SELECT count(*) FROM {quote(name)}").fetchall() == [(1,)]
            assert connection.execute("SELECT n FROM victim").fetchall() == [(7,)]
        database.close()
