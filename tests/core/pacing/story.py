"""A pace with a clock that moves only when the story says so, and short names for the answers of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amble.core.answer import Answer
from amble.core.outcome import Failure
from amble.core.pacing.bounds import Random, Rulebook
from amble.core.pacing.events import Event
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Permit
from amble.core.pacing.settings import PacingSettings, StrategyName

STRATEGIES: tuple[StrategyName, ...] = ("gauge", "linear", "aimd", "fibonacci", "fixed")

OK = Answer(200, elapsed_s=0.1)
NOT_FOUND = Answer(404, elapsed_s=0.1)
FORBIDDEN = Answer(403, elapsed_s=0.1)
LIMITED = Answer(429)
BROKEN = Answer(500)
BUSY = Answer(503)
TIMEOUT = Answer(failure=Failure.NETWORK_TIMEOUT)
CANCELLED = Answer(failure=Failure.CANCELLED)

NEVER_TRIPS: dict[str, Any] = {"consecutive_fail_threshold": 100_000, "min_samples_to_trip": 100_000}


def limited(retry_after_s: float) -> Answer:
    return Answer(429, retry_after_s=retry_after_s)


def no_jitter() -> float:
    return 0.0


class Story:
    """One domain. `random` is constant zero unless told otherwise, so that every instant can be worked out by hand."""

    def __init__(
        self,
        strategy: StrategyName = "linear",
        *,
        random: Random = no_jitter,
        crawl_delay_s: float | None = None,
        now: float = 0.0,
        **settings: Any,
    ) -> None:
        self.now = now
        self.settings = PacingSettings(pacing=strategy, **settings)
        self.pace = Pace("a.test", Rulebook(self.settings, random).bounds("a.test"), now)
        self.events: list[Event] = []
        if crawl_delay_s is not None:
            self.pace.set_crawl_delay(crawl_delay_s)

    def at(self, now: float) -> Permit | float:
        """Ask at this instant."""
        self.now = now
        return self.pace.reserve(now)

    def granted(self, now: float) -> Permit:
        permit = self.at(now)
        assert isinstance(permit, Permit), f"at {now}: not before {permit}; {self.pace!r}"
        return permit

    def refused(self, now: float) -> float:
        """Ask at this instant, expect to be told to come back later; returns when."""
        not_before = self.at(now)
        assert isinstance(not_before, float), f"at {now}: {not_before!r} was granted; {self.pace!r}"
        assert not_before > now, f"at {now}: told to come back at {not_before}"
        return not_before

    def next(self) -> Permit:
        """The next permit, as soon as there is one; the clock moves there."""
        for _ in range(1_000):
            got = self.pace.reserve(self.now)
            if isinstance(got, Permit):
                return got
            assert got > self.now, f"at {self.now}: told to come back at {got}"
            self.now = got
        raise AssertionError(f"no permit in 1000 tries; {self.pace!r}")

    def burst(self, count: int) -> list[Permit]:
        return [self.next() for _ in range(count)]

    def settle(self, permit: Permit, answer: Answer) -> Sequence[Event]:
        events = self.pace.settle(permit, answer, self.now)
        self.events.extend(events)
        return events

    def visit(self, answer: Answer = OK, *, took_s: float = 0.0) -> Permit:
        """Send as soon as possible; the answer comes `took_s` later."""
        permit = self.next()
        self.now += took_s
        self.settle(permit, answer)
        return permit

    def visits(self, count: int, answer: Answer = OK, *, took_s: float = 0.0) -> None:
        for _ in range(count):
            self.visit(answer, took_s=took_s)
