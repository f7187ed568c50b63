"""Whether a page crawled before is worth another request, from what its sitemap says. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

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


def is_stale(
    crawled_at: datetime | None, lastmod: datetime | None, changefreq: ChangeFreq | None, now: datetime
) -> bool:
    """Whether to fetch a page again: never crawled, said to have changed since, or due. Times are aware."""
    if crawled_at is None or (lastmod is not None and crawled_at < lastmod <= now + _FUTURE_ALLOWED):
        return True
    age = max(now - crawled_at, timedelta(0))  # a clock that was set back makes nothing fresher
    return age >= timedelta(hours=HOURS_UNTIL_STALE[changefreq])
