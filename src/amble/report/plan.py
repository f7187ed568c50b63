"""What a crawl would do: robots.txt and sitemaps are fetched, at the same pace and with receipts, and no page is.

explained = await explain(store, ["https://example.com/"], settings)
print(explained.as_text())
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

import duckdb
from duckdb import DuckDBPyConnection

from amble.assemble import address_policy
from amble.clock import Clock, SystemClock
from amble.core.addresses import AddressPolicy
from amble.core.frontier.recall import listed
from amble.core.frontier.visit import Visit
from amble.core.robots.verdict import Ask, Refused, Wait
from amble.core.seeds import seed_url
from amble.core.sitemap.document import is_stale
from amble.core.urls import domain_of
from amble.fetcher import Fetcher, Resolver
from amble.jobs.shared import Shared
from amble.jobs.source import Judge
from amble.report.expect import expect
from amble.report.exploration import Exploration
from amble.report.words import duration, html_table, text_table
from amble.settings import Settings
from amble.store import knowledge, storable, tables
from amble.store.duckdb_store import DuckDBStore
from amble.store.names import TableName
from amble.store.seam import SitemapUrlRow

PATIENCE_S = 60.0  # what is not found out by then is left out, and said
_SLICE = 2_000  # URLs judged at once, so that whoever shares the event loop is not kept waiting

HEADS = (
    "domain", "known", "stored", "stale", "refused", "to_fetch", "delay_s", "why", "concurrency", "expected_s", "note",
)  # fmt: skip
_LEARNS = "at best: its pace is still to be learned"
_LEADS_ON = "its links will lead to more pages than these"


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

    @property
    def remark(self) -> str:
        """What to make of the numbers, in words."""
        return "; ".join(filter(None, ("" if self.sure else _LEARNS, self.note)))


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
        lines = [(*(getattr(domain, head) for head in HEADS[:-1]), domain.remark) for domain in self.domains]
        sums = [sum(getattr(domain, head) for domain in self.domains) for head in HEADS[1:6]]
        slowest = self.domains[0] if self.domains else None
        last = (slowest.delay_s, slowest.why, slowest.concurrency) if slowest else (None, None, None)
        return [*lines, ("total", *sums, *last, self.total_s, slowest.remark if slowest else "")]

    def as_dict(self) -> dict[str, Any]:
        return {
            "domains": [asdict(domain) for domain in self.domains],
            "total_s": self.total_s,
            "sure": self.sure,
            "requests": self.requests,
            "took_s": self.took_s,
        }

    def __str__(self) -> str:
        return self.as_text()

    def as_text(self) -> str:
        lines = [*(self._line(domain) for domain in self.domains)]
        sums = (str(sum(getattr(domain, head) for domain in self.domains)) for head in HEADS[1:6])
        lines.append(["total", *sums, "", "", "", duration(self.total_s)])
        said = [text_table(_TITLES, lines, left=1)]
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
    typed: Sequence[str] = (),
    policy: AddressPolicy | None = None,
    resolver: Resolver | None = None,
    shared: Shared | None = None,
    judge: Judge | None = None,
) -> Explained:
    """Find out what a crawl of these seeds into this table would do. No job is made; its requests leave receipts.

    `shared`: on the event loop of an engine, the budget that its jobs share. `judge`: which URLs the crawl takes, where
    its statement has a WHERE. `typed`: the seeds that somebody typed, which may be private.
    """
    found = [seed_url(text) for text in seeds]
    clock = clock or SystemClock()
    began = clock.monotonic()
    policy = policy or address_policy(settings, typed)
    explored = Exploration(store, found, settings, clock, shared, judge)
    await explored.run(Fetcher(settings.fetching, policy=policy, resolver=resolver, clock=clock), patience_s)
    stored, latencies = await asyncio.to_thread(_look, explored, table)
    asked = _asked(explored, stored)
    plans = [
        await _domain(explored, domain, stored, asked.get(domain, []), latencies.get(domain))
        for domain in explored.urls
    ]
    plans.sort(key=lambda plan: (-plan.expected_s, plan.domain))
    total_s = max((plan.expected_s for plan in plans), default=0.0)
    return Explained(tuple(plans), total_s, explored.requests, clock.monotonic() - began)


class _Stored(NamedTuple):
    """What the table holds of the URLs that were found."""

    pages: Known
    stale: frozenset[str]
    tried: Container[str]  # without success; looked up where a budget makes them come last


def _look(explored: Exploration, table: str) -> tuple[_Stored, dict[str, float]]:
    store = explored.store
    with store.database.reading() as connection:
        every = (url for urls in explored.urls.values() for url in urls)
        pages = stored_pages(connection, table, store.database.name, every)
        latencies = known_latencies(connection, list(explored.urls))
        has_budget = explored.settings.visiting.max_crawl_pages is not None
        tried = _tried(connection, TableName.parse(table, store.database.name)) if has_budget else ()
    said, utc = store.listed(list(pages)), explored.clock.utc()
    stale = frozenset(url for url, at in pages.items() if _is_stale(url, at, said.get(url), utc))
    return _Stored(pages, stale, tried), latencies


def _tried(connection: DuckDBPyConnection, table: TableName) -> Container[str]:
    if not tables.exists(connection, table):
        return ()
    return knowledge.stored(connection, tables.TargetTable(table, tables.check(connection, table)), failed=True)


def _is_stale(url: str, crawled_at: datetime | None, said: SitemapUrlRow | None, utc: datetime) -> bool:
    if said is None:  # no sitemap speaks of it: then only the server can tell, and a crawl asks it
        return True
    entry = listed(url, said.lastmod, said.changefreq, said.priority)
    return is_stale(crawled_at, entry.lastmod, entry.changefreq, utc)


def _asked(explored: Exploration, stored: _Stored) -> dict[str, list[str]]:
    """By domain, what the crawl will ask for, as far as its budget goes."""
    visiting = explored.settings.visiting
    left = stored.pages.keys() - stored.stale if visiting.update_stale else stored.pages.keys()
    asked = [url for url in explored.found if url not in left]
    if visiting.max_crawl_pages is not None:
        asked.sort(key=lambda url: (url in stored.tried, url in stored.stale))  # the order in which a crawl spends it
        del asked[visiting.max_crawl_pages :]
    by_domain: dict[str, list[str]] = {}
    for url in asked:
        by_domain.setdefault(domain_of(url), []).append(url)
    return by_domain


async def _domain(
    explored: Exploration, domain: str, stored: _Stored, asked: Sequence[str], latency_s: float | None
) -> DomainPlan:
    urls = explored.urls[domain]
    held = sum(url in stored.pages for url in urls)
    stale = sum(url in stored.stale for url in urls)
    refused, unknown = await _judge(explored, asked)
    to_fetch = len(asked) - refused
    pace = explored.pace(urls[0])
    requests = to_fetch + explored.repeated[domain] if to_fetch else 0
    expected = expect(pace, requests, latency_s or pace.latency_s or 0.0)
    return DomainPlan(
        domain, len(urls), held, stale, refused, to_fetch, expected.delay_s, expected.why, expected.concurrency,
        expected.seconds, (expected.sure or not requests) and not unknown,
        _note(explored, urls[0], unknown, pace.crawl_delay_s or 0.0),
    )  # fmt: skip


async def _judge(explored: Exploration, urls: Sequence[str]) -> tuple[int, int]:
    """How many of these robots.txt refuses, and of how many nobody knows."""
    refused = unknown = 0
    book = explored.plan.frontier.book
    for start in range(0, len(urls), _SLICE):
        now = explored.clock.monotonic()
        for url in urls[start : start + _SLICE]:
            verdict = book.verdict(url, now)
            refused += isinstance(verdict, Refused)
            unknown += isinstance(verdict, Wait | Ask)
            if isinstance(verdict, Ask):
                book.forget_ask(verdict.origin)
        await asyncio.sleep(0)
    return refused, unknown


def _note(explored: Exploration, url: str, unknown: int, crawl_delay_s: float) -> str:
    if unknown:
        return f"its robots.txt could not be read; {unknown} URLs wait for it"
    if explored.late:
        return "there was not the time to read everything"
    if crawl_delay_s > explored.settings.robots.max_crawl_delay:
        return f"its robots.txt asks for {crawl_delay_s:g} s between requests, above max_crawl_delay; it will be kept"
    return _LEADS_ON if explored.plan.follows_links(Visit(url)) else ""


Known = dict[str, datetime | None]  # URL -> when it was stored

_READ_AT_ONCE = 10_000
LATEST = 200  # answers of a domain that say how fast it is


def stored_pages(connection: DuckDBPyConnection, table: str, database: str, urls: Iterable[str]) -> Known:
    """Which of these URLs the table holds with a success. One look through it, whatever their number."""
    name = TableName.parse(table, database)
    try:
        rows = connection.execute(
            f"SELECT url, crawl_time FROM {name} WHERE error_type IS NULL AND http_status IS NOT NULL"
        )
    except duckdb.CatalogException:
        return {}  # there is no such table yet
    wanted, found = set(urls), Known()
    while chunk := rows.fetchmany(_READ_AT_ONCE):
        found |= {url: storable.aware(time) for url, time in chunk if url in wanted}
    return found


def known_latencies(connection: DuckDBPyConnection, domains: list[str]) -> dict[str, float]:
    """The usual time in which each domain answers for a page, from its latest receipts.

    Where no page was asked for yet it is the shortest time seen: a long sitemap says nothing about pages.
    """
    rows = connection.execute(
        """
        SELECT domain, coalesce(median(elapsed_s) FILTER (is_page), min(elapsed_s)) FROM (
            SELECT
                domain, elapsed_s,
                NOT ends_with(url, '/robots.txt') AND url NOT IN (SELECT sitemap FROM amble.sitemap_urls) AS is_page
            FROM amble.requests
            WHERE status < 400 AND elapsed_s IS NOT NULL AND domain IN (SELECT unnest($1::VARCHAR[]))
            QUALIFY row_number() OVER (PARTITION BY domain ORDER BY started_at DESC) <= $2
        ) GROUP BY domain
        """,
        [domains, LATEST],
    ).fetchall()
    return dict(rows)
