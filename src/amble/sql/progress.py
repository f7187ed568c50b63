"""Waiting for a job, with a bar: one line on a terminal or below a notebook's cell, written over while it runs."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from amble.jobs.job import Job, JobResult
from amble.jobs.runner import RunningJob

EVERY_S = 0.25
QUIET_S = 1.0  # what is over sooner needs no bar


class NoBar:
    """Nobody is looking."""

    every_s: float | None = None

    def show(self, running: RunningJob) -> None:
        pass

    def close(self) -> None:
        pass


class TerminalBar(NoBar):
    every_s = EVERY_S

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown = False

    def show(self, running: RunningJob) -> None:
        seconds = time.monotonic() - self._began
        if seconds < QUIET_S:
            return
        self._shown = True
        columns = shutil.get_terminal_size().columns
        sys.stderr.write("\r\x1b[K" + line(running, seconds)[: columns - 1])
        sys.stderr.flush()

    def close(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class NotebookBar(NoBar):
    """Through IPython's own display: nothing to install, nothing to enable. With `html` there is more than a line."""

    every_s = EVERY_S

    def __init__(self, html: Callable[[], str] | None = None) -> None:
        self._html = html
        self._began = time.monotonic()
        self._handle: Any = None

    def show(self, running: RunningJob) -> None:
        seconds = time.monotonic() - self._began
        if seconds < QUIET_S and self._html is None:
            return
        said = {"text/plain": line(running, seconds), **({"text/html": self._html()} if self._html else {})}
        if self._handle is None:
            display = import_module("IPython.display").display  # there, since a notebook runs us
            self._handle = display(said, raw=True, display_id=True)
        else:
            self._handle.update(said, raw=True)


def wait_until_done(running: RunningJob, bar: NoBar) -> JobResult:
    while not running.done:
        try:
            return running.wait(bar.every_s)
        except TimeoutError:
            bar.show(running)  # or the job itself broke off with this error: then it is done
    return running.wait()


def wait_or_stop(running: RunningJob, bar: NoBar) -> JobResult:
    """The first Ctrl-C lets what is under way end, the second stops at once; then it is raised [F2]."""
    try:
        return wait_until_done(running, bar)
    except KeyboardInterrupt:
        running.stop()
        try:
            wait_until_done(running, bar)
        except KeyboardInterrupt:
            running.stop(now=True)
            wait_until_done(running, NoBar())
        raise


def line(running: RunningJob, seconds: float, width: int = 24) -> str:
    """How far it is: of what is known so far, which grows while pages are found."""
    frontier, result = running.job.plan.frontier, running.result
    held = _held(running.job)
    share = frontier.final / frontier.accepted if frontier.accepted else 0.0
    full = int(share * width)
    limited = f", {result.limited} x 429" if result.limited else ""
    return (
        f"{share:4.0%} [{'=' * full}{' ' * (width - full)}] {frontier.final} of {frontier.accepted} URLs,"
        f" {held or f'{result.pages / max(seconds, 1e-3):.1f} pages/s'}{limited}, {seconds:.0f} s"
    )


def _held(job: Job) -> str:
    """Why nothing is sent, where that is nobody's pace. Read from another thread: single values only."""
    state = job.store.state
    if state.paused:
        return f"waiting for {state.lacks} ({state.reason})"
    return "waiting for the network" if job.plan.patience.outage.is_down else ""


def make_bar() -> NoBar:
    """For whoever looks: a notebook, a terminal, or nobody."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None and hasattr(shell, "kernel"):
        return NotebookBar()
    if sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return TerminalBar()
    return NoBar()
