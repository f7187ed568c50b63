"""What running jobs know better than the disk: `amble.frontier`, and the newest of `amble.domains` and `amble.jobs`.

It is read on the engine's thread, between two of its steps, so that nothing changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

import duckdb

from amble.control.progress import seen_on_engine
from amble.core.frontier.lane import Lane
from amble.core.pacing.learned import learn
from amble.core.pacing.snapshot import snapshot_domain
from amble.jobs import rows
from amble.jobs.job import Job
from amble.jobs.runner import running
from amble.sql.result import Table
from amble.store import functions
from amble.store.duckdb_store import DuckDBStore
from amble.store.migrate import migrate
from amble.store.rows import domain_row
from amble.store.storable import json_text

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
JOBS = (("id", "BIGINT"), ("counters", "VARCHAR"))
_AT_ONCE = 500  # domains looked at before others have their turn


def frontier_now(store: DuckDBStore | None) -> Table:
    """A row for each domain that a running job has something to do with."""
    found: list[tuple[Any, ...]] = []
    for job in _jobs(store):
        found += _by_lane(job, _frontier_row)
        held = {row[1] for row in found if row[0] == job.row.id}
        stored = seen_on_engine(lambda job=job: dict(job.plan.frontier.backlog.stored))  # type: ignore[misc]
        found += [
            (job.row.id, domain, "stored", 0, count, 0, None, None, None, None)
            for domain, count in stored.items()
            if domain not in held
        ]
    return Table(FRONTIER, found)


def domains_now(store: DuckDBStore | None) -> Table:
    """What is known of the domains of running jobs, as it would be stored now."""
    newest = {row[0]: row for job in _jobs(store) for row in _by_lane(job, _domain_row)}  # jobs share what they know
    return Table(DOMAINS, list(newest.values()))


def jobs_now(store: DuckDBStore | None) -> Table:
    """What running jobs have counted so far."""
    return Table(JOBS, [(job.row.id, json_text(job.result.counters(job.row.counters))) for job in _jobs(store)])


@cache
def columns_of(table: str) -> tuple[tuple[str, str], ...]:
    """What a table or a view of the schema amble will have once somebody has crawled."""
    if table == "domains":
        return DOMAINS
    with duckdb.connect() as scratch:
        functions.prepare(scratch)
        migrate(scratch)
        return tuple((row[0], row[1]) for row in scratch.execute(f"DESCRIBE amble.{table}").fetchall())


def domains_sql(live: str) -> str:
    """`amble.domains`, in which the rows of running jobs, given as a table, replace those on disk."""
    names = ", ".join(name for name, _ in _STORED)
    nothing = ", ".join(f"NULL::{kind} AS {name}" for name, kind in _LIVE)
    return (
        f"(SELECT {names}, {nothing} FROM amble.domains WHERE domain NOT IN (SELECT domain FROM {live}) "
        f"UNION ALL BY NAME SELECT * FROM {live})"
    )


def jobs_sql(live: str) -> str:
    """`amble.jobs`, with what running jobs have counted."""
    return (
        "(SELECT stored.* REPLACE (coalesce(live.counters, stored.counters) AS counters) FROM amble.jobs AS stored "
        f"LEFT JOIN {live} AS live USING (id))"
    )


def _jobs(store: DuckDBStore | None) -> list[Job]:
    return [handle.job for handle in running(store).values()] if store is not None else []


def _by_lane(job: Job, look: Callable[[Job, Lane], tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """A row for each domain that is held in memory; some at a time, so that the crawl goes on in between."""
    lanes = seen_on_engine(lambda: list(job.plan.frontier.lanes.values()))
    found: list[tuple[Any, ...]] = []
    for first in range(0, len(lanes), _AT_ONCE):
        part = lanes[first : first + _AT_ONCE]
        found += seen_on_engine(lambda part=part: [look(job, lane) for lane in part])  # type: ignore[misc]
    return found


def _frontier_row(job: Job, lane: Lane) -> tuple[Any, ...]:
    now, utc = job.clock.monotonic(), job.clock.utc().replace(tzinfo=None)
    seen = snapshot_domain(lane.pace, now)
    blocked = utc + timedelta(seconds=seen.blocked_s) if seen.blocked_s > 0 else None
    stored = job.plan.frontier.backlog.stored.get(lane.domain, 0)
    return (
        job.row.id, lane.domain, _state(lane, seen.blocked_s, now), len(lane), stored, lane.under_way, seen.next_in_s,
        seen.delay_s, seen.source, blocked,
    )  # fmt: skip


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


def _domain_row(job: Job, lane: Lane) -> tuple[Any, ...]:
    now, utc = job.clock.monotonic(), job.clock.utc()
    row = domain_row(rows.domain_row(lane.pace, learn(lane.pace, now, utc), utc, now), 0)
    seen = snapshot_domain(lane.pace, now)
    return (*row[1:], seen.in_flight, seen.next_in_s, seen.delay_s, seen.source)
