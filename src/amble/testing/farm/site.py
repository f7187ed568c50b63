"""A site: everything there is to say about it before anybody asks. Frozen, light and the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from amble.testing.farm.exchange import Request, Response
from amble.testing.farm.limits import Limit
from amble.testing.farm.outages import Outage
from amble.testing.farm.pages import Pages
from amble.testing.farm.robots import Robots
from amble.testing.farm.sitemap import Listed, Sitemap
from amble.testing.lab.servers import LogNormal, Noise

PAGES = Pages()
ALLOW_ALL = Robots()


class Feature:
    """Something a site has besides its pages. Asked before the pages; the first to answer is heard."""

    __slots__ = ()

    def links(self, site: Site, request: Request) -> Iterable[str]:
        """What the home page shows, so that crawlers come here."""
        return ()

    def paths(self, site: Site) -> Iterable[str]:
        """The pages in it that a complete crawl has got in the end."""
        return ()

    def answer(self, site: Site, request: Request) -> Response | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One host of the farm."""

    name: str
    pages: Pages = PAGES
    robots: Robots | None = ALLOW_ALL  # None: there is no such file
    sitemap: Sitemap | None = None
    limit: Limit | None = None
    latency: LogNormal | None = None  # of the service; the network is loopback
    noise: Noise | None = None
    outages: tuple[Outage, ...] = ()
    features: tuple[Feature, ...] = ()
    oracle_s: float | None = None  # what a client needs that knows all of it, where that is more than its parts say
    subdomains: bool = False  # answers to every name below its own, too
    address: str = "127.0.0.1"
    seed: int = 0
    note: str = ""  # its character in a few words, for people

    def paths(self) -> Iterator[str]:
        """Every page that a complete crawl has got in the end, as path and query."""
        every = (self.pages.paths(), *(feature.paths(self) for feature in self.features))
        forbids = self.robots.forbids if self.robots else None
        return (path for paths in every for path in paths if not (forbids and forbids(path)))

    def listed(self) -> Iterator[Listed]:
        """What the sitemap names."""
        for page, path in enumerate(self.pages.paths()):
            yield Listed(path, self.pages.changed_at(page))
        for feature in self.features:
            yield from map(Listed, feature.paths(self))

    def answer(self, request: Request) -> Response | None:
        """What this site says to a request that was let in; None where there is nothing."""
        if request.path == "/robots.txt":
            return self._robots(request)
        for feature in self.features:
            response = feature.answer(self, request)
            if response is not None:
                return response
        response = self.pages.answer(request, self._links(request))
        if response is None and self.sitemap:
            response = self.sitemap.answer(request, self.listed())
        return response

    def _robots(self, request: Request) -> Response | None:
        announced = self.sitemap.path if self.sitemap and self.sitemap.announced else None
        return self.robots.answer(request, announced) if self.robots else None

    def _links(self, request: Request) -> Iterator[str]:
        return (href for feature in self.features for href in feature.links(self, request))
