"""How a job looks in a notebook: one small table, written over while it runs. Crawled text is never markup."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from amble.control.progress import JobProgress, look
from amble.jobs.runner import RunningJob
from amble.report.words import duration, html_table, marked

_HEADS = ("domain", "delay", "set by", "in flight", "queued", "left")


def standing(running: RunningJob, began: float, domains: int) -> JobProgress:
    """Where a job stands. Once it is over its clock stands still, and there is no phase but how it ended."""
    progress = look(running, began, domains)
    if not running.done:
        return progress
    return replace(progress, phase=progress.status, seconds=running.result.seconds, held="", eta_s=None)


def job_html(progress: JobProgress, into: str) -> str:
    """Numbers of the job, and the domains that take longest."""
    share = progress.final / progress.accepted if progress.accepted else 0.0
    doing = progress.held or progress.phase
    return (
        f"<div><progress value='{share:.3f}' max='1' style='width:16em'></progress>"
        f" <strong>job {progress.job_id} {marked(progress.status)}</strong> into {marked(into)}"
        f"{'' if doing == progress.status else f' <small>({marked(doing)})</small>'}"
        f"<br>{marked(_counts(progress))}{_domains(progress)}</div>"
    )


def _counts(progress: JobProgress) -> str:
    rate = progress.pages / progress.seconds if progress.seconds > 0 else 0.0
    said = [
        f"{progress.final} of {progress.accepted} URLs", f"{progress.pages} pages ({rate:.1f}/s)",
        f"{progress.failed} failed", f"{progress.limited} x 429", f"{progress.body_bytes / 1e6:.1f} MB",
        duration(progress.seconds),
    ]  # fmt: skip
    return ", ".join(said) + ("" if progress.eta_s is None else f", about {duration(progress.eta_s)} left")


def _domains(progress: JobProgress) -> str:
    return html_table(_HEADS, [_cells(each) for each in progress.domains]) if progress.domains else ""


def _cells(each: Any) -> tuple[object, ...]:
    pace = each.pace
    return pace.domain, f"{pace.delay_s:.2f} s", pace.source, pace.in_flight, each.queued, duration(each.eta_s)
