"""The links of a page as lines of text, as they are kept: URL, rel and text of each, between tabs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from amble.core.page.canonical import Canonical
from amble.core.page.refresh import Refresh
from amble.core.text import SHORT_CHARS_MAX, breaks, line_part

CANONICAL, REFRESH = "canonical", "refresh"  # what is kept beside the links of a page, as the `rel` of one


class LinkLines(NamedTuple):
    """How many links, and a line for each."""

    links_count: int = 0
    text: str = ""


def link_lines(
    links: Sequence[tuple[str, str, tuple[str, ...]]], canonical: Canonical | None, refresh: Refresh | None
) -> LinkLines:
    """Where a page leads: its links, and as if they were some, its canonical URL and its refresh."""
    if canonical is not None:
        links = (*links, (canonical.url, "", (CANONICAL,)))
    if refresh is not None:
        links = (*links, (refresh.url, "", (REFRESH,)))
    lines = [f"{url}\t{' '.join(rel)}\t{text}" if rel else f"{url}\t\t{text}" for url, text, rel in links]
    packed = "\n".join(lines)
    if lines and not _is_sound(packed, lines):
        part, short = line_part, SHORT_CHARS_MAX
        packed = "\n".join(
            f"{part(url)}\t{part(' '.join(rel), short)}\t{part(text, short)}" for url, text, rel in links
        )
    return LinkLines(len(lines), packed)


def _is_sound(packed: str, lines: list[str]) -> bool:
    """Whether links are one line of three short fields each, and all of it can be stored, as for nearly every page."""
    separators = 3 * len(lines) - 1  # two tabs in each line, a break between lines
    return breaks(packed) == separators and len(max(lines, key=len)) <= SHORT_CHARS_MAX
