"""Whether a domain was asked again before the end of a Retry-After: its receipts say what each answer asked for."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from duckdb import DuckDBPyConnection

from amble.core.pacing.settings import PacingSettings

# What began this shortly after the last byte of the answer may have been on its way already: an answer is known when it
# has been read and judged, and other requests start meanwhile.
HEARD_S = 0.1
ROUNDING_S = 0.001
MOST_S = PacingSettings().max_retry_after  # kept where a job says nothing of it
CLOCK_S = 1.0  # between two runs only the wall clock tells, and it may be set right by as much


class ShutOut(NamedTuple):
    """A request that should have waited."""

    domain: str
    url: str
    at: datetime | None
    asked_s: float
    after_s: float  # how long after the answer it was sent

    @property
    def text(self) -> str:
        return f"sent {self.after_s:.3f} s after an answer that asked for {self.asked_s:g} s of silence (Retry-After)"


def shut_out(connection: DuckDBPyConnection, domain: str | None) -> list[ShutOut]:
    """Every such request, the worst first: once each, against the longest silence that it broke."""
    narrow, values = ("", []) if domain is None else ("WHERE domain = $1", [domain])
    rows = connection.execute(
        f"""
        WITH sent AS (
            SELECT *, epoch(started_at) AS utc_s FROM amble.requests {narrow}
        ), kept AS (
            SELECT id AS job_id, TRY((settings->>'max_retry_after')::DOUBLE) AS most_s FROM amble.jobs
        ), asked AS (
            SELECT domain, session, least(retry_after_s, coalesce(most_s, {MOST_S})) AS asked_s,
                started_s + coalesce(elapsed_s, 0) AS heard_s,
                utc_s + coalesce(elapsed_s, 0) AS heard_utc_s
            FROM sent LEFT JOIN kept USING (job_id) WHERE retry_after_s IS NOT NULL
        ), broken AS (
            SELECT domain, url, permit, session, started_at, asked_s, started_s - heard_s AS after_s
            FROM sent JOIN asked USING (domain, session)
            WHERE started_s - heard_s > {HEARD_S} AND started_s - heard_s < asked_s - {ROUNDING_S}
            UNION ALL
            SELECT sent.domain, url, permit, sent.session, started_at, asked_s, utc_s - heard_utc_s
            FROM sent JOIN asked ON sent.domain = asked.domain AND sent.session <> asked.session
            WHERE utc_s - heard_utc_s > {HEARD_S} AND utc_s - heard_utc_s < asked_s - {CLOCK_S}
        )
        SELECT domain, url, started_at, max(asked_s), arg_max(after_s, asked_s) FROM broken
        GROUP BY domain, url, permit, session, started_at ORDER BY max(asked_s - after_s) DESC, started_at
        """,
        values,
    ).fetchall()
    return [ShutOut(*row) for row in rows]
