"""Which events of a crawl are worth a line, and how it reads."""

from __future__ import annotations

from amble.cli.screen import Screen
from amble.core.pacing.events import (
    BlockClosed,
    BlockOpened,
    CircuitClosed,
    CircuitOpened,
    Event,
    NetworkBack,
    NetworkDown,
    NobodyReached,
    NobodyThere,
    PaceChanged,
    Paused,
    RobotsMissed,
    TailBegan,
    Warned,
)
from amble.report.words import safe

MISSED_TOLD_MAX = 10  # domains whose robots.txt cannot be had
NAMED_MAX = 3  # failing domains
_REFUSED = "limited"  # why a strategy changes the delay when it is refused


class Told:
    """Remembers who refused us, so that it can be told how they get faster again."""

    def __init__(self) -> None:
        self._limited: set[str] = set()
        self._missed: set[str] = set()

    def line(self, event: Event) -> str | None:
        """Blocks, circuits, and how a domain that refused us gets faster again; None for the rest."""
        if isinstance(event, BlockOpened):
            self._limited.add(event.domain)
            return f"{event.reason}: left alone for {event.wait_s:.1f} s"
        if isinstance(event, BlockClosed):
            rate = f", {1 / event.delay_s:.2f} requests/s" if event.delay_s > 0 else ""
            return f"answers again: {event.reason}{rate}"
        if isinstance(event, Paused):
            return f"asked for {event.wait_s:.1f} s of pause: {event.reason}"
        if isinstance(event, CircuitOpened):
            return f"circuit open for {event.wait_s:.0f} s: {event.reason}"
        if isinstance(event, CircuitClosed):
            return f"circuit closed after {event.open_s:.0f} s"
        if isinstance(event, RobotsMissed):
            return self._missing(event)
        if isinstance(event, NobodyThere):
            return f"nobody answers at {event.origin} ({event.reason}): {event.check}"
        if isinstance(event, TailBegan):
            return _tail(event)
        if isinstance(event, NetworkDown):
            return f"down, it seems: {event.reason} ({event.detail}); waiting, with a trial now and then"
        if isinstance(event, NetworkBack):
            return f"back after {event.down_s:.0f} s"
        if isinstance(event, NobodyReached | Warned):
            return event.reason
        # A refusal may settle an estimate below a delay that was only a trial: no news beside "left alone for".
        news = isinstance(event, PaceChanged) and event.delay_s < event.was_s and event.reason != _REFUSED
        if isinstance(event, PaceChanged) and news and event.domain in self._limited:
            return f"delay {event.was_s:.2f} s -> {event.delay_s:.2f} s: {event.reason}"
        return None

    def _missing(self, event: RobotsMissed) -> str | None:
        """The first try and the last; and of a crawl of many sites, not every one that is gone."""
        if event.domain not in self._missed:
            if event.tries > 1 or len(self._missed) >= MISSED_TOLD_MAX:
                return None
            self._missed.add(event.domain)
        if event.wait_s is None:
            return f"no robots.txt after {event.tries} tries ({event.reason}): nothing of it may be fetched"
        again = f"asked for again in {event.wait_s:.0f} s, and until then nothing else"
        return f"robots.txt cannot be had ({event.reason}): {again}" if event.tries == 1 else None


def _tail(event: TailBegan) -> str:
    """What is left, and how long it will be waited for."""
    parts = []
    if given_up := event.given_up:
        names = ", ".join(given_up[:NAMED_MAX]) + (
            f" and {more} more" if (more := len(given_up) - NAMED_MAX) > 0 else ""
        )
        parts.append(f"{_domains(len(given_up))} without a page ({names}): given up in {event.wait_s:.0f} s")
    if event.others:
        parts.append(f"{_domains(event.others)} that had answered: up to {event.others_wait_s:.0f} s")
    return f"nothing but failing domains is left; {'; '.join(parts)}"


def _domains(count: int) -> str:
    return f"{count} domain{'' if count == 1 else 's'}"


def is_job_news(event: Event) -> bool:
    """What is said even where nobody watches the single domains."""
    return isinstance(event, NetworkDown | NetworkBack | NobodyThere | TailBegan | Warned)


def is_trouble(event: Event) -> bool:
    return isinstance(
        event,
        BlockOpened | CircuitOpened | NetworkDown | NobodyReached | NobodyThere | RobotsMissed | TailBegan | Warned,
    )


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
