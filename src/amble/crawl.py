"""The crawl, on one screen: ask the plan what to send, send it, settle the answer, hand the rows on.

The path of a URL: seed -> urls -> frontier -> permit -> fetcher -> outcome -> page and links -> settle -> store.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from amble.clock import Clock
from amble.core.frontier.changes import Changes, Finished, Ready, WaitUntil
from amble.core.frontier.in_flight import Places
from amble.core.frontier.lane import Lane
from amble.core.frontier.plan import CrawlPlan
from amble.core.pacing.permit import Permit
from amble.fetcher import FetchResult
from amble.fetcher.calls import Cancel
from amble.workers.errand import Fetch, Visited
from amble.workers.visitor import LocalVisitor, Visitor


class Crawl:
    """One crawl on one event loop. At most `in_flight_max` requests are under way, whatever the number of domains; one
    that finds nobody to connect to does not count for long."""

    def __init__(
        self,
        plan: CrawlPlan,
        fetcher: Fetch,
        clock: Clock,
        *,
        in_flight_max: int,
        on_changes: Callable[[Changes, Ready | None, FetchResult | None, datetime], None],
    ) -> None:
        self.plan = plan
        self.visitor: Visitor = LocalVisitor(fetcher, plan.settings, plan.frontier.book.terms)
        self.clock = clock
        self._places = Places(in_flight_max)
        self._on_changes = on_changes
        self.on_wants: Callable[[], None] = lambda: None  # told when the frontier may want something of a store
        self._under_way: dict[Permit, Cancel] = {}
        self._settled = asyncio.Event()
        self._holds: set[str] = set()  # who wants nothing more to be sent for now
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Until everything is finished, or stopped and drained. What a visit raises, which is our own fault, is raised
        here; whoever cancels this gets everything handed back."""
        loop = asyncio.get_running_loop()
        try:
            while (wait_s := self._dispatch()) is not None:
                self.on_wants()
                self._settled.clear()
                alarm = None if wait_s == math.inf else loop.call_later(wait_s, self._settled.set)
                await self._settled.wait()
                if alarm is not None:
                    alarm.cancel()
                if self._error is not None:
                    raise self._error
        except BaseException:
            self.stop()
            raise
        finally:
            while self._under_way:  # after a fault: those that were told to end
                self._settled.clear()
                await self._settled.wait()
        if self._error is not None:
            raise self._error

    def _dispatch(self) -> float | None:
        """Send whatever may be sent now. Returns how long nothing more can happen by itself; None at the end."""
        pouring = self._take_in()
        utc, changes = self.clock.utc(), Changes()
        while self._places.has_room(now := self.clock.monotonic()):
            if self._holds:
                return math.inf
            step = self.plan.next_ready(now, utc, changes)
            if changes.tells:
                self._on_changes(changes, None, None, utc)
                abandoned, changes = changes.abandoned, Changes()
                self._abandon(abandoned)
                if abandoned:
                    continue
            if isinstance(step, Ready):
                self._send(step, now)
            elif isinstance(step, Finished):
                return None
            else:
                return 0.0 if pouring else max(0.0, step.instant - now)
        return 0.0 if pouring else self._wait_for_places(utc)

    def _wait_for_places(self, utc: datetime) -> float:
        """Every place is taken: whoever lands makes room, or waits for nobody. Returns how long to wait at most."""
        if self._holds:
            return math.inf
        now, changes = self.clock.monotonic(), Changes()
        room_at = self._places.room_at()
        step = self.plan.wait(WaitUntil(math.inf if room_at is None else room_at), now, utc, changes)
        if changes.tells:
            self._on_changes(changes, None, None, utc)
            self._abandon(changes.abandoned)
        return max(0.0, step.instant - now)

    def _abandon(self, domains: Sequence[str]) -> None:
        """Nobody waits any more for what is under way there."""
        for permit, cancel in list(self._under_way.items()) if domains else ():
            if permit.domain in domains:
                cancel()

    def _take_in(self) -> bool:
        """A slice of what was found, so that others have their turn in between. Whether there is more."""
        frontier = self.plan.frontier
        if not frontier.inflows or self._holds:
            return False
        utc = self.clock.utc()
        self._on_changes(self.plan.pour(self.clock.monotonic(), utc), None, None, utc)
        return bool(frontier.inflows)

    def _send(self, ready: Ready, now: float) -> None:
        visit, permit = ready
        lane = self.plan.frontier.lanes[permit.domain]
        self._places.take(permit, now)
        sent, landed = partial(self._sent, lane, permit), partial(self._landed, lane, ready)
        self._under_way[permit] = self.visitor.visit(visit, permit.gap_s, sent, landed)

    def _sent(self, lane: Lane, permit: Permit, instant: float) -> None:
        self._places.sent(permit)
        if self.plan.frontier.left(lane, permit, instant):
            self._settled.set()

    def _landed(self, lane: Lane, ready: Ready, visited: Visited | None, error: BaseException | None) -> None:
        """However a visit ended, it ends here."""
        del self._under_way[ready.permit]
        self._places.leave(ready.permit)
        self._settled.set()
        try:
            self._settle(lane, ready, visited, error)
        except Exception as fault:
            self.fail(fault)

    def _settle(self, lane: Lane, ready: Ready, visited: Visited | None, error: BaseException | None) -> None:
        now, utc = self.clock.monotonic(), self.clock.utc()
        if visited is not None:
            result, reading = visited
            if result.peer_ip is not None:
                self.plan.frontier.share(lane, result.peer_ip, now)
            self._on_changes(self.plan.settle(ready, result, reading, now, utc), ready, result, utc)
        elif isinstance(error, asyncio.CancelledError):
            self._on_changes(self.plan.cancelled(ready, now, utc), ready, None, utc)
        elif error is not None:
            self.fail(error)
        else:
            self._sent(lane, ready.permit, now)  # it may have been, at any moment until now
            self._on_changes(self.plan.lost(ready, now, utc), ready, None, utc)

    # -- from outside

    def wake(self) -> None:
        """Something has come in by another way: there may be more to send, or the end may have come."""
        self._settled.set()

    def fail(self, error: BaseException) -> None:
        """What the crawl depends on has broken: `run` raises this."""
        self._error = self._error or error
        self._settled.set()

    def pause(self, by: str = "user") -> None:
        """Send nothing more until whoever asked for it says `resume`; others may have asked for it as well. Who drains
        sends nothing anyway, and is not held up."""
        if self.plan.frontier.draining:
            return
        self._holds.add(by)
        self.plan.tail.stop_clock(self.clock.monotonic())

    def resume(self, by: str = "user") -> None:
        self._holds.discard(by)
        self._settled.set()

    def drain(self) -> None:
        """Let what is under way end, send nothing more; what is queued is handed back."""
        self._holds.clear()
        changes = Changes()
        self.plan.frontier.stop(changes)
        self._on_changes(changes, None, None, self.clock.utc())
        self._settled.set()

    def stop(self) -> None:
        """End at once: what is under way is handed back as well."""
        self.drain()
        for cancel in list(self._under_way.values()):
            cancel()
