"""What a fetched body says, in one call: bytes and headers in, a `Page` out. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Literal, NamedTuple

from amble.core.body_kind import Kind, kind_of
from amble.core.charset import Charset, decode_body
from amble.core.content_type import parse_mime_type
from amble.core.headers import Headers
from amble.core.page.canonical import Canonical, read_canonical
from amble.core.page.directives import NO_DIRECTIVES, Directives, read_directives
from amble.core.page.lines import LinkLines, page_lines
from amble.core.page.links import Link, LinkList, collect_links
from amble.core.page.markup import Markup, squeeze
from amble.core.page.plain import read_plain
from amble.core.page.refresh import Refresh, read_refresh
from amble.core.urls import Base

MAX_LINKS = 5_000
Reader = Literal["plain", "tree", "tokens"]  # who read the markup
_DESCRIPTION_CHARS_MAX = 4096
_LANG_CHARS_MAX = 64
_FILLS_A_SCREEN = ("text", "links", "lines")


class Page(NamedTuple):
    """What one body says. `text` is None for bytes that are no text; links are resolved and each named once."""

    url: str
    kind: Kind
    content_type: str | None  # the essence, where one was declared
    charset: Charset | None
    text: str | None
    digest: str  # SHA-256 of the raw body, in hex
    title: str | None = None
    description: str | None = None
    lang: str | None = None
    base: str | None = None  # what links are resolved against, where a <base> says so
    canonical: Canonical | None = None
    refresh: Refresh | None = None
    robots: Directives = NO_DIRECTIVES
    links: tuple[Link, ...] = ()
    links_seen: int = 0  # every <a href> and <area href>, kept or not
    links_truncated: bool = False  # there were more than max_links
    links_dropped: tuple[tuple[str, int], ...] = ()  # scheme or reason, how often
    reader: Reader | None = None
    lines: LinkLines | None = None  # of all links, as they are kept; `links` may lack those known already

    def __repr__(self) -> str:
        said = (f"{name}={value!r}" for name, value in self._asdict().items() if name not in _FILLS_A_SCREEN)
        return f"Page({', '.join(said)})"


def read_page(
    body: bytes,
    url: str,
    content_type: str | None = None,
    headers: Headers | Iterable[tuple[str, str]] = (),
    *,
    token: str = "amble",
    max_links: int = MAX_LINKS,
) -> Page:
    """Read a body fetched from `url`, a URL that has passed the gate.

    `content_type` overrides the header of that name; `token` is the product token that robots directives may address.
    """
    headers = headers if isinstance(headers, Headers) else Headers(headers)
    declared = content_type if content_type is not None else headers.get_last("content-type")
    mime = None if declared is None else parse_mime_type(declared)
    kind = kind_of(body, mime)
    text, charset = (None, None) if kind is Kind.BINARY else decode_body(body, mime.charset if mime else None, kind)
    markup, reader = _read_markup(text, max_links) if text is not None and kind is Kind.HTML else (Markup(0), None)
    encoding = charset.encoding if charset is not None else "utf-8"
    page = Base.at(url, encoding)
    base = _base(markup.base, page, encoding)
    found = collect_links(markup.anchors, base, max_links) if markup.anchors else LinkList()
    metas = [(meta["name"], meta["content"]) for meta in markup.metas if "name" in meta]
    canonical = read_canonical(markup.links, headers.get_all("link"), page, base)
    refresh = _refresh(headers.get_all("refresh"), markup.metas, page, base)
    return Page(
        url=url,
        kind=kind,
        content_type=mime.essence if mime else None,
        charset=charset,
        text=text,
        digest=sha256(body).hexdigest(),
        title=markup.title,
        description=_description(metas),
        lang=(markup.lang or "").strip()[:_LANG_CHARS_MAX] or None,
        base=base.url if base is not page else None,
        canonical=canonical,
        refresh=refresh,
        robots=read_directives(headers.get_all("x-robots-tag"), metas, token),
        links=found.links,
        links_seen=markup.anchors_seen,
        links_truncated=found.truncated or markup.left_out,
        links_dropped=found.dropped,
        reader=reader,
        lines=page_lines(found.lines, canonical, refresh),
    )


def _read_markup(text: str, max_links: int) -> tuple[Markup, Reader]:
    anchors_max = 4 * max_links + 1000  # many lead to one URL, or nowhere
    plain = read_plain(text, anchors_max)
    if plain is not None:
        return plain, "plain"
    # The readers of other pages take a while to load, and many a crawl meets none.
    from amble.core.page.guard import is_calm
    from amble.core.page.linear import read_tokens
    from amble.core.page.tree import read_tree

    if is_calm(text):
        return read_tree(text, anchors_max), "tree"
    return read_tokens(text, anchors_max), "tokens"


def _base(href: str | None, page: Base, encoding: str) -> Base:
    """What links are resolved against; a <base> that leads to anything but http(s) is ignored [C8]."""
    if href is None:
        return page
    url = page.join(href)
    return Base.at(url, encoding) if isinstance(url, str) else page


def _description(metas: list[tuple[str, str]]) -> str | None:
    for name, content in metas:
        if name.strip().lower() == "description":
            return squeeze(content, _DESCRIPTION_CHARS_MAX)
    return None


def _refresh(headers: list[str], metas: list[dict[str, str]], page: Base, base: Base) -> Refresh | None:
    for value in headers:
        if found := read_refresh(value, page, page):
            return found
    for meta in metas:
        is_refresh = "http-equiv" in meta and meta["http-equiv"].lower() == "refresh"
        if is_refresh and (found := read_refresh(meta["content"], page, base)):
            return found
    return None
