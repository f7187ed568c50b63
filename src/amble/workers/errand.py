"""One errand: a request, and of a page what its body says. All that a worker does; nothing of it needs the crawl.

Light to import: each worker that begins pays for what is imported here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from amble.core.content_type import accepts
from amble.core.headers import Headers
from amble.core.outcome import Failure
from amble.core.page.page import Page, read_page
from amble.fetcher import FetchRequest, FetchResult
from amble.fetcher.calls import Cancel, OnDone, ended, in_task

if TYPE_CHECKING:
    from amble.core.frontier.plan import Reading
    from amble.core.frontier.settings import VisitSettings

LONG_PAGE_BYTES = 500_000  # what is longer is read in a thread

OnSent = Callable[[float], None]  # told the monotonic instant at which the request was written


class Fetch(Protocol):
    """Whatever fetches: libcurl, or the simulator's web."""

    def start(self, request: FetchRequest, on_done: OnDone[FetchResult]) -> Cancel:
        """Make one request; `on_done` is never called before this has returned, save by cancelling."""


class Wants(NamedTuple):
    """What a crawl wants of every page."""

    token: str  # the product token that robots directives may address
    max_links: int
    accept: tuple[str, ...] = ()
    reject: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: VisitSettings, token: str) -> Wants:
        return cls(token, settings.max_links_per_page, settings.accept_content_types, settings.reject_content_types)


class Errand(NamedTuple):
    """A visit as far as whoever makes it needs to know it. Only pages are read where they are fetched."""

    url: str
    is_page: bool = True
    etag: str | None = None
    last_modified: str | None = None
    found_on: str | None = None
    body_bytes_max: int | None = None  # None: as the settings say
    keep_prefix: bool = False
    new_connection: bool = False
    new_name: bool = False
    is_redirect: bool = False
    header_timeout_s: float | None = None
    sent_by_private: bool = False


class Visited(NamedTuple):
    """What came back, and what it says. The body of a page that was read may be left out."""

    result: FetchResult
    reading: Reading


class Errands:
    """Runs them."""

    def __init__(self, fetcher: Fetch, wants: Wants) -> None:
        self._fetcher = fetcher
        self._wants = wants
        # Where every type is wanted, which it is need not be read.
        self._judge = self._keep_body if wants.accept or wants.reject else None

    def run(self, errand: Errand, on_sent: OnSent, on_done: OnDone[Visited]) -> Cancel:
        """Fetch, and read what is a page."""
        return self.fetch(errand, on_sent, UnderWay(partial(self._read, errand), LONG_PAGE_BYTES, on_done))

    def fetch(self, errand: Errand, on_sent: OnSent, under_way: UnderWay) -> Cancel:
        request = FetchRequest(
            errand.url,
            (),
            errand.etag,
            errand.last_modified,
            self._judge if errand.is_page else None,
            errand.body_bytes_max,
            errand.keep_prefix,
            errand.found_on,
            on_sent,
            errand.new_connection,
            errand.new_name,
            errand.is_redirect,
            errand.header_timeout_s,
            errand.sent_by_private,
        )
        under_way.step = self._fetcher.start(request, under_way.fetched)
        return under_way.cancel

    def _read(self, errand: Errand, result: FetchResult) -> Page | None:
        return self.read_page(errand.url, result) if errand.is_page else None

    def read_page(self, url: str, result: FetchResult) -> Page | None:
        if result.body is None or not is_success(result):
            return None
        wants = self._wants
        return read_page(result.body, url, headers=result.headers, token=wants.token, max_links=wants.max_links)

    def _keep_body(self, status: int, headers: Headers) -> Failure | None:
        wants = self._wants
        if 200 <= status < 300 and not accepts(headers.get_last("content-type"), wants.accept, wants.reject):
            return Failure.CONTENT_TYPE_REJECTED
        return None


def is_success(result: FetchResult) -> bool:
    """Whether there is a body worth reading."""
    return result.failure is None and 200 <= (result.status or 0) < 300


class UnderWay:
    """One visit: fetched, then read, in a thread if it is long. `step` ends whichever of the two it is at."""

    __slots__ = ("_long_bytes", "_on_done", "_read", "step")

    def __init__(self, read: Callable[[FetchResult], Reading], long_bytes: int, on_done: OnDone[Visited]) -> None:
        self._read = read
        self._long_bytes = long_bytes
        self._on_done = on_done
        self.step: Cancel

    def cancel(self) -> None:
        self.step()

    def fetched(self, result: FetchResult | None, error: BaseException | None) -> None:
        self.step = ended
        if result is None:
            self._on_done(None, error)
        elif result.body is not None and len(result.body) > self._long_bytes:
            self.step = in_task(self._read_beside(result), self._done)  # others are not kept waiting meanwhile
        else:
            self._read_now(result)

    def _read_now(self, result: FetchResult) -> None:
        try:
            visited = Visited(result, self._read(result))
        except Exception as error:  # our own fault, which the crawl raises
            self._on_done(None, error)
        else:
            self._on_done(visited, None)

    def _done(self, visited: Visited | None, error: BaseException | None) -> None:
        self.step = ended
        self._on_done(visited, error)

    async def _read_beside(self, result: FetchResult) -> Visited:
        return Visited(result, await asyncio.to_thread(self._read, result))
