"""Which anchors mean the same on many pages of a site, and what they mean, so that each is read once. Pure.

The pages of a site share their navigation and much of the rest: of forty links on a page a few are new. What is kept
here is bounded, and shows in nothing but time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from amble.core.urls import Base

Anchor = tuple[str, str, str]  # href, rel, text
LinkT = TypeVar("LinkT")

_CHARS_MAX = 300  # longer ones are read, not remembered: a cache must not be a way to fill memory


class KnownAnchors(Generic[LinkT]):
    """Links by the place of their page and the anchor, about so many; when it is full it begins anew."""

    __slots__ = ("_at", "_count", "_count_max")

    def __init__(self, count_max: int) -> None:
        self._at: dict[str, dict[Anchor, LinkT]] = {}
        self._count = 0
        self._count_max = count_max

    def at(self, place: str) -> dict[Anchor, LinkT]:
        """What is known at an origin or in a directory, to be looked into and not to be changed."""
        known = self._at.get(place)
        return {} if known is None else known

    def add(self, links: Iterable[tuple[Anchor, LinkT]], base: Base) -> None:
        """Remember those anchors of a page for which more than this page decides where they lead.

        The first page of a site teaches nothing: there may be no other.
        """
        if self._count >= self._count_max:
            self._at.clear()
            self._count = 0
        if base.origin not in self._at:
            self._at[base.origin] = {}
            self._count += 1
            return
        for anchor, link in links:
            href, rel, text = anchor
            place = _place(href, base)
            if place is not None and len(href) + len(rel) + len(text) <= _CHARS_MAX:
                self._at.setdefault(place, {})[anchor] = link
                self._count += 1


def _place(href: str, base: Base) -> str | None:
    """The part of a page's URL that decides where a link leads (URL Standard 4.4); None: all of it, or its encoding."""
    if not href.isascii():
        return None
    if href.startswith(("/", "https://", "http://")):
        return base.origin
    if (href[:1].isalnum() or href[:1] == ".") and ":" not in href:
        return base.directory
    return None
