"""What to visit next, over all domains: a heap of domains by the instant each may be asked. Pure.

A domain that may not be asked yet is not at the top of the heap, so that it cannot be asked and holds nobody up.
Robots.txt and sitemaps are ordinary visits of their host, at its pace.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import count

from amble.core.frontier.changes import Changes, Final, Finished, Ready, State, WaitUntil
from amble.core.frontier.lane import Lane, Over
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.pacing.registry import Registry
from amble.core.robots.book import RobotsBook
from amble.core.robots.policy import RobotsAnswer
from amble.core.robots.verdict import Ask, Refused, Wait
from amble.core.sitemap.walk import SitemapWalk
from amble.core.urls import domain_of, origin_of

TRIES_MAX = 500  # fruitless ones in one call: a robots.txt that forbids 100,000 URLs must not freeze the event loop
STOPPED = Over(State.DEFERRED, Failure.CANCELLED, "stopped")
_order = count()


class Frontier:
    """Everything still to visit. Told the time; performs nothing."""

    def __init__(
        self,
        settings: VisitSettings,
        registry: Registry,
        book: RobotsBook,
        key_of: Callable[[str], str] = domain_of,
    ) -> None:
        self.settings = settings
        self.registry = registry
        self._neighbours: dict[str, list[Lane]] = {}  # lanes that wait for a slot of an address they share
        self.book = book
        self.key_of = key_of
        self.lanes: dict[str, Lane] = {}
        registry.waited_for = self.lanes  # a pace that a lane holds is not forgotten
        self.accepted = self.final = self.deferred = 0
        self.under_way = 0  # requests; robots.txt and sitemaps included
        self.pages_under_way = 0
        self.resumed_at: float | None = None  # an earlier run may have asked anybody just before
        self.draining = False  # let what is under way end, send nothing more
        self._heap: list[tuple[float, int, int, Lane]] = []

    @property
    def queued(self) -> int:
        return self.accepted - self.final - self.deferred - self.pages_under_way

    # -- what comes in

    def add(self, visit: Visit, now: float, utc: datetime) -> None:
        """Queue a visit at its domain."""
        if visit.kind is Kind.PAGE and not visit.trail and visit.attempt == 1:
            self.accepted += 1
        lane = self.lane(visit.url, now, utc)
        lane.push(visit)
        self.schedule(lane, now)

    def lane(self, url: str, now: float, utc: datetime) -> Lane:
        domain = self.key_of(url)
        lane = self.lanes.get(domain)
        if lane is None:
            lane = self.lanes[domain] = Lane(self.registry.pace(domain, now, utc))
            if self.resumed_at is not None:
                self._take_up(lane, self.resumed_at)
        return lane

    def _take_up(self, lane: Lane, resumed_at: float) -> None:
        """Keep the distance to whatever an earlier run may have sent here just before it ended."""
        if lane.pace.last_start < resumed_at:
            lane.pace.resume_silently(resumed_at)
        for scheme in ("http", "https"):  # though only one of the two may be visited from now on
            self._heed(lane, f"{scheme}://{lane.domain}")

    # -- what goes out

    def next_ready(self, now: float, utc: datetime, changes: Changes) -> Ready | WaitUntil | Finished:
        """Whom to ask now. Visits that end without a request (robots.txt says no) are put into `changes`."""
        tries = 0
        while self._heap and not self.draining:
            instant, _, token, lane = self._heap[0]
            if token != lane.token:
                heapq.heappop(self._heap)  # a newer place stands elsewhere in the heap
            elif instant > now or tries == TRIES_MAX:
                return WaitUntil(max(instant, now))
            else:
                heapq.heappop(self._heap)
                lane.place = None
                tries += 1
                ready = self._try(lane, now, utc, changes)
                if ready is not None:
                    return ready
        if self.under_way:
            return WaitUntil(math.inf)
        if self.draining:
            self._hand_back(changes)  # what the last answers led to
        return Finished()

    def _try(self, lane: Lane, now: float, utc: datetime, changes: Changes) -> Ready | None:
        over = lane.over or self._stalled(lane, now)
        if over is not None:
            self.end_visits(lane.drain(), over, now, utc, changes)
            return None
        visit = lane.head(now)
        got = None if visit is None else self._try_visit(visit, lane, now, utc, changes)
        if isinstance(got, Ready):
            self.schedule(lane, now)
            return got
        if got is not None and lane.pace.shared is not None:
            self._neighbours.setdefault(lane.pace.shared.domain, []).append(lane)
        self.schedule(lane, now, not_before=got)
        return None

    def _try_visit(self, visit: Visit, lane: Lane, now: float, utc: datetime, changes: Changes) -> Ready | float | None:
        """Send this one; or not before an instant; or do something else first."""
        if visit.kind is not Kind.ROBOTS:
            verdict = self.book.verdict(visit.url, now)
            if isinstance(verdict, Refused):
                lane.take()
                self.end_visits([visit], Over(State.SKIPPED, verdict.failure, verdict.reason), now, utc, changes)
                return None
            if isinstance(verdict, Wait):
                lane.held = verdict.not_before is None  # somebody is asking: `release` when that is answered
                if verdict.not_before is not None:
                    lane.take()
                    lane.push_later(visit, verdict.not_before)
                return None
            if isinstance(verdict, Ask):
                return self._ask(verdict, lane, now)
            lane.heed(origin_of(visit.url), verdict.crawl_delay_s)
        permit = lane.pace.reserve(now)
        if isinstance(permit, float):
            return permit
        lane.take()
        self._count(visit, lane, +1)
        return Ready(visit, permit)

    def _ask(self, ask: Ask, lane: Lane, now: float) -> Ready | float:
        """Before anything else of an origin, its robots.txt."""
        permit = lane.pace.reserve(now)
        if isinstance(permit, float):
            self.book.forget_ask(ask.origin)  # asked for again when the domain is free
            return permit
        visit = Visit(ask.url, Kind.ROBOTS, task=ask.origin, etag=ask.etag, last_modified=ask.last_modified)
        self._count(visit, lane, +1)
        return Ready(visit, permit)

    def schedule(self, lane: Lane, now: float, not_before: float | None = None) -> None:
        """Put a domain where its next visit is due; one place at a time. The one that is ready longest comes first."""
        instant = self._due_at(lane, now, not_before)
        if instant is not None and instant <= now:
            if lane.place is not None and lane.place <= now:
                return  # ready before, and so it keeps its turn
            instant = now
        if instant != lane.place:
            lane.place = instant
            lane.token += 1  # whatever place it had is void
            if instant is not None:
                heapq.heappush(self._heap, (instant, next(_order), lane.token, lane))

    def _due_at(self, lane: Lane, now: float, not_before: float | None) -> float | None:
        wake_at = lane.wake_at()
        if wake_at is None:
            return None
        if lane.over is not None or self._stalled(lane, now) is not None:
            return now  # to end what is queued there
        return max(wake_at, lane.rest_until, lane.pace.not_before if not_before is None else not_before)

    # -- robots.txt

    def release(self, origin: str, now: float, utc: datetime) -> None:
        """The robots.txt of an origin was answered: its visits are judged anew."""
        lane = self.lane(origin, now, utc)
        lane.held = False
        self._heed(lane, origin)  # now, and not first with the next page: this was a request as well
        self.schedule(lane, now)

    def _heed(self, lane: Lane, origin: str) -> None:
        """Keep the crawl delay that is known of an origin, perhaps from an earlier run."""
        standing = self.book.standing(origin)
        delay_s = standing.policy.crawl_delay_s if standing is not None and standing.policy is not None else None
        if delay_s is not None and delay_s <= self.book.settings.honour_crawl_delay_up_to:
            lane.heed(origin, delay_s)

    def _lose_robots(self, visit: Visit, now: float, utc: datetime) -> None:
        """Nobody will be asked for it where it lies: unreachable, for all that its origin can tell."""
        self.book.learn(visit.task, RobotsAnswer(failure=Failure.NETWORK_TIMEOUT), now)
        self.release(visit.task, now, utc)

    # -- sitemaps

    def walk_of(self, origin: str, now: float, utc: datetime) -> SitemapWalk | None:
        return self.lane(origin, now, utc).walks.get(origin)

    def walk_on(self, origin: str, now: float, utc: datetime) -> None:
        """Queue the sitemaps of a site that are known and not yet visited; they may lie at another host."""
        lane = self.lane(origin, now, utc)
        walk = lane.walks[origin]
        while (url := walk.next_sitemap()) is not None:
            self.add(Visit(url, Kind.SITEMAP, task=origin, found_on=domain_of(origin)), now, utc)
        self.schedule(lane, now)  # pages may have waited for the end of the search

    def lose_sitemap(self, visit: Visit, failure: Failure, now: float, utc: datetime) -> None:
        self.lane(visit.task, now, utc).walks[visit.task].failed(visit.first_url, failure)
        self.walk_on(visit.task, now, utc)

    # -- ends

    def end_visits(self, visits: Iterable[Visit], over: Over, now: float, utc: datetime, changes: Changes) -> None:
        """Visits end without an answer of their own; whoever waits for a robots.txt or a sitemap is told."""
        for visit in visits:
            if visit.kind is Kind.PAGE:
                self.close_task(Final(visit, *over), changes)
            elif visit.kind is Kind.ROBOTS:
                self._lose_robots(visit, now, utc)
            else:
                self.lose_sitemap(visit, over.failure, now, utc)

    def close_task(self, final: Final, changes: Changes) -> None:
        """The one place where a task ends."""
        if final.state is State.DEFERRED:
            self.deferred += 1
        else:
            self.final += 1
        changes.finals.append(final)

    def share(self, lane: Lane, address: str, now: float) -> None:
        """A domain was found at this address, whose budget it keeps to from now on, where the settings give it one."""
        self.registry.share(lane.pace, address, now)

    def look_again(self, lane: Lane, now: float) -> None:
        """Something was settled here: its own next visit may be due, and those of whoever shares its address."""
        self.schedule(lane, now)
        if lane.pace.shared is not None:
            for neighbour in self._neighbours.pop(lane.pace.shared.domain, ()):
                self.schedule(neighbour, now)

    def landed(self, visit: Visit, lane: Lane) -> None:
        self._count(visit, lane, -1)

    def stop(self, changes: Changes) -> None:
        """Nothing more is sent; what is queued is handed back, to be resumed."""
        self.draining = True
        self._hand_back(changes)

    def _hand_back(self, changes: Changes) -> None:
        for lane in self.lanes.values():
            for visit in lane.drain():
                if visit.kind is Kind.PAGE:
                    self.close_task(Final(visit, *STOPPED), changes)
                elif visit.kind is Kind.ROBOTS:
                    self.book.forget_ask(visit.task)

    def _count(self, visit: Visit, lane: Lane, step: int) -> None:
        self.under_way += step
        lane.under_way += step
        if visit.kind is Kind.PAGE:
            self.pages_under_way += step

    def _stalled(self, lane: Lane, now: float) -> Over | None:
        """Whether a domain is blocked, without a success in between, for longer than a job should wait."""
        blocked_until = lane.pace.blocked_until
        if blocked_until <= now:
            return None
        if lane.stalled_since is None:
            lane.stalled_since = now
        blocked_s = blocked_until - lane.stalled_since
        if blocked_s <= self.settings.domain_stall_timeout:
            return None
        failure = lane.last_failure or Failure.HTTP_RATE_LIMITED
        return Over(State.DEFERRED, failure, f"the domain is to be left alone for {blocked_s:.0f} s")
