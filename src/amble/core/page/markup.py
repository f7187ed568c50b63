"""What a reader finds in the markup of a page, before anything is resolved or judged. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

TITLE_CHARS_MAX = 4096
ANCHOR_CHARS_MAX = 512


class Anchor(NamedTuple):
    """An `<a href>` or `<area href>` as written."""

    href: str
    rel: str
    text: str


@dataclass(slots=True)
class Markup:
    """Filled by one of the two readers, in the order of the page."""

    anchors_max: int
    anchors: list[tuple[str, str, str]] = field(default_factory=list)  # as in `Anchor`, plain: made for every link
    anchors_seen: int = 0
    left_out: bool = False  # some anchor leads where no kept one does
    metas: list[dict[str, str]] = field(default_factory=list)
    links: list[dict[str, str]] = field(default_factory=list)  # <link rel href>
    base: str | None = None
    title: str | None = None
    lang: str | None = None
    _hrefs: set[str] | None = field(default=None, repr=False)  # of the kept ones, once there are too many

    @property
    def is_full(self) -> bool:
        """Whether further anchors are counted only."""
        return len(self.anchors) >= self.anchors_max

    def add_anchor(self, href: str, rel: str, text: str) -> None:
        """Keep an anchor, or count it when enough are kept [A16]."""
        self.anchors_seen += 1
        if len(self.anchors) < self.anchors_max:
            self.anchors.append((href, rel, text))
        elif not self.left_out:
            if self._hrefs is None:
                self._hrefs = {kept for kept, _, _ in self.anchors}
            self.left_out = href not in self._hrefs

    def add_void(self, name: str, attributes: dict[str, str]) -> None:
        """Keep what a `<base>`, `<link>` or `<meta>` says."""
        if name == "base":
            if self.base is None and "href" in attributes:
                self.base = attributes["href"]  # the first one counts, whatever it holds (HTML 4.2.3)
        elif name == "link":
            if "rel" in attributes and "href" in attributes and len(self.links) < _VOIDS_MAX:
                self.links.append(attributes)
        elif "content" in attributes and len(self.metas) < _VOIDS_MAX:
            self.metas.append(attributes)


_VOIDS_MAX = 1000


def other_href(attributes: Mapping[str, str | None]) -> str | None:
    """Where an anchor without a filled `href` leads: links within drawings have another; None if it has none at all."""
    said = attributes.get("xlink:href")
    return said or ("" if "href" in attributes or "xlink:href" in attributes else None)


def squeeze(text: str, chars_max: int) -> str:
    """Text on one line, white space collapsed, at most so many characters."""
    if len(text) > chars_max:
        return " ".join(text[: 4 * chars_max].split())[:chars_max].rstrip()
    return " ".join(text.split())
