"""The crawl, on one screen: ask the plan what to send, send it, settle the answer, hand the rows on.

The path of a URL: seed -> urls -> frontier -> permit -> fetcher -> outcome -> page and links -> settle -> store.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Protocol

from amble.clock import Clock
from amble.core.content_type import accepts
from amble.core.frontier.changes import Changes, Finished, Ready
from amble.core.frontier.plan import CrawlPlan, Reading
from amble.core.frontier.visit import Kind, Visit
from amble.core.headers import Headers
from amble.core.outcome import Failure
from amble.core.page.page import read_page
from amble.core.robots.book import robots_url_of
from amble.core.robots.lines import BODY_BYTES_MAX as ROBOTS_BYTES_MAX
from amble.core.robots.policy import read_policy
from amble.core.sitemap.read import read_sitemap
from amble.fetcher import FetchRequest, FetchResult

# Bodies longer than this are read in a thread. Rules of a robots.txt take the longest by the byte.
LONG_BODY_BYTES = {Kind.PAGE: 500_000, Kind.SITEMAP: 200_000, Kind.ROBOTS: 50_000}
SITEMAP_BYTES_MAX = 50 * 1024 * 1024  # sitemaps.org: 50 MB uncompressed


class Fetch(Protocol):
    """Whatever fetches: libcurl, or the simulator's web."""

    async def fetch(self, request: FetchRequest) -> FetchResult: ...


class Crawl:
    """One crawl on one event loop. At most `in_flight_max` requests are under way, whatever the number of domains."""

    def __init__(
        self,
        plan: CrawlPlan,
        fetcher: Fetch,
        clock: Clock,
        *,
        token: str,
        in_flight_max: int,
        on_changes: Callable[[Changes, Ready | None, FetchResult | None, datetime], None],
    ) -> None:
        self.plan = plan
        self.fetcher = fetcher
        self.clock = clock
        self._token = token
        self._in_flight_max = in_flight_max
        self._on_changes = on_changes
        self.on_wants: Callable[[], None] = lambda: None  # told when the frontier may want something of a store
        self._tasks: dict[asyncio.Task[None], Ready] = {}
        self._settled = asyncio.Event()
        self._holds: set[str] = set()  # who wants nothing more to be sent for now
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Until everything is finished, or stopped and drained. What a visit raises, which is our own fault, is raised
        here; whoever cancels this gets everything handed back."""
        try:
            while (wait_s := self._dispatch()) is not None:
                self._settled.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._settled.wait(), None if wait_s == math.inf else wait_s)
                if self._error is not None:
                    raise self._error
        except BaseException:
            self.stop()
            raise
        finally:
            # Those that have just settled are still to be let go; after a fault, those that were cancelled.
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._error is not None:
            raise self._error

    def _dispatch(self) -> float | None:
        """Send whatever may be sent now. Returns how long nothing more can happen by itself; None at the end."""
        pouring = self._take_in()
        while len(self._tasks) < self._in_flight_max:
            if self._holds:
                return math.inf
            now, utc, changes = self.clock.monotonic(), self.clock.utc(), Changes()
            step = self.plan.next_ready(now, utc, changes)
            if changes.tells:
                self._on_changes(changes, None, None, utc)
            self.on_wants()
            if isinstance(step, Finished):
                return None
            if not isinstance(step, Ready):
                return 0.0 if pouring else max(0.0, step.instant - now)
            task = asyncio.create_task(self._visit(step))
            self._tasks[task] = step
            task.add_done_callback(self._done)
        return 0.0 if pouring else math.inf  # every place is taken: whoever lands makes room

    def _take_in(self) -> bool:
        """A slice of what was found, so that others have their turn in between. Whether there is more."""
        frontier = self.plan.frontier
        if not frontier.inflows or self._holds:
            return False
        utc = self.clock.utc()
        self._on_changes(self.plan.pour(self.clock.monotonic(), utc), None, None, utc)
        return bool(frontier.inflows)

    def _done(self, task: asyncio.Task[None]) -> None:
        ready = self._tasks.pop(task)
        self._settled.set()
        if task.cancelled():  # perhaps before it had begun
            utc = self.clock.utc()
            self._on_changes(self.plan.cancelled(ready, self.clock.monotonic(), utc), ready, None, utc)
        else:
            self._error = self._error or task.exception()

    async def _visit(self, ready: Ready) -> None:
        result = await self.fetcher.fetch(self._request(ready))
        if result.peer_ip is not None:
            frontier = self.plan.frontier
            lane = frontier.lanes[frontier.key_of(ready.visit.url)]
            frontier.share(lane, result.peer_ip, self.clock.monotonic())
        if result.body is not None and len(result.body) > LONG_BODY_BYTES[ready.visit.kind]:
            reading = await asyncio.to_thread(self._read, ready.visit, result)  # others are not kept waiting meanwhile
        else:
            reading = self._read(ready.visit, result)
        utc = self.clock.utc()
        changes = self.plan.settle(ready, result, reading, self.clock.monotonic(), utc)
        self._on_changes(changes, ready, result, utc)

    def _request(self, ready: Ready) -> FetchRequest:
        visit, permit = ready
        lane = self.plan.frontier.lanes[self.plan.frontier.key_of(visit.url)]

        def sent(instant: float) -> None:
            lane.pace.sent(permit, instant)

        plain = visit.kind is Kind.PAGE
        return FetchRequest(
            visit.url,
            etag=visit.etag,
            last_modified=visit.last_modified,
            keep_body=self._keep_body if plain else None,
            body_bytes_max=None if plain else ROBOTS_BYTES_MAX if visit.kind is Kind.ROBOTS else SITEMAP_BYTES_MAX,
            keep_prefix=visit.kind is Kind.ROBOTS,
            found_on=visit.found_on,
            on_sent=sent,
        )

    def _keep_body(self, status: int, headers: Headers) -> Failure | None:
        settings = self.plan.settings
        if 200 <= status < 300 and not accepts(
            headers.get("content-type"), settings.accept_content_types, settings.reject_content_types
        ):
            return Failure.CONTENT_TYPE_REJECTED
        return None

    def _read(self, visit: Visit, result: FetchResult) -> Reading:
        if result.body is None or result.failure is not None or not 200 <= (result.status or 0) < 300:
            return None
        if visit.kind is Kind.ROBOTS:
            return read_policy(result.body, robots_url_of(visit.task), self.plan.frontier.book.terms)
        if visit.kind is Kind.SITEMAP:
            return read_sitemap(result.body, visit.url)
        return read_page(
            result.body,
            visit.url,
            headers=result.headers,
            token=self._token,
            max_links=self.plan.settings.max_links_per_page,
        )

    # -- from outside

    def wake(self) -> None:
        """Something has come in by another way: there may be more to send, or the end may have come."""
        self._settled.set()

    def fail(self, error: BaseException) -> None:
        """What the crawl depends on has broken: `run` raises this."""
        self._error = self._error or error
        self._settled.set()

    def pause(self, by: str = "user") -> None:
        """Send nothing more until whoever asked for it says `resume`; others may have asked for it as well."""
        self._holds.add(by)

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
        for task in self._tasks:
            task.cancel()
