"""How links become lines of text that can be kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.page.canonical import Canonical
from amble.core.page.lines import LinkLines, link_lines
from amble.core.page.refresh import Refresh
from amble.core.text import SHORT_CHARS_MAX, line_part

ODD = st.text(st.sampled_from("ab \t\n\v\f\r\x1c\x1f\0\x7f\x85\u2028\u2029\ud800é日"), max_size=4)
Links = list[tuple[str, str, tuple[str, ...]]]


def packed(links: Links) -> str:
    count, lines = link_lines(links, None, None)
    assert count == len(links)
    return lines


def field_by_field(links: Links) -> str:
    part, short = line_part, SHORT_CHARS_MAX
    return "\n".join(f"{part(url)}\t{part(' '.join(rel), short)}\t{part(text, short)}" for url, text, rel in links)


@given(st.lists(st.tuples(ODD, ODD, st.lists(ODD, max_size=2).map(tuple)), min_size=1, max_size=4))
def test_links_are_packed_as_if_each_field_had_been_looked_at(links: Links) -> None:
    """E4."""
    assert packed(links) == field_by_field(links)
    assert packed(links).count("\n") == len(links) - 1
    assert packed(links).count("\t") == 2 * len(links)
    packed(links).encode()


@pytest.mark.parametrize(
    ("links", "lines"),
    [
        ([("https://b.test/", "plain", ())], "https://b.test/\t\tplain"),
        ([("https://b.test/", "", ("nofollow", "ugc"))], "https://b.test/\tnofollow ugc\t"),
        ([("https://b.test/", "é 日", ())], "https://b.test/\t\té 日"),
        ([("https://b.test/", "a\u2028b\x85", ())], "https://b.test/\t\ta b "),
        ([("https://b.test/", "x\n", ())], "https://b.test/\t\tx "),
        ([("https://b.test/", "x" * 2000, ())], "https://b.test/\t\t" + "x" * 1024),
        ([("https://b.test/" + "u" * 2000, "x", ())], "https://b.test/" + "u" * 2000 + "\t\tx"),
    ],
)
def test_links_as_lines(links: Links, lines: str) -> None:
    assert packed(links) == lines


def test_what_a_page_says_of_itself_is_kept_as_if_it_were_a_link() -> None:
    canonical, refresh = Canonical("https://a.test/c", "tag"), Refresh(3, "https://a.test/r")
    lines = "https://b.test/\t\tb\nhttps://a.test/c\tcanonical\t\nhttps://a.test/r\trefresh\t"
    assert link_lines([("https://b.test/", "b", ())], canonical, refresh) == (3, lines)


def test_a_page_without_links_has_no_lines() -> None:
    assert link_lines((), None, None) == LinkLines(0, "")
