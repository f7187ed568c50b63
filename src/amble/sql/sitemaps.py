"""What the sitemaps of sites list, found as a crawl finds them: by robots.txt, at the usual places, index by index."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from amble.clock import SystemClock
from amble.core.addresses import AddressPolicy
from amble.core.frontier.changes import Changes
from amble.core.seeds import seed_url
from amble.core.sitemap.walk import SitemapWalk
from amble.core.urls import origin_of
from amble.fetcher import Fetcher
from amble.report.plan import PATIENCE_S, Explorer
from amble.settings import Settings
from amble.sql.crawling import Place, in_thread, limits_of, refuse_transaction, settings_here
from amble.sql.seeds import read_seeds
from amble.sql.statements import Crawl, Option
from amble.sql.stores import open_store
from amble.sql.targets import current_database
from amble.store.duckdb_store import DuckDBStore
from amble.store.storable import utc as without_zone

ENTRIES = (
    ("url", "VARCHAR"), ("sitemap", "VARCHAR"), ("lastmod", "TIMESTAMP"), ("changefreq", "VARCHAR"),
    ("priority", "DOUBLE"),
)  # fmt: skip


class SitemapExplorer(Explorer):
    """Looks at sitemaps alone. A seed that names a site means all of its sitemaps, any other is a sitemap itself."""

    def begin(self, now: float, utc: datetime) -> Changes:
        frontier = self.plan.frontier
        for seed in self.seeds:
            if seed.names_site:
                self.plan.discovery.discover(seed.url, now, utc)
            else:
                origin = origin_of(seed.url)
                frontier.lane(origin, now, utc).walks[origin] = SitemapWalk(origin, [seed.url])
                frontier.walk_on(origin, now, utc)
        return self.plan.start([seed for seed in self.seeds if seed.names_site], now, utc)


def entries_of(place: Place, select: str, options: Sequence[Option]) -> list[tuple[Any, ...]]:
    """A row for each URL that is listed. Politely: robots.txt and sitemaps wait for the pace of their hosts."""
    refuse_transaction(place.connection, "sitemap()")
    crawl = Crawl(select, options=tuple(options))
    settings = settings_here(place, crawl, {}, None)
    seeds = read_seeds(place.connection, select, {}, place.caller)
    database = current_database(place.connection)
    with open_store(place.connection, database, place.session, limits_of(settings)) as store:
        rows: list[tuple[Any, ...]] = in_thread(lambda: asyncio.run(_explore(store, list(seeds.urls), settings, place)))
    return rows


async def _explore(store: DuckDBStore, urls: list[str], settings: Settings, place: Place) -> list[tuple[Any, ...]]:
    seeds = [seed_url(url) for url in urls]
    ways = place.session.ways
    clock = ways.get("clock") or SystemClock()
    policy = ways.get("policy") or AddressPolicy.of(named=urls)
    fetcher = Fetcher(settings.fetching, policy=policy, resolver=ways.get("resolver"), clock=clock)
    explorer = SitemapExplorer(store, seeds, settings, clock, fetcher)
    try:
        await explorer.explore(PATIENCE_S)
    finally:
        await fetcher.close()
        await explorer.keep()
    return [
        (entry.url, listing.sitemap, without_zone(entry.lastmod), entry.changefreq, entry.priority)
        for listing in explorer.listings
        if not listing.is_index
        for entry in listing.entries
    ]
