"""One look around before a crawl: robots.txt and sitemaps, by way of the frontier and at the pace of a crawl."""

from __future__ import annotations

import asyncio
import random as system_random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from amble.assemble import make_plan
from amble.clock import Clock
from amble.core.frontier.changes import Changes, Ready
from amble.core.frontier.explore import ExploringFrontier
from amble.core.frontier.visit import Kind
from amble.core.pacing.learned import learn, worth_keeping
from amble.core.pacing.pace import Pace
from amble.core.seeds import Seed
from amble.core.urls import domain_of
from amble.crawl import Crawl
from amble.fetcher import Fetcher, FetchResult
from amble.jobs import knowing, rows
from amble.jobs.shared import Shared
from amble.jobs.source import Judge, StoreSource
from amble.jobs.supply import Supply
from amble.machine_pace import machine_pace
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, DomainRow

NO_JOB = 0  # the job that receipts of a plan name: their requests were sent, and no job was made


class Exploration:
    """What is found out: the URLs of each domain, and the pace it would be asked at."""

    def __init__(
        self, store: DuckDBStore, seeds: Sequence[Seed], settings: Settings, clock: Clock, shared: Shared | None,
        judge: Judge | None = None,
    ) -> None:  # fmt: skip
        self.store = store
        self.seeds = seeds
        self.settings = settings
        self.clock = clock
        self.found: list[str] = []  # URLs, in the order in which a crawl would take them in
        self.urls: dict[str, list[str]] = {}  # the same, by domain
        self.repeated: Counter[str] = Counter()  # requests of ours that the crawl will make again, by domain
        self.requests = 0
        self.late = False  # not everything could be read in time
        self._judge = judge
        self._asked: set[str] = set()  # domains
        self._session = int(clock.utc().timestamp() * 1_000_000)
        self._membership = shared.join(settings, clock) if shared is not None else None
        self.plan = make_plan(
            _without_budget(settings), seeds, system_random.random, frontier_kind=ExploringFrontier,
            registry=self._membership.registry if self._membership else None,
            book=self._membership.book if self._membership else None,
            machine=machine_pace(settings.pacing, clock),
        )  # fmt: skip

        self.plan.has_where = judge is not None

    def pace(self, url: str) -> Pace:
        return self.plan.frontier.lane(url, self.clock.monotonic(), self.clock.utc()).pace

    async def run(self, fetcher: Fetcher, patience_s: float | None) -> None:
        """Look around, for so long at most (None: to the end); then keep what the next crawl must know."""
        crawl = Crawl(
            self.plan,
            fetcher,
            self.clock,
            in_flight_max=self.settings.fetching.max_total_connections,
            on_changes=self._on_changes,
        )
        source = StoreSource(self.store, NO_JOB, update_stale=False, judge=self._judge)
        supply = Supply(self.plan, source, self.clock, lambda changes: self._supplied(changes, crawl))
        crawl.on_wants = supply.look
        if self._membership is not None:
            self._membership.begin(self.plan, self.clock, crawl.wake)
        try:
            await self._load()
            await self._explore(crawl, supply, patience_s)
        finally:
            await fetcher.close()
            await self._keep()
            if self._membership is not None:
                self._membership.leave()

    async def _explore(self, crawl: Crawl, supply: Supply, patience_s: float | None) -> None:
        supplying = asyncio.create_task(supply.run())
        running = asyncio.create_task(crawl.run())
        try:
            await asyncio.wait({running, supplying}, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not running.done():  # out of patience, or somebody cancels this
                self.late = True
                crawl.stop()
            supply.close()
            await asyncio.wait({running, supplying})
        supplying.result()  # what was our own fault is raised
        running.result()

    # -- in

    async def _load(self) -> None:
        """What earlier crawls learned, and which sitemaps they read lately."""
        store, frontier, clock = self.store, self.plan.frontier, self.clock
        await knowing.recall_domains(store, frontier, clock)
        await knowing.recall_robots(store, frontier, clock)
        await knowing.recall_sitemaps(store, frontier, clock, self.settings.visiting.sitemap_cache_hours)
        now, utc = clock.monotonic(), clock.utc()
        self._on_changes(self.plan.start(self.seeds, now, utc), None, None, utc)

    def _supplied(self, changes: Changes, crawl: Crawl) -> None:
        self._on_changes(changes, None, None, self.clock.utc())
        crawl.wake()

    # -- out

    def _on_changes(self, changes: Changes, ready: Ready | None, result: FetchResult | None, utc: datetime) -> None:
        for visit in changes.accepted:
            self.found.append(visit.url)
            self.urls.setdefault(domain_of(visit.url), []).append(visit.url)
        if ready is None or result is None:
            return
        self.requests += 1
        self._asked.add(domain_of(ready.visit.url))
        listing = changes.listing
        if ready.visit.kind is Kind.SITEMAP:
            # What a sitemap says is kept for a while, and that there is none.
            kept = listing is not None and self.settings.visiting.sitemap_cache_hours > 0
            self.repeated[domain_of(ready.visit.url)] += not kept
        self.store.submit(
            Batch(
                requests=[rows.request_row(ready, result, NO_JOB, self._session, self.clock.monotonic(), utc)],
                robots=self.plan.frontier.book.dump_changed(),
                listings=[rows.listing(listing, NO_JOB, utc)] if listing else (),
            )
        )

    async def _keep(self) -> None:
        """What the next crawl must know: when each domain was last asked, and any limit that was met."""
        asked = sorted(self._asked)
        known = {row.domain: row for row in await asyncio.to_thread(self.store.load_domains, asked)}
        now, utc = self.clock.monotonic(), self.clock.utc()
        kept: list[DomainRow] = []
        for pace in map(self.plan.frontier.registry.find, asked):
            if pace is None:
                continue
            met = learn(pace, now, utc) if pace.unsaved and worth_keeping(pace, now) else None
            row = rows.domain_row(pace, met, utc, now)
            before = known.get(pace.domain)
            if before is not None and met is None:  # a few requests for a plan do not replace what a crawl counted
                row = before._replace(crawl_delay_seconds=pace.crawl_delay_s, last_reserved_at=utc)
            kept.append(row)
        self.store.submit(Batch(domains=kept))
        await asyncio.wrap_future(self.store.flush())


def _without_budget(settings: Settings) -> Settings:
    """A budget is for pages to be asked for, and which of those found are stored is not known while looking around."""
    return replace(settings, visiting=settings.visiting.model_copy(update={"max_crawl_pages": None}))
