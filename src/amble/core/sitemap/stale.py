"""Whether a page crawled before is worth another request, from what its sitemap says. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum

from amble.core.sitemap.document import ChangeFreq

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


class Staleness(Enum):
    """Why a page should be fetched again, or that it should not."""

    NEVER_CRAWLED = "never_crawled"
    MODIFIED = "modified"  # lastmod is newer than the crawl
    DUE = "due"  # as old as its changefreq allows
    FRESH = "fresh"


def staleness(
    crawled_at: datetime | None, lastmod: datetime | None, changefreq: ChangeFreq | None, now: datetime
) -> Staleness:
    """The verdict on a page crawled at `crawled_at`. All times are aware."""
    if crawled_at is None:
        return Staleness.NEVER_CRAWLED
    if lastmod is not None and crawled_at < lastmod <= now + _FUTURE_ALLOWED:
        return Staleness.MODIFIED
    age = max(now - crawled_at, timedelta(0))  # a clock that was set back makes nothing fresher
    if age >= timedelta(hours=HOURS_UNTIL_STALE[changefreq]):
        return Staleness.DUE
    return Staleness.FRESH


def is_stale(
    crawled_at: datetime | None, lastmod: datetime | None, changefreq: ChangeFreq | None, now: datetime
) -> bool:
    """Whether to fetch the page again."""
    return staleness(crawled_at, lastmod, changefreq, now) is not Staleness.FRESH
