"""Whether a crawl ends in time when nothing but failing hosts is left, told nothing but answers and when it ended.

V7: from the last answer that told of no trouble on, or the first of trouble after one that told of none, nothing else
can have been left: whoever works would have answered since. So hosts that brought no page are asked for nothing more
once `max_tail` is over.
V8: nobody is given up sooner, nor who brought a page; the time of an outage and of a pause does not count.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from amble.core.frontier.changes import Changes, Final, Ready
from amble.core.frontier.visit import Kind
from amble.core.outcome import Failure
from amble.core.pacing.events import NetworkBack, NetworkDown
from amble.core.urls import domain_of
from amble.fetcher import FetchResult
from amble.settings import Settings
from amble.testing.simulation.ledger import Fail
from amble.testing.simulation.retry_after import meant_s

SLACK_S = 5.0  # for what the store takes
PLACES_FEW = 5  # with so few, what is left may wait for a place and then end without being asked for
PLACES_SLACK_S = 100.0
EPSILON_S = 1e-6
TROUBLE = ("network_timeout", "network_dns_failure", "network_connection_refused", "network_reset", "network_tls_error")


@dataclass(slots=True)
class TailWatch:
    """One run of one crawl."""

    settings: Settings
    fail: Fail
    since: float = -math.inf  # nothing but failing hosts since then
    delivered: set[str] = field(default_factory=set)
    given_up: set[str] = field(default_factory=set)
    failing: Counter[str] = field(default_factory=Counter)
    network_down: bool = False
    last_begun: float = -math.inf  # at a host without a page
    delivers_still: bool = False  # hosts that brought a page are asked since then
    gave_up_at: float = math.inf  # since then; what lies in the store ends as it comes out, which may take longer
    paused: bool = False
    waited_s: float = 0.0  # since the last page
    ticked_at: float = math.inf
    down_since: float = math.inf

    def tick(self, now: float) -> None:
        """So much more time has gone by."""
        since = self.ticked_at
        if self.network_down:  # an outage that lasts too long is none
            since = max(since, self.down_since + self.settings.visiting.domain_stall_timeout)
        if not self.paused:
            self.waited_s += max(0.0, now - since)
        self.ticked_at = now

    def pause(self, now: float, *, paused: bool) -> None:
        self.tick(now)
        self.paused = paused
        self.something(now)

    def something(self, now: float) -> None:
        """Something else than failing hosts may be left."""
        self.since, self.last_begun, self.delivers_still = max(self.since, now), -math.inf, False
        self.gave_up_at = math.inf

    def take(self, changes: Changes, ready: Ready | None, result: FetchResult | None, now: float) -> None:
        self.tick(now)
        for final in changes.finals:
            self._check_given_up(final, now)
        for event in changes.events:
            if isinstance(event, NetworkDown | NetworkBack):
                self.network_down, self.down_since = isinstance(event, NetworkDown), now
                self.something(now)
        if any(domain_of(final.visit.url) not in self.failing for final in changes.finals):
            self.something(now)  # it waited for its turn, and then was not asked for
        if ready is not None and result is not None:
            self._answer(ready, result, now)

    def _answer(self, ready: Ready, result: FetchResult, now: float) -> None:
        host, status = ready.permit.domain, result.status
        is_success = status is not None and (status < 300 or (status == 304 and ready.visit.is_conditional))
        is_page = is_success and result.failure is None
        if ready.visit.kind is Kind.PAGE and is_page:
            self.delivered.add(host)
            self.waited_s = 0.0
        wait_s = meant_s(dict(result.headers))
        ours = result.local_fault or result.proxy_fault or result.stale or self.network_down
        challenged = result.headers.get("cf-mitigated") is not None
        trouble = result.failure in TROUBLE or (result.failure is None and status is not None and status >= 500)
        if wait_s is not None or ours or challenged or not trouble or ready.visit.asks_other_scheme:
            self.failing.pop(host, None)
            self.something(now + (wait_s or 0.0))
        elif self.failing[host] < 2:  # one failure proves nothing where a site is asked slowly
            self.failing[host] += 1
            self.something(now)
        elif host in self.delivered:
            self.delivers_still = True
        else:
            self.last_begun = max(self.last_begun, now - result.elapsed_s)

    def _check_given_up(self, final: Final, now: float) -> None:
        if final.failure is not Failure.DOMAIN_GIVEN_UP or not final.reason.startswith("no page in this run"):
            return
        self.gave_up_at = min(self.gave_up_at, now)
        host = domain_of(final.visit.url)
        if host in self.given_up:
            return  # what is found there later ends as well
        self.given_up.add(host)
        if host in self.delivered:
            self.fail("V8", f"{final.visit.url} given up, though its host brought a page in this run")
        if self.waited_s < self.settings.visiting.max_tail - EPSILON_S:
            self.fail("V8", f"{final.visit.url} given up after {self.waited_s:.0f} s")

    def end(self, now: float) -> None:
        """The crawl has ended by itself."""
        few = self.settings.fetching.max_total_connections <= PLACES_FEW
        latest = self.since + self.settings.visiting.max_tail + (PLACES_SLACK_S if few else SLACK_S)
        if self.last_begun > latest:
            self.fail("V7", f"a host without a page asked at {self.last_begun:.0f} s, {latest:.0f} s at the latest")
        over_at = min(now, self.gave_up_at)
        if not self.delivers_still and over_at > latest:
            self.fail(
                "V7", f"over at {over_at:.0f} s, though nothing but failing hosts was left since {self.since:.0f} s"
            )
