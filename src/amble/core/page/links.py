"""Which links a page has: resolved, http(s) alone, each once, so many at most [A16, C1]. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from amble.core.page.known import KnownAnchors
from amble.core.page.lines import link_line
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


class LinkList(NamedTuple):
    """The links of a page, whether some were left out, and what was dropped: scheme or reason, and how often."""

    links: tuple[Link, ...] = ()
    truncated: bool = False
    dropped: tuple[tuple[str, int], ...] = ()
    lines: Sequence[str] = ()  # a line for each link, as it is kept


ReadLink = tuple[str, Link, str]  # its URL, the link, its line: what is remembered of an anchor, as it is read once


def collect_links(anchors: Iterable[tuple[str, str, str]], base: Base, links_max: int) -> LinkList:
    """Resolve the anchors (href, rel, text) of a page, in their order. Of several to one URL the first gives the place.

    A URL linked twice, once with `nofollow` and once without, is vouched for: of `rel` only what both say is kept.
    """
    found: dict[str, ReadLink] = {}
    dropped: dict[str, int] = {}
    known, nearby = _KNOWN.at(base.origin), _KNOWN.at(base.directory)
    fresh: list[tuple[tuple[str, str, str], ReadLink]] = []
    for anchor in anchors:
        link = known.get(anchor) or nearby.get(anchor)
        if link is None:
            read = _read(anchor, base)
            if isinstance(read, str):
                dropped[read] = dropped.get(read, 0) + 1
                continue
            link = read
            fresh.append((anchor, link))
        first = found.setdefault(link[0], link)
        if first is not link:
            found[link[0]] = _merged(first, link)
    if fresh:
        _KNOWN.add(fresh, base)
    kept = list(found.values())[:links_max]
    return LinkList(
        tuple([link for _, link, _ in kept]),
        len(found) > links_max,
        tuple(sorted(dropped.items())),
        [line for _, _, line in kept],
    )


_KNOWN: KnownAnchors[ReadLink] = KnownAnchors(20_000)


def _read(anchor: tuple[str, str, str], base: Base) -> ReadLink | str:
    """The link that an anchor is, or why it is none."""
    href, rel, text = anchor
    url = base.join(href)
    if not isinstance(url, str) or (url == base.url and _is_fragment(href)):
        return _why(href, url)
    return _with_line(url, text, _rel(rel) if rel else ())


def _with_line(url: str, text: str, rel: tuple[str, ...]) -> ReadLink:
    # `tuple.__new__` makes a link in half the time of its own `__new__`.
    return url, tuple.__new__(Link, (url, text, rel)), link_line(url, text, rel)


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


def _merged(first: ReadLink, again: ReadLink) -> ReadLink:
    (url, text, rel), (_, other_text, other_rel) = first[1], again[1]
    if (text or not other_text) and not rel:
        return first
    return _with_line(url, text or other_text, tuple(word for word in rel if word in other_rel))


@lru_cache(maxsize=1024)
def _rel_words(rel: str) -> tuple[str, ...]:
    return tuple(sorted(set(rel.lower().split())))


def _rel(rel: str) -> tuple[str, ...]:
    return _rel_words(rel[:_REL_CHARS_MAX])
