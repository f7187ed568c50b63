"""SQL from outside: exactly one SELECT, on a sealed database, in a transaction that cannot write, within its time.

The parser's word that something is a SELECT is not enough: a WITH may hold an INSERT, and a sequence may be drawn from.
The read-only transaction refuses both. No question may end the crawl: rows and bytes of an answer are bounded, what a
query holds on the way as well, and it is interrupted when it takes too long, too much, or nobody waits for it any more.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import duckdb
from duckdb import DuckDBPyConnection, StatementType

from amble.errors import QueryRefused
from amble.store.database import Database

ROWS_MAX = 10_000
BYTES_MAX = 8_000_000
INTERMEDIATES = "48MB"  # sorts and hash tables of one query
GROWTH_BYTES_MAX = 512_000_000  # of this process while it is asked: DuckDB does not count what strings of a vector take
_AT_ONCE = 64  # rows; a body may have some MB
_LOOK_EVERY_S = 0.05


class QueryResult(NamedTuple):
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool  # there were more rows


def nobody_left() -> bool:
    """Where it cannot be known whether anybody still waits."""
    return False


def read_only_query(
    database: Database,
    sql: str,
    timeout_s: float,
    rows_max: int = ROWS_MAX,
    bytes_max: int = BYTES_MAX,
    is_gone: Callable[[], bool] = nobody_left,
) -> QueryResult:
    """The first rows of one SELECT. Raises `QueryRefused`, whose message may be shown to whoever asked."""
    from amble.store.functions import prepare  # the parser of pages takes a while to load, and few are asked

    database.require_sealed()
    with database.reading() as connection:
        prepare(connection)  # as on a connection of `amble.connect`
        statement = _one_select(connection, sql)
        connection.execute(f"SET operator_memory_limit = '{INTERMEDIATES}'")
        connection.execute("BEGIN TRANSACTION READ ONLY")
        with _watched(connection, timeout_s, is_gone) as watch:
            try:
                connection.execute(statement)
                columns = tuple(column[0] for column in connection.description or ())
                rows, truncated = _first_rows(connection, rows_max, bytes_max)
            except (duckdb.Error, MemoryError) as refused:
                if watch.why is not None:
                    raise QueryRefused(watch.why, hint="ask for less, or query a copy of the file") from None
                hint = "only one SELECT over the tables of this database"
                if isinstance(refused, duckdb.OutOfMemoryException | MemoryError):
                    hint = "ask for less: the crawl needs its memory"
                raise QueryRefused(str(refused) or "out of memory", hint=hint) from None
        return QueryResult(columns, rows, truncated)


def _first_rows(connection: DuckDBPyConnection, rows_max: int, bytes_max: int) -> tuple[list[tuple[Any, ...]], bool]:
    """As many as fit, and whether there were more."""
    rows: list[tuple[Any, ...]] = []
    left = bytes_max
    while got := connection.fetchmany(_AT_ONCE):
        for row in got:
            left -= sum(map(_bytes_of, row))
            if left < 0 and not rows:
                raise QueryRefused(
                    f"the first row alone is longer than {bytes_max / 1e6:g} MB",
                    hint="ask for a part: left(body, 1000)",
                )
            if left < 0 or len(rows) == rows_max:
                return rows, True
            rows.append(row)
    return rows, False


def _bytes_of(value: Any) -> int:
    """About what a value takes in an answer."""
    if isinstance(value, str | bytes):
        return len(value) + 8
    if isinstance(value, dict):
        return 8 + sum(_bytes_of(key) + _bytes_of(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return 8 + sum(map(_bytes_of, value))
    return 16


class _Watch:
    """Interrupts a query, and says why."""

    def __init__(self, connection: DuckDBPyConnection, timeout_s: float, is_gone: Callable[[], bool]) -> None:
        self.why: str | None = None
        self._connection = connection
        self._timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s
        self._is_gone = is_gone
        self._memory_at_first = _memory_bytes()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="amble-query-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            self.why = self._objection()
            if self.why is not None:
                self._connection.interrupt()
                return

    def _objection(self) -> str | None:
        if time.monotonic() > self._until:
            return f"the query took longer than {self._timeout_s:g} s"
        if _memory_bytes() - self._memory_at_first > GROWTH_BYTES_MAX:
            return "the query took more memory than the crawl can spare"
        return "nobody waits for the answer" if self._is_gone() else None

    def end(self) -> None:
        self._ended.set()
        self._thread.join()  # or a late interrupt would meet whatever comes next


@contextlib.contextmanager
def _watched(connection: DuckDBPyConnection, timeout_s: float, is_gone: Callable[[], bool]) -> Iterator[_Watch]:
    watch = _Watch(connection, timeout_s, is_gone)
    try:
        yield watch
    finally:
        watch.end()


def _memory_bytes() -> int:
    """What this process has in memory; zero where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _one_select(connection: DuckDBPyConnection, sql: str) -> duckdb.Statement:
    try:
        sql.encode()
        statements = connection.extract_statements(sql)
    except (duckdb.Error, UnicodeError) as refused:
        raise QueryRefused(f"this is no SQL: {refused}", hint="write one SELECT") from None
    if len(statements) != 1:
        raise QueryRefused(f"{len(statements)} statements where one is allowed", hint="write one SELECT")
    statement = statements[0]
    if statement.type is not StatementType.SELECT:
        raise QueryRefused(f"{statement.type.name} is not allowed", hint="write one SELECT")
    if statement.named_parameters:
        raise QueryRefused("the query has parameters", hint="write the values into it")
    return statement
