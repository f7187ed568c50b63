"""One visit, from the request to what its body says: a page, a robots.txt or a sitemap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Protocol

from amble.core.frontier.plan import Reading
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import Kind, Visit
from amble.core.robots.book import robots_url_of
from amble.core.robots.parse import BODY_BYTES_MAX as ROBOTS_BYTES_MAX
from amble.core.robots.policy import Terms, read_policy
from amble.core.sitemap.read import read_sitemap
from amble.fetcher import FetchRequest, FetchResult
from amble.fetcher.calls import Cancel, OnDone, in_task
from amble.workers.errand import LONG_PAGE_BYTES, Errand, Errands, Fetch, OnSent, UnderWay, Visited, Wants, is_success

# Bodies longer than this are read in a thread. Rules of a robots.txt take the longest by the byte.
LONG_BODY_BYTES = {Kind.PAGE: LONG_PAGE_BYTES, Kind.SITEMAP: 200_000, Kind.ROBOTS: 50_000}
SITEMAP_BYTES_MAX = 50 * 1024 * 1024  # sitemaps.org: 50 MB uncompressed


class TaskFetch(ABC):
    """A `Fetch` for those who would rather wait than be called: each request is a task."""

    @abstractmethod
    async def fetch(self, request: FetchRequest) -> FetchResult: ...

    def start(self, request: FetchRequest, on_done: OnDone[FetchResult]) -> Cancel:
        return in_task(self.fetch(request), on_done)


class Visitor(Protocol):
    """Makes visits that have their permit already."""

    def visit(self, visit: Visit, gap_s: float, on_sent: OnSent, on_done: OnDone[Visited]) -> Cancel:
        """Make one; `on_done` is never called before this has returned, save by cancelling. `gap_s` is what it has to
        keep after the one before at its domain. Done without an error and without a result: whoever made it is gone,
        and nobody knows how far it got."""


class LocalVisitor:
    """Makes them in this process."""

    def __init__(self, fetcher: Fetch, settings: VisitSettings, terms: Terms) -> None:
        self.wants = Wants.of(settings, terms.token)
        self._terms = terms
        self._errands = Errands(fetcher, self.wants)

    def visit(self, visit: Visit, gap_s: float, on_sent: OnSent, on_done: OnDone[Visited]) -> Cancel:
        return self._errands.fetch(errand_of(visit), on_sent, self.reading(visit, on_done))

    def reading(self, visit: Visit, on_done: OnDone[Visited]) -> UnderWay:
        """Who reads what a visit brings, whoever fetches it."""
        return UnderWay(partial(self._read, visit), LONG_BODY_BYTES[visit.kind], on_done)

    def _read(self, visit: Visit, result: FetchResult) -> Reading:
        if visit.kind is Kind.PAGE:
            return self._errands.read_page(visit.url, result)
        if result.body is None or not is_success(result):
            return None
        if visit.kind is Kind.ROBOTS:
            return read_policy(result.body, robots_url_of(visit.task), self._terms)
        return read_sitemap(result.body, visit.url, cut=result.truncated)


def errand_of(visit: Visit) -> Errand:
    kind = visit.kind
    if kind is Kind.PAGE:
        return Errand(
            visit.url, True, visit.etag, visit.last_modified, visit.found_on,
            new_connection=visit.new_connection, new_name=visit.new_name, is_redirect=bool(visit.trail),
            header_timeout_s=visit.header_timeout_s, sent_by_private=visit.sent_by_private,
        )  # fmt: skip
    limit = ROBOTS_BYTES_MAX if kind is Kind.ROBOTS else SITEMAP_BYTES_MAX
    # What is over the limit is cut, not let go: rules and lists hold as far as they go [B11].
    return Errand(
        visit.url, False, visit.etag, visit.last_modified, visit.found_on, limit, keep_prefix=True,
        new_connection=visit.new_connection, new_name=visit.new_name, is_redirect=bool(visit.trail),
        header_timeout_s=visit.header_timeout_s, sent_by_private=visit.sent_by_private,
    )  # fmt: skip
