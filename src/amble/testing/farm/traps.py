"""Sites without end: each page of a trap leads to pages nobody has seen before [C7]."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, urlencode
from zlib import crc32

from amble.testing.farm.exchange import Request, Response, html
from amble.testing.farm.site import Feature, Site

Kind = Literal["calendar", "sessions", "deepening", "relative", "filters", "soft-404", "subdomains"]


def _calendar(site: Site, request: Request) -> list[str]:
    """A month after each month, and one before."""
    year, _, month = request.path.removeprefix("/trap/").partition("-")
    months = (int(year) * 12 + int(month) - 1) if year.isdigit() and month.isdigit() else 2026 * 12
    return [f"/trap/{turn // 12}-{turn % 12 + 1:02}" for turn in (months + 1, months - 1)]


def _sessions(site: Site, request: Request) -> list[str]:
    """A new session in every link, as if nobody had been here before."""
    return [f"/trap/{crc32(f'{request.target} {turn}'.encode()):08x}/page-{turn}" for turn in range(5)]


def _deepening(site: Site, request: Request) -> list[str]:
    """One folder deeper each time."""
    return [f"{request.path.rstrip('/')}/{name}/" for name in ("a", "b")]


def _relative(site: Site, request: Request) -> list[str]:
    """A link meant from the root but written relative, which grows the path."""
    return ["trap/more/", "shop/more/"]


def _filters(site: Site, request: Request) -> list[str]:
    """Every filter can be added to every choice of filters."""
    chosen = dict(parse_qsl(request.query))
    names = [f"f{number}" for number in range(24)]
    return [f"/trap/?{urlencode({**chosen, name: '1'})}" for name in names if name not in chosen]


def _soft_404(site: Site, request: Request) -> list[str]:
    """The same words at any address."""
    return [f"/trap/{crc32(f'{request.path} {turn}'.encode()):x}.html" for turn in range(3)]


def _subdomains(site: Site, request: Request) -> list[str]:
    """A new host for every page."""
    return [request.url(f"{crc32(f'{request.host} {turn}'.encode()):x}.{site.name}", "/trap/") for turn in range(3)]


TRAPS: dict[Kind, Callable[[Site, Request], list[str]]] = {
    "calendar": _calendar,
    "sessions": _sessions,
    "deepening": _deepening,
    "relative": _relative,
    "filters": _filters,
    "soft-404": _soft_404,
    "subdomains": _subdomains,
}


@dataclass(frozen=True, slots=True)
class Trap(Feature):
    """A trap behind the home page. A site with subdomains needs `subdomains=True` to be asked at all."""

    kind: Kind

    def links(self, site: Site, request: Request) -> Iterable[str]:
        return ("/trap/",)

    def answer(self, site: Site, request: Request) -> Response | None:
        if not request.path.startswith("/trap/"):
            return None
        links = "".join(f'<li><a href="{href}">on</a></li>\n' for href in TRAPS[self.kind](site, request))
        title = "Nothing here" if self.kind == "soft-404" else f"{self.kind} at {request.target[-40:]}"
        return html(f"<!doctype html><title>{title}</title>\n<ul>\n{links}</ul>\n")
