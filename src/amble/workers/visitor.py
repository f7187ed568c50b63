"""One visit, from the request to what its body says: nothing of it needs the crawl that asked for it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
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
from amble.fetcher.calls import Cancel, OnDone, ended, in_task

if TYPE_CHECKING:  # a worker that begins needs neither, and would take twice as long
    from amble.core.frontier.plan import Reading
    from amble.core.frontier.settings import VisitSettings

# Bodies longer than this are read in a thread. Rules of a robots.txt take the longest by the byte.
LONG_BODY_BYTES = {Kind.PAGE: 500_000, Kind.SITEMAP: 200_000, Kind.ROBOTS: 50_000}
SITEMAP_BYTES_MAX = 50 * 1024 * 1024  # sitemaps.org: 50 MB uncompressed

OnSent = Callable[[float], None]  # told the monotonic instant at which the request was written


class Fetch(Protocol):
    """Whatever fetches: libcurl, or the simulator's web."""

    def start(self, request: FetchRequest, on_done: OnDone[FetchResult]) -> Cancel:
        """Make one request; see `amble.fetcher.calls`."""


class TaskFetch(ABC):
    """A `Fetch` for those who would rather wait than be called: each request is a task."""

    @abstractmethod
    async def fetch(self, request: FetchRequest) -> FetchResult: ...

    def start(self, request: FetchRequest, on_done: OnDone[FetchResult]) -> Cancel:
        return in_task(self.fetch(request), on_done)


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

    def visit(self, visit: Visit, gap_s: float, on_sent: OnSent, on_done: OnDone[Visited]) -> Cancel:
        """Make one. `gap_s` is what it has to keep after the one before at its domain. Done without an error and
        without a result: whoever made it is gone, and nobody knows how far it got."""


class LocalVisitor:
    """Makes them in this process."""

    def __init__(self, fetcher: Fetch, wants: Wants) -> None:
        self._fetcher = fetcher
        self.wants = wants

    def visit(self, visit: Visit, gap_s: float, on_sent: OnSent, on_done: OnDone[Visited]) -> Cancel:
        under_way = _UnderWay(self, visit, on_done)
        under_way.step = self._fetcher.start(self._request(visit, on_sent), under_way.fetched)
        return under_way.cancel

    async def read(self, visit: Visit, result: FetchResult) -> Reading:
        if is_long(visit, result):
            return await asyncio.to_thread(self.read_now, visit, result)  # others are not kept waiting meanwhile
        return self.read_now(visit, result)

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

    def read_now(self, visit: Visit, result: FetchResult) -> Reading:
        """What a body says."""
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


def is_long(visit: Visit, result: FetchResult) -> bool:
    return result.body is not None and len(result.body) > LONG_BODY_BYTES[visit.kind]


class _UnderWay:
    """One visit: fetched, then read. `step` ends whichever of the two it is at."""

    __slots__ = ("_on_done", "_visit", "_visitor", "step")

    def __init__(self, visitor: LocalVisitor, visit: Visit, on_done: OnDone[Visited]) -> None:
        self._visitor = visitor
        self._visit = visit
        self._on_done = on_done
        self.step: Cancel

    def cancel(self) -> None:
        self.step()

    def fetched(self, result: FetchResult | None, error: BaseException | None) -> None:
        self.step = ended
        if result is None:
            self._on_done(None, error)
        elif is_long(self._visit, result):
            self.step = in_task(self._read(result), self._done)
        else:
            self._read_now(result)

    def _read_now(self, result: FetchResult) -> None:
        try:
            visited = Visited(result, self._visitor.read_now(self._visit, result))
        except Exception as error:  # our own fault, which the crawl raises
            self._on_done(None, error)
        else:
            self._on_done(visited, None)

    def _done(self, visited: Visited | None, error: BaseException | None) -> None:
        self.step = ended
        self._on_done(visited, error)

    async def _read(self, result: FetchResult) -> Visited:
        return Visited(result, await self._visitor.read(self._visit, result))
