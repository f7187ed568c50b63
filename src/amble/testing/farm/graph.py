"""How the pages of a site hang together: which has which path, and which leads to which."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from amble.testing.farm.words import section_of, slug_of

_DIGITS = re.compile(r"[-=](\d{1,9})(?:\.html)?$")  # how every path but the home page's ends


class Graph(Hashable, Protocol):
    """Pages are numbers; 0 is the home page. Every page can be reached from it by `children`."""

    def path(self, page: int, count: int) -> str: ...

    def children(self, page: int, count: int) -> Sequence[int]: ...

    def articles(self, count: int) -> range:
        """The pages whose path is that of an article, whatever the count."""


@lru_cache(maxsize=50_000)
def article_path(page: int) -> str:
    return f"/{section_of(page)}/{slug_of(page)}.html" if page else "/"


@dataclass(frozen=True, slots=True)
class Tree:
    """Each page leads to `breadth` others; the depth follows from the count."""

    breadth: int = 10

    def path(self, page: int, count: int) -> str:
        return article_path(page)

    def children(self, page: int, count: int) -> Sequence[int]:
        first = page * self.breadth + 1
        return range(min(first, count), min(first + self.breadth, count))

    def articles(self, count: int) -> range:
        return range(count)


@dataclass(frozen=True, slots=True)
class Paged:
    """A list in pages, `/list?page=1` and on: each leads to `per_page` articles and to the next page of the list."""

    per_page: int = 20

    def lists(self, count: int) -> int:
        """How many of `count` pages are pages of the list: enough to name the rest, less the home page."""
        return -(-(count - 1) // (self.per_page + 1))

    def path(self, page: int, count: int) -> str:
        return f"/list?page={page}" if 0 < page <= self.lists(count) else article_path(page)

    def children(self, page: int, count: int) -> Sequence[int]:
        lists = self.lists(count)
        if page > lists:
            return ()
        following = range(page + 1, min(page + 1, lists) + 1)
        if page == 0:
            return following
        first = lists + 1 + (page - 1) * self.per_page
        return (*range(min(first, count), min(first + self.per_page, count)), *following)

    def articles(self, count: int) -> range:
        return range(self.lists(count) + 1, count)


def page_of(target: str, graph: Graph, count: int) -> int | None:
    """The page whose path this is."""
    if target == "/":
        return 0
    digits = _DIGITS.search(target)
    page = int(digits[1]) if digits else 0
    return page if 0 < page < count and graph.path(page, count) == target else None
