"""What the sitemaps of sites list, found as a crawl finds them: by robots.txt, at the usual places, index by index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from amble.assemble import address_policy
from amble.clock import Clock, SystemClock
from amble.core.frontier.changes import Changes, Listing, Ready
from amble.core.frontier.recall import Recall
from amble.core.seeds import Seed, seed_url
from amble.core.sitemap.walk import SitemapWalk
from amble.core.urls import origin_of
from amble.fetcher import Fetcher, FetchResult
from amble.jobs.shared import Shared
from amble.report.exploration import Exploration
from amble.settings import Settings
from amble.sql.crawling import Place, settings_here
from amble.sql.on_engine import on_engine
from amble.sql.seeds import read_seeds
from amble.sql.statements import Crawl, Option
from amble.sql.stores import open_store
from amble.sql.targets import current_database
from amble.sql.transactions import refuse_transaction
from amble.store.duckdb_store import DuckDBStore
from amble.store.storable import utc as without_zone

ENTRIES = (
    ("url", "VARCHAR"), ("sitemap", "VARCHAR"), ("lastmod", "TIMESTAMP"), ("changefreq", "VARCHAR"),
    ("priority", "DOUBLE"),
)  # fmt: skip


class SitemapExploration(Exploration):
    """Looks at sitemaps alone. A seed that names a site means all of its sitemaps, any other is a sitemap itself."""

    def __init__(
        self, store: DuckDBStore, seeds: Sequence[Seed], settings: Settings, clock: Clock, shared: Shared
    ) -> None:
        super().__init__(store, [seed for seed in seeds if seed.names_site], settings, clock, shared)
        self.listings: list[Listing] = []
        self._sitemaps = [seed.url for seed in seeds if not seed.names_site]
        self._recalled = self.plan.sitemap_recalled
        self.plan.sitemap_recalled = self._recall  # type: ignore[method-assign]

    async def _load(self) -> None:
        await super()._load()
        now, utc, frontier = self.clock.monotonic(), self.clock.utc(), self.plan.frontier
        for url in self._sitemaps:
            origin = origin_of(url)
            frontier.lane(origin, now, utc).walks[origin] = SitemapWalk(origin, [url])
            frontier.walk_on(origin, now, utc)

    def _recall(self, recall: Recall, known: Listing | None, now: float, utc: datetime) -> Changes:
        """A sitemap that was read lately is not asked for again."""
        if known is not None:
            self.listings.append(known)
        return self._recalled(recall, known, now, utc)

    def _on_changes(self, changes: Changes, ready: Ready | None, result: FetchResult | None, utc: datetime) -> None:
        if changes.listing is not None:
            self.listings.append(changes.listing)
        super()._on_changes(changes, ready, result, utc)


def entries_of(
    place: Place, select: str, options: Sequence[Option], values: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """A row for each URL that is listed. Politely: robots.txt and sitemaps wait for the pace of their hosts."""
    refuse_transaction(place.connection, "sitemap()")
    crawl = Crawl(select, options=tuple(options))
    settings = settings_here(place, crawl, values, None)
    seeds = read_seeds(place.connection, select, values, place.caller)
    database = current_database(place.connection)
    with open_store(place.connection, database, place.session) as store:
        return on_engine(lambda shared: _explore(store, list(seeds.urls), settings, place, shared), place.watch)


async def _explore(
    store: DuckDBStore, urls: list[str], settings: Settings, place: Place, shared: Shared
) -> list[tuple[Any, ...]]:
    seeds = [seed_url(url) for url in urls]
    ways = place.session.ways
    clock = ways.get("clock") or SystemClock()
    policy = ways.get("policy") or address_policy(settings)
    fetcher = Fetcher(settings.fetching, policy=policy, resolver=ways.get("resolver"), clock=clock)
    explored = SitemapExploration(store, seeds, settings, clock, shared)
    await explored.run(fetcher, patience_s=None)  # part of the rows would look like all of them
    return [
        (entry.url, listing.sitemap, without_zone(entry.lastmod), entry.changefreq, entry.priority)
        for listing in explored.listings
        if not listing.is_index
        for entry in listing.entries
    ]
