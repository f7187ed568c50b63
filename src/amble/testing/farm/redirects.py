"""Addresses that lead elsewhere: to a page, to another site, round in circles, or through many doors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from amble.testing.farm.exchange import Request, Response, html, redirect
from amble.testing.farm.faults import numbered
from amble.testing.farm.site import Feature, Site

STATUSES = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class Redirects(Feature):
    """`moved` pages are reached only by way of their old addresses; `away` leads to the site `to`, twice round `loops`.

    A chain of `hops` ends at a page of its own, so that following it through is the only way to get it.
    """

    moved: int = 0
    away: int = 0
    to: str = ""
    loops: int = 0
    hops: int = 0

    def links(self, site: Site, request: Request) -> Iterable[str]:
        chain = [f"/hop/{self.hops}"] if self.hops else []
        return [
            *numbered("/old/", self.moved),
            *numbered("/away/", self.away),
            *numbered("/loop/", self.loops),
            *chain,
        ]

    def paths(self, site: Site) -> Iterable[str]:
        return [*numbered("/new/", self.moved), *(["/hop/0"] if self.hops else [])]

    def answer(self, site: Site, request: Request) -> Response | None:
        _, _, kind_and_number = request.path.partition("/")
        kind, _, number = kind_and_number.partition("/")
        if kind in ("old", "new", "away", "loop", "hop") and number.removesuffix("b").isdigit():
            return self._lead(request, kind, number)
        return None

    def _lead(self, request: Request, kind: str, number: str) -> Response | None:
        if kind == "loop":
            other = number.removesuffix("b") if number.endswith("b") else f"{number}b"
            return redirect(302, f"/loop/{other}")
        if kind == "old":
            return redirect(STATUSES[int(number) % len(STATUSES)], f"/new/{number}")
        if kind == "away":
            return redirect(302, request.url(self.to, "/"))
        if kind == "hop" and int(number):
            return redirect(301, f"/hop/{int(number) - 1}")
        return html(f"<title>Arrived, {kind} {number}</title><p>Here it is now.</p>")
