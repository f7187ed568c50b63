"""What a running crawl asks of its store, read away from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from amble.core.frontier.changes import Listing
from amble.core.frontier.recall import Recall, Stored, listed
from amble.core.frontier.visit import Visit
from amble.jobs import rows
from amble.store.seam import Store, TaskRow


def _later(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and (other is None or one > other)


Judge = Callable[[Sequence[Visit]], Sequence[bool]]


class StoreSource:
    """The store as one job sees it. See `amble.jobs.supply.Source`."""

    def __init__(self, store: Store, job_id: int, *, update_stale: bool, judge: Judge | None = None) -> None:
        self._store = store
        self._job_id = job_id
        self._update_stale = update_stale
        self._judge = judge  # which is asked by one thread at a time

    async def pages(self, recalls: Sequence[Recall]) -> dict[str, Stored]:
        return await asyncio.to_thread(self._pages, recalls)

    def _pages(self, recalls: Sequence[Recall]) -> dict[str, Stored]:
        urls = [recall.visit.task for recall in recalls]
        known = self._store.known_pages(self._job_id, urls)
        links = self._store.links_of(urls)
        unlisted = [recall.visit.task for recall in recalls if recall.entry is None] if self._update_stale else []
        said = self._store.listed(unlisted) if unlisted else {}
        return {
            url: Stored(
                page.http_status,
                page.crawl_time,
                page.etag,
                page.last_modified,
                page.final_url,
                rows.leads_of(links.get(url, ()), page.directives),
                listed(url, row.lastmod, row.changefreq, row.priority) if (row := said.get(url)) else None,
            )
            for url, page in known.items()
            if page.error_type is None
        }

    async def sitemap(self, url: str) -> Listing | None:
        return await asyncio.to_thread(self._sitemap, url)

    def _sitemap(self, url: str) -> Listing | None:
        found, bare = self._store.load_sitemap_urls(url), self._store.bare_sitemap(url)
        if bare is not None and (not found or _later(bare.fetched_at, found[0].fetched_at)):
            return Listing(url, failure=bare.failure)
        entries = [listed(row.url, row.lastmod, row.changefreq, row.priority) for row in found]
        return Listing(url, entries, is_index=any(row.kind is not None for row in found)) if entries else None

    async def claim(self, domains: Sequence[str], per_domain: int) -> list[Visit]:
        found = await asyncio.to_thread(self._claim, domains, per_domain)
        missed = sorted(set(domains).difference(row.domain for row in found))
        if missed:  # handed over, and not committed yet
            await asyncio.wrap_future(self._store.flush())
            found += await asyncio.to_thread(self._claim, missed, per_domain)
        return [rows.visit_of(row) for row in found]

    async def judge(self, visits: Sequence[Visit]) -> Sequence[bool]:
        return [True] * len(visits) if self._judge is None else await asyncio.to_thread(self._judge, visits)

    def _claim(self, domains: Sequence[str], per_domain: int) -> list[TaskRow]:
        return self._store.claim(self._job_id, per_domain * len(domains), per_domain=per_domain, domains=domains)
