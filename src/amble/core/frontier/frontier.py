"""What to visit next, over all domains: a heap of domains by the instant each may be asked. Pure.

A domain that may not be asked yet is not at the top of the heap, so that it cannot be asked and holds nobody up.
Robots.txt and sitemaps are ordinary visits of their host, at its pace.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from datetime import datetime

from amble.core.frontier.changes import Changes, Final, Finished, Keeps, Over, Ready, State, WaitUntil
from amble.core.frontier.lane import Lane
from amble.core.frontier.lanes import Lanes
from amble.core.frontier.recall import Recall
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.robots.policy import RobotsAnswer
from amble.core.robots.verdict import Allowed, Ask, Refused, Wait
from amble.core.sitemap.walk import SitemapWalk
from amble.core.urls import domain_of, origin_of

TRIES_MAX = 500  # fruitless ones in one call: a robots.txt that forbids 100,000 URLs must not freeze the event loop
INFLOWS_MAX = 3  # long lists still to be taken in; with more of them nothing is sent, or they would pile up
UNJUDGED_MAX = 200  # pages whose links are to be judged; likewise
STOPPED = Over(State.DEFERRED, Failure.CANCELLED, "stopped")


class Frontier(Lanes):
    """Everything still to visit. Told the time; performs nothing."""

    # -- what goes out

    def next_ready(self, now: float, utc: datetime, changes: Changes) -> Ready | WaitUntil | Finished:
        """Whom to ask now. Visits that end without a request (robots.txt says no) are put into `changes`."""
        self._let_begin(now)
        tries = 0
        while (self._heap or self._let_begin(now)) and not self.draining and not self._is_flooded:
            instant, _, token, lane = self._heap[0]
            if token != lane.token:
                heapq.heappop(self._heap)  # a newer place stands elsewhere in the heap
            elif tries == TRIES_MAX:
                return WaitUntil(now)
            elif instant > now:
                if not self._let_begin(now):
                    return WaitUntil(instant)
            else:
                heapq.heappop(self._heap)
                self.take_turn(lane)
                tries += 1
                if not (lane.begun or lane.over or self.begun.admits(lane)):
                    continue
                ready = self._try(lane, now, utc, changes)
                if ready is not None:
                    return ready
        if self.draining:
            self._hand_back(changes)  # what the last answers led to
        coming = self.recalls or self.inflows or self.unjudged or self.backlog.busy
        if self.under_way or coming or self._waits_for_others():
            return WaitUntil(math.inf)
        return Finished()

    @property
    def _is_flooded(self) -> bool:
        """Whether more was found than can be taken in for now."""
        return len(self.inflows) >= INFLOWS_MAX or len(self.unjudged) >= UNJUDGED_MAX

    def _let_begin(self, now: float) -> bool:
        """Put domains that waited to begin into the heap, as far as there is room. Whether the heap has gained any."""
        gained = False
        while (lane := self.begun.next()) is not None:
            self.schedule(lane, now)
            gained = gained or lane.place is not None
        return gained

    def _waits_for_others(self) -> bool:
        """Whether a robots.txt is being asked for by another crawl of this process."""
        return not self.draining and any(lane.held and len(lane) for lane in self.lanes.values())

    def _try(self, lane: Lane, now: float, utc: datetime, changes: Changes) -> Ready | None:
        over = lane.over or self.stalled(lane, now)
        if over is not None:
            self.end_lane(lane, over, now, utc, changes)
            return None
        visit = lane.head(now)
        got = None if visit is None else self._try_visit(visit, lane, now, utc, changes)
        if isinstance(got, Ready):
            if lane.waits_at is not None:
                self.leave_queue(lane, now)
            self.schedule(lane, now)
            return got
        if got is not None and lane.waits_for_address(now):
            self.wait_for_address(lane, got, now)
        else:
            self.leave_queue(lane, now)
            self.schedule(lane, now, not_before=got)
        if lane.pace.events:
            changes.events = (*changes.events, *lane.pace.take_events())
        return None

    def _try_visit(self, visit: Visit, lane: Lane, now: float, utc: datetime, changes: Changes) -> Ready | float | None:
        """Send this one; or not before an instant; or do something else first."""
        answered = lane.presence.has_answered(visit.url)
        if not answered and (over := lane.presence.ended(origin_of(visit.url))) is not None:
            lane.take()
            self.end_visits([visit], over, now, utc, changes)
            return None
        if visit.kind is not Kind.ROBOTS:
            verdict = self.book.verdict(visit.url, now, lane.pace.gap_s)
            if not isinstance(verdict, Allowed):
                return self._heed_verdict(verdict, visit, lane, now, utc, changes)
            if verdict.crawl_delay_s is not None or lane.is_slowed:
                self._slow_down(lane, origin_of(visit.url), verdict.crawl_delay_s)
        if not answered and lane.under_way and self.tries_missing_twice:
            return math.inf  # one request finds out whether anybody is there; looked at again when that is settled
        permit = self.registry.reserve(lane.pace, now)
        if isinstance(permit, float):
            return permit
        lane.take()
        if visit.kind is Kind.PAGE:
            visit = self._timed(visit, lane)
        self.set_out(visit, permit, lane)
        return Ready(visit, permit)

    def ask_out_of_turn(self, origin: str, now: float, utc: datetime, changes: Changes) -> Ready | float | None:
        """Ask a domain though it is the turn of others, at its own pace as ever: for its next visit, or where none is
        due, for its robots.txt. Otherwise the instant before which it may not be asked; None where there is none."""
        lane = self.lane(origin, now, utc)
        if lane.over or lane.held or lane.waits_to_begin or lane.waits_at or self.stalled(lane, now):
            return None
        visit = lane.head(now)
        got = None if visit is None else self._try_visit(visit, lane, now, utc, changes)
        if got is None and not lane.held:
            ask = self.book.ask_anew(origin, now)
            got = None if ask is None else self._ask(ask, lane, now)
        self.schedule(lane, now, not_before=got if isinstance(got, float) else None)
        self.forget_if_idle(lane, now)
        return got

    def _timed(self, visit: Visit, lane: Lane) -> Visit:
        """With the time it has until it counts as hanging. The last try has all the time there is: nothing is lost
        that would have come."""
        hangs_after_s = lane.hangs_after_s()
        if hangs_after_s is None or visit.attempt > self.registry.settings.max_retries:
            return visit if visit.header_timeout_s is None else visit.timed(None)
        return visit.timed(hangs_after_s * 2.0 ** (visit.attempt - 1))

    def _heed_verdict(
        self, verdict: Refused | Ask | Wait, visit: Visit, lane: Lane, now: float, utc: datetime, changes: Changes
    ) -> Ready | float | None:
        """The head of a lane may not be sent now, or not at all."""
        if isinstance(verdict, Ask):
            return self._ask(verdict, lane, now)
        if isinstance(verdict, Refused):
            lane.take()
            self.end_visits([visit], Over.refused(verdict.failure, verdict.reason), now, utc, changes)
            return None
        lane.held = verdict.not_before is None  # somebody is asking: `release` when that is answered
        if verdict.not_before is not None:
            lane.take()
            lane.push_later(visit, verdict.not_before)
        return None

    def _ask(self, ask: Ask, lane: Lane, now: float) -> Ready | float:
        """Before anything else of an origin, its robots.txt."""
        permit = self.registry.reserve(lane.pace, now)
        if isinstance(permit, float):
            self.book.forget_ask(ask.origin)  # asked for again when the domain is free
            return permit
        failure = lane.last_failure
        nobody_yet = failure is not None and not lane.presence.has_answered(ask.url)
        visit = Visit(
            ask.url, Kind.ROBOTS, task=ask.origin, etag=ask.etag, last_modified=ask.last_modified,
            new_name=nobody_yet or failure is Failure.NETWORK_DNS_FAILURE,
        )  # fmt: skip
        self.set_out(visit, permit, lane)
        return Ready(visit, permit)

    # -- robots.txt

    def release(self, origin: str, now: float, utc: datetime) -> None:
        """The robots.txt of an origin was answered: its visits are judged anew."""
        lane = self.lane(origin, now, utc)
        lane.held = False
        self._heed(lane, origin)  # now, and not first with the next page: this was a request as well
        self.schedule(lane, now)

    def _lose_robots(self, visit: Visit, now: float, utc: datetime) -> None:
        """Nobody will be asked for it where it lies: unreachable, for all that its origin can tell."""
        self.book.learn(visit.task, RobotsAnswer(failure=Failure.NETWORK_TIMEOUT), now)
        self.lane(visit.task, now, utc).fails = True
        self.release(visit.task, now, utc)

    # -- sitemaps

    def walk_of(self, origin: str) -> SitemapWalk | None:
        """The search for sitemaps that is under way at a site."""
        lane = self.lanes.get(self.key_of(origin))
        return None if lane is None else lane.walks.get(origin)

    def has_sitemaps(self, origin: str) -> bool | None:
        """Whether sitemaps of a site were found; None where nobody looked for any."""
        if origin in self.walked:
            return self.walked[origin]
        walk = self.walk_of(origin)
        return None if walk is None else walk.found

    def walk_on(self, origin: str, now: float, utc: datetime) -> None:
        """Queue the sitemaps of a site that are known and not yet visited; they may lie at another host."""
        lane = self.lane(origin, now, utc)
        walk = lane.walks[origin]
        while (url := walk.next_sitemap()) is not None:
            visit = Visit(url, Kind.SITEMAP, task=origin, found_on=domain_of(origin), late=walk.is_late(url))
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

    def end_lane(self, lane: Lane, over: Over, now: float, utc: datetime, changes: Changes) -> None:
        """All that is queued at a domain ends. What lies in the store ends as it comes out."""
        self.leave_queue(lane, now)
        self.begun.end(lane)
        if over.state is State.DEFERRED:  # those in the store stay there, to be resumed
            self.deferred += self.backlog.leave(lane.domain)
        self.end_visits(lane.drain(), over, now, utc, changes)
        self.backlog.feed(lane.domain, len(lane), self.held)
        self.schedule(lane, now)  # which leaves its place, unless something waits here still

    def close_task(self, final: Final, changes: Changes) -> None:
        """The one place where a task ends."""
        if final.visit.stored and final.failure is not None and not _is_gone(final):
            final = final._replace(keeps=Keeps.NOTHING)
        if final.state is State.DEFERRED:
            self.deferred += 1
        else:
            self.final += 1
        changes.finals.append(final)

    def stop(self, changes: Changes) -> None:
        """Nothing more is sent; what is queued is handed back, to be resumed."""
        self.draining = True
        self._hand_back(changes)

    def _hand_back(self, changes: Changes) -> None:
        self.deferred += self.backlog.leave_all()
        waiting = [recall.visit for recall in self.recalls.values()]
        inflows = (*self.inflows, *(part.rest for part in self.unjudged))
        waiting += [inflow.final.visit for inflow in inflows if inflow.final is not None]
        for visit in waiting:
            if visit.kind is Kind.PAGE:
                self.close_task(Final(visit, *STOPPED), changes)
        self.recalls.clear()
        self.to_recall.clear()
        self.inflows.clear()
        self.unjudged.clear()
        self.to_judge.clear()
        for lane in self.lanes.values():
            for visit in lane.drain():
                if visit.kind is Kind.PAGE:
                    self.close_task(Final(visit, *STOPPED), changes)
                elif visit.kind is Kind.ROBOTS:
                    self.book.forget_ask(visit.task)


def _is_gone(final: Final) -> bool:
    """Whether the server itself said that there is no page any more, so that the one stored is out of date."""
    status = final.fetched.status if final.fetched is not None else None
    return status is not None and 400 <= status < 500 and final.failure is Failure.HTTP_CLIENT_ERROR
