"""A URL to be fetched: a page, or the robots.txt and sitemaps that are visited for its sake. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

KEPT_CONNECTION_BROKE = "a kept connection broke"
ASKS_NETWORK = "asked whether the network is down"
OTHER_SCHEME = "nobody answered with the other scheme"


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
    """One URL with its place in the crawl.

    The redirect of a page makes a new task; that of a robots.txt or a sitemap still answers for the same one.
    """

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
    new_connection: bool = False  # no kept connection may serve this request: one has just broken under it
    new_name: bool = False  # the host's addresses are asked for anew
    asks_network: bool = False  # made now, and so, to find out whether anybody answers; see `inquiry`
    sent_by_private: bool = False  # the last redirect here came from a private address
    asks_other_scheme: bool = False  # only to say what to check where nobody answers
    late: bool = False  # a guess at a sitemap, for which no page waits
    spared: int = (
        0  # requests that cost it no try; never more than tries, so that it is asked for twice as often at most
    )
    header_timeout_s: float | None = None  # how long this try waits for headers; None: as the settings say

    @property
    def first_url(self) -> str:
        """Where the chain of redirects began."""
        return self.trail[0] if self.trail else self.url

    def timed(self, header_timeout_s: float | None) -> Visit:
        """The same with the time that this try has. It is the last field: `_replace` takes three times as long."""
        return tuple.__new__(Visit, (*self[:-1], header_timeout_s))

    def redirected_to(self, url: str, found_on: str, by_private: bool) -> Visit:
        """The next hop, built from nothing but the target: no validator or attempt crosses over."""
        return self._replace(
            url=url, trail=(*self.trail, self.url), found_on=found_on, attempt=1, etag=None, last_modified=None,
            new_connection=False, new_name=False, asks_network=False, sent_by_private=by_private, spared=0,
        )  # fmt: skip

    @property
    def is_conditional(self) -> bool:
        return self.etag is not None or self.last_modified is not None

    def again(self, *, new_name: bool = False) -> Visit:
        """The next attempt, over whatever connection there is."""
        return self._replace(attempt=self.attempt + 1, new_connection=False, new_name=new_name, asks_network=False)

    def over_new_connection(self) -> Visit:
        """The same attempt once more: a kept connection broke under it before anything of an answer came."""
        return self._replace(new_connection=True, spared=self.spared + 1)

    def after_trial(self, *, new_name: bool = False) -> Visit:
        """The same attempt once more: it happened to ask whether its site is back, which was not."""
        return self.again(new_name=new_name)._replace(attempt=self.attempt, spared=self.spared + 1)

    @property
    def why_sent(self) -> str | None:
        """Why this request was made, where it was not for its own sake alone."""
        if self.asks_network:
            return ASKS_NETWORK
        if self.new_connection:
            return KEPT_CONNECTION_BROKE
        return OTHER_SCHEME if self.asks_other_scheme else None
