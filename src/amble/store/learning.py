"""What was learned of a domain outlasts rows that say nothing of it: it stays as it was, as of its own day.

A crawl that learns nothing of a domain still counts its requests, and notes until when it is to be left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duckdb import DuckDBPyConnection

from amble.store.rows import Row
from amble.store.seam import DomainRow

_REMEMBERED_MAX = 10_000  # domains
_LEARNED = ("adaptive_delay_seconds", "adaptive_delay_floor_seconds", "learned_at", "strategy", "numbers")
_PLACES = tuple(1 + DomainRow._fields.index(name) for name in _LEARNED)  # after the number of the row
_DOMAIN, _DELAY = 1 + DomainRow._fields.index("domain"), _PLACES[0]
_LAST = (
    f"SELECT domain, arg_max(struct_pack({', '.join(f'{name} := {name}' for name in _LEARNED)}), seq) "
    "FROM amble.domain_log WHERE domain IN (SELECT unnest($1::VARCHAR[])) AND adaptive_delay_seconds > 0 "
    "GROUP BY domain"
)


class Learning:
    """Used by the thread that writes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, ...] | None] = {}  # what was last said of domains, as in the table

    def carry_over(self, connection: DuckDBPyConnection, rows: Sequence[Row]) -> list[Row]:
        """The rows of a transaction, in their order, each with what was last said before it if it says nothing."""
        if len(self._known) > _REMEMBERED_MAX:
            self._known.clear()
        self._read(connection, {row[_DOMAIN] for row in rows if not row[_DELAY]} - self._known.keys())
        return [self._complete(row) for row in rows]

    def _read(self, connection: DuckDBPyConnection, domains: set[str]) -> None:
        if domains:
            self._known |= dict.fromkeys(domains)
            for domain, said in connection.execute(_LAST, [list(domains)]).fetchall():
                self._known[domain] = tuple(said.values())

    def _complete(self, row: Row) -> Row:
        if row[_DELAY]:
            self._known[row[_DOMAIN]] = tuple(row[place] for place in _PLACES)
            return row
        known = self._known.get(row[_DOMAIN])
        if known is None:
            return row
        said = dict(zip(_PLACES, known, strict=True))
        return tuple(said.get(place, value) for place, value in enumerate(row))
