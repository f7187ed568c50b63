"""Whether more requests of a domain were under way at once than might be, as receipts state and their instants show.

Whoever was sent last, of those under way at an instant, was let go when the others were under way already. So they are
no more than it might join, whatever the limit was before or became since.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from duckdb import DuckDBPyConnection


class Crowded(NamedTuple):
    """A request that was one too many."""

    domain: str
    url: str
    at: datetime | None
    stated: int  # under way together, by its receipt
    shown: int  # by the instants of all receipts
    allowed: int

    @property
    def text(self) -> str:
        if self.stated > self.allowed:
            return f"{self.stated} requests under way at once, where {self.allowed} might be"
        return (
            f"{self.shown} requests under way at once, where {self.allowed} might be; its receipt states {self.stated}"
        )


def crowded(connection: DuckDBPyConnection, domain: str | None) -> list[Crowded]:
    """Every such request, the worst first."""
    narrow, values = ("", []) if domain is None else ("AND domain = $1", [domain])
    rows = connection.execute(
        f"""
        WITH sent AS (
            SELECT * FROM amble.requests WHERE at_once_max IS NOT NULL {narrow}
        ), moment AS (
            SELECT domain, session, started_s AS at_s, 1 AS step, permit, url, started_at, in_flight, at_once_max
            FROM sent WHERE ended_s > started_s
            UNION ALL
            SELECT domain, session, ended_s, -1, NULL, NULL, NULL, NULL, NULL FROM sent WHERE ended_s > started_s
        ), shown AS (
            SELECT *, sum(step) OVER so_far AS shown, arg_max(at_once_max, permit) OVER so_far AS allowed FROM moment
            WINDOW so_far AS (PARTITION BY domain, session ORDER BY at_s, step ROWS UNBOUNDED PRECEDING)
        )
        SELECT domain, url, started_at, in_flight, shown, allowed FROM shown WHERE step = 1 AND shown > allowed
        UNION
        SELECT domain, url, started_at, in_flight, in_flight, at_once_max FROM sent WHERE in_flight > at_once_max
        ORDER BY greatest(in_flight, shown) - allowed DESC, started_at
        """,
        values,
    ).fetchall()
    return [Crowded(*row) for row in rows]
