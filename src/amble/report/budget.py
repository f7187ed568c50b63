"""Where the time of a domain went: every second between its first request and its last answer gets one cause.

Told nothing but receipts, in the order of their starts. Pure.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from amble.core.outcome import Failure, Outcome, outcome_of
from amble.core.pacing.permit import Source

DECISIONS_MAX = 10
_TOLD = 0.1  # a gap that moved by less than this share is no decision worth telling
_ROUNDING_S = 1e-6


class Cause(StrEnum):
    """What a domain waited for."""

    DISCOVERY = "robots and sitemaps"  # everything before its first page
    CRAWL_DELAY = "crawl delay"
    LEARNED = "learned delay"
    QUOTA = "stated quota"
    OUR_LIMITS = "our limits"  # max_rate, min_crawl_delay, rules
    BLOCK = "block"  # left alone after a refusal or a failure
    LATENCY = "server latency"  # an answer was under way, and nothing else could be sent or was known
    IDLE = "waiting for work"  # or for a connection that other domains had, or for the end of a pause


_CAUSES = {
    Source.CRAWL_DELAY: Cause.CRAWL_DELAY,
    Source.LEARNED: Cause.LEARNED,
    Source.QUOTA: Cause.QUOTA,
    Source.MINIMUM: Cause.OUR_LIMITS,
    Source.MAX_RATE: Cause.OUR_LIMITS,
    Source.NONE: Cause.IDLE,  # requires no gap, so nothing is ever put down to it
}


class Receipt(NamedTuple):
    """What a budget needs of a row of `amble.requests`."""

    session: int
    started_s: float
    elapsed_s: float
    required_gap_s: float
    rule: Source
    started_at: datetime
    status: int | None = None
    failure: Failure | None = None
    in_flight: int = 1

    @property
    def end_s(self) -> float:
        return self.started_s + self.elapsed_s

    @property
    def troubles(self) -> bool:
        """Whether the domain is left alone for it, or its URL waits to be tried again."""
        return outcome_of(self.status, self.failure) in (Outcome.LIMITED, Outcome.FAILED)

    @property
    def failed(self) -> bool:
        """Whether the server or the network failed."""
        return outcome_of(self.status, self.failure) is Outcome.FAILED

    @property
    def says(self) -> str:
        return f"HTTP {self.status}" if self.failure is None else self.failure.value


class Decision(NamedTuple):
    """Something that changed how the domain is asked."""

    at: datetime
    text: str


@dataclass(slots=True)
class Budget:
    """The split so far; the seconds of its causes add up to `elapsed_s`."""

    seconds: dict[Cause, float] = field(default_factory=lambda: dict.fromkeys(Cause, 0.0))
    elapsed_s: float = 0.0
    requests: int = 0
    refusals: int = 0
    failures: int = 0
    failed_last: int = 0  # in a row, up to the last request
    in_flight_max: int = 0
    latency_sum_s: float = 0.0
    last: Receipt | None = None
    decisions: deque[Decision] = field(default_factory=lambda: deque(maxlen=DECISIONS_MAX))

    @property
    def latency_s(self) -> float:
        """The mean response time."""
        return self.latency_sum_s / self.requests if self.requests else 0.0

    @property
    def biggest(self) -> Cause:
        return max(self.seconds, key=lambda cause: self.seconds[cause])


def budget_of(receipts: Iterable[Receipt], first_page_s: dict[int, float]) -> Budget:
    """Split the time of one domain. `first_page_s`: by session, when the first page was asked for.

    Sessions are runs of the same job; the time between them is nobody's.
    """
    budget = Budget()
    session: _Session | None = None
    for receipt in receipts:
        if session is None or session.number != receipt.session:
            if session is not None:
                session.end()
            session = _Session(budget, receipt.session, first_page_s.get(receipt.session, math.inf))
        session.take(receipt)
    if session is not None:
        session.end()
    return budget


class _Session:
    """One run: its receipts share a clock."""

    def __init__(self, budget: Budget, number: int, first_page_s: float) -> None:
        self.budget = budget
        self.number = number
        self._first_page_s = first_page_s
        self._last_s: float | None = None  # the start before
        self._began_s = 0.0
        self._end_s = -math.inf  # of the last answer so far
        self._troubles: list[Receipt] = []  # answered since the start before, or still under way then
        self._told_gap_s = 0.0

    def take(self, receipt: Receipt) -> None:
        budget = self.budget
        if self._last_s is None:
            self._began_s = receipt.started_s
        else:
            self._split(self._last_s, receipt)
        self._tell_gap(receipt)
        self._last_s = receipt.started_s
        self._end_s = max(self._end_s, receipt.end_s)
        if receipt.troubles:
            self._troubles.append(receipt)
        budget.requests += 1
        budget.in_flight_max = max(budget.in_flight_max, receipt.in_flight)
        budget.failed_last = budget.failed_last + 1 if receipt.failed else 0
        budget.latency_sum_s += receipt.elapsed_s
        budget.last = receipt

    def end(self) -> None:
        """After the last start only its answer, or an earlier one, was waited for."""
        assert self._last_s is not None
        rest_s = max(0.0, self._end_s - self._last_s)
        self.budget.seconds[Cause.LATENCY if self._last_s >= self._first_page_s else Cause.DISCOVERY] += rest_s
        self.budget.elapsed_s += self._last_s + rest_s - self._began_s
        self._tell_troubles(math.inf)

    def _split(self, last_s: float, receipt: Receipt) -> None:
        """The time from one start to the next."""
        seconds = self.budget.seconds
        gap_s = receipt.started_s - last_s
        blocked_from = self._tell_troubles(receipt.started_s)
        if last_s < self._first_page_s:
            seconds[Cause.DISCOVERY] += gap_s
            return
        kept_s = min(gap_s, receipt.required_gap_s)
        seconds[_CAUSES[receipt.rule]] += kept_s
        rest_s, since = gap_s - kept_s, last_s + kept_s
        if blocked_from is not None:
            blocked_s = max(0.0, min(rest_s, receipt.started_s - blocked_from))
            seconds[Cause.BLOCK] += blocked_s
            seconds[Cause.LATENCY] += rest_s - blocked_s
            return
        under_way_s = min(max(0.0, self._end_s - since), rest_s)
        seconds[Cause.LATENCY] += under_way_s
        seconds[Cause.IDLE] += rest_s - under_way_s

    def _tell_troubles(self, until: float) -> float | None:
        """Refusals and failures that were known by then; returns when the first of them was."""
        known = [receipt for receipt in self._troubles if receipt.end_s <= until + _ROUNDING_S]
        self._troubles = [receipt for receipt in self._troubles if receipt.end_s > until + _ROUNDING_S]
        budget = self.budget
        for receipt in known:
            limited = outcome_of(receipt.status, receipt.failure) is Outcome.LIMITED
            budget.refusals += limited
            budget.failures += not limited
        if not known:
            return None
        first = min(known, key=lambda receipt: receipt.end_s)
        wait_s = until - first.end_s
        waited = "" if until == math.inf else f": next asked {wait_s:.1f} s later"
        budget.decisions.append(Decision(first.started_at, f"{first.says}{waited}"))
        return first.end_s

    def _tell_gap(self, receipt: Receipt) -> None:
        gap_s, told_s = receipt.required_gap_s, self._told_gap_s
        if abs(gap_s - told_s) > _TOLD * max(gap_s, told_s):
            self._told_gap_s = gap_s
            cause = f"{told_s:.2f} s -> {gap_s:.2f} s" if told_s else f"{gap_s:.2f} s"
            self.budget.decisions.append(Decision(receipt.started_at, f"delay {cause} ({receipt.rule.value})"))
