"""How a job looks in a notebook: one small table, written over while it runs. Crawled text is never markup."""

from __future__ import annotations

from html import escape
from importlib import import_module
from typing import Any

from amble.control.progress import JobProgress, look
from amble.jobs.runner import RunningJob
from amble.sql.progress import NoBar, NotebookBar, line, make_bar

_HEADS = ("domain", "delay", "set by", "in flight", "queued", "left")


def job_html(progress: JobProgress, into: str) -> str:
    """Numbers of the job, and the domains that take longest."""
    share = progress.final / progress.accepted if progress.accepted else 0.0
    rate = progress.pages / progress.seconds if progress.seconds > 0 else 0.0
    left = "" if progress.eta_s is None else f", about {progress.eta_s:.0f} s left"
    words = (
        f"job {progress.job_id} {progress.status} into {into}: {progress.final} of {progress.accepted} URLs,"
        f" {progress.pages} pages ({rate:.1f}/s), {progress.failed} failed, {progress.limited} x 429,"
        f" {progress.body_bytes / 1e6:.1f} MB{left}"
    )
    phase = progress.held or progress.phase
    return (
        f"<div><progress value='{share:.3f}' max='1'></progress> {escape(words)}"
        f"<br><small>{escape(phase)}</small>{_domains(progress)}</div>"
    )


def _domains(progress: JobProgress) -> str:
    if not progress.domains:
        return ""
    head = "".join(f"<th>{name}</th>" for name in _HEADS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in _cells(each)) + "</tr>"
        for each in progress.domains
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cells(each: Any) -> tuple[object, ...]:
    pace = each.pace
    return pace.domain, f"{pace.delay_s:.2f} s", pace.source, pace.in_flight, each.queued, f"{each.eta_s:.0f} s"


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
            "text/html": job_html(look(running, began), self._into),
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
