"""How a job looks in a notebook: one small table, written over while it runs. Crawled text is never markup."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from amble.control.progress import DOMAINS_SHOWN, JobProgress, look
from amble.jobs.runner import RunningJob
from amble.report.words import duration, html_table, marked
from amble.sql.progress import NoBar, NotebookBar, line, make_bar

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


class Widget(NoBar):
    """The live view below a cell, through IPython's own display: nothing to install, nothing to enable."""

    every_s = 0.5

    def __init__(self, into: str) -> None:
        self._into = into
        self._began: float | None = None
        self._handle: Any = None

    def show(self, running: RunningJob) -> None:
        now = running.job.clock.monotonic()
        began = self._began = now if self._began is None else self._began
        said = {
            "text/html": job_html(standing(running, began, DOMAINS_SHOWN), self._into),
            "text/plain": line(running, now - began),
        }
        if self._handle is None:
            display = import_module("IPython.display").display  # there, since a notebook runs us
            self._handle = display(said, raw=True, display_id=True)
        else:
            self._handle.update(said, raw=True)


def bar_for(into: str) -> NoBar:
    """A widget in a notebook, a line on a terminal, nothing where nobody looks."""
    bar = make_bar()
    return Widget(into) if isinstance(bar, NotebookBar) else bar


def in_notebook() -> bool:
    return isinstance(make_bar(), NotebookBar)
