"""Which elements of a sitemap, an index or a feed carry what: one table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from amble.core.sitemap.document import SitemapKind

LINK = "<link>"  # the address is in an attribute: <link rel="alternate" href="...">


class Dialect(NamedTuple):
    """The element that holds one entry, and what its children mean. Names are lower case, without namespace prefix."""

    kind: SitemapKind
    entry: str
    fields: Mapping[str, str]  # child element -> what its text is


_URLSET = Dialect(
    SitemapKind.URLSET,
    "url",
    {"loc": "loc", "lastmod": "lastmod", "changefreq": "changefreq", "priority": "priority"},
)
_INDEX = Dialect(SitemapKind.INDEX, "sitemap", {"loc": "loc", "lastmod": "lastmod"})
_RSS = Dialect(
    SitemapKind.RSS,
    "item",
    {"link": "loc", "guid": "guid", "pubdate": "lastmod", "dc:date": "published"},
)
_ATOM = Dialect(
    SitemapKind.ATOM,
    "entry",
    # `modified` and `issued` are Atom 0.3
    {"link": LINK, "updated": "lastmod", "modified": "lastmod", "published": "published", "issued": "published"},
)

DIALECTS: Mapping[str, Dialect] = {
    "urlset": _URLSET,
    "sitemapindex": _INDEX,
    "rss": _RSS,
    "rdf": _RSS,  # RSS 0.90 and 1.0
    "feed": _ATOM,
}
