"""What two processes of one crawl say to each other: visits one way, what came of them the other. All plain tuples."""

from __future__ import annotations

from collections.abc import Container
from itertools import repeat
from typing import NamedTuple

from amble.core.addresses import AddressPolicy
from amble.core.body_kind import Kind as BodyKind
from amble.core.charset import Charset, CharsetSource
from amble.core.headers import Headers
from amble.core.outcome import Failure
from amble.core.page.canonical import Canonical
from amble.core.page.directives import Directives
from amble.core.page.lines import LinkLines, link_lines
from amble.core.page.links import Link
from amble.core.page.page import Page
from amble.core.page.refresh import Refresh
from amble.fetcher import DnsError, FetcherSettings, FetchResult, Phase, Resolver
from amble.workers.errand import Errand, Visited, Wants
from amble.workers.frames import Item

_REST = FetchResult._fields.index("dns_error") + 1  # from here on numbers, texts and flags, which pass as they are
# Members by their values: asking their classes takes several times as long, and every page does.
_PHASES = {each.value: each for each in Phase}
_KINDS = {each.value: each for each in BodyKind}
_SOURCES = {each.value: each for each in CharsetSource}
_new = tuple.__new__  # makes a Link in half the time of its own `__new__`
# What is said, in the first place of each item: to a worker, and by it.
RUN, GIVE_UP, SEEN, FORGET_FAILURES = range(4)
HELLO, SENT, VISITED, BROKEN = range(4)


class Briefing(NamedTuple):
    """What a worker is told once, pickled: how to fetch and what to read."""

    settings: FetcherSettings
    policy: AddressPolicy
    resolver: Resolver | None
    wants: Wants


def pack_errand(number: int, errand: Errand, gap_s: float) -> Item:
    return RUN, number, gap_s, *errand


def unpack_errand(item: Item) -> tuple[Errand, float]:
    """The errand, and the gap before it."""
    _, _, gap_s, *errand = item
    return Errand(*errand), gap_s


def pack_visited(visited: Visited, seen: Container[int] = ()) -> Item:
    """Pages as they were read, without their bytes; of all else the bytes, to be read by whoever decides.

    All links of a page go as the lines that are kept; one by one only those that may be new, or that say how they are
    meant: of thirty that is one or two. `seen` are hashes of URLs.
    """
    result, reading = visited
    page = _pack_page(reading, seen) if isinstance(reading, Page) else None
    failure, dns_error = result.failure, result.dns_error
    told = (
        result.url,
        result.status,
        tuple(result.headers),
        None if page is not None else result.body,
        failure.value if failure is not None else None,
        result.detail,
        result.phase.value,
        dns_error.value if dns_error is not None else None,
        *result[_REST:],
    )
    return told, page


def unpack_visited(told: Item, page: Item | None) -> Visited:
    url, status, headers, body, failure, detail, phase, dns_error, *rest = told
    result = FetchResult(
        url,
        status,
        Headers(headers),
        body,
        Failure(failure) if failure is not None else None,
        detail,
        _PHASES[phase],
        DnsError(dns_error) if dns_error is not None else None,
        *rest,
    )
    return Visited(result, _unpack_page(page) if page is not None else None)


def _pack_page(page: Page, seen: Container[int]) -> Item:
    charset = page.charset
    links = [link for link in page.links if hash(link.url) not in seen or link.rel]
    return (
        page.url,
        page.kind.value,
        page.content_type,
        (charset.encoding, charset.source.value, charset.mark_bytes) if charset is not None else None,
        page.text,
        page.digest,
        page.title,
        page.description,
        page.lang,
        page.base,
        tuple(page.canonical) if page.canonical is not None else None,
        tuple(page.refresh) if page.refresh is not None else None,
        page.robots.restrictions,
        tuple(zip(*links, strict=True)),  # URLs, texts and rels: three long tuples are packed faster than many
        page.links_seen,
        page.links_truncated,
        page.links_dropped,
        page.reader,
        tuple(page.lines or link_lines(page.links, page.canonical, page.refresh)),
    )


def _unpack_page(packed: Item) -> Page:
    url, kind, content_type, charset, text, digest, title, description, lang, base, canonical, *rest = packed
    refresh, restrictions, links, links_seen, links_truncated, links_dropped, reader, lines = rest
    return Page(
        url=url,
        kind=_KINDS[kind],
        content_type=content_type,
        charset=Charset(charset[0], _SOURCES[charset[1]], charset[2]) if charset is not None else None,
        text=text,
        digest=digest,
        title=title,
        description=description,
        lang=lang,
        base=base,
        canonical=Canonical(*canonical) if canonical is not None else None,
        refresh=Refresh(*refresh) if refresh is not None else None,
        robots=Directives(restrictions),
        links=tuple(map(_new, repeat(Link), zip(*links, strict=True))),
        links_seen=links_seen,
        links_truncated=links_truncated,
        links_dropped=links_dropped,
        reader=reader,
        lines=LinkLines(*lines),
    )
