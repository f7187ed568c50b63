"""What to visit next, over all domains: a heap of domains by the instant each may be asked. Pure.

A domain that may not be asked yet is not at the top of the heap, so that it cannot be asked and holds nobody up.
Robots.txt and sitemaps are ordinary visits of their host, at its pace.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Container, Iterable
from datetime import datetime
from itertools import count

from amble.core.frontier.backlog import Backlog
from amble.core.frontier.changes import Changes, Final, Finished, Keeps, Ready, State, WaitUntil
from amble.core.frontier.following import Inflow
from amble.core.frontier.lane import Lane, Over
from amble.core.frontier.recall import Recall
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.pacing.pace import Pace
from amble.core.pacing.registry import Registry
from amble.core.robots.book import RobotsBook
from amble.core.robots.policy import RobotsAnswer
from amble.core.robots.verdict import Ask, Refused, Wait
from amble.core.sitemap.walk import SitemapWalk
from amble.core.urls import domain_of, origin_of

TRIES_MAX = 500  # fruitless ones in one call: a robots.txt that forbids 100,000 URLs must not freeze the event loop
INFLOWS_MAX = 3  # long lists still to be taken in; with more of them nothing is sent, or they would pile up
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
        self.backlog = Backlog()
        self.recalls: dict[tuple[Kind, str, str], Recall] = {}  # visits that wait for what the store holds
        self.to_recall: deque[Recall] = deque()  # those of them that nobody has been told of yet
        self.read_lately: Container[str] = ()  # sitemaps that the store can stand in for
        self.inflows: deque[Inflow] = deque()  # what was found and is still to be taken in
        self.pages: dict[str, int] = {}  # accepted, by domain; kept where there is a budget for them
        self.walked: dict[str, bool] = {}  # origins whose search for sitemaps has ended, and whether it found any
        self.last_starts: dict[str, float] = {}  # of domains that an earlier run asked, until they are met
        self.accepted = self.final = self.deferred = 0
        self.under_way = 0  # requests; robots.txt and sitemaps included
        self.pages_under_way = 0
        self.resumed_at: float | None = None  # an earlier run may have asked anybody just before
        self.draining = False  # let what is under way end, send nothing more
        self._heap: list[tuple[float, int, int, Lane]] = []

    @property
    def queued(self) -> int:
        """Pages to be visited, wherever they wait: in a lane, in the store, for the store."""
        return self.accepted - self.final - self.deferred - self.pages_under_way

    @property
    def held(self) -> int:
        """Pages that wait in memory, roughly."""
        return self.queued - self.backlog.total

    # -- what comes in

    def accept(self, visit: Visit, now: float, utc: datetime, changes: Changes) -> None:
        """A new task: held here, or left to the store where its domain holds enough."""
        domain = self.key_of(visit.url)
        lane = self.lanes.get(domain)
        queued = 0 if lane is None else len(lane)
        if self.backlog.takes(domain, queued, self.held):
            self.accepted += 1
            self._leave_to_store(visit, domain, queued, changes)
        else:
            changes.accepted.append(visit)
            self.add(visit, now, utc)

    def _leave_to_store(self, visit: Visit, domain: str, queued: int, changes: Changes) -> None:
        changes.overflow.append(visit)
        self.backlog.put(domain)
        self.backlog.feed(domain, queued, self.held)

    def add(self, visit: Visit, now: float, utc: datetime) -> None:
        """Queue a visit at its domain."""
        if visit.kind is Kind.PAGE and not visit.trail and visit.attempt == 1:
            self.accepted += 1
        self.queue(visit, now, utc)

    def queue(self, visit: Visit, now: float, utc: datetime) -> None:
        """Queue a visit whose task is counted already."""
        lane = self.lane(visit.url, now, utc)
        lane.push(visit)
        self.schedule(lane, now)

    def recall(self, recall: Recall, changes: Changes) -> None:
        """A new task that the store holds a page of: see what, first. Where many wait for that, it waits there."""
        visit, window = recall.visit, self.backlog.window
        self.accepted += 1
        if window is not None and len(self.recalls) >= window.recalls:
            self._leave_to_store(visit, self.key_of(visit.url), 0, changes)
        else:
            changes.accepted.append(visit)
            self.await_store(recall)

    def await_store(self, recall: Recall) -> None:
        """Whatever becomes of a visit depends on what the store holds."""
        self.recalls[recall.key] = recall
        self.to_recall.append(recall)

    def wants(self, tasks_max: int) -> tuple[list[str], int]:
        """For which domains to claim tasks from the store now, and how many for each."""
        window = self.backlog.window
        if window is None or self.draining or len(self.recalls) >= window.recalls:
            return [], 0
        return self.backlog.wants(self.held, tasks_max)

    def lane(self, url: str, now: float, utc: datetime) -> Lane:
        domain = self.key_of(url)
        lane = self.lanes.get(domain)
        if lane is None:
            lane = self.lanes[domain] = Lane(self.registry.pace(domain, now, utc))
            self._take_up(lane)
        return lane

    def _take_up(self, lane: Lane) -> None:
        """Keep the distance to whatever an earlier run may have sent here just before it ended, and its crawl delay."""
        before = self.last_starts.pop(lane.domain, -math.inf)
        since = before if self.resumed_at is None else max(before, self.resumed_at)
        if lane.pace.last_start < since:
            lane.pace.resume_silently(since)
        for scheme in ("http", "https"):  # though only one of the two may be visited from now on
            self._heed(lane, f"{scheme}://{lane.domain}")

    def forget_if_idle(self, lane: Lane, now: float) -> None:
        """A domain with nothing to do takes no room; its pace goes on in the registry [M1]."""
        if lane.forgettable(now) and lane.domain not in self.backlog.stored:
            lane.token += 1  # whatever place it has is void
            self.lanes.pop(lane.domain, None)

    # -- what goes out

    def next_ready(self, now: float, utc: datetime, changes: Changes) -> Ready | WaitUntil | Finished:
        """Whom to ask now. Visits that end without a request (robots.txt says no) are put into `changes`."""
        tries = 0
        while self._heap and not self.draining and len(self.inflows) < INFLOWS_MAX:
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
        if self.draining:
            self._hand_back(changes)  # what the last answers led to
        if self.under_way or self.recalls or self.inflows or self.backlog.busy or self._waits_for_others():
            return WaitUntil(math.inf)
        return Finished()

    def _waits_for_others(self) -> bool:
        """Whether a robots.txt is being asked for by another crawl of this process."""
        return not self.draining and any(lane.held and len(lane) for lane in self.lanes.values())

    def _try(self, lane: Lane, now: float, utc: datetime, changes: Changes) -> Ready | None:
        over = lane.over or self._stalled(lane, now)
        if over is not None:
            if over.state is State.DEFERRED:  # those in the store stay there, to be resumed
                self.deferred += self.backlog.leave(lane.domain)
            self.end_visits(lane.drain(), over, now, utc, changes)
            self.backlog.feed(lane.domain, len(lane), self.held)
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
            self._slow_down(lane, origin_of(visit.url), verdict.crawl_delay_s)
        permit = self.registry.reserve(lane.pace, now)
        if isinstance(permit, float):
            return permit
        lane.take()
        self._count(visit, lane, +1)
        return Ready(visit, permit)

    def _ask(self, ask: Ask, lane: Lane, now: float) -> Ready | float:
        """Before anything else of an origin, its robots.txt."""
        permit = self.registry.reserve(lane.pace, now)
        if isinstance(permit, float):
            self.book.forget_ask(ask.origin)  # asked for again when the domain is free
            return permit
        visit = Visit(ask.url, Kind.ROBOTS, task=ask.origin, etag=ask.etag, last_modified=ask.last_modified)
        self._count(visit, lane, +1)
        return Ready(visit, permit)

    def schedule(self, lane: Lane, now: float, not_before: float | None = None) -> None:
        """Put a domain where its next visit is due; one place at a time. The one that is ready longest comes first."""
        if lane.domain in self.backlog.stored:
            self.backlog.feed(lane.domain, len(lane), self.held)
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
            self._slow_down(lane, origin, delay_s)

    def _slow_down(self, lane: Lane, origin: str, crawl_delay_s: float | None) -> None:
        if lane.heed(origin, crawl_delay_s):
            self.registry.set_crawl_delay(lane.pace, lane.crawl_delay_s)

    def _lose_robots(self, visit: Visit, now: float, utc: datetime) -> None:
        """Nobody will be asked for it where it lies: unreachable, for all that its origin can tell."""
        self.book.learn(visit.task, RobotsAnswer(failure=Failure.NETWORK_TIMEOUT), now)
        self.release(visit.task, now, utc)

    # -- sitemaps

    def walk_of(self, origin: str) -> SitemapWalk | None:
        """The search for sitemaps that is under way at a site."""
        lane = self.lanes.get(self.key_of(origin))
        return None if lane is None else lane.walks.get(origin)

    def has_sitemaps(self, origin: str) -> bool | None:
        """Whether sitemaps of a site were found; None where nobody looked for any."""
        walk = self.walk_of(origin)
        return self.walked.get(origin) if walk is None else walk.found

    def walk_on(self, origin: str, now: float, utc: datetime) -> None:
        """Queue the sitemaps of a site that are known and not yet visited; they may lie at another host."""
        lane = self.lane(origin, now, utc)
        walk = lane.walks[origin]
        while (url := walk.next_sitemap()) is not None:
            visit = Visit(url, Kind.SITEMAP, task=origin, found_on=domain_of(origin))
            if url in self.read_lately:
                self.await_store(Recall(visit))
            else:
                self.add(visit, now, utc)
        if walk.finished:  # what it remembers of a million URLs is of no more use
            self.walked[origin] = walk.found
            del lane.walks[origin]
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
        if final.visit.stored and final.failure is not None and not _is_gone(final):
            final = final._replace(keeps=Keeps.NOTHING)
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
        self.forget_if_idle(lane, now)
        self.look_at_neighbours(lane.pace, now)
        self.registry.settled(lane.pace)  # other crawls of this process may wait here as well

    def look_at_neighbours(self, pace: Pace, now: float) -> None:
        for neighbour in self._neighbours.pop((pace.shared or pace).domain, ()):
            self.schedule(neighbour, now)

    def landed(self, visit: Visit, lane: Lane) -> None:
        self._count(visit, lane, -1)

    def stop(self, changes: Changes) -> None:
        """Nothing more is sent; what is queued is handed back, to be resumed."""
        self.draining = True
        self._hand_back(changes)

    def _hand_back(self, changes: Changes) -> None:
        self.deferred += self.backlog.leave_all()
        waiting = [recall.visit for recall in self.recalls.values()]
        waiting += [inflow.final.visit for inflow in self.inflows if inflow.final is not None]
        for visit in waiting:
            if visit.kind is Kind.PAGE:
                self.close_task(Final(visit, *STOPPED), changes)
        self.recalls.clear()
        self.to_recall.clear()
        self.inflows.clear()
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


def _is_gone(final: Final) -> bool:
    """Whether the server itself said that there is no page any more, so that the one stored is out of date."""
    status = final.fetched.status if final.fetched is not None else None
    return status is not None and 400 <= status < 500 and final.failure is Failure.HTTP_CLIENT_ERROR
