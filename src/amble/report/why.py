"""Why a domain takes as long as it does: its time by cause, what binds it now, the last decisions, and a hint.

Everything is read from the receipts of requests, which say what gap each had to keep and by which rule; nothing else
is stored for it. Of a domain that is being crawled, its snapshot says what binds this very moment.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from duckdb import DuckDBPyConnection

from amble.core.outcome import Failure
from amble.core.pacing.bounds import Bounds, Rulebook
from amble.core.pacing.permit import Source
from amble.core.pacing.phase import PacePhase
from amble.core.pacing.snapshot import DomainSnapshot
from amble.core.urls import domain_of
from amble.errors import StoreError
from amble.report.budget import Budget, Decision, Receipt, budget_of
from amble.report.sentences import BINDS, HINTS, Facts, first_true, phase_of_receipts
from amble.report.words import duration, html_table, marked, safe, text_table
from amble.settings import Settings
from amble.store import storable
from amble.store.database import database_in_use
from amble.store.knowledge import load_domains, load_jobs
from amble.store.names import TableName
from amble.store.seam import DomainRow, JobRow
from amble.store.tables import exists

_READ_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Why:
    """The answer for one domain."""

    domain: str
    job_id: int
    elapsed_s: float
    requests: int
    refusals: int
    failures: int
    latency_s: float
    seconds: dict[str, float]  # by cause, the longest first; they add up to elapsed_s
    phase: str
    binds: str
    decisions: tuple[Decision, ...]  # the last few, oldest first
    hint: str

    def as_dict(self) -> dict[str, Any]:
        return {
            "domain": self.domain,
            "job_id": self.job_id,
            "elapsed_s": self.elapsed_s,
            "requests": self.requests,
            "refusals": self.refusals,
            "failures": self.failures,
            "latency_s": self.latency_s,
            "seconds": self.seconds,
            "phase": self.phase,
            "binds": self.binds,
            "decisions": [{"at": decision.at.isoformat(), "text": decision.text} for decision in self.decisions],
            "hint": self.hint,
        }

    def __str__(self) -> str:
        return self.as_text()

    def as_text(self) -> str:
        table = text_table(("cause", "time", "share"), self._lines(), left=1)
        decisions = [f"  {decision.at:%H:%M:%S} {safe(decision.text)}" for decision in self.decisions]
        return "\n".join(
            [self._title(), "", table, "", f"phase: {self.phase}", f"binds now: {self.binds}",
             "last decisions:", *(decisions or ["  none"]),
             f"hint: {self.hint}"]
        )  # fmt: skip

    def _repr_html_(self) -> str:
        decisions = "".join(f"<li>{decision.at:%H:%M:%S} {marked(decision.text)}</li>" for decision in self.decisions)
        return (
            f"<p>{marked(self._title())}</p>{html_table(('cause', 'time', 'share'), self._lines())}"
            f"<p>phase: {marked(self.phase)}</p>"
            f"<p>binds now: {marked(self.binds)}</p><ul>{decisions}</ul><p>hint: {marked(self.hint)}</p>"
        )

    def _title(self) -> str:
        return (
            f"{self.domain}: {self.requests} requests in {duration(self.elapsed_s)}, {self.refusals} refused,"
            f" {self.failures} failed, {duration(self.latency_s)} per answer"
        )

    def _lines(self) -> list[tuple[str, str, str]]:
        whole_s = self.elapsed_s or 1.0
        return [(cause, duration(spent_s), f"{spent_s / whole_s:.0%}") for cause, spent_s in self.seconds.items()]


def why(
    connection: DuckDBPyConnection, domain: str, *, job_id: int | None = None, snapshot: DomainSnapshot | None = None
) -> Why:
    """Explain the pace of a domain in a job: by default the last one that asked it."""
    name = domain_of(domain)
    job_id = _job_of(connection, name) if job_id is None else job_id
    budget = budget_of(_receipts(connection, name, job_id), _first_pages(connection, name, job_id))
    if budget.last is None:
        raise StoreError(f"job {job_id} sent nothing to {name}", hint="leave the job out for the last that did")
    known = next(iter(load_domains(connection, [name])), None)
    facts = _facts(budget, budget.last, known, snapshot, _bounds_of(connection, name, job_id))
    spent = sorted(budget.seconds.items(), key=lambda item: -item[1])
    return Why(
        name,
        job_id,
        budget.elapsed_s,
        budget.requests,
        budget.refusals,
        budget.failures,
        budget.latency_s,
        {cause.value: spent_s for cause, spent_s in spent if spent_s > 0},
        facts.phase.value,
        _binds_now(snapshot, facts) if snapshot is not None else _bound_last(budget.last, known, facts),
        tuple(budget.decisions),
        first_true(HINTS, facts),
    )


def _job_of(connection: DuckDBPyConnection, domain: str) -> int:
    [(job_id,)] = connection.execute("SELECT max(job_id) FROM amble.requests WHERE domain = $1", [domain]).fetchall()
    if job_id is not None:
        return int(job_id)
    names = [row[0] for row in connection.execute("SELECT DISTINCT domain FROM amble.requests LIMIT 10000").fetchall()]
    near = difflib.get_close_matches(domain, names, 3, 0.5) or sorted(names)[:3]
    hint = f"it knows {', '.join(near)}" if near else "nothing was crawled into it yet"
    raise StoreError(f"nothing in this file was sent to {domain}", hint=hint)


def _job(connection: DuckDBPyConnection, job_id: int) -> JobRow | None:
    return next((job for job in load_jobs(connection) if job.id == job_id), None)


def _receipts(connection: DuckDBPyConnection, domain: str, job_id: int) -> Iterator[Receipt]:
    rows = connection.execute(
        "SELECT session, started_s, coalesce(elapsed_s, 0), required_gap_s, rule, started_at, status, outcome, "
        "in_flight FROM amble.requests WHERE domain = $1 AND job_id = $2 ORDER BY session, started_s, permit",
        [domain, job_id],
    )
    while chunk := rows.fetchmany(_READ_AT_ONCE):
        for session, started_s, elapsed_s, gap_s, rule, started_at, status, failure, in_flight in chunk:
            at = storable.aware(started_at)
            assert at is not None
            yield Receipt(
                session, started_s, elapsed_s, gap_s, Source(rule), at, status,
                None if failure is None else Failure(failure), in_flight,
            )  # fmt: skip


def _first_pages(connection: DuckDBPyConnection, domain: str, job_id: int) -> dict[int, float]:
    """When each session asked for its first page: for something that has, or by its name may have, a row."""
    job = _job(connection, job_id)
    target = None if job is None else TableName.parse(job.target, database_in_use(connection))
    is_page = "NOT ends_with(url, '/robots.txt')"
    if target is not None and exists(connection, target):
        is_page = f"url IN (SELECT url FROM {target})"
    return dict(
        connection.execute(
            f"SELECT session, min(started_s) FROM amble.requests WHERE domain = $1 AND job_id = $2 AND {is_page} "
            "GROUP BY session",
            [domain, job_id],
        ).fetchall()
    )


# -- what binds


def _bounds_of(connection: DuckDBPyConnection, domain: str, job_id: int) -> Bounds:
    """The settings that a job had for a domain."""
    job = _job(connection, job_id)
    settings = Settings.as_stored({} if job is None else job.settings).pacing
    return Rulebook(settings, lambda: 0.0).bounds(domain)


def _facts(
    budget: Budget, last: Receipt, known: DomainRow | None, snapshot: DomainSnapshot | None, bounds: Bounds
) -> Facts:
    rule, gap_s = last.rule, last.required_gap_s
    learned = known is not None and bool(known.adaptive_delay_seconds)
    waits = known is not None and known.blocked_until_at is not None and known.blocked_until_at > last.started_at
    parallel = known.concurrency if known is not None else None
    if snapshot is not None:
        phase, rule, gap_s = PacePhase(snapshot.phase), Source(snapshot.source), snapshot.delay_s
        parallel = snapshot.parallel
    else:
        phase = phase_of_receipts(
            rule, bounds.strategy, learned=learned, refusals=budget.refusals, failed_last=budget.failed_last,
            waits=waits,
        )  # fmt: skip
    return Facts(
        phase, rule, bounds.strategy, budget.requests, budget.refusals, budget.failures, budget.biggest, gap_s,
        bounds.settings.default_crawl_delay, budget.in_flight_max, parallel or bounds.parallel, bounds.parallel,
    )  # fmt: skip


def _binds_now(snapshot: DomainSnapshot, facts: Facts) -> str:
    others = f"; another amble is asking {snapshot.domain}, too" if snapshot.others_ask else ""
    return f"{_rule_now(snapshot, facts)}{others}"


def _rule_now(snapshot: DomainSnapshot, facts: Facts) -> str:
    if snapshot.blocked_s > 0:
        return f"a block, for another {duration(snapshot.blocked_s)}"
    if snapshot.in_flight >= snapshot.parallel:
        return f"all {snapshot.parallel} requests at once are under way"
    reason = f" ({safe(snapshot.reason)})" if snapshot.source == Source.LEARNED else ""
    return f"{first_true(BINDS, facts)}, {duration(snapshot.delay_s)}{reason}"


def _bound_last(last: Receipt, known: DomainRow | None, facts: Facts) -> str:
    """Nobody is crawling it: what its last request had to keep."""
    text = first_true(BINDS, facts) + (f", {duration(last.required_gap_s)}" if last.required_gap_s else "")
    if known is not None and known.blocked_until_at is not None and known.blocked_until_at > last.started_at:
        text += f"; it asked to be left alone until {known.blocked_until_at:%Y-%m-%d %H:%M:%S} UTC"
    return text
