"""How a running job stands, as plain values: what a person watching it wants to see.

Looked at on the engine's thread, where nothing changes meanwhile; handed to whoever shows it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from amble.core.frontier.lane import Lane
from amble.core.pacing.snapshot import DomainSnapshot, snapshot_domain
from amble.jobs import Job
from amble.jobs.runner import RunningJob, engine

DOMAINS_SHOWN = 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DomainProgress:
    """One domain: its pace, its queue, and how long that takes."""

    pace: DomainSnapshot
    queued: int
    eta_s: float


@dataclass(frozen=True, slots=True)
class JobProgress:
    job_id: int
    status: str
    phase: str
    accepted: int
    final: int
    deferred: int
    under_way: int
    pages: int
    failed: int
    requests: int
    limited: int
    body_bytes: int
    seconds: float  # since the job was begun or taken up
    held: str  # why nothing is sent, if so
    domains_known: int
    domains: tuple[DomainProgress, ...]  # those that take longest, first
    eta_s: float | None  # the slowest domain's; None while nothing can be said
    workers: int = 0  # processes beside this one that fetch and read


def look(running: RunningJob, began: float, domains: int = DOMAINS_SHOWN, timeout_s: float = 10.0) -> JobProgress:
    """Asked from any thread but the engine's."""
    return seen_on_engine(lambda: progress_of(running, began, domains), timeout_s)


def pages_under_way(running: RunningJob) -> int:
    """How many of a job's URLs are asked for at this moment."""
    return seen_on_engine(lambda: running.job.plan.frontier.pages_under_way)


def domain_now(running: RunningJob, domain: str) -> DomainSnapshot | None:
    """One domain of a running job; None if it has nothing to do with it."""

    def take() -> DomainSnapshot | None:
        lane = running.job.plan.frontier.lanes.get(domain)
        return None if lane is None else snapshot_domain(lane.pace, running.job.clock.monotonic(), len(lane))

    return seen_on_engine(take)


def seen_on_engine(take: Callable[[], T], timeout_s: float = 10.0) -> T:
    """What it gives between two steps of the engine, where nothing changes meanwhile. Asked from any other thread."""
    found: Future[T] = Future()

    def step() -> None:
        try:
            found.set_result(take())
        except Exception as error:
            found.set_exception(error)

    engine().call(step)
    return found.result(timeout_s)


def progress_of(running: RunningJob, began: float, domains: int) -> JobProgress:
    job, result = running.job, running.result
    now = job.clock.monotonic()
    frontier = job.plan.frontier
    stored = frontier.backlog.stored
    looked = [(lane, len(lane) + stored.get(lane.domain, 0)) for lane in frontier.lanes.values()]
    slowest = heapq.nlargest(domains, looked, key=lambda each: (remaining_s(each[0], each[1], now), each[0].pace.seq))
    shown = tuple(
        DomainProgress(snapshot_domain(lane.pace, now, queued), queued, remaining_s(lane, queued, now))
        for lane, queued in slowest
    )
    state = job.store.state
    return JobProgress(
        job_id=job.row.id,
        status=running.status.value,
        phase=phase_of(job, paused=running.status.value == "paused"),
        accepted=frontier.accepted,
        final=frontier.final,
        deferred=frontier.deferred,
        under_way=frontier.under_way,
        pages=result.pages,
        failed=result.failed,
        requests=result.requests,
        limited=result.limited,
        body_bytes=result.body_bytes,
        seconds=now - began,
        held=state.reason if state.paused else "",
        domains_known=len(frontier.lanes),
        domains=shown,
        eta_s=shown[0].eta_s if shown and frontier.accepted > frontier.final else None,
        workers=workers_of(job),
    )


def workers_of(job: Job) -> int:
    """How many processes beside this one fetch and read for a job now."""
    return len(job.workers.pids) if job.workers is not None else 0


def phase_of(job: Job, *, paused: bool) -> str:
    """What the crawl is doing as a whole."""
    frontier = job.plan.frontier
    if frontier.draining:
        return "stopping"
    if paused:
        return "paused"
    if not job.loaded:
        return "reading what is known"
    if job.store.state.paused:
        return f"waiting for {job.store.state.lacks}"
    if job.plan.patience.outage.is_down:
        return "waiting for the network"
    if any(not walk.finished for lane in frontier.lanes.values() for walk in lane.walks.values()):
        return "looking for sitemaps" if not job.result.pages else "crawling, reading sitemaps"
    if not frontier.pages_under_way and not job.result.pages:
        return "asking for robots.txt"
    return "crawling"


def remaining_s(lane: Lane, visits: int, now: float) -> float:
    """How long the queue of a domain takes at its present pace."""
    pace = lane.pace
    if not visits and not lane.under_way:
        return 0.0
    latency_s = pace.latency_s or 0.0
    each_s = max(pace.gap_s, latency_s / max(1, pace.parallel))
    wait_s = max(0.0, pace.not_before - now, pace.blocked_until - now) if visits else 0.0
    return wait_s + max(0, visits - 1) * each_s + latency_s
