"""What an entry's raw fields are worth: a URL through the gate, a date, a frequency, a priority, or nothing. Pure."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from amble.core.sitemap.dates import parse_date
from amble.core.sitemap.document import ChangeFreq, Drop, DropReason, ReadLimits, SitemapEntry
from amble.core.urls import Base, Refusal, normalize

_CHANGEFREQS = {freq.value: freq for freq in ChangeFreq}
_PRIORITY = re.compile(r"\d{1,9}(?:\.\d{0,20})?|\.\d{1,20}", re.ASCII)

# Entries that are dropped cost time too. Past this many times the cap, a document of nothing but duplicates ends.
_OFFERED_PER_ENTRY = 4


class Full(Exception):
    """The cap is reached: the rest of the document is not read."""


class Collector:
    """Takes raw fields one entry at a time."""

    def __init__(self, url: str, limits: ReadLimits) -> None:
        self.dropped: Counter[DropReason] = Counter()
        self.entries: list[SitemapEntry] = []
        self._base = Base.at(_gated(url))
        self._entry_count_max = limits.entry_count_max
        self._seen: set[str] = set()
        self._offers_left = limits.entry_count_max * _OFFERED_PER_ENTRY
        self._origin = self._base.origin
        self._own_host = _own_host(self._base.url)

    def add(
        self, loc: str | None, lastmod: str | None = None, changefreq: str | None = None, priority: str | None = None
    ) -> None:
        """Take one entry. Only its location can cost it its place; any other bad field is just left out [B13]."""
        self._offers_left -= 1
        if self._offers_left < 0:
            raise Full
        if not loc:
            self.dropped[Drop.NO_URL] += 1
            return
        url = self._resolve(loc)
        if isinstance(url, Refusal):
            self.dropped[url] += 1
        elif url in self._seen:
            self.dropped[Drop.DUPLICATE] += 1
        elif len(self.entries) == self._entry_count_max:
            raise Full
        else:
            self._seen.add(url)
            self.entries.append(
                SitemapEntry(
                    url,
                    parse_date(lastmod) if lastmod else None,
                    _CHANGEFREQS.get(changefreq.lower()) if changefreq else None,
                    _priority(priority) if priority else None,
                )
            )

    def names_host(self, text: str) -> bool:
        """Whether text is a whole address: with its scheme, or with this sitemap's own host and the scheme left out."""
        return text[:8].lower().startswith(("http://", "https://")) or self._own_host.match(text) is not None

    def _resolve(self, loc: str) -> str | Refusal:
        if loc.startswith(self._origin):
            path = loc[len(self._origin) :]
            if path[:1] == "/" and path[1:2] not in ("/", "\\"):
                loc = path  # the same URL, and sooner resolved than when its host is read again
        elif not loc.startswith(("https://", "http://")) and self._own_host.match(loc):
            # `www.example.com/a` is meant as an address, although as a reference it would be a file beside the sitemap
            loc = f"//{loc}"
        return self._base.join(loc)


def _gated(url: str) -> str:
    """The sitemap's own URL, normalised. One that is no URL is the caller's mistake and raises in `Base.at`."""
    gated = normalize(url)
    return url if isinstance(gated, Refusal) else gated


def _own_host(url: str) -> re.Pattern[str]:
    """Matches text that starts with the host of `url`, with or without www."""
    host = url.split("/", 3)[2].removeprefix("www.")
    return re.compile(rf"(?:www\.)?{re.escape(host)}(?=[/?#:]|$)", re.IGNORECASE)


@lru_cache(maxsize=256)
def _priority(text: str) -> float | None:
    value = float(text) if _PRIORITY.fullmatch(text) else None
    return value if value is not None and value <= 1 else None
