"""What a CRAWL of `amble sql` tells while it runs: a line on standard error, on a terminal above the bar."""

from __future__ import annotations

from amble.cli.screen import Screen
from amble.cli.told import Told, is_job_news
from amble.core.pacing.events import Event
from amble.report.words import safe

_OVER_THE_BAR = "\r\x1b[K"


class News:
    """`event` is the listener to start jobs with."""

    def __init__(self, screen: Screen | None = None) -> None:
        self._screen = screen or Screen()
        self._told = Told()

    def event(self, event: Event) -> None:
        if is_job_news(event) and (line := self._told.line(event)) is not None:
            over = _OVER_THE_BAR if self._screen.live else ""
            self._screen.line(f"{over}amble: {safe(event.domain)}: {safe(line)}")
