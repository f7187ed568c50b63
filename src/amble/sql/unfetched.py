"""What DuckDB says to a statement before its pages are fetched: a mistake in it costs no request."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import duckdb

from amble.sql.crawling import Place
from amble.sql.result import Table
from amble.sql.tokens import Kind, tokens_of
from amble.sql.transactions import refuse_transaction
from amble.store.clauses import Column
from amble.store.tables import COLUMNS

_MISTAKES = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)
_EXPLAINED = ("COPY", "CREATE", "DELETE", "FROM", "INSERT", "MERGE", "SELECT", "UPDATE", "WITH")


def no_pages(extract: Sequence[Column] = ()) -> str:
    """A table of pages without any, as SQL."""
    columns = {name: kinds[0] for name, kinds in COLUMNS.items()} | {each.name: each.kind for each in extract}
    return no_rows(list(columns.items()))


def no_rows(columns: Sequence[tuple[str, str]]) -> str:
    return f"({Table(columns).query()[0]})"


def refuse_mistakes(place: Place, sql: str, parameters: Any, what: str) -> None:
    """Let DuckDB judge one statement without running it. What only the pages can tell is left to them."""
    refuse_transaction(place.connection, what)  # which an error would spoil
    first = next((token for token in tokens_of(sql) if token.kind is not Kind.COMMENT), None)
    if first is None or first.word not in _EXPLAINED or "rowid" in sql.lower():
        return
    connection, run = place.connection, partial(place.caller.call, place.connection.execute)
    connection.execute("BEGIN")
    try:
        # EXPLAIN does not mind that a table is there already: CREATE is tried, and taken back.
        run(sql if first.word == "CREATE" else f"EXPLAIN {sql[first.at :]}", parameters)
    except _MISTAKES:
        raise
    except duckdb.Error:
        pass
    finally:
        connection.execute("ROLLBACK")
