"""What reading a sitemap gives: entries, a verdict on their document, and which pages are due again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from amble.core.urls import Refusal


class SitemapKind(StrEnum):
    """Which of the accepted forms a document has."""

    URLSET = "urlset"
    INDEX = "index"  # its entries are sitemaps, not pages
    RSS = "rss"
    ATOM = "atom"
    TEXT = "text"


class ChangeFreq(StrEnum):
    """How often the site expects a page to change (sitemaps.org, `changefreq`)."""

    ALWAYS = "always"
    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    YEARLY = "yearly"
    NEVER = "never"


class SitemapEntry(NamedTuple):
    """One URL a sitemap lists, normalised, with whatever it validly says about it."""

    url: str
    lastmod: datetime | None = None  # aware, UTC
    changefreq: ChangeFreq | None = None
    priority: float | None = None  # 0 to 1


class Invalid(StrEnum):
    """Why a body is no sitemap at all. The crawl goes on without it."""

    EMPTY = "empty"
    HTML = "html"  # a page where a sitemap should be: an error page, a login
    DOCTYPE = "doctype"  # a document type may define entities, so it is refused unread
    NOT_XML = "not_xml"
    UNKNOWN_ROOT = "unknown_root"
    NO_URLS = "no_urls"  # text without one line that is a URL
    BAD_GZIP = "bad_gzip"
    NESTED_GZIP = "nested_gzip"
    ARCHIVE = "archive"
    BINARY = "binary"


class Drop(StrEnum):
    """Why an entry was not taken, besides the refusals of the URL gate (`amble.core.urls.Refusal`)."""

    NO_URL = "no_url"  # an entry without a location
    DUPLICATE = "duplicate"
    OTHER_SITE = "other_site"  # a sitemap speaks for its own site only
    TOO_MANY_URLS = "too_many_urls"
    TOO_MANY_SITEMAPS = "too_many_sitemaps"
    TOO_DEEP = "too_deep"
    TOO_MANY_BYTES = "too_many_bytes"


DropReason = Drop | Refusal


class ReadLimits(NamedTuple):
    """How much of one sitemap is read. The defaults are the protocol's own limits (sitemaps.org)."""

    entry_count_max: int = 50_000
    body_bytes_max: int = 50 * 1024 * 1024  # decoded


@dataclass(slots=True)
class Verdict:
    """What is known so far about a document under way. See `SitemapDocument` for the fields."""

    kind: SitemapKind | None = None
    invalid: Invalid | None = None
    broken: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether anything more can come of it."""
        return self.invalid is None and self.broken is None


class SitemapDocument(NamedTuple):
    """One sitemap, read. `invalid` means nothing could be taken; `broken` and `truncated` mean not everything."""

    url: str
    kind: SitemapKind | None = None
    entries: tuple[SitemapEntry, ...] = ()
    truncated: bool = False  # a limit of ours cut it
    invalid: Invalid | None = None
    broken: str | None = None  # where the document itself broke off; what came before is kept
    body_bytes: int = 0  # decoded bytes read
    dropped: Mapping[DropReason, int] = MappingProxyType({})

    @property
    def is_none(self) -> bool:
        """Whether it is no sitemap. One without end that lists nothing is none: its site is followed by its links."""
        return self.kind is None or (self.truncated and not self.entries and not self.dropped)


HOURS_UNTIL_STALE = {
    ChangeFreq.ALWAYS: 0,
    ChangeFreq.HOURLY: 1,
    ChangeFreq.DAILY: 24,
    ChangeFreq.WEEKLY: 168,
    ChangeFreq.MONTHLY: 720,
    ChangeFreq.YEARLY: 8760,
    ChangeFreq.NEVER: 87600,
    None: 168,
}

# A page cannot have changed in the future. One day covers time zones left out and clocks that are off; beyond it a
# `lastmod` would make the page stale for ever, so it says nothing.
_FUTURE_ALLOWED = timedelta(days=1)


def is_stale(
    crawled_at: datetime | None, lastmod: datetime | None, changefreq: ChangeFreq | None, now: datetime
) -> bool:
    """Whether to fetch a page again: never crawled, said to have changed since, or due. Times are aware."""
    if crawled_at is None or (lastmod is not None and crawled_at < lastmod <= now + _FUTURE_ALLOWED):
        return True
    age = max(now - crawled_at, timedelta(0))  # a clock that was set back makes nothing fresher
    return age >= timedelta(hours=HOURS_UNTIL_STALE[changefreq])
