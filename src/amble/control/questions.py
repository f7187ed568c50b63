"""What can be asked about a file, answered from its store: by whoever has it open, in plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from amble.control.channel import caller_has_gone
from amble.control.progress import workers_of
from amble.core.pacing.snapshot import DomainSnapshot
from amble.errors import StoreError
from amble.jobs.runner import running
from amble.report.audit import audit as check
from amble.report.why import why as explain_pace
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import DomainRow

QUERY_S = 60.0
SETTLE_S = 5.0
# Conditions on receipts: the server asked us to come later; or it failed, or could not be reached.
REFUSED = "(status = 429 OR (status = 503 AND retry_after_s IS NOT NULL))"
FAILED = f"(coalesce(status, 599) >= 500 AND {REFUSED} IS NOT TRUE)"
_ASKED = f"""
    SELECT domain, count(*), count(*) FILTER (WHERE {REFUSED}), count(*) FILTER (WHERE {FAILED})
    FROM amble.requests GROUP BY domain
"""


def jobs(store: DuckDBStore) -> list[dict[str, Any]]:
    _let_settle(store)
    found, crawling = [], running(store)
    for job in store.jobs():
        counts = store.counts(job.id)
        found.append(
            {
                "job": job.id,
                "status": job.status.value,
                "accepted": counts.accepted,
                "queued": counts.waiting,
                "running": counts.running,
                "deferred": counts.deferred,
                "final": counts.final,
                "done": counts.done,
                "failed": counts.failed,
                "skipped": counts.skipped,
                "workers": workers_of(crawling[job.id].job) if job.id in crawling else 0,
                "table": job.target,
                "started_at": job.started_at,
                "finished_at": job.finished_at,
                "error": job.error,
                "seeds": list(job.seeds),
            }
        )
    return found


def domains(store: DuckDBStore) -> list[dict[str, Any]]:
    """What was learned of each, and what the receipts say of all its requests, those of a running crawl included."""
    _let_settle(store)
    known = {row.domain: row for row in store.load_domains()}
    with store.database.reading() as connection:
        asked = {domain: counts for domain, *counts in connection.execute(_ASKED).fetchall()}
    found = [(known.get(name, DomainRow(name)), *asked.get(name, (0, 0, 0))) for name in known.keys() | asked.keys()]
    return [
        {
            "domain": row.domain,
            "delay_s": row.adaptive_delay_seconds,
            "floor_s": row.adaptive_delay_floor_seconds,
            "crawl_delay_s": row.crawl_delay_seconds,
            "at_once": row.concurrency,
            "requests": requests,
            "limited": limited,
            "failures": failures,
            "strategy": row.strategy,
        }
        for row, requests, limited, failures in sorted(found, key=lambda each: (-each[1], each[0].domain))
    ]


def audit(store: DuckDBStore, domain: str | None = None) -> dict[str, Any]:
    """Also as text, and as a page to send to the owner of a site."""
    _let_settle(store)
    with store.database.reading() as connection:
        found = check(connection, domain)
    return {**found.as_dict(), "text": found.as_text(), "html": found.as_html()}


def why(
    store: DuckDBStore, domain: str, job: int | None = None, snapshot: DomainSnapshot | None = None, workers: int = 0
) -> dict[str, Any]:
    """`snapshot` is of a running job's own pace; without one the receipts say what held last. `workers` it has."""
    _let_settle(store)
    with store.database.reading() as connection:
        found = explain_pace(connection, domain, job_id=job, snapshot=snapshot)
    beside = f"\nfetched by one of {workers} worker processes" if workers else ""
    return {**found.as_dict(), "workers": workers, "text": found.as_text() + beside}


def sql(store: DuckDBStore, query: str, timeout_s: float = QUERY_S) -> dict[str, Any]:
    """One SELECT; refused unless the store is sealed."""
    if not store.database.sealed:
        raise StoreError(
            "a program has this file open for SQL of its own, and answers none from outside",
            hint="ask there (job.sql, con.sql), or when it is done; `amble jobs`, `why` and `audit` answer now",
        )
    _let_settle(store)
    if not timeout_s > 0:
        raise StoreError("the time of a query is a number of seconds", hint="ask(file, 'sql', query='SELECT 1')")
    found = store.read_only_query(query, min(timeout_s, QUERY_S), is_gone=caller_has_gone)
    return {"columns": list(found.columns), "rows": [list(row) for row in found.rows], "truncated": found.truncated}


QUESTIONS: Mapping[str, Callable[..., Any]] = {
    "jobs": jobs,
    "domains": domains,
    "audit": audit,
    "why": why,
    "sql": sql,
}


def _let_settle(store: DuckDBStore) -> None:
    """What was handed over is written first, so that the answer is of now; not for ever, should the disk be full."""
    with suppress(TimeoutError):
        store.flush().result(SETTLE_S)
