"""A URL to be fetched: a page, or the robots.txt and sitemaps that are visited for its sake. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    ROBOTS = "robots"
    SITEMAP = "sitemap"
    PAGE = "page"


class FoundBy(StrEnum):
    """How a URL came into the crawl."""

    SEED = "seed"
    LINK = "link"
    SITEMAP = "sitemap"
    CANONICAL = "canonical"


class Visit(NamedTuple):
    """One URL with its place in the crawl. A redirect makes a new visit that still answers for the same task."""

    url: str
    kind: Kind = Kind.PAGE
    depth: int = 0
    attempt: int = 1
    parent: str | None = None
    found_by: FoundBy = FoundBy.SEED
    priority: float = 0.5
    task: str = ""  # the URL whose row this visit writes; for robots.txt and sitemaps, the origin they serve
    trail: tuple[str, ...] = ()  # URLs that redirected here
    found_on: str | None = None  # domain of what led here; None for what the user typed
    etag: str | None = None
    last_modified: str | None = None
    stored: bool = False  # the table holds a success of this URL, which no mere failure to reach it may replace

    @property
    def first_url(self) -> str:
        """Where the chain of redirects began."""
        return self.trail[0] if self.trail else self.url

    def redirected_to(self, url: str, found_on: str) -> Visit:
        """The next hop, built from nothing but the target: no validator or attempt crosses over."""
        return self._replace(
            url=url, trail=(*self.trail, self.url), found_on=found_on, attempt=1, etag=None, last_modified=None
        )

    @property
    def is_conditional(self) -> bool:
        return self.etag is not None or self.last_modified is not None

    def again(self) -> Visit:
        return self._replace(attempt=self.attempt + 1)
