"""One visit, from the request to what its body says: nothing of it needs the crawl that asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from amble.core.content_type import accepts
from amble.core.frontier.visit import Kind, Visit
from amble.core.headers import Headers
from amble.core.outcome import Failure
from amble.core.page.page import read_page
from amble.core.robots.book import robots_url_of
from amble.core.robots.lines import BODY_BYTES_MAX as ROBOTS_BYTES_MAX
from amble.core.robots.policy import Terms, read_policy
from amble.core.sitemap.read import read_sitemap
from amble.fetcher import FetchRequest, FetchResult

if TYPE_CHECKING:  # a worker that begins needs neither, and would take twice as long
    from amble.core.frontier.plan import Reading
    from amble.core.frontier.settings import VisitSettings

# Bodies longer than this are read in a thread. Rules of a robots.txt take the longest by the byte.
LONG_BODY_BYTES = {Kind.PAGE: 500_000, Kind.SITEMAP: 200_000, Kind.ROBOTS: 50_000}
SITEMAP_BYTES_MAX = 50 * 1024 * 1024  # sitemaps.org: 50 MB uncompressed

OnSent = Callable[[float], None]  # told the monotonic instant at which the request was written


class Fetch(Protocol):
    """Whatever fetches: libcurl, or the simulator's web."""

    async def fetch(self, request: FetchRequest) -> FetchResult: ...


class Wants(NamedTuple):
    """What a crawl wants of every body."""

    terms: Terms
    max_links: int
    accept: tuple[str, ...] = ()
    reject: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: VisitSettings, terms: Terms) -> Wants:
        return cls(terms, settings.max_links_per_page, settings.accept_content_types, settings.reject_content_types)


class Visited(NamedTuple):
    """What came back, and what it says. The body of a page that was read may be left out."""

    result: FetchResult
    reading: Reading


class Visitor(Protocol):
    """Makes visits that have their permit already."""

    async def visit(self, visit: Visit, gap_s: float, on_sent: OnSent) -> Visited | None:
        """Make one. `gap_s` is what it has to keep after the one before at its domain. None: whoever made it is gone,
        and nobody knows how far it got."""


class LocalVisitor:
    """Makes them in this process."""

    def __init__(self, fetcher: Fetch, wants: Wants) -> None:
        self._fetcher = fetcher
        self.wants = wants

    async def visit(self, visit: Visit, gap_s: float, on_sent: OnSent) -> Visited | None:
        result = await self._fetcher.fetch(self._request(visit, on_sent))
        return Visited(result, await self.read(visit, result))

    async def read(self, visit: Visit, result: FetchResult) -> Reading:
        if result.body is not None and len(result.body) > LONG_BODY_BYTES[visit.kind]:
            return await asyncio.to_thread(self._read, visit, result)  # others are not kept waiting meanwhile
        return self._read(visit, result)

    def _request(self, visit: Visit, on_sent: OnSent) -> FetchRequest:
        plain = visit.kind is Kind.PAGE
        return FetchRequest(
            visit.url,
            etag=visit.etag,
            last_modified=visit.last_modified,
            keep_body=self._keep_body if plain else None,
            body_bytes_max=None if plain else ROBOTS_BYTES_MAX if visit.kind is Kind.ROBOTS else SITEMAP_BYTES_MAX,
            keep_prefix=visit.kind is Kind.ROBOTS,
            found_on=visit.found_on,
            on_sent=on_sent,
        )

    def _keep_body(self, status: int, headers: Headers) -> Failure | None:
        if 200 <= status < 300 and not accepts(headers.get("content-type"), self.wants.accept, self.wants.reject):
            return Failure.CONTENT_TYPE_REJECTED
        return None

    def _read(self, visit: Visit, result: FetchResult) -> Reading:
        if result.body is None or result.failure is not None or not 200 <= (result.status or 0) < 300:
            return None
        terms = self.wants.terms
        if visit.kind is Kind.ROBOTS:
            return read_policy(result.body, robots_url_of(visit.task), terms)
        if visit.kind is Kind.SITEMAP:
            return read_sitemap(result.body, visit.url)
        return read_page(
            result.body, visit.url, headers=result.headers, token=terms.token, max_links=self.wants.max_links
        )
