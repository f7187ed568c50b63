"""SQL from outside: exactly one SELECT, on a sealed database, in a transaction that cannot write, within its time.

The parser's word that something is a SELECT is not enough: a WITH may hold an INSERT, and a sequence may be drawn from.
The read-only transaction refuses both. No question may end the crawl: rows and bytes of an answer are bounded, what all
queries together hold on the way as well, and each is interrupted when it takes too long, too much, or nobody waits for
it any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import duckdb
from duckdb import DuckDBPyConnection, StatementType

from amble.errors import QueryRefused
from amble.spare_memory import SPARE
from amble.store.database import Database
from amble.store.guests import Guest

ROWS_MAX = 10_000
BYTES_MAX = 8_000_000
INTERMEDIATES = "48MB"  # sorts and hash tables of one query
MESSAGE_CHARS_MAX = 2_000  # an error may quote a whole page
_AT_ONCE = 64  # rows that are fetched together; fewer where they are long


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
    guest = Guest(timeout_s, is_gone)
    with database.guests.welcome(guest), SPARE.lent(), database.lending() as connection:
        prepare(connection)  # as on a connection of `amble.connect`
        statement = _one_select(connection, sql)
        connection.execute(f"SET operator_memory_limit = '{INTERMEDIATES}'")
        connection.execute("BEGIN TRANSACTION READ ONLY")
        with guest.watched(connection):
            try:
                connection.execute(statement)
                columns = tuple(column[0] for column in connection.description or ())
                rows, truncated = _first_rows(connection, rows_max, bytes_max)
            except (duckdb.Error, MemoryError) as refused:
                raise _refusal(refused, guest.why) from None
        return QueryResult(columns, rows, truncated)


def _refusal(fault: Exception, why: str | None) -> QueryRefused:
    if why is not None:
        return QueryRefused(why, hint="ask for less, or query a copy of the file")
    message = str(fault) or "out of memory"
    if len(message) > MESSAGE_CHARS_MAX:
        message = f"{message[:MESSAGE_CHARS_MAX]} ... ({len(message)} characters)"
    if isinstance(fault, duckdb.OutOfMemoryException | MemoryError):
        return QueryRefused(message.splitlines()[0], hint="ask for less: the crawl needs its memory")
    return QueryRefused(message, hint="only one SELECT over the tables of this database")


def _first_rows(connection: DuckDBPyConnection, rows_max: int, bytes_max: int) -> tuple[list[tuple[Any, ...]], bool]:
    """As many as fit, and whether there were more."""
    rows: list[tuple[Any, ...]] = []
    left, longest = bytes_max, bytes_max
    while got := connection.fetchmany(max(1, min(_AT_ONCE, left // longest))):
        lengths = [sum(map(_bytes_of, row)) for row in got]
        longest = max(1, *lengths)
        for row, length in zip(got, lengths, strict=True):
            left -= length
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
    if isinstance(value, str):
        return (len(value) if value.isascii() else 4 * len(value)) + 8
    if isinstance(value, bytes):
        return len(value) + 8
    if isinstance(value, dict):
        return 8 + sum(_bytes_of(key) + _bytes_of(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return 8 + sum(map(_bytes_of, value))
    return 16


def _one_select(connection: DuckDBPyConnection, sql: str) -> duckdb.Statement:
    try:
        sql.encode()
        statements = connection.extract_statements(sql)
    except (duckdb.Error, UnicodeError) as refused:
        raise QueryRefused(f"this is no SQL: {str(refused)[:MESSAGE_CHARS_MAX]}", hint="write one SELECT") from None
    if len(statements) != 1:
        raise QueryRefused(f"{len(statements)} statements where one is allowed", hint="write one SELECT")
    statement = statements[0]
    if statement.type is not StatementType.SELECT:
        raise QueryRefused(f"{statement.type.name} is not allowed", hint="write one SELECT")
    if statement.named_parameters:
        raise QueryRefused("the query has parameters", hint="write the values into it")
    return statement
