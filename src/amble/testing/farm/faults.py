"""Pages that are not there, that fail, that fail only once, that take their time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from amble.testing.farm.exchange import Request, Response, html, not_found
from amble.testing.farm.graph import page_of
from amble.testing.farm.site import Feature, Site


def numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(1, count + 1)]


@dataclass(frozen=True, slots=True)
class Errors(Feature):
    """Links to pages that are gone (404), broken for good (500), or broken at the first try only."""

    missing: int = 0
    broken: int = 0
    flaky: int = 0

    def links(self, site: Site, request: Request) -> Iterable[str]:
        return [*numbered("/missing/", self.missing), *numbered("/broken/", self.broken), *self.paths(site)]

    def paths(self, site: Site) -> Iterable[str]:
        return numbered("/flaky/", self.flaky)

    def answer(self, site: Site, request: Request) -> Response | None:
        if request.path.startswith("/missing/"):
            return not_found()
        if request.path.startswith("/broken/"):
            return html("<h1>Internal error</h1>", 500)
        if not request.path.startswith("/flaky/"):
            return None
        tries = request.memory[request.path] = request.memory.get(request.path, 0) + 1
        return html("<h1>Try again</h1>", 500) if tries == 1 else html("<title>Here after all</title><p>Here.</p>")


@dataclass(frozen=True, slots=True)
class Slow(Feature):
    """Every so many pages, one takes long."""

    every: int
    delay_s: float

    def answer(self, site: Site, request: Request) -> Response | None:
        page = page_of(request.target, site.pages.graph, site.pages.count)
        if not page or page % self.every:
            return None
        response = site.pages.answer(request, ())
        if response is not None:
            response.wait_s += self.delay_s
        return response


@dataclass(frozen=True, slots=True)
class Private(Feature):
    """Pages that the home page links and robots.txt should forbid. They answer whoever asks all the same."""

    count: int = 5
    prefix: str = "/private/"

    def links(self, site: Site, request: Request) -> Iterable[str]:
        return numbered(self.prefix, self.count)

    def answer(self, site: Site, request: Request) -> Response | None:
        return html("<title>Private</title><p>Not for robots.</p>") if request.path.startswith(self.prefix) else None
