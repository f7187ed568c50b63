"""Temporary tables that the queries of one connection read: there as long as somebody can read them, and no longer."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from amble.sql.result import Table
from amble.sql.transactions import in_transaction
from amble.store.database import quote

PREFIX = "amble_call_"
_numbers = count(1)


class Temporaries:
    """Those of one connection. A relation keeps what it reads; any other answer ends with the next statement."""

    __slots__ = ("_current", "_over")

    def __init__(self) -> None:
        self._current: list[str] = []
        self._over: deque[str] = deque()  # a relation may end in any thread

    def keep(
        self, connection: DuckDBPyConnection, query: str, values: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> str:
        """A table of what the query gives; its name as SQL."""
        name = f"temp.main.{quote(f'{PREFIX}{next(_numbers):09}')}"
        connection.execute(f"CREATE TEMP TABLE {name} AS {query}", values)
        self._current.append(name)
        return name

    def keep_rows(self, connection: DuckDBPyConnection, table: Table) -> str:
        name = self.keep(connection, Table(table.columns).query()[0])
        if table.rows:
            columns = [list(column) for column in zip(*table.rows, strict=True)]
            lists = ", ".join(f"unnest(${n}::{kind}[])" for n, (_, kind) in enumerate(table.columns, 1))
            connection.execute(f"INSERT INTO {name} SELECT {lists}", columns)
        return name

    def hand_to(self, relation: Any) -> None:
        """What the present statement reads lasts as long as its relation, and whatever is derived from that."""
        if relation is not None and self._current:
            weakref.finalize(relation, self._over.extend, self._current).atexit = False
            self._current = []

    def forget(self, connection: DuckDBPyConnection) -> None:
        """Another statement begins: nobody will fetch what the last one gave.

        Not inside a transaction, which may be rolled back or have failed; then later.
        """
        self._over.extend(self._current)
        self._current = []
        with suppress(duckdb.Error):  # closed, or busy in another thread: whoever goes on is told
            if self._over and not in_transaction(connection):
                while self._over:
                    connection.execute(f"DROP TABLE IF EXISTS {self._over[0]}")
                    self._over.popleft()
