"""What the store holds of a page crawled before, and whether that is enough for this crawl. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from amble.core.frontier.changes import Fetched
from amble.core.frontier.visit import Kind, Visit
from amble.core.page.links import Link
from amble.core.page.page import Page
from amble.core.sitemap.document import ChangeFreq, SitemapEntry, is_stale

# Visible ASCII with spaces inside, of a length a header may have: what may go back to a server [E4].
_VALIDATOR = re.compile(r"[!-~](?:[ -~]{0,1022}[!-~])?")


class Leads(NamedTuple):
    """Where a page leads, whether it was read just now or earlier."""

    links: Sequence[Link] = ()
    canonical: str | None = None
    refresh: str | None = None
    nofollow: bool = False

    @classmethod
    def of(cls, page: Page) -> Leads:
        return cls(
            page.links,
            page.canonical.url if page.canonical is not None else None,
            page.refresh.url if page.refresh is not None else None,
            page.robots.nofollow,
        )


class Stored(NamedTuple):
    """One page of an earlier crawl that was a success."""

    status: int | None = 200
    crawled_at: datetime | None = None
    etag: str | None = None
    last_modified: str | None = None
    final_url: str | None = None  # where redirects led; None or the URL itself: nowhere else
    leads: Leads = Leads()
    entry: SitemapEntry | None = None  # what an earlier reading of a sitemap said about it


class Recall(NamedTuple):
    """A visit that waits for what the store holds: a page crawled before, or a sitemap read lately."""

    visit: Visit
    entry: SitemapEntry | None = None  # what a sitemap of this crawl says
    fetched: Fetched | None = None  # a 304: the server says that what the store holds still stands

    @property
    def key(self) -> tuple[Kind, str, str]:
        return self.visit.kind, self.visit.task, self.visit.url  # two sites may name the same sitemap


def wants_update(recall: Recall, stored: Stored, utc: datetime) -> bool:
    """Whether a stored page is to be asked for again, where stale ones are updated at all."""
    entry = recall.entry or stored.entry
    if entry is None:
        # No sitemap speaks of it, so nothing but the server can tell; a 304 costs next to nothing.
        return True
    return is_stale(stored.crawled_at, entry.lastmod, entry.changefreq, utc)


def conditional(visit: Visit, url: str, stored: Stored) -> Visit:
    """The visit that asks whether a stored page has changed.

    A validator belongs to the URL that gave it: where redirects led elsewhere, there is none for the first one.
    """
    own = stored.final_url in (None, url)
    return visit._replace(
        stored=True,
        etag=_replayable(stored.etag) if own else None,
        last_modified=_replayable(stored.last_modified) if own else None,
    )


def _replayable(validator: str | None) -> str | None:
    return validator if validator and _VALIDATOR.fullmatch(validator) else None


def listed(url: str, lastmod: datetime | None, changefreq: str | None, priority: float | None) -> SitemapEntry:
    """An entry as a store gives it back."""
    known = changefreq if changefreq in ChangeFreq._value2member_map_ else None
    return SitemapEntry(url, lastmod, ChangeFreq(known) if known else None, priority)
