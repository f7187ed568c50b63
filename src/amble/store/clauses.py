"""What SQL says about a job besides its settings: which URLs it takes (WHERE), what is read from pages (EXTRACT).

Both are expressions that DuckDB judges: when the job is made, once for all mistakes that can be known by then, and
then batch by batch. They are stored with the job, so that it can be taken up by whoever opens the file.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import duckdb
from duckdb import DuckDBPyConnection

from amble.errors import StatementError, StoreDamaged, first_line
from amble.store.database import quote, quote_text
from amble.store.names import TableName
from amble.store.seam import PageRow
from amble.store.tables import COLUMNS

# What WHERE knows of a URL before it is fetched.
PARTS = {
    "url": "VARCHAR", "scheme": "VARCHAR", "host": "VARCHAR", "port": "INTEGER", "path": "VARCHAR", "query": "VARCHAR",
    "domain": "VARCHAR", "depth": "INTEGER", "discovered_by": "VARCHAR", "parent_url": "VARCHAR",
}  # fmt: skip
STAGING = "amble_staging"  # tables that last as long as a statement
_SAMPLE_BODY = "<!doctype html><title>t</title>"


class Column(NamedTuple):
    """One column of EXTRACT: its name, its expression, and the type that DuckDB gives to it."""

    name: str
    expr_sql: str
    kind: str


@dataclass(frozen=True, slots=True)
class Clauses:
    """WHERE and EXTRACT of one job, judged by DuckDB to be sound."""

    where_sql: str | None = None
    where_tries: bool = True  # an error in it can be caught row by row
    extract: tuple[Column, ...] = ()

    @classmethod
    def of(
        cls, connection: DuckDBPyConnection, where_sql: str | None, extract: Sequence[tuple[str, str | None]]
    ) -> Self:
        """From what was written: a predicate, and pairs of an expression and a name. Raises StatementError."""
        _prepare(connection)
        with connection.cursor() as cursor:
            tries = where_sql is None or _judge_where(cursor, where_sql)
            return cls(where_sql, tries, _judge_extract(cursor, extract))

    def __bool__(self) -> bool:
        return self.where_sql is not None or bool(self.extract)

    def dump(self) -> str:
        return json.dumps([self.where_sql, self.where_tries, self.extract])

    @classmethod
    def load(cls, text: str) -> Self:
        """Raises ValueError for what `dump` has not written."""
        where_sql, tries, extract = json.loads(text)
        columns = tuple(Column(*column) for column in extract)
        texts = [*(part for column in columns for part in column), *([where_sql] if where_sql is not None else [])]
        if not isinstance(tries, bool) or not all(isinstance(part, str) for part in texts):
            raise ValueError("not the clauses of a job")
        return cls(where_sql, tries, columns)


# --- WHERE ---------------------------------------------------------------------------------------------------------


def where_query(where_sql: str, *, tries: bool) -> str:
    """The places, from 1 on, of the URLs that are taken; their parts are given as lists, in the order of PARTS."""
    parts = ", ".join(f"unnest(${n}::{kind}[]) AS {name}" for n, (name, kind) in enumerate(PARTS.items(), 1))
    said = f"TRY(({where_sql}\n))" if tries else f"({where_sql}\n)"  # the line ends a comment
    return f"SELECT place FROM (SELECT {parts}, generate_subscripts($1::VARCHAR[], 1) AS place) AS page WHERE {said}"


def _judge_where(cursor: DuckDBPyConnection, where_sql: str) -> bool:
    """Whether errors in it can be caught. One that is no condition on a URL is refused."""
    sample: list[Any] = [["https://example.com/a?b"], ["https"], ["example.com"], [443], ["/a"], ["b"], ["example.com"],
                         [0], ["seed"], [None]]  # fmt: skip
    hint = f"it may speak of {', '.join(PARTS)}"
    try:
        if len(cursor.extract_statements(f"SELECT {where_sql}\n")) != 1:  # complete in itself, without our parentheses
            raise StatementError("WHERE: more than one statement", hint=hint)
        cursor.execute(where_query(where_sql, tries=False), [[] for _ in PARTS]).fetchall()
    except duckdb.Error as refused:
        raise _refused("WHERE", refused, hint) from None
    try:
        cursor.execute(where_query(where_sql, tries=True), sample).fetchall()
    except duckdb.Error:  # TRY does not take subqueries, nor what differs from one call to the next
        return False
    return True


# --- EXTRACT -------------------------------------------------------------------------------------------------------


def bind(connection: DuckDBPyConnection, clauses: Clauses) -> None:
    """Raise what DuckDB says of SQL that it cannot run now, on no pages at all."""
    if clauses.where_sql is not None:
        connection.execute(where_query(clauses.where_sql, tries=clauses.where_tries), [[] for _ in PARTS]).fetchall()
    for column in clauses.extract:
        connection.execute(f"SELECT TRY(({column.expr_sql}\n)) FROM {_pages('VARCHAR')}", _no_pages()).fetchall()


def _judge_extract(cursor: DuckDBPyConnection, extract: Sequence[tuple[str, str | None]]) -> tuple[Column, ...]:
    columns: list[Column] = []
    for expr_sql, name in extract:
        tried = f"TRY(({expr_sql}\n))"
        try:
            found = cursor.execute(f"DESCRIBE SELECT url, {tried} FROM {_pages('VARCHAR')}", _no_pages()).fetchall()
            own = cursor.execute(f"DESCRIBE SELECT {expr_sql}\n FROM {_pages('VARCHAR')}", _no_pages()).fetchall()
        except duckdb.Error as refused:
            raise _refused("EXTRACT", refused, f"it may speak of {', '.join(COLUMNS)}") from None
        if len(found) != 2 or len(own) != 1:
            raise StatementError(f"EXTRACT: {expr_sql!r} is no single value", hint="one expression for each column")
        kind = "VARCHAR" if found[1][1] == '"NULL"' else found[1][1]
        columns.append(Column(name or own[0][0], expr_sql, kind))
        _try_sample(cursor, expr_sql)
    names = [column.name.casefold() for column in columns]
    for name in names:
        if names.count(name) > 1 or name in COLUMNS:
            taken = "a column of every page" if name in COLUMNS else "given twice"
            raise StatementError(
                f"EXTRACT: the name {name!r} is {taken}", hint="write another name: expression AS name"
            )
    return tuple(columns)


def _try_sample(cursor: DuckDBPyConnection, expr_sql: str) -> None:
    """A selector that cannot be read is wrong on every page, and is told now."""
    page = PageRow("https://example.com/", http_status=200, body=_SAMPLE_BODY, content_type="text/html")
    try:
        cursor.execute(f"SELECT {expr_sql}\n FROM {_pages('VARCHAR')}", [[value] for value in page]).fetchall()
    except duckdb.Error as refused:
        if "BadSelector" in str(refused):
            raise _refused("EXTRACT", refused, "see css_select and htmlpath") from None


def _pages(body: str, time: str = "TIMESTAMP") -> str:
    """Pages whose columns are given as lists, in the order of the target table."""
    kinds = {name: types[0] for name, types in COLUMNS.items()} | {"body": body, "crawl_time": time}
    lists = ", ".join(f"unnest(${n}::{kind}[]) AS {name}" for n, (name, kind) in enumerate(kinds.items(), 1))
    return f"(SELECT {lists}) AS page"


def _no_pages() -> list[list[Any]]:
    return [[] for _ in COLUMNS]


def add_columns(connection: DuckDBPyConnection, name: TableName, extract: Sequence[Column]) -> None:
    """Give the target what it lacks. A column that is there must have the type of its expression."""
    rows = connection.execute(
        "SELECT lower(column_name), data_type FROM duckdb_columns() WHERE database_name = current_database() "
        "AND lower(schema_name) = lower($1) AND lower(table_name) = lower($2)",
        [name.schema, name.name],
    ).fetchall()
    known: dict[str, str] = dict(rows)
    for column in extract:
        kind = known.get(column.name.lower())
        if kind is not None and kind != column.kind:
            raise StatementError(
                f"EXTRACT: {column.name} is {column.kind}, and the table {name} has it as {kind}",
                hint=f"write EXTRACT (({column.expr_sql})::{kind} AS {quote(column.name)})",
            )
    for column in extract:
        if column.name.lower() not in known:
            connection.execute(f"ALTER TABLE {name} ADD COLUMN {quote(column.name)} {column.kind}")


def load_clauses(connection: DuckDBPyConnection) -> dict[int, Clauses]:
    """Of every job that has any. Functions that their expressions may call are there from then on."""
    rows = connection.execute("SELECT job_id, clauses FROM amble.clauses").fetchall()
    if rows:
        _prepare(connection)
    try:
        return {job_id: Clauses.load(text) for job_id, text in rows}
    except (ValueError, TypeError) as damaged:
        raise StoreDamaged(
            f"what this file says of its jobs cannot be read: {damaged}", hint="keep a copy; crawl into another file"
        ) from None


def show_target(connection: DuckDBPyConnection, name: TableName) -> None:
    """Point the views that are about one table at the one crawled into last, unless that will soon be gone."""
    if name.schema == STAGING:
        return
    for view in ("seo_pages", "page_links"):
        connection.execute(f"CREATE OR REPLACE VIEW amble.{view} AS FROM amble.{view}({quote_text(str(name))})")


def insert_extracted(
    connection: DuckDBPyConnection, target: TableName, types: tuple[str, str], extract: Sequence[Column],
    rows: Sequence[tuple[Any, ...]], read_only: Collection[str] = (),
) -> None:  # fmt: skip
    """Store pages together with what is read from them. What cannot be read from a page is NULL in its row."""
    names = ", ".join([*map(quote, COLUMNS), *(quote(column.name) for column in extract)])
    bodies = f"CASE WHEN url NOT IN (SELECT unnest(${len(COLUMNS) + 1}::VARCHAR[])) THEN body END"
    own = [bodies if column == "body" and read_only else quote(column) for column in COLUMNS]
    values = ", ".join([*own, *(f"TRY(({column.expr_sql}\n))" for column in extract)])
    connection.execute(
        f"INSERT INTO {target} ({names}) SELECT {values} FROM {_pages(*types)}",
        [*(list(column) for column in zip(*rows, strict=True)), *([list(read_only)] if read_only else [])],
    )


def _refused(clause: str, refused: duckdb.Error, hint: str) -> StatementError:
    return StatementError(f"{clause}: {first_line(refused)}", hint=hint)


def _prepare(connection: DuckDBPyConnection) -> None:
    from amble.store.functions import prepare  # the parser of pages takes a while to load, and few jobs need it here

    prepare(connection)
