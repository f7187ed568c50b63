"""How a crawl looks while it runs and when it is over."""

from __future__ import annotations

import asyncio
import sys
import time

from amble.cli.shown import safe, say, table
from amble.core.pacing.events import BlockClosed, BlockOpened, CircuitClosed, CircuitOpened, Event, PaceChanged
from amble.core.pacing.snapshot import snapshot_domain
from amble.jobs import Job, JobResult

EVERY_S = 1.0
EVERY_PLAIN_S = 10.0


class Progress:
    """One line that is written over on a terminal; a line now and then where there is none."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._limited: set[str] = set()

    def event(self, event: Event) -> None:
        line = self._told(event)
        if line is not None:
            self._clear()
            say(f"{self._clock()}  {safe(event.domain):<22} {safe(line)}")

    def _told(self, event: Event) -> str | None:
        """What is worth a line: blocks, circuits, and how a domain that refused us gets faster again."""
        if isinstance(event, BlockOpened):
            self._limited.add(event.domain)
            return f"{event.reason}: left alone for {event.wait_s:.1f} s"
        if isinstance(event, BlockClosed):
            return f"answers again: {event.reason}, {1 / event.delay_s:.2f} requests/s"
        if isinstance(event, CircuitOpened):
            return f"circuit open for {event.wait_s:.0f} s: {event.reason}"
        if isinstance(event, CircuitClosed):
            return f"circuit closed after {event.open_s:.0f} s"
        faster = isinstance(event, PaceChanged) and event.delay_s < event.was_s and event.domain in self._limited
        if isinstance(event, PaceChanged) and faster:
            return f"delay {event.was_s:.2f} s -> {event.delay_s:.2f} s: {event.reason}"
        return None

    async def tick(self, job: Job) -> None:
        while True:
            await asyncio.sleep(EVERY_S if self._terminal else EVERY_PLAIN_S)
            self._clear()
            sys.stderr.write(self._line(job) + ("" if self._terminal else "\n"))
            sys.stderr.flush()

    def _line(self, job: Job) -> str:
        frontier, result = job.plan.frontier, job.result
        seconds = max(time.monotonic() - self._began, 1e-3)
        paused = f"  PAUSED: {job.store.state.reason}" if job.store.state.paused else ""
        return (
            f"{self._clock()}  {frontier.final} of {frontier.accepted} URLs, {frontier.under_way} under way,"
            f" {result.pages / seconds:.1f} pages/s, {result.limited} x 429{paused}"
        )

    def _clock(self) -> str:
        return f"{time.monotonic() - self._began:7.1f} s"

    def _clear(self) -> None:
        if self._terminal:
            sys.stderr.write("\r\x1b[K")


def summary(job: Job, result: JobResult, into: str) -> str:
    """What a person wants to know at the end, and three questions to go on with."""
    ends = ", ".join(f"{count} {kind}" for kind, count in result.ends.most_common())
    left = ", ".join(f"{count} {reason}" for reason, count in result.left_out.most_common(4))
    now = job.clock.monotonic()
    lanes = job.plan.frontier.lanes.values()
    busiest = sorted((snapshot_domain(lane.pace, now) for lane in lanes), key=lambda domain: -domain.requests)[:8]
    rows = [(d.domain, d.requests, d.limited, d.failures, d.delay_s, d.source) for d in busiest]
    name = safe(job.row.target.removeprefix('"main".'))
    name = name.strip('"') if name.strip('"').isidentifier() else name
    lines = [
        "",
        f"job {result.job_id} {result.status.value} in {result.seconds:.1f} s:"
        f" {result.pages} pages, {result.requests} requests, {result.limited} x 429, {result.body_bytes / 1e6:.1f} MB",
        f"URLs: {ends or 'none'}",
        *([f"links left out: {left}"] if left else []),
        "",
        table(("domain", "requests", "refused", "failed", "delay_s", "set by"), rows),
        "",
        f"ask {into} (with the duckdb shell or module):",
        f"  SELECT url, title FROM {name} WHERE http_status = 200 LIMIT 10;",
        f"  SELECT error_type, count(*) FROM {name} GROUP BY ALL ORDER BY 2 DESC;",
        "  SELECT domain, count(*), round(avg(actual_gap_s), 2) AS gap_s FROM amble.requests GROUP BY ALL;",
    ]
    return "\n".join(lines)
