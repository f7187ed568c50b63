"""The target table: made if absent, checked if present, written row by row in its own types; which URLs it holds."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from amble.core.seen import SeenAt
from amble.errors import StoreError
from amble.store import storable
from amble.store.database import quote
from amble.store.names import TableName
from amble.store.seam import ChainEndRow, PageRow

_TEXT = ("VARCHAR",)
_BODY = ("VARCHAR", "BLOB")
_INTEGER = ("INTEGER", "BIGINT", "SMALLINT", "HUGEINT", "UINTEGER", "UBIGINT", "DOUBLE")
_NUMBER = ("DOUBLE", "FLOAT", "INTEGER", "BIGINT")
_TIME = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "TIMESTAMP_MS", "TIMESTAMP_S")

# Name of each column, the type it is made with, and the types in which an existing table may have it instead.
COLUMNS: dict[str, tuple[str, ...]] = {
    "url": _TEXT,
    "surt_key": _TEXT,
    "http_status": _INTEGER,
    "body": _BODY,
    "content_type": _TEXT,
    "crawl_time": _TIME,
    "error": _TEXT,
    "error_type": _TEXT,
    "etag": _TEXT,
    "last_modified": _TEXT,
    "content_hash": _TEXT,
    "final_url": _TEXT,
    "redirect_count": _INTEGER,
    "domain": _TEXT,
    "elapsed_ms": _NUMBER,
    "depth": _INTEGER,
    "parent_url": _TEXT,
    "discovered_by": _TEXT,
    "title": _TEXT,
    "description": _TEXT,
    "canonical_url": _TEXT,
    "directives": _TEXT,
    "attempts": _INTEGER,
    "job_id": ("BIGINT", "HUGEINT", "UBIGINT", "DOUBLE"),
}
assert tuple(COLUMNS) == PageRow._fields

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_READ_AT_ONCE = 10_000


def microseconds(time: datetime | None) -> int:
    return (time - _EPOCH) // _MICROSECOND if time is not None else 0


class TargetTable:
    """One table that pages go to."""

    def __init__(self, name: TableName, types: dict[str, str]) -> None:
        self.name = name
        self.zoned = types["crawl_time"] == "TIMESTAMP WITH TIME ZONE"
        self.binary = types["body"] == "BLOB"
        self.known = SeenAt()
        self.is_unique = True  # every URL stands in it once
        self._lock = threading.Lock()  # the writer notes what it stored while others look for theirs

    @classmethod
    def open(cls, connection: DuckDBPyConnection, name: TableName) -> TargetTable:
        if create(connection, name):
            return cls(name, {column: types[0] for column, types in COLUMNS.items()})
        table = cls(name, check(connection, name))
        table._load_known(connection)
        return table

    def refresh(self, connection: DuckDBPyConnection) -> None:
        """Make the table again if somebody dropped it."""
        if create(connection, self.name):
            self.known = SeenAt()

    def _load_known(self, connection: DuckDBPyConnection) -> None:
        rows = connection.execute(
            f"SELECT url, coalesce(epoch_us(crawl_time), 0) FROM {self.name} WHERE url IS NOT NULL"
        )
        count = 0
        while chunk := rows.fetchmany(_READ_AT_ONCE):
            count += len(chunk)
            self.known.put_many(*zip(*chunk, strict=True))
        self.is_unique = len(self.known) == count

    def encode(self, row: PageRow) -> tuple[Any, ...]:
        """The row as the table's own types take it, every field storable."""
        text, int32 = storable.text, storable.int32
        body = storable.body(row.body)
        time = row.crawl_time
        return (
            text(row.url), text(row.surt_key), int32(row.http_status),
            body.encode() if self.binary and body is not None else body,
            text(row.content_type, storable.SHORT_CHARS_MAX),
            time if self.zoned else storable.utc(time), text(row.error), text(row.error_type),
            storable.validator(row.etag), storable.validator(row.last_modified), text(row.content_hash),
            text(row.final_url), int32(row.redirect_count), text(row.domain), row.elapsed_ms, int32(row.depth),
            text(row.parent_url), text(row.discovered_by), text(row.title), text(row.description),
            text(row.canonical_url), text(row.directives), int32(row.attempts), row.job_id,
        )  # fmt: skip

    def locate(self, connection: DuckDBPyConnection, urls: Sequence[str], columns: str = "") -> list[tuple[Any, ...]]:
        """The rows of these URLs as (rowid, url, *columns), without reading the whole table where that can be avoided.

        Rows lie in the order of their crawl, so the time at which a URL was stored leads to a few blocks of the file.
        """
        with self._lock:
            times = {url: time_us for url in urls if (time_us := self.known.get(url)) is not None}
        if not times:
            return []
        wanted = set(times)
        more = f", {columns}" if columns else ""
        rows: list[tuple[Any, ...]] = []
        if self.is_unique:
            at = [_EPOCH + time_us * _MICROSECOND for time_us in times.values()]
            if not self.zoned:
                at = [time.replace(tzinfo=None) for time in at]
            kind = "TIMESTAMPTZ" if self.zoned else "TIMESTAMP"
            near = connection.execute(
                f"SELECT rowid, url{more} FROM {self.name} WHERE crawl_time BETWEEN $1 AND $2 "
                f"AND crawl_time IN (SELECT unnest($3::{kind}[]))",
                [min(at), max(at), at],
            ).fetchall()
            rows = [row for row in near if row[1] in wanted]
        missed = wanted.difference(row[1] for row in rows)
        if missed:  # stored with another time, by somebody else: look through everything
            rows += connection.execute(
                f"SELECT rowid, url{more} FROM {self.name} WHERE url IN (SELECT unnest($1::VARCHAR[]))", [list(missed)]
            ).fetchall()
        return rows

    def end_chains(self, connection: DuckDBPyConnection, rows: Sequence[ChainEndRow]) -> None:
        """Tell in rows that are there where their redirects ended."""
        last = {row.url: row for row in rows}  # of several, the last knows most
        places = {url: rowid for rowid, url in self.locate(connection, list(last))}
        rows = [row for row in last.values() if row.url in places]
        if not rows:
            return
        connection.execute(
            f"UPDATE {self.name} AS old SET final_url = news.final_url, redirect_count = news.redirect_count "
            "FROM (SELECT unnest($1::BIGINT[]) AS place, unnest($2::VARCHAR[]) AS final_url, "
            "unnest($3::INTEGER[]) AS redirect_count) AS news "
            "WHERE old.rowid = news.place AND old.http_status BETWEEN 300 AND 399",
            [
                [places[row.url] for row in rows],
                [storable.text(row.final_url) for row in rows],
                [storable.int32(row.redirect_count) for row in rows],
            ],
        )

    def note(self, pages: Iterable[tuple[str, datetime | None]]) -> None:
        """These URLs are stored now, with these times."""
        times = dict(pages)
        with self._lock:
            self.known.put_many(times, map(microseconds, times.values()))


def create(connection: DuckDBPyConnection, name: TableName) -> bool:
    """Whether the table had to be made. Not asked first: the list of all tables takes long to make in a new process."""
    # ZSTD is what DuckDB would choose for bodies after trying everything else on them.
    columns = ", ".join(
        f"{quote(column)} {types[0]}{' USING COMPRESSION zstd' if types is _BODY else ''}"
        for column, types in COLUMNS.items()
    )
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(name.schema)}")
    try:
        connection.execute(f"CREATE TABLE {name} ({columns})")
    except duckdb.CatalogException:  # the name is taken
        return False
    return True


def _kind(connection: DuckDBPyConnection, name: TableName) -> str | None:
    for kind in ("table", "view"):
        found = connection.execute(
            f"SELECT count(*) FROM duckdb_{kind}s() WHERE database_name = current_database() "
            f"AND lower(schema_name) = lower($1) AND lower({kind}_name) = lower($2)",
            [name.schema, name.name],
        ).fetchall()
        if found[0][0]:
            return kind
    return None


def exists(connection: DuckDBPyConnection, name: TableName) -> bool:
    return _kind(connection, name) is not None


def check(connection: DuckDBPyConnection, name: TableName) -> dict[str, str]:
    """The types of our columns in the table. What it lacks, or has in a type we cannot write, is named."""
    if _kind(connection, name) == "view":
        raise StoreError(f"{name} is a view", hint="crawl into a table, and define the view over it")
    # Of this table alone: a list of all columns reads every view that there is.
    rows = connection.execute(
        'SELECT lower(name), type, NOT "notnull", dflt_value IS NOT NULL FROM pragma_table_info($1)', [str(name)]
    ).fetchall()
    types = {column: kind for column, kind, _, _ in rows}
    missing = [column for column in COLUMNS if column not in types]
    if missing:
        raise StoreError(
            f"the table {name} lacks the columns {', '.join(missing)}",
            hint=f"ALTER TABLE {name} ADD COLUMN ..., or crawl into a new table",
        )
    wrong = [f"{column} {types[column]}" for column, fits in COLUMNS.items() if types[column] not in fits]
    if wrong:
        needed = ", ".join(f"{column.split()[0]} {COLUMNS[column.split()[0]][0]}" for column in wrong)
        raise StoreError(f"the table {name} has {', '.join(wrong)}", hint=f"crawls write {needed}")
    unfilled = [column for column, _, nullable, default in rows if column not in COLUMNS and not (nullable or default)]
    if unfilled:
        raise StoreError(
            f"the table {name} demands values for {', '.join(unfilled)}, which a crawl does not have",
            hint="give these columns a default or allow NULL",
        )
    return types
