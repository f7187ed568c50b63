"""What a crawl would do: robots.txt and sitemaps are fetched, at the same pace and with receipts, and no page is.

explained = await explain(store, ["https://example.com/"], settings)
print(explained.as_text())
"""

from __future__ import annotations

import asyncio
import random as system_random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from amble.assemble import make_plan
from amble.clock import Clock, SystemClock
from amble.core.addresses import AddressPolicy
from amble.core.frontier.changes import Changes, Listing, Ready
from amble.core.frontier.explore import ExploringFrontier
from amble.core.frontier.visit import Kind
from amble.core.pacing.learned import learn, worth_keeping
from amble.core.robots.verdict import Ask, Refused, Wait
from amble.core.seeds import Seed, seed_url
from amble.core.urls import domain_of
from amble.crawl import Crawl
from amble.fetcher import Fetcher, FetchResult, Resolver
from amble.jobs import rows
from amble.report.expect import expect
from amble.report.known import Known, known_latencies, stored_pages
from amble.report.words import duration, html_table, text_table
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, DomainRow

NO_JOB = 0  # the job that receipts of a plan name: their requests were sent, and no job was made
PATIENCE_S = 60.0  # what is not found out by then is left out, and said
_SLICE = 2_000  # URLs judged at once, so that whoever shares the event loop is not kept waiting

HEADS = ("domain", "known", "stored", "stale", "refused", "to_fetch", "delay_s", "why", "concurrency", "expected_s")


@dataclass(frozen=True, slots=True)
class DomainPlan:
    """What one domain of the crawl has to expect."""

    domain: str
    known: int  # URLs: seeds, and what sitemaps list
    stored: int  # of these, in the table already
    stale: int  # of these, due again
    refused: int  # by robots.txt
    to_fetch: int
    delay_s: float
    why: str  # what sets the delay: robots, learned, default, rule, min_crawl_delay, max_rate, quota, none
    concurrency: int
    expected_s: float
    sure: bool  # False: the pace is still to be learned, and this is the best case
    note: str = ""


@dataclass(frozen=True, slots=True)
class Explained:
    """A row per domain, the slowest first; a crawl takes as long as its slowest domain."""

    domains: tuple[DomainPlan, ...]
    total_s: float
    requests: int  # sent to find this out
    took_s: float

    @property
    def sure(self) -> bool:
        return all(domain.sure for domain in self.domains)

    def as_rows(self) -> list[tuple[Any, ...]]:
        """Rows in the order of `HEADS`, and the total as the last one."""
        lines = [tuple(getattr(domain, head) for head in HEADS) for domain in self.domains]
        sums = [sum(getattr(domain, head) for domain in self.domains) for head in HEADS[1:6]]
        slowest = self.domains[0] if self.domains else None
        last = (slowest.delay_s, slowest.why, slowest.concurrency) if slowest else (None, None, None)
        return [*lines, ("total", *sums, *last, self.total_s)]

    def as_dict(self) -> dict[str, Any]:
        return {
            "domains": [asdict(domain) for domain in self.domains],
            "total_s": self.total_s,
            "sure": self.sure,
            "requests": self.requests,
            "took_s": self.took_s,
        }

    def as_text(self) -> str:
        lines = [*(self._line(domain) for domain in self.domains)]
        sums = (str(sum(getattr(domain, head) for domain in self.domains)) for head in HEADS[1:6])
        lines.append(["total", *sums, "", "", "", duration(self.total_s)])
        said = [text_table(_TITLES, lines)]
        said += [f"{domain.domain}: {domain.note}" for domain in self.domains if domain.note]
        if not self.sure:
            said.append("* the pace of this domain is still to be learned: at best")
        return "\n".join(said)

    def _repr_html_(self) -> str:
        lines = [self._line(domain) for domain in self.domains]
        return html_table(_TITLES, [*lines, ["total", *[""] * 8, duration(self.total_s)]])

    @staticmethod
    def _line(domain: DomainPlan) -> list[str]:
        return [
            domain.domain,
            *(str(getattr(domain, head)) for head in HEADS[1:6]),
            f"{domain.delay_s:.2f} s",
            domain.why,
            str(domain.concurrency),
            duration(domain.expected_s) + ("" if domain.sure else " *"),
        ]


_TITLES = ("domain", "known", "stored", "stale", "refused", "to fetch", "delay", "why", "at once", "expected")


async def explain(
    store: DuckDBStore,
    seeds: Sequence[str],
    settings: Settings,
    *,
    table: str = "pages",
    patience_s: float = PATIENCE_S,
    clock: Clock | None = None,
    policy: AddressPolicy | None = None,
    resolver: Resolver | None = None,
) -> Explained:
    """Find out what a crawl of these seeds into this table would do. No job is made; its requests leave receipts."""
    found = [seed_url(text) for text in seeds]
    clock = clock or SystemClock()
    fetcher = Fetcher(
        settings.fetching,
        policy=policy or AddressPolicy.of(named=[seed.url for seed in found]),
        resolver=resolver,
        clock=clock,
    )
    explorer = Explorer(store, found, settings, clock, fetcher)
    try:
        await explorer.explore(patience_s)
    finally:
        await fetcher.close()
        await explorer.keep()
    return await explorer.explain(table)


class Explorer:
    """One look around."""

    def __init__(
        self, store: DuckDBStore, seeds: Sequence[Seed], settings: Settings, clock: Clock, fetcher: Fetcher
    ) -> None:
        self.store = store
        self.seeds = seeds
        self.settings = settings
        self.clock = clock
        self.urls: dict[str, list[str]] = {}  # by domain
        self.sitemaps: Counter[str] = Counter()  # requests, by domain
        self.listings: list[Listing] = []  # what each sitemap says
        self.requests = 0
        self._known: dict[str, DomainRow] = {}
        self.late = False
        self._session = int(clock.utc().timestamp() * 1_000)
        self._began = clock.monotonic()
        self.plan = make_plan(settings, seeds, system_random.random, frontier_kind=ExploringFrontier)
        self.crawl = Crawl(
            self.plan,
            fetcher,
            clock,
            token=self.plan.frontier.book.terms.token,
            in_flight_max=settings.fetching.max_total_connections,
            on_changes=self._on_changes,
        )

    async def explore(self, patience_s: float) -> None:
        now, utc = self.clock.monotonic(), self.clock.utc()
        frontier = self.plan.frontier
        known, robots = await asyncio.to_thread(lambda: (self.store.load_domains(), self.store.load_robots()))
        self._known = {row.domain: row for row in known}
        learned = (rows.learned_of(row) for row in known)
        frontier.registry.load((row for row in learned if row is not None), now, utc)
        ages = ((row, (utc - row.fetched_at).total_seconds()) for row in robots if row.fetched_at)
        frontier.book.load(ages, now)
        self._on_changes(self.begin(now, utc), None, None, utc)
        running = asyncio.create_task(self.crawl.run())
        try:
            await asyncio.wait({running}, timeout=patience_s)
        finally:
            if not running.done():  # out of patience, or somebody cancels this
                self.late = True
                self.crawl.stop()
                await asyncio.wait({running})
        running.result()  # what was our own fault is raised

    def begin(self, now: float, utc: datetime) -> Changes:
        """Where the look around starts."""
        return self.plan.start(self.seeds, now, utc)

    def _on_changes(self, changes: Changes, ready: Ready | None, result: FetchResult | None, utc: datetime) -> None:
        if changes.listing is not None:
            self.listings.append(changes.listing)
        for visit in changes.accepted:
            self.urls.setdefault(domain_of(visit.url), []).append(visit.url)
        if ready is not None and result is not None:
            self.requests += 1
            self.sitemaps[domain_of(ready.visit.url)] += ready.visit.kind is Kind.SITEMAP
            receipt = rows.request_row(ready, result, NO_JOB, self._session, utc)
            self.store.submit(Batch(requests=[receipt], robots=self.plan.frontier.book.dump_changed()))

    async def keep(self) -> None:
        """What the next crawl must know: when each domain was last asked, and any limit that was met."""
        now, utc = self.clock.monotonic(), self.clock.utc()
        paces = [lane.pace for lane in self.plan.frontier.lanes.values() if lane.pace.seq]
        kept: list[DomainRow] = []
        for pace in paces:
            met = learn(pace, now, utc) if pace.unsaved and worth_keeping(pace, now) else None
            row = rows.domain_row(pace, met, utc, now)
            known = self._known.get(pace.domain)
            if known is not None and met is None:  # a few requests for a plan do not replace what a crawl counted
                row = known._replace(crawl_delay_seconds=pace.crawl_delay_s, last_reserved_at=utc)
            kept.append(row)
        self.store.submit(Batch(domains=kept))
        await asyncio.wrap_future(self.store.flush())

    # -- what came of it

    async def explain(self, table: str) -> Explained:
        domains = [domain for domain, urls in self.urls.items() if urls]
        stored, latencies = await asyncio.to_thread(self._look, table, domains)
        plans = [await self._domain(domain, stored, latencies.get(domain)) for domain in domains]
        plans.sort(key=lambda plan: (-plan.expected_s, plan.domain))
        total_s = max((plan.expected_s for plan in plans), default=0.0)
        return Explained(tuple(plans), total_s, self.requests, self.clock.monotonic() - self._began)

    def _look(self, table: str, domains: Iterable[str]) -> tuple[Known, dict[str, float]]:
        with self.store.database.reading() as connection:
            every = (url for urls in self.urls.values() for url in urls)
            stored = stored_pages(connection, table, self.store.database.name, every)
            return stored, known_latencies(connection, list(domains))

    async def _domain(self, domain: str, stored: Known, latency_s: float | None) -> DomainPlan:
        frontier, urls = self.plan.frontier, self.urls[domain]
        pace = frontier.lane(urls[0], self.clock.monotonic(), self.clock.utc()).pace
        refused, unknown = await self._judge([url for url in urls if url not in stored])
        held = sum(url in stored for url in urls)
        to_fetch = len(urls) - held - refused
        requests = to_fetch + self.sitemaps[domain]
        expected = expect(pace, requests if to_fetch else 0, latency_s or pace.latency_s or 0.0)
        return DomainPlan(
            domain, len(urls), held, 0, refused, to_fetch, expected.delay_s, expected.why, expected.concurrency,
            expected.seconds, expected.sure and not unknown, self._note(unknown),
        )  # fmt: skip

    async def _judge(self, urls: Sequence[str]) -> tuple[int, int]:
        """How many of these robots.txt refuses, and of how many nobody knows."""
        refused = unknown = 0
        for start in range(0, len(urls), _SLICE):
            now = self.clock.monotonic()
            for url in urls[start : start + _SLICE]:
                verdict = self.plan.frontier.book.verdict(url, now)
                refused += isinstance(verdict, Refused)
                unknown += isinstance(verdict, Wait | Ask)
                if isinstance(verdict, Ask):
                    self.plan.frontier.book.forget_ask(verdict.origin)
            await asyncio.sleep(0)
        return refused, unknown

    def _note(self, unknown: int) -> str:
        if unknown:
            return f"its robots.txt could not be read; {unknown} URLs wait for it"
        return "there was not the time to read everything" if self.late else ""
