"""A site's sitemap: one file or an index of several, plain or compressed, with dates."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape

from amble.testing.farm.exchange import Request, Response

_NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


class Listed(NamedTuple):
    """One page in a sitemap."""

    path: str
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Sitemap:
    """How the pages are listed. `announced`: by a line in robots.txt; without it the usual places must be tried."""

    kind: Literal["urlset", "index"] = "urlset"
    compressed: bool = False
    per_file: int = 1000
    lastmod: bool = True
    announced: bool = True

    @property
    def path(self) -> str:
        """Where it begins. An index is not compressed, so that it lies where clients look."""
        if self.kind == "index":
            return "/sitemap_index.xml"
        return "/sitemap.xml.gz" if self.compressed else "/sitemap.xml"

    def answer(self, request: Request, listed: Iterable[Listed]) -> Response | None:
        if self.kind == "urlset":
            return self._file(request, list(listed)) if request.path == self.path else None
        if request.path == self.path:
            return self._index(request, len(list(listed)))
        number = self._number(request.path)
        if number is None:
            return None
        part = list(listed)[(number - 1) * self.per_file : number * self.per_file]
        return self._file(request, part) if part else None

    def _number(self, path: str) -> int | None:
        """Which file of an index this is, counted from 1."""
        name = path.removeprefix("/sitemap-").removesuffix(self._ending)
        return int(name) if name.isdigit() and path == f"/sitemap-{int(name)}{self._ending}" and int(name) else None

    @property
    def _ending(self) -> str:
        return ".xml.gz" if self.compressed else ".xml"

    def _index(self, request: Request, count: int) -> Response:
        files = -(-count // self.per_file)
        entries = "".join(
            f"<sitemap><loc>{escape(request.url(request.host, f'/sitemap-{number}{self._ending}'))}</loc></sitemap>\n"
            for number in range(1, files + 1)
        )
        return _xml(f"<sitemapindex {_NAMESPACE}>\n{entries}</sitemapindex>\n")

    def _file(self, request: Request, listed: list[Listed]) -> Response:
        origin = request.url(request.host, "")
        entries = "".join(f"<url><loc>{escape(origin + one.path)}</loc>{self._date(one)}</url>\n" for one in listed)
        response = _xml(f"<urlset {_NAMESPACE}>\n{entries}</urlset>\n")
        if self.compressed:
            response.headers["Content-Type"] = "application/gzip"
            response.body = (gzip.compress(b"".join(response.body), mtime=0),)
        return response

    def _date(self, one: Listed) -> str:
        return f"<lastmod>{one.changed_at:%Y-%m-%dT%H:%M:%SZ}</lastmod>" if self.lastmod and one.changed_at else ""


def _xml(text: str) -> Response:
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode()
    return Response(200, {"Content-Type": "application/xml"}, (body,))
