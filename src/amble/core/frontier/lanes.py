"""Where every visit waits: in the lane of its domain, in the store, or for the store; and when each lane is due. Pure.

A domain that may not be asked yet is not at the top of the heap, so that it cannot be asked and holds nobody up.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Container
from datetime import datetime
from itertools import count

from amble.core.frontier.backlog import Backlog
from amble.core.frontier.begun import SOON_S, Begun
from amble.core.frontier.changes import Changes, Over, State
from amble.core.frontier.following import Inflow, Unjudged
from amble.core.frontier.lane import Lane
from amble.core.frontier.recall import Recall
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Permit
from amble.core.pacing.registry import Registry
from amble.core.robots.book import RobotsBook
from amble.core.urls import domain_of

AT_ONCE = -math.inf  # where a domain stands in the heap that goes on while its connection is open
PLACES_MAX = 16  # in the heap, of each domain; all but one of them are void
TURNS_MAX = 8  # visits that it makes so, before others have theirs
_order = count()


class Lanes:
    """The lanes of one crawl, by domain, and the heap of them by the instant each may be asked."""

    def __init__(
        self,
        settings: VisitSettings,
        registry: Registry,
        book: RobotsBook,
        key_of: Callable[[str], str] = domain_of,
    ) -> None:
        self.settings = settings
        self.registry = registry
        self._queues: dict[str, deque[Lane]] = {}  # lanes that wait for an address they share, by address
        self.book = book
        self.key_of = key_of
        self.lanes: dict[str, Lane] = {}
        # Who said how often to try wants that of sites that never answered, too.
        self.tries_missing_twice = "max_retries" not in registry.settings.model_fields_set
        self.begun = Begun()
        registry.waited_for = self.lanes  # a pace that a lane holds is not forgotten
        self.backlog = Backlog()
        self.recalls: dict[tuple[Kind, str, str], Recall] = {}  # visits that wait for what the store holds
        self.to_recall: deque[Recall] = deque()  # those of them that nobody has been told of yet
        self.read_lately: Container[str] = ()  # sitemaps that the store can stand in for
        self.inflows: deque[Inflow] = deque()  # what was found and is still to be taken in
        self.unjudged: dict[Unjudged, None] = {}  # likewise, but first it is to be judged
        self.to_judge: deque[Unjudged] = deque()  # those of them that nobody has been told of yet
        self.pages: dict[str, int] = {}  # accepted, by domain; kept where there is a budget for them
        self.walked: dict[str, bool] = {}  # origins whose search for sitemaps has ended, and whether it found any
        self.last_starts: dict[str, float] = {}  # of domains that an earlier run asked, until they are met
        self.given_up: set[str] = set()  # domains whose URLs failed too often in a row
        self.accepted = self.final = self.deferred = 0
        self.spent = 0  # of max_crawl_pages: tasks to be asked for, which what the table holds is not
        self.under_way = 0  # requests; robots.txt and sitemaps included
        self.pages_under_way = 0
        self.resumed_at: float | None = None  # an earlier run may have asked anybody just before
        self.draining = False  # let what is under way end, send nothing more
        self._heap: list[tuple[float, int, int, Lane]] = []
        self._settling: Lane | None = None  # what is settled there changes when it is due more than once

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
        if visit.kind is Kind.PAGE and visit.attempt == 1:
            self.accepted += 1
        self.queue(visit, now, utc)

    def queue(self, visit: Visit, now: float, utc: datetime) -> None:
        """Queue a visit whose task is counted already."""
        lane = self.lane(visit.url, now, utc)
        if lane.push(visit):
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
            self.begun.end(lane)
            self.lanes.pop(lane.domain, None)

    # -- when

    def schedule(self, lane: Lane, now: float, not_before: float | None = None, *, answered: bool = False) -> None:
        """Put a domain where its next visit is due; one place at a time. The one that is ready longest comes first,
        save for those that have just `answered`: their connection is open still, and would not be when all others had
        their turn. After a few visits they go behind all others."""
        if lane is self._settling:
            return  # until all of it is settled
        if lane.waits_to_begin:
            return  # until others are done
        if self.backlog.stored and lane.domain in self.backlog.stored:
            self.backlog.feed(lane.domain, len(lane), self.held)
        instant = self._due_at(lane, now, not_before)
        if lane.begun and not lane.under_way and (instant is None or instant > now + SOON_S):
            self.begun.end(lane)
        if instant is not None and instant <= now:
            if answered and lane.turns_left:
                instant = AT_ONCE
            elif lane.place is not None and lane.place <= now:
                return  # ready before, and so it keeps its turn
            else:
                instant = now
        if instant != lane.place:
            lane.place = instant
            lane.token += 1  # whatever place it had is void
            if instant is not None:
                heapq.heappush(self._heap, (instant, next(_order), lane.token, lane))
                if len(self._heap) > PLACES_MAX * len(self.lanes) + PLACES_MAX:
                    self._sweep()
        if instant is None and lane.waits_at is not None:
            self.leave_queue(lane, now)

    def _sweep(self) -> None:
        """Leave out places that are void: those of a domain that is always busy lie far ahead, and would pile up."""
        self._heap = [place for place in self._heap if place[2] == place[3].token]
        heapq.heapify(self._heap)

    def _due_at(self, lane: Lane, now: float, not_before: float | None) -> float | None:
        wake_at = lane.wake_at()
        if wake_at is None:
            return None
        blocked = lane.pace.blocked_until > now
        if lane.over is not None or (blocked and self.stalled(lane, now) is not None):
            return now  # to end what is queued there
        return max(wake_at, lane.rest_until, lane.pace.look_at if not_before is None else not_before)

    def share(self, lane: Lane, address: str, now: float) -> None:
        """A domain was found at this address, whose budget it keeps to from now on, where the settings give it one."""
        self.registry.share(lane.pace, address, now)

    def look_again(self, lane: Lane, now: float) -> None:
        """Something was settled here: its own next visit may be due, and those of whoever shares its address."""
        self._settling = None
        self.schedule(lane, now, answered=True)
        self.forget_if_idle(lane, now)
        self.look_at_neighbours(lane.pace, now)
        self.registry.settled(lane.pace)  # other crawls of this process may wait here as well

    def take_turn(self, lane: Lane) -> None:
        """The lane at the top of the heap is to be asked: it has left its place there."""
        lane.turns_left = lane.turns_left - 1 if lane.place == AT_ONCE else TURNS_MAX
        lane.place = None

    # -- addresses that domains share

    def look_at_neighbours(self, pace: Pace, now: float) -> None:
        """Something was settled at an address: the turn of whoever waits for it longest may have come."""
        self._call_next((pace.shared or pace).domain, now)

    def wait_for_address(self, lane: Lane, not_before: float, now: float) -> None:
        """Queue behind those who wait for the same address. Only the first of them has a place in the heap, so that
        one answer wakes one domain and not ten thousand."""
        assert lane.pace.shared is not None
        address = lane.pace.shared.domain
        if lane.waits_at != address:
            self.leave_queue(lane, now)
            lane.waits_at = address
            self._queues.setdefault(address, deque()).append(lane)
        if self._queues[address][0] is lane:
            self.schedule(lane, now, not_before=not_before)
        elif lane.place is not None:
            lane.place = None
            lane.token += 1

    def leave_queue(self, lane: Lane, now: float) -> None:
        """A lane waits for no address any more: it has sent something, or something else holds it up."""
        address, lane.waits_at = lane.waits_at, None
        if address is not None:
            self._queues[address].remove(lane)
            self._call_next(address, now)

    def _call_next(self, address: str, now: float) -> None:
        queue = self._queues.get(address)
        while queue:
            first = queue[0]
            if self._due_at(first, now, None) is not None:
                self.schedule(first, now)
                return
            queue.popleft()  # it has nothing to do here any more
            first.waits_at = None
        self._queues.pop(address, None)

    # -- requests under way

    def set_out(self, visit: Visit, permit: Permit, lane: Lane) -> None:
        lane.pace.expect(permit)
        lane.was_asked = True
        self._count(visit, lane, +1)

    def left(self, lane: Lane, permit: Permit, now: float) -> bool:
        """A request was written. Whether somebody has waited for that: they may be asked sooner than they thought."""
        lane.pace.sent(permit, now)
        if not permit.awaited and (permit.shared is None or not permit.shared.awaited):
            return False
        self.schedule(lane, now)
        self.look_at_neighbours(lane.pace, now)
        self.registry.settled(lane.pace)
        return True

    def landed(self, visit: Visit, permit: Permit) -> Lane:
        """A request is over. Its lane, which has to be looked at again when everything about it is settled."""
        lane = self._settling = self.lanes[permit.domain]
        self._count(visit, lane, -1)
        return lane

    def _count(self, visit: Visit, lane: Lane, step: int) -> None:
        self.under_way += step
        lane.under_way += step
        if visit.kind is Kind.PAGE:
            self.pages_under_way += step

    # -- what binds a lane

    def _heed(self, lane: Lane, origin: str) -> None:
        """Keep the crawl delay that is known of an origin, perhaps from an earlier run. While its robots.txt cannot be
        had, what it asked for last holds, or the default where that is longer."""
        standing = self.book.standing(origin)
        if standing is None or not self.book.settings.respect_robots_txt:
            return
        if standing.policy is None:
            bounds = lane.pace.bounds
            if standing.failures and (bounds.asked_s or 0.0) < bounds.settings.default_crawl_delay:
                lane.heed(origin, None)
                self.registry.set_crawl_delay(lane.pace, lane.crawl_delay_s)
            return
        delay_s = standing.policy.crawl_delay_s  # none any more: the default may be longer than what it was
        if delay_s is None or delay_s <= self.book.settings.honour_crawl_delay_up_to:
            self._slow_down(lane, origin, delay_s)

    def _slow_down(self, lane: Lane, origin: str, crawl_delay_s: float | None) -> None:
        if lane.heed(origin, crawl_delay_s):
            self.registry.set_crawl_delay(lane.pace, lane.crawl_delay_s)

    def stalled(self, lane: Lane, now: float) -> Over | None:
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
