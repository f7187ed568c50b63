"""The pages of a site: how many, how large, how they are linked, and when each was last changed."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from html import escape

from amble.testing.farm.exchange import HTML, Request, Response
from amble.testing.farm.graph import Graph, Tree, article_path, page_of
from amble.testing.farm.words import running_text, title_of

TREE = Tree()
FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)
LOGIN = "/account/login"  # where the quirky sites' nofollow links lead
_FOOTER = b'<footer><p>Set in type by <a href="/">the house</a>. All rights observed.</p></footer>\n</body></html>\n'


@dataclass(frozen=True, slots=True)
class Pages:
    """A set of pages, written when they are asked for."""

    count: int = 30
    size_bytes: int = 20_000
    graph: Graph = TREE
    related: int = 20  # links across, to pages that are linked elsewhere too
    quirks: bool = False  # some pages noindex, some links nofollow, some pages linked twice with a canonical
    edition: int = 1  # in the second and later editions every fifth page has changed
    validators: bool = True  # ETag and Last-Modified, and 304 for those who have the page already
    compress: bool = False  # gzip for those who accept it

    def path(self, page: int) -> str:
        return self.graph.path(page, self.count)

    def paths(self) -> Iterator[str]:
        return (self.path(page) for page in range(self.count))

    def version(self, page: int) -> int:
        return self.edition if page % 5 == 0 else 1

    def changed_at(self, page: int) -> datetime:
        """Pages date from all over a year; each edition is a year younger."""
        return FIRST_DAY + timedelta(days=page * 131 % 365 + 366 * (self.version(page) - 1))

    def answer(self, request: Request, links: Iterable[str]) -> Response | None:
        """The page at this path; `links` are further ones that the home page shows."""
        page = page_of(request.target, self.graph, self.count)
        if page is None and request.query:
            page = page_of(request.path, self.graph, self.count)  # a query that means nothing: the same page again
        if page is None:
            return _login() if self.quirks and request.path == LOGIN else None
        headers = {"Content-Type": HTML}
        if self.validators:
            headers |= {"ETag": f'"{page:x}.{self.version(page)}"', "Last-Modified": _http_date(self.changed_at(page))}
            if _has_it(request.headers, headers):
                return Response(304, headers)
        body = self.body(page, request.url(request.host, ""), () if page else links)
        if self.compress and "gzip" in request.headers.get("accept-encoding", ""):
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            body = (gzip.compress(b"".join(body), 1, mtime=0),)
        return Response(200, headers, body)

    def body(self, page: int, origin: str, links: Iterable[str] = ()) -> tuple[bytes | memoryview, ...]:
        top = self._top(page, origin, links).encode()
        text = running_text(self.size_bytes - len(top) - len(_FOOTER), page * 17)
        return (top, *text, _FOOTER)

    def _top(self, page: int, origin: str, links: Iterable[str]) -> str:
        host = origin.partition("://")[2]
        title = f"{title_of(page)}, edition {self.version(page)}"
        noindex = '<meta name="robots" content="noindex">\n' if self.quirks and page % 10 == 9 else ""
        shown = [*map(self.path, self.graph.children(page, self.count)), *links]
        listed = "".join([f'<li><a href="{escape(href)}">{escape(href)}</a></li>\n' for href in shown])
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title} - {host}</title>\n'
            f'<meta name="description" content="{title}: what is known of it at {host}, and where to read on.">\n'
            f'<link rel="canonical" href="{origin}{self.path(page)}">\n{noindex}</head>\n<body>\n'
            f"{_navigation(self.count, self.graph)}<main>\n<h1>{title}</h1>\n<ul>\n{listed}</ul>\n"
            f"<aside>\n{self._related(page)}</aside>\n</main>\n"
        )

    def _related(self, page: int) -> str:
        articles = self.graph.articles(self.count)
        numbers = range(min(self.related, len(articles)))
        found = "".join([_anchor(articles[(page * 37 + n * n * 11 + 1) % len(articles)]) for n in numbers])
        if self.quirks and page % 5 == 3:
            found += f'<a href="/?ref={page}">the house</a>, <a rel="nofollow" href="{LOGIN}">sign in</a>\n'
        return found


@lru_cache(maxsize=50_000)
def _anchor(page: int) -> str:
    return f'<a href="{article_path(page)}">{title_of(page)}</a>,\n'


@lru_cache(maxsize=1024)
def _navigation(count: int, graph: Graph) -> str:
    pages = range(min(count, 8))
    links = "".join(f'<li><a href="{graph.path(page, count)}">{title_of(page)}</a></li>\n' for page in pages)
    return f"<header><nav><ul>\n{links}</ul></nav></header>\n"


@lru_cache(maxsize=4096)
def _http_date(instant: datetime) -> str:
    return format_datetime(instant, usegmt=True)


def _has_it(asked: dict[str, str], ours: dict[str, str]) -> bool:
    """Whether a conditional request names what we have; If-None-Match goes first (RFC 9110 13.2.2)."""
    tags = asked.get("if-none-match")
    if tags is not None:
        return tags.strip() == "*" or ours["ETag"] in (tag.strip().removeprefix("W/") for tag in tags.split(","))
    since = asked.get("if-modified-since")
    if since is None:
        return False
    try:
        return parsedate_to_datetime(ours["Last-Modified"]) <= parsedate_to_datetime(since)
    except (TypeError, ValueError):
        return False  # a date that cannot be read is ignored (RFC 9110 13.1.3)


def _login() -> Response:
    text = '<!doctype html><title>Sign in</title><meta name="robots" content="noindex, nofollow"><h1>Sign in</h1>'
    return Response(200, {"Content-Type": HTML}, (text.encode(),))
