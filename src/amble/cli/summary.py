"""The end of a crawl, as a person wants it told: what came of it, the slowest domain and why, what to ask next."""

from __future__ import annotations

from typing import Any

from amble.cli.live import duration, size
from amble.cli.shown import command, safe, table
from amble.control.questions import FAILED, REFUSED
from amble.jobs import Job, JobResult
from amble.store.seam import UNFINISHED

DOMAINS_SHOWN = 8

_BECAUSE = {
    "crawl_delay": "its robots.txt asks for that gap",
    "minimum": "min_crawl_delay or a rule sets that gap",
    "max_rate": "max_rate allows no more; raise it only where you may",
    "learned": "it answered no faster without refusing",
    "quota": "its RateLimit headers allow no more",
    "none": "its own response times",
}

_NOTHING_NEW = "all of it is in the table already; --update-stale asks the site what has changed"


def result_of(job: Job, result: JobResult) -> dict[str, Any]:
    """The same as data."""
    return {
        "job": result.job_id,
        "status": result.status,
        "pages": result.pages,
        "ends": dict(result.ends),
        "left_out": dict(result.left_out),
        "requests": result.requests,
        "limited": result.limited,
        "bytes": result.body_bytes,
        "seconds": result.seconds,
        "slowest": slowest(job),
    }


def summary(job: Job, result: JobResult, into: str) -> str:
    ends = ", ".join(f"{count} {_end_told(kind, result)}" for kind, count in result.ends.most_common())
    left = ", ".join(f"{count} {reason}" for reason, count in result.left_out.most_common(4))
    name = target_name(job.row.target)
    slow, domains = slowest(job), _domains(job)
    lines = [
        "",
        f"job {result.job_id} {result.status.value} in {result.seconds:.1f} s:"
        f" {result.pages} pages, {result.requests} requests, {result.limited} x 429, {size(result.body_bytes)}",
        f"URLs: {ends or 'none'}",
        *([f"links left out: {left}"] if left else []),
        *([f"slowest: {_slowest_told(slow)}"] if slow else []),
        *_long_delays(job),
        *([f"go on with it: {command()} resume {safe(into)}"] if result.status in UNFINISHED else []),
        *([_NOTHING_NEW] if result.stored and result.stored == result.ends.total() else []),
        "",
        *([domains, ""] if domains else []),
        f"ask {safe(into)} ({command()} sql {safe(into)}, or any DuckDB):",
        f"  SELECT url, title FROM {name} WHERE http_status = 200 LIMIT 10;",
        f"  SELECT error_type, count(*) FROM {name} GROUP BY ALL ORDER BY 2 DESC;",
        "  SELECT domain, count(*), round(avg(actual_gap_s), 2) AS gap_s FROM amble.requests GROUP BY ALL;",
    ]
    return "\n".join(lines)


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
    """The domain whose requests took longest from the first to the last, and the rule that held it most often."""
    rows = _receipts(
        job,
        """
        SELECT domain, count(*), epoch(max(started_at) - min(started_at)) AS seconds, mode(rule), median(required_gap_s)
        FROM amble.requests WHERE job_id = ? GROUP BY domain ORDER BY seconds DESC, domain LIMIT 1
        """,
    )
    if not rows or rows[0][1] < 2:
        return None
    return dict(zip(("domain", "requests", "seconds", "rule", "gap_s"), rows[0], strict=True))


def _slowest_told(slow: dict[str, Any]) -> str:
    gap = f", a request every {slow['gap_s']:.2f} s" if slow["gap_s"] else ""
    because = _BECAUSE.get(slow["rule"], slow["rule"])
    return f"{safe(slow['domain'])}, {slow['requests']} requests in {duration(slow['seconds'])}{gap}: {because}"


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
    return table(("domain", "requests", "refused", "failed", "delay_s", "set by"), rows) if rows else ""


def _receipts(job: Job, query: str) -> list[tuple[Any, ...]]:
    with job.store.database.reading() as connection:
        return connection.execute(query, [job.row.id]).fetchall()
