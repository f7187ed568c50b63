"""Stays with a running job: shows how it goes, hears Ctrl-C, and waits for its end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from amble.cli.live import block, one_line
from amble.cli.screen import Screen
from amble.cli.told import Told, is_trouble
from amble.control.progress import look
from amble.core.pacing.events import Event
from amble.jobs import JobResult
from amble.jobs.identity import anonymous
from amble.jobs.runner import RunningJob
from amble.report.words import safe
from amble.sql.progress import NoBar, wait_until_done

EVERY_S = 0.5
EVERY_PLAIN_S = 10.0
LOOK_SHARE_MAX = 0.02  # of the engine's time: with very many domains it is looked at less often


class Watch(NoBar):
    """One job, one person watching. `event` is the listener to start the job with."""

    every_s = EVERY_S

    def __init__(self, screen: Screen, into: str) -> None:
        self._screen = screen
        self._into = into
        self._began = time.monotonic()
        self._pause_s = EVERY_S if screen.live else EVERY_PLAIN_S
        self._next_at = self._began + self._pause_s
        self._told = Told()
        self._warned = False

    def event(self, event: Event) -> None:
        line = self._told.line(event)
        if line is not None:
            text = f"{time.monotonic() - self._began:7.1f} s  {safe(event.domain):<22} {safe(line)}"
            self._screen.line(self._screen.paint(text, "yellow") if is_trouble(event) else text)

    def until_done(self, running: RunningJob) -> JobResult:
        """The first Ctrl-C lets what is under way end, the second stops at once. Either can be resumed [F2]."""
        with _interrupts(self._stopper(running)):
            try:
                return wait_until_done(running, self)
            finally:
                self._screen.close()
                self._warn(running)

    def show(self, running: RunningJob) -> None:
        now = time.monotonic()
        self._warn(running)
        if now >= self._next_at:
            self._show(running)
            self._next_at = now + max(self._pause_s, (time.monotonic() - now) / LOOK_SHARE_MAX)

    def _show(self, running: RunningJob) -> None:
        try:
            progress = look(running, self._began)
        except TimeoutError:
            return  # the engine is busy; next time
        if self._screen.live:
            lines = block(progress, self._into, *self._screen.size)
            self._screen.block([self._screen.paint(text, colour) if colour else text for text, colour in lines])
        else:
            self._screen.line(one_line(progress))

    def _warn(self, running: RunningJob) -> None:
        """Spec: a crawl of more than 100 pages without a contact warns once, clearly."""
        if not self._warned and (text := anonymous(running)) is not None:
            self._warned = True
            self._screen.line(self._screen.paint(f"warning: {text}", "yellow"))

    def _stopper(self, running: RunningJob) -> Callable[[], None]:
        presses = 0

        def interrupted() -> None:
            nonlocal presses
            presses += 1
            running.stop(now=presses > 1)
            if presses == 1:
                say = "stopping: what is under way may end; press Ctrl-C again to stop at once"
                # Not here: a signal may come while this very thread holds the screen.
                threading.Thread(target=self._screen.line, args=(say,), daemon=True).start()

        return interrupted


@contextmanager
def _interrupts(interrupted: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C, a polite kill and a closed terminal are told instead of ending the program."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may hear signals; whoever calls from another has its own way to stop
        return

    def heard(number: int, frame: FrameType | None) -> None:
        interrupted()

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, heard) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
