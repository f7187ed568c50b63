"""What running jobs know better than the disk: `amble.frontier`, and the newest of `amble.domains`.

Both are read on the engine's thread, between two of its steps, so that nothing changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

from amble.core.frontier.lane import Lane
from amble.core.pacing.learned import learn
from amble.core.pacing.snapshot import snapshot_domain
from amble.jobs import rows
from amble.jobs.job import Job
from amble.jobs.runner import engine, running
from amble.sql.result import Table
from amble.store.duckdb_store import DuckDBStore
from amble.store.rows import domain_row

FRONTIER = (
    ("job_id", "BIGINT"), ("domain", "VARCHAR"), ("state", "VARCHAR"), ("queued", "BIGINT"), ("stored", "BIGINT"),
    ("in_flight", "INTEGER"), ("next_request_s", "DOUBLE"), ("delay_s", "DOUBLE"), ("delay_source", "VARCHAR"),
    ("blocked_until", "TIMESTAMP"),
)  # fmt: skip
# The columns of amble.domains, and what only a running job knows.
_STORED = (
    ("domain", "VARCHAR"), ("crawl_delay_seconds", "DOUBLE"), ("adaptive_delay_seconds", "DOUBLE"),
    ("adaptive_delay_floor_seconds", "DOUBLE"), ("concurrency", "INTEGER"), ("last_request_at", "TIMESTAMP"),
    ("last_success_at", "TIMESTAMP"), ("last_limited_at", "TIMESTAMP"), ("learned_at", "TIMESTAMP"),
    ("requests", "BIGINT"), ("successes", "BIGINT"), ("limited", "BIGINT"), ("failures", "BIGINT"),
    ("strategy", "VARCHAR"), ("numbers", "VARCHAR"), ("blocked_until_at", "TIMESTAMP"),
    ("last_reserved_at", "TIMESTAMP"),
)  # fmt: skip
_LIVE = (("in_flight", "INTEGER"), ("next_request_s", "DOUBLE"), ("delay_s", "DOUBLE"), ("delay_source", "VARCHAR"))
DOMAINS = (*_STORED, *_LIVE)
_PATIENCE_S = 10.0


def frontier_now(store: DuckDBStore | None) -> Table:
    """A row for each domain that a running job has something to do with."""
    return Table(FRONTIER, _on_engine(store, _frontier_rows))


def domains_now(store: DuckDBStore | None) -> Table:
    """What is known of the domains of running jobs, as it would be stored now."""
    return Table(DOMAINS, _on_engine(store, _domain_rows))


def domains_sql(live: str) -> str:
    """`amble.domains`, in which the rows of running jobs, given as a table, replace those on disk."""
    names = ", ".join(name for name, _ in _STORED)
    nothing = ", ".join(f"NULL::{kind} AS {name}" for name, kind in _LIVE)
    return (
        f"(SELECT {names}, {nothing} FROM amble.domains WHERE domain NOT IN (SELECT domain FROM {live}) "
        f"UNION ALL BY NAME SELECT * FROM {live})"
    )


def _on_engine(store: DuckDBStore | None, look: Any) -> list[tuple[Any, ...]]:
    jobs = [handle.job for handle in running(store).values()] if store is not None else []
    if not jobs:
        return []
    found: Future[list[tuple[Any, ...]]] = Future()

    def step() -> None:
        try:
            found.set_result([row for job in jobs for row in look(job)])
        except Exception as error:
            found.set_exception(error)

    engine().call(step)
    return found.result(_PATIENCE_S)


def _frontier_rows(job: Job) -> Sequence[tuple[Any, ...]]:
    frontier = job.plan.frontier
    now, utc = job.clock.monotonic(), job.clock.utc().replace(tzinfo=None)
    stored = frontier.backlog.stored
    listed: list[tuple[Any, ...]] = []
    for domain, lane in frontier.lanes.items():
        seen = snapshot_domain(lane.pace, now)
        blocked = utc + timedelta(seconds=seen.blocked_s) if seen.blocked_s > 0 else None
        listed.append(
            (job.row.id, domain, _state(lane, seen.blocked_s, now), len(lane), stored.get(domain, 0), lane.under_way,
             seen.next_in_s, seen.delay_s, seen.source, blocked)
        )  # fmt: skip
    elsewhere = sorted(stored.keys() - frontier.lanes.keys())
    listed += [(job.row.id, domain, "stored", 0, stored[domain], 0, None, None, None, None) for domain in elsewhere]
    return listed


def _state(lane: Lane, blocked_s: float, now: float) -> str:
    if lane.over is not None:
        return "over"
    if lane.held:
        return "robots.txt"
    if blocked_s > 0:
        return "blocked"
    if not len(lane):
        return "in flight" if lane.under_way else "idle"
    return "waiting" if lane.pace.not_before > now else "ready"


def _domain_rows(job: Job) -> Sequence[tuple[Any, ...]]:
    now, utc = job.clock.monotonic(), job.clock.utc()
    listed = []
    for lane in job.plan.frontier.lanes.values():
        row = domain_row(rows.domain_row(lane.pace, learn(lane.pace, now, utc), utc, now), 0)
        seen = snapshot_domain(lane.pace, now)
        listed.append((*row[1:], seen.in_flight, seen.next_in_s, seen.delay_s, seen.source))
    return listed
