"""SQL from outside: exactly one SELECT, on a sealed database, in a transaction that cannot write, within its time.

The parser's word that something is a SELECT is not enough: a WITH may hold an INSERT, and a sequence may be drawn from.
The read-only transaction refuses both.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import duckdb
from duckdb import DuckDBPyConnection, StatementType

from amble.errors import QueryRefused
from amble.store.database import Database

ROWS_MAX = 10_000


class QueryResult(NamedTuple):
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool  # there were more rows


def read_only_query(database: Database, sql: str, timeout_s: float, rows_max: int = ROWS_MAX) -> QueryResult:
    """The first rows of one SELECT. Raises `QueryRefused`, whose message may be shown to whoever asked."""
    from amble.store.functions import prepare  # the parser of pages takes a while to load, and few are asked

    database.require_sealed()
    with database.reading() as connection:
        prepare(connection)  # as on a connection of `amble.connect`
        statement = _one_select(connection, sql)
        connection.execute("BEGIN TRANSACTION READ ONLY")
        overdue = threading.Event()

        def stop() -> None:
            overdue.set()
            connection.interrupt()

        timer = threading.Timer(timeout_s, stop)
        timer.start()
        try:
            connection.execute(statement)
            columns = tuple(column[0] for column in connection.description or ())
            rows = connection.fetchmany(rows_max + 1)
        except duckdb.Error as refused:
            if overdue.is_set():
                raise QueryRefused(
                    f"the query took longer than {timeout_s:g} s", hint="ask for less, or query a copy of the file"
                ) from None
            raise QueryRefused(str(refused), hint="only one SELECT over the tables of this database") from None
        finally:
            timer.cancel()
            timer.join()  # or a late interrupt would meet whatever comes next
        return QueryResult(columns, rows[:rows_max], truncated=len(rows) > rows_max)


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
