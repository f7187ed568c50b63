"""One crawl of one short host in virtual time, by the rules of a real one: robots.txt first, pages as links lead there.

Robots.txt and the guesses at a sitemap keep to the pace and are not limited by the site. Sitemap guesses come after
all pages that are due, or, as in versions that waited for them, before the first. A page that was refused is asked for
again when the pace allows it, one that failed after a wait of its own, and one that failed too often is lost. A request
that asks whether a site is back costs its page no try as often as in a real crawl (decision 89).
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from amble.core.pacing.backoff import fibonacci_s
from amble.fetcher.settings import FetcherSettings
from amble.testing.lab.announce import announce_quota
from amble.testing.lab.controller import Client, Controller, Reply
from amble.testing.lab.controllers import PaceController
from amble.testing.lab.servers import TIMED_OUT, LogNormal, TellsQuota, Verdict
from amble.testing.lab.short.host import FANOUT, ShortHost

HEADER_TIMEOUT_S = FetcherSettings().header_timeout_s
RETRIES_MAX = 5
LONGEST_RETRY_WAIT_S = 600.0
ROBOTS, EARLY_GUESS, PAGE, GUESS = range(4)  # ranks of visits that are due
GUESSES = 2
_TINY_S = 1e-6
_NUDGES_MAX = 1000


class Stalled(RuntimeError):
    """A controller that asks to be asked again in the past, or waits for an answer when nothing is under way."""


class Visit(NamedTuple):
    """Something to ask for; visits compare in the order in which they are made."""

    rank: int
    depth: int
    number: int  # of the page, or of the guess
    attempt: int = 1
    spared: int = 0  # requests that cost it no try


class Arrival(NamedTuple):
    """A request as the site saw it, in seconds since it was first asked."""

    at: float
    kind: str  # "page", "refused", "down", "cut off", "other"


@dataclass(slots=True)
class ShortRun:
    """What became of one crawl."""

    pages: int
    done: int = 0
    lost: int = 0
    refused: int = 0  # by the limiter
    last_page_s: float = 0.0
    lasted_s: float = 0.0
    violations: int = 0  # sent inside a Retry-After in hand, or over the requests allowed at once
    arrivals: list[Arrival] = field(default_factory=list, repr=False)


class ShortCrawl:
    """The state of a running crawl; `play` is the event loop."""

    def __init__(
        self, host: ShortHost, controller: Controller, client: Client, random: Random, *, guesses_first: bool
    ) -> None:
        self.host = host
        self.controller = controller
        self.client = client
        self.random = random
        self.guess_rank = EARLY_GUESS if guesses_first else GUESS
        self.limiter = host.limiter()
        self.run = ShortRun(host.pages)
        self.ahead_s = host.clock_s - client.starts_at  # from the client's clock to the site's
        self.due = [Visit(ROBOTS, 0, 0)]
        self.later: list[tuple[float, Visit]] = []
        self.flying: list[tuple[float, int, Visit, object, Verdict, float]] = []
        self.sent = 0
        self.wanted = 1  # visits without which the crawl is not over: all but late guesses
        self.guessing = False  # pages wait for an early guess
        self.leave_alone_until = -math.inf  # as the client was told

    def play(self, until_s: float) -> ShortRun:
        """Crawl to the last page, or so many seconds."""
        began = now = self.client.starts_at
        nudges = 0
        while now - began < until_s:
            wake = self._send_all(now)
            if not self.wanted:
                break
            if self.flying and self.flying[0][0] <= wake:
                now = self.flying[0][0]
                _, _, visit, ticket, verdict, sent_at = heapq.heappop(self.flying)
                self._take_in(visit, ticket, verdict, sent_at, now)
            elif wake == math.inf:
                raise Stalled(f"{self.host.name}: nothing is under way, and nothing may be sent")
            elif wake > now:
                now, nudges = wake, 0
            else:
                now, nudges = now + _TINY_S, nudges + 1
                if nudges > _NUDGES_MAX:
                    raise Stalled(f"{self.host.name}: asks to be asked again {now - wake:.6f} s ago")
        self.run.lasted_s = now - began
        return self.run

    # -- sending

    def _send_all(self, now: float) -> float:
        """Send what may go at this instant; when to ask again."""
        while True:
            while self.later and self.later[0][0] <= now:
                heapq.heappush(self.due, heapq.heappop(self.later)[1])
            if not self.due or (self.guessing and self.due[0].rank == PAGE):
                return self.later[0][0] if self.later else math.inf
            got = self.controller.request(now)
            if isinstance(got, float):
                return min(got, self.later[0][0]) if self.later and got == math.inf else got
            self._send(heapq.heappop(self.due), got, now)

    def _send(self, visit: Visit, ticket: object, now: float) -> None:
        at = now + self.ahead_s
        self.sent += 1
        self.run.violations += len(self.flying) >= self.client.max_in_flight
        self.run.violations += now < self.leave_alone_until - _TINY_S
        verdict, kind = self._arrive(visit, at)
        self.run.arrivals.append(Arrival(at - self.host.clock_s, kind))
        self.run.refused += kind == "refused"
        if verdict.inside_s > HEADER_TIMEOUT_S:
            verdict = Verdict(TIMED_OUT, {}, HEADER_TIMEOUT_S, False, None)
        heapq.heappush(self.flying, (now + verdict.inside_s, self.sent, visit, ticket, verdict, now))

    # -- the site

    def _arrive(self, visit: Visit, at: float) -> tuple[Verdict, str]:
        """What a request meets that arrives at this instant of the site's clock."""
        host, latency_s = self.host, _draw(self.host.latency, self.random)
        down = host.downtime(at)
        if down is not None:
            headers: dict[str, str] = {}
            not_before = None
            if host.tells_downtime:
                not_before = host.refusal.announce(at, down.to_s - at, headers)
            return Verdict(503, headers, latency_s, False, not_before), "down"
        inside_s: float | None = 0.0
        if visit.rank == PAGE:
            inside_s = self.limiter.admit(at, latency_s)
            if inside_s is None:
                return self._refuse(at), "refused"
        inside_s = (inside_s or 0.0) + latency_s
        cut_off_at = host.cut_off(at, at + inside_s)
        if cut_off_at is not None:
            return Verdict(TIMED_OUT, {}, cut_off_at - at, False, None), "cut off"
        if visit.rank != PAGE:
            return Verdict(200 if visit.rank == ROBOTS else 404, {}, inside_s, False, None), "other"
        headers = {}
        self._tell_quota(at, headers)
        return Verdict(200, headers, inside_s, False, None), "page"

    def _refuse(self, at: float) -> Verdict:
        headers: dict[str, str] = {}
        not_before = self.host.refusal.announce(at, self.limiter.wait_s(at), headers)
        self._tell_quota(at, headers)
        return Verdict(self.host.refusal.status, headers, 0.001, True, not_before)

    def _tell_quota(self, at: float, headers: dict[str, str]) -> None:
        if self.host.dialect and isinstance(self.limiter, TellsQuota):
            announce_quota(self.host.dialect, self.limiter.quota(at), at, headers)

    # -- taking in

    def _take_in(self, visit: Visit, ticket: object, verdict: Verdict, sent_at: float, now: float) -> None:
        if verdict.not_before is not None:
            self.leave_alone_until = max(self.leave_alone_until, verdict.not_before - self.ahead_s)
        self.controller.answer(ticket, Reply(verdict.status, verdict.headers, now - sent_at), now)
        is_spared = self._is_spared(visit, ticket, verdict, now)
        if verdict.status == 429:
            heapq.heappush(self.due, visit)
        elif verdict.status not in (200, 404) and (is_spared or visit.attempt <= RETRIES_MAX):
            wait_s = fibonacci_s(min(visit.attempt, RETRIES_MAX), LONGEST_RETRY_WAIT_S)
            attempt, spared = visit.attempt + (not is_spared), visit.spared + is_spared
            heapq.heappush(self.later, (now + wait_s, visit._replace(attempt=attempt, spared=spared)))
        else:
            self.wanted -= visit.rank != GUESS
            self._follow(visit, verdict.status == 200, now)

    def _is_spared(self, visit: Visit, ticket: object, verdict: Verdict, now: float) -> bool:
        """Whether a failure costs no try: by our own rules, as the others know no trials."""
        was_trial = isinstance(self.controller, PaceController) and self.controller.was_trial(ticket, now)
        return was_trial and verdict.not_before is None and visit.spared < visit.attempt - 1

    def _follow(self, visit: Visit, found: bool, now: float) -> None:
        """What comes after a visit that is over."""
        if visit.rank == ROBOTS:
            self.guessing = self.guess_rank == EARLY_GUESS
            self._add(Visit(self.guess_rank, 0, 1))
            self._add(Visit(PAGE, 0, 0))
        elif visit.rank != PAGE:
            self.guessing = self.guessing and visit.number < GUESSES
            if visit.number < GUESSES:
                self._add(visit._replace(number=visit.number + 1, attempt=1))
        elif found:
            self.run.done += 1
            self.run.last_page_s = now - self.client.starts_at
            first = FANOUT * visit.number + 1
            for number in range(first, min(first + FANOUT, self.run.pages)):
                self._add(Visit(PAGE, visit.depth + 1, number))
        else:
            self.run.lost += 1

    def _add(self, visit: Visit) -> None:
        self.wanted += visit.rank != GUESS
        heapq.heappush(self.due, visit)


def _draw(latency: LogNormal, random: Random) -> float:
    return latency.draw(random) if latency.sigma else latency.median_s
