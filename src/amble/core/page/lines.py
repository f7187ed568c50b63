"""The links of a page as lines of text, as they are kept: URL, rel and text of each, between tabs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from amble.core.page.canonical import Canonical
from amble.core.page.refresh import Refresh
from amble.core.text import SHORT_CHARS_MAX, line_part

CANONICAL, REFRESH = "canonical", "refresh"  # what is kept beside the links of a page, as the `rel` of one


class LinkLines(NamedTuple):
    """How many links, and a line for each."""

    links_count: int = 0
    text: str = ""


def link_line(url: str, text: str, rel: tuple[str, ...]) -> str:
    """One link as a line, every field storable."""
    words = line_part(" ".join(rel), SHORT_CHARS_MAX) if rel else ""
    return f"{line_part(url)}\t{words}\t{line_part(text, SHORT_CHARS_MAX)}"


def page_lines(lines: Sequence[str], canonical: Canonical | None, refresh: Refresh | None) -> LinkLines:
    """Where a page leads: the lines of its links, and as if they were some, its canonical URL and its refresh."""
    if canonical is not None:
        lines = [*lines, link_line(canonical.url, "", (CANONICAL,))]
    if refresh is not None:
        lines = [*lines, link_line(refresh.url, "", (REFRESH,))]
    return LinkLines(len(lines), "\n".join(lines))


def link_lines(
    links: Iterable[tuple[str, str, tuple[str, ...]]], canonical: Canonical | None, refresh: Refresh | None
) -> LinkLines:
    """The same for links whose lines nobody has kept."""
    return page_lines([link_line(*link) for link in links], canonical, refresh)
