"""A small table as an answer of DuckDB itself, so that every way of fetching works on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from amble.store.database import quote


class Table(NamedTuple):
    """Columns as (name, type), and rows."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Any]] = ()

    def query(self) -> tuple[str, list[Any]]:
        """A SELECT that gives this table, and the values of its parameters."""
        heads = ", ".join(quote(name) for name, _ in self.columns)
        if not self.rows:
            nulls = ", ".join(f"NULL::{kind}" for _, kind in self.columns)
            return f"SELECT * FROM (SELECT {nulls}) t({heads}) WHERE false", []
        width = len(self.columns)
        lines = (
            ", ".join(f"${row * width + n + 1}::{kind}" for n, (_, kind) in enumerate(self.columns))
            for row in range(len(self.rows))
        )
        values = ", ".join(f"({line})" for line in lines)
        return f"SELECT * FROM (VALUES {values}) t({heads})", [value for row in self.rows for value in row]


DONE = Table([("Success", "BOOLEAN")])  # what DuckDB answers to SET
