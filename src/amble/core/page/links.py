"""Which links a page has: resolved, http(s) alone, each once, so many at most [A16, C1]. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from amble.core.urls import Base, Refusal

_REL_CHARS_MAX = 256
_IGNORED_IN_URLS = re.compile(r"[\t\n\r]")
_SCHEME = re.compile(r"[\x00-\x20]*([A-Za-z][A-Za-z0-9+.-]*):")
# The schemes counted by name. A page can make up any number of others.
_SCHEMES = frozenset(
    {"about", "android-app", "blob", "callto", "chrome", "data", "feed", "file", "ftp", "geo", "intent", "irc",
     "itms-apps", "javascript", "magnet", "mailto", "market", "news", "skype", "sms", "ssh", "tel", "tg", "urn",
     "vbscript", "viber", "view-source", "webcal", "whatsapp", "ws", "wss", "xmpp"}
)  # fmt: skip


class Link(NamedTuple):
    """A URL that a page leads to."""

    url: str
    text: str
    rel: tuple[str, ...] = ()  # in lower case, sorted

    @property
    def nofollow(self) -> bool:
        """The author does not vouch for it."""
        return "nofollow" in self.rel

    @property
    def ugc(self) -> bool:
        """Written by a visitor of the site."""
        return "ugc" in self.rel

    @property
    def sponsored(self) -> bool:
        """Paid for."""
        return "sponsored" in self.rel


class LinkList(NamedTuple):
    """The links of a page, whether some were left out, and what was dropped: scheme or reason, and how often."""

    links: tuple[Link, ...]
    truncated: bool
    dropped: tuple[tuple[str, int], ...]


def collect_links(anchors: Iterable[tuple[str, str, str]], base: Base, links_max: int) -> LinkList:
    """Resolve the anchors (href, rel, text) of a page, in their order. Of several to one URL the first gives the place.

    A URL linked twice, once with `nofollow` and once without, is vouched for: of `rel` only what both say is kept.
    """
    found: dict[str, Link] = {}
    resolved: dict[str, str] = {}  # empty: no link, for one of these reasons
    reasons: dict[str, str] = {}
    dropped: Counter[str] = Counter()
    truncated = False
    join, own, new = base.join, base.url, tuple.__new__  # which makes a Link in half the time of its own `__new__`
    for href, rel, text in anchors:
        url = resolved.get(href)
        if url is None:
            joined = join(href)
            if not isinstance(joined, str) or (joined == own and _is_fragment(href)):
                reasons[href], joined = _why(href, joined), ""
            resolved[href] = url = joined
        if not url:
            dropped[reasons[href]] += 1
            continue
        known = found.get(url)
        if known is not None:
            found[url] = _merged(known, rel, text)
        elif len(found) < links_max:
            found[url] = new(Link, (url, text, _rel(rel) if rel else ()))
        else:
            truncated = True
    return LinkList(tuple(found.values()), truncated, tuple(sorted(dropped.items())))


def _is_fragment(href: str) -> bool:
    """Whether a link leads to a place on the page itself."""
    return href.lstrip("\t\n\f\r ").startswith("#")


def _why(href: str, joined: str | Refusal) -> str:
    """Why a link is not one."""
    if isinstance(joined, str):
        return "fragment"
    return _scheme(href) if joined is Refusal.NOT_HTTP else joined.value


def _scheme(href: str) -> str:
    match = _SCHEME.match(_IGNORED_IN_URLS.sub("", href[:256]))
    scheme = match[1].lower() if match else ""
    return scheme if scheme in _SCHEMES else "other"


def _merged(known: Link, rel: str, text: str) -> Link:
    if (known.text or not text) and not known.rel:
        return known
    both = _rel(rel)
    return Link(known.url, known.text or text, tuple(word for word in known.rel if word in both))


@lru_cache(maxsize=1024)
def _rel_words(rel: str) -> tuple[str, ...]:
    return tuple(sorted(set(rel.lower().split())))


def _rel(rel: str) -> tuple[str, ...]:
    return _rel_words(rel[:_REL_CHARS_MAX])
