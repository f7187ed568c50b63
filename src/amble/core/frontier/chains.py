"""Where redirects lead in the end, across URLs that each have a row of their own. Pure."""

from __future__ import annotations

from typing import NamedTuple

REMEMBERED_MAX = 100_000  # redirects; of later ones only the next hop is told


class ChainEnd(NamedTuple):
    """Where the redirects of a URL end, and after how many."""

    url: str
    final_url: str
    redirects: int


class Chains:
    """Every redirect of a crawl, so that the row of its first URL can tell where the last one led."""

    def __init__(self) -> None:
        self._next: dict[str, str] = {}
        self._before: dict[str, list[str]] = {}

    def lead(self, url: str, target: str) -> list[ChainEnd] | None:
        """A URL redirects to another one: where it ends as far as is known, first, and then where all end that led to
        it. None: it leads back to itself."""
        end, redirects = target, 1
        while (following := self._next.get(end)) is not None:
            end, redirects = following, redirects + 1
        if end == url:
            return None
        ends = [ChainEnd(url, end, redirects)]
        if len(self._next) < REMEMBERED_MAX:
            self._next[url] = target
            self._before.setdefault(target, []).append(url)
        for known in ends:  # which grows meanwhile
            ends += [ChainEnd(before, end, known.redirects + 1) for before in self._before.get(known.url, ())]
        return ends
