"""What to visit next, over all domains: a heap of domains by the instant each may be asked. Pure.

A domain that may not be asked yet is not at the top of the heap, so that it cannot be asked and holds nobody up.
Robots.txt and sitemaps are ordinary visits of their host, at its pace.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from datetime import datetime
from itertools import count

from amble.core.frontier.changes import Changes, Final, Finished, Ready, State, WaitUntil
from amble.core.frontier.lane import Lane
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.pacing.permit import Permit
from amble.core.pacing.registry import Registry
from amble.core.robots.book import RobotsBook
from amble.core.robots.verdict import Ask, Refused, Wait
from amble.core.urls import domain_of

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
        self.book = book
        self.key_of = key_of
        self.lanes: dict[str, Lane] = {}
        self.accepted = self.final = self.deferred = 0
        self.under_way = 0  # requests; robots.txt and sitemaps included
        self.pages_under_way = 0
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
        return lane

    # -- what goes out

    def next_ready(self, now: float, utc: datetime, changes: Changes) -> Ready | WaitUntil | Finished:
        """Whom to ask now. Visits that end without a request (robots.txt says no) are put into `changes`."""
        while self._heap and not self.draining:
            instant, _, token, lane = self._heap[0]
            if token != lane.token:
                heapq.heappop(self._heap)  # a newer place stands elsewhere in the heap
            elif instant > now:
                return WaitUntil(instant)
            else:
                heapq.heappop(self._heap)
                ready = self._try(lane, now, utc, changes)
                if ready is not None:
                    return ready
        return WaitUntil(math.inf) if self.under_way else Finished()

    def _try(self, lane: Lane, now: float, utc: datetime, changes: Changes) -> Ready | None:
        visit = lane.pop(now)
        if visit is None:
            self.schedule(lane, now)
            return None
        if visit.kind is not Kind.ROBOTS:
            verdict = self.book.verdict(visit.url, now)
            if isinstance(verdict, Refused):
                self.end(visit, State.SKIPPED, verdict.failure, verdict.reason, changes)
                if visit.kind is Kind.SITEMAP:
                    self._lose_sitemap(visit, verdict.failure, now, utc)
                self.schedule(lane, now)
                return None
            if isinstance(verdict, Wait):
                lane.push(visit)
                lane.held = verdict.not_before is None  # somebody is asking: `release` when that is answered
                self.schedule(lane, now, not_before=verdict.not_before)
                return None
            if isinstance(verdict, Ask):
                lane.push(visit)
                visit = robots_visit(verdict)
            elif verdict.crawl_delay_s != lane.asked_delay_s:
                lane.asked_delay_s = verdict.crawl_delay_s
                lane.pace.set_crawl_delay(verdict.crawl_delay_s)
        got = lane.pace.reserve(now)
        if isinstance(got, Permit):
            self._count(visit, lane, +1)
            self.schedule(lane, now)
            return Ready(visit, got)
        if visit.kind is Kind.ROBOTS and not visit.trail:
            self.book.forget_ask(visit.task)  # asked for again when the domain is free
        else:
            lane.push(visit)
        if self._stalled(lane, got, now):
            self._defer(lane, changes)
        self.schedule(lane, now, not_before=got)
        return None

    def schedule(self, lane: Lane, now: float, not_before: float | None = None) -> None:
        """Put a domain where its next visit is due; one place at a time."""
        wake_at = lane.wake_at()
        lane.token += 1  # whatever place it had is void
        if wake_at is None:
            return
        instant = max(wake_at, lane.pace.not_before if not_before is None else not_before)
        heapq.heappush(self._heap, (instant, next(_order), lane.token, lane))

    def release(self, origin: str, now: float, utc: datetime) -> None:
        """The robots.txt of an origin was answered: its visits are judged anew."""
        lane = self.lane(origin, now, utc)
        lane.held = False
        self.schedule(lane, now)

    # -- sitemaps

    def walk_on(self, origin: str, now: float, utc: datetime) -> None:
        """Queue the sitemaps of a site that are known and not yet visited; they may lie at another host."""
        lane = self.lane(origin, now, utc)
        while lane.walk is not None and (url := lane.walk.next_sitemap()) is not None:
            self.add(Visit(url, Kind.SITEMAP, task=origin, found_on=domain_of(origin)), now, utc)
        self.schedule(lane, now)  # pages may have waited for the end of the search

    def _lose_sitemap(self, visit: Visit, failure: Failure, now: float, utc: datetime) -> None:
        walk = self.lane(visit.task, now, utc).walk
        if walk is not None:
            walk.failed(visit.first_url, failure)
            self.walk_on(visit.task, now, utc)

    # -- ends

    def end(self, visit: Visit, state: State, failure: Failure | None, reason: str, changes: Changes) -> None:
        """A visit ends without an answer of its own."""
        if visit.kind is Kind.PAGE:
            self.close_task(Final(visit, state, failure, reason), changes)

    def close_task(self, final: Final, changes: Changes) -> None:
        """The one place where a task ends."""
        if final.state is State.DEFERRED:
            self.deferred += 1
        else:
            self.final += 1
        changes.finals.append(final)

    def landed(self, visit: Visit, lane: Lane) -> None:
        self._count(visit, lane, -1)

    def end_lane(self, lane: Lane, state: State, failure: Failure, reason: str, changes: Changes) -> None:
        """Everything still queued at a domain ends."""
        for visit in lane.drain():
            self.end(visit, state, failure, reason, changes)

    def stop(self, changes: Changes) -> None:
        """Nothing more is sent; what is queued is handed back, to be resumed."""
        self.draining = True
        for lane in self.lanes.values():
            self.end_lane(lane, State.DEFERRED, Failure.CANCELLED, "stopped", changes)

    def _count(self, visit: Visit, lane: Lane, step: int) -> None:
        self.under_way += step
        lane.under_way += step
        if visit.kind is Kind.PAGE:
            self.pages_under_way += step

    def _stalled(self, lane: Lane, not_before: float, now: float) -> bool:
        """Whether a domain has been, or will be, blocked for longer than a job should wait."""
        pace = lane.pace
        if pace.blocked_until <= now:
            lane.stalled_since = None
            return False
        if lane.stalled_since is None:
            lane.stalled_since = now
        patience_s = self.settings.domain_stall_timeout
        return pace.blocked_until - now > patience_s or now - lane.stalled_since >= patience_s

    def _defer(self, lane: Lane, changes: Changes) -> None:
        for visit in lane.drain():
            self.end(visit, State.DEFERRED, Failure.HTTP_RATE_LIMITED, "the site asked to be left alone", changes)


def robots_visit(ask: Ask) -> Visit:
    return Visit(
        ask.url, Kind.ROBOTS, task=ask.origin, etag=ask.etag, last_modified=ask.last_modified,
        trail=() if ask.hop == 0 else (ask.origin,), found_on=None if ask.hop == 0 else domain_of(ask.origin),
    )  # fmt: skip
