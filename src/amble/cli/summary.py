"""The end of a crawl, as a person wants it told: what came of it, the slowest domain and why, what to ask next."""

from __future__ import annotations

from typing import Any

from amble.cli.exits import limit_reached
from amble.cli.live import duration, size
from amble.cli.shown import command
from amble.control.questions import FAILED, REFUSED
from amble.core.pacing.bounds import Rulebook
from amble.core.pacing.permit import Source
from amble.core.pacing.phase import PacePhase
from amble.core.pacing.snapshot import phase_of
from amble.jobs import Job, JobResult
from amble.report.sentences import BECAUSE, Facts, first_true, phase_of_receipts
from amble.report.words import safe, text_table
from amble.store.knowledge import load_domains
from amble.store.seam import UNFINISHED

DOMAINS_SHOWN = 8

_NOTHING_NEW = "all of it is in the table already; --update-stale asks the site what has changed"


def result_of(job: Job, result: JobResult) -> dict[str, Any]:
    """The same as data."""
    return {
        "job": result.job_id,
        "status": result.status,
        "pages": result.pages,
        "ends": dict(result.ends),
        "left_out": {reason: count for reason, count in result.left_out.items() if count},
        "limit_reached": limit_reached(result),
        "set_apart": dict(result.set_apart),
        "requests": result.requests,
        "limited": result.limited,
        "bytes": result.body_bytes,
        "seconds": result.seconds,
        "slowest": slowest(job),
    }


def summary(job: Job, result: JobResult, into: str) -> str:
    ends = ", ".join(f"{count} {_end_told(kind, result)}" for kind, count in result.ends.most_common())
    left = ", ".join(f"{count} {reason}" for reason, count in result.left_out.most_common(4) if count)
    name = target_name(job.row.target)
    slow, domains = slowest(job), _domains(job)
    lines = [
        "",
        f"job {result.job_id} {result.status.value} in {result.seconds:.1f} s:"
        f" {result.pages} pages, {result.requests} requests, {result.limited} x 429, {size(result.body_bytes)}",
        f"URLs: {ends or 'none'}",
        *([f"links left out: {left}"] if left else []),
        *_set_apart(result),
        *([f"slowest: {_slowest_told(slow)}"] if slow else []),
        *_long_delays(job),
        *([f"go on with it: {command()} resume {safe(into)}"] if result.status in UNFINISHED else []),
        *_private(result),
        *([_NOTHING_NEW] if result.stored and result.stored == result.ends.total() else []),
        "",
        *([domains, ""] if domains else []),
        f"ask {safe(into)} ({command()} sql {safe(into)}, or any DuckDB):",
        f"  SELECT url, title FROM {name} WHERE http_status = 200 LIMIT 10;",
        f"  SELECT error_type, count(*) FROM {name} GROUP BY ALL ORDER BY 2 DESC;",
        "  SELECT domain, count(*), round(avg(actual_gap_s), 2) AS gap_s FROM amble.requests GROUP BY ALL;",
    ]
    return "\n".join(lines)


def _set_apart(result: JobResult) -> list[str]:
    tables = ", ".join(f"{count} of {safe(table)}" for table, count in result.set_apart.most_common())
    return [f"rows that could not be stored: {tables}; SELECT * FROM amble.rejected"] if tables else []


def _private(result: JobResult) -> list[str]:
    """Seeds that were refused since they are private and nobody typed them, with what would allow them."""
    places = ",".join(map(safe, result.private))
    return [f"private, and not typed here: if you mean them, crawl with --allow-private {places}"] if places else []


def _end_told(kind: str, result: JobResult) -> str:
    """What became of URLs, in words: those of a job that was stopped wait in the file, those skipped are there."""
    if kind == "skipped":
        return "stored already"
    return "left for later" if kind == "cancelled" and result.status in UNFINISHED else kind


def target_name(target: str) -> str:
    """The table as one would type it."""
    name = safe(target.removeprefix('"main".'))
    return name.strip('"') if name.strip('"').isidentifier() else name


def slowest(job: Job) -> dict[str, Any] | None:
    """The domain whose requests took longest from the first to the last, the rule that held it most often, how far its
    pace came, and why it took so long."""
    rows = _receipts(
        job,
        f"""
        SELECT domain, count(*), epoch(max(started_at) - min(started_at)) AS seconds, mode(rule),
               median(required_gap_s), count(*) FILTER (WHERE {REFUSED}), count(*) FILTER (WHERE {FAILED})
        FROM amble.requests WHERE job_id = ? GROUP BY domain ORDER BY seconds DESC, domain LIMIT 1
        """,
    )
    if not rows or rows[0][1] < 2:
        return None
    domain, requests, seconds, rule, gap_s, refusals, failures = rows[0]
    bounds = Rulebook(job.settings.pacing, lambda: 0.0).bounds(domain)
    facts = Facts(
        _phase(job, domain, Source(rule), bounds.strategy, refusals), Source(rule), bounds.strategy, requests, refusals,
        failures, gap_s=gap_s, default_gap_s=bounds.settings.default_crawl_delay,
    )  # fmt: skip
    return {
        "domain": domain, "requests": requests, "seconds": seconds, "rule": rule, "gap_s": gap_s,
        "phase": facts.phase.value, "because": first_true(BECAUSE, facts),
    }  # fmt: skip


def _phase(job: Job, domain: str, rule: Source, strategy: str, refusals: int) -> PacePhase:
    """Where its pace is still in memory, that knows."""
    pace = job.plan.frontier.registry.find(domain)
    if pace is not None:
        return phase_of(pace, job.clock.monotonic())
    failed_since = f"""
        SELECT count(*) FILTER (WHERE {FAILED}) FROM amble.requests WHERE job_id = ?1 AND domain = ?2
        AND started_at > coalesce((SELECT max(started_at) FROM amble.requests WHERE job_id = ?1 AND domain = ?2
                                   AND ({FAILED}) IS NOT TRUE), TIMESTAMP '1970-01-01')
    """
    with job.store.database.reading() as connection:
        [(failed_last,)] = connection.execute(failed_since, [job.row.id, domain]).fetchall()
        known = next(iter(load_domains(connection, [domain])), None)
    learned = known is not None and bool(known.adaptive_delay_seconds)
    waits = known is not None and known.blocked_until_at is not None and known.blocked_until_at > job.clock.utc()
    return phase_of_receipts(rule, strategy, learned=learned, refusals=refusals, failed_last=failed_last, waits=waits)


def _slowest_told(slow: dict[str, Any]) -> str:
    gap = f", a request every {slow['gap_s']:.2f} s" if slow["gap_s"] else ""
    took = f"{slow['requests']} requests in {duration(slow['seconds'])}{gap}"
    return f"{safe(slow['domain'])}, {took}; {slow['phase']}: {slow['because']}"


def _long_delays(job: Job) -> list[str]:
    """Sites that asked for more patience than `max_crawl_delay` expects: kept, and worth knowing."""
    rows = _receipts(
        job,
        f"""
        SELECT domain, max(required_gap_s) AS gap_s FROM amble.requests
        WHERE job_id = ? AND rule = 'crawl_delay' AND required_gap_s > {job.settings.robots.max_crawl_delay}
        GROUP BY domain ORDER BY gap_s DESC, domain LIMIT {DOMAINS_SHOWN}
        """,
    )
    return [f"kept: {safe(name)} asks for {gap_s:g} s between requests, above max_crawl_delay" for name, gap_s in rows]


def _domains(job: Job) -> str:
    """The busiest. From the receipts: a domain that is done with is no longer held in memory."""
    rows = _receipts(
        job,
        f"""
        SELECT domain, count(*) AS requests, count(*) FILTER (WHERE {REFUSED}), count(*) FILTER (WHERE {FAILED}),
               arg_max(required_gap_s, started_at), arg_max(rule, started_at)
        FROM amble.requests WHERE job_id = ? GROUP BY domain ORDER BY requests DESC, domain LIMIT {DOMAINS_SHOWN}
        """,
    )
    return text_table(("domain", "requests", "refused", "failed", "delay_s", "set by"), rows) if rows else ""


def _receipts(job: Job, query: str) -> list[tuple[Any, ...]]:
    with job.store.database.reading() as connection:
        return connection.execute(query, [job.row.id]).fetchall()
