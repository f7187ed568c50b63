"""What pages ask of robots, and that the strictest wish wins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.page.directives import Directives, read_directives


@pytest.mark.parametrize(
    ("headers", "metas", "restrictions"),
    [
        ([], [], set()),
        (["noindex"], [], {"noindex"}),
        ([" NoIndex , NOFOLLOW"], [], {"noindex", "nofollow"}),
        (["none"], [], {"noindex", "nofollow"}),
        (["all, index, follow"], [], set()),
        (["otherbot: noindex"], [], set()),
        (["amble: noindex"], [], {"noindex"}),
        (["AMBLE: noindex, nofollow"], [], {"noindex", "nofollow"}),
        (["otherbot: noindex, nofollow"], [], set()),  # both are the other robot's
        (["otherbot: noindex, amble: nofollow"], [], {"nofollow"}),
        (["noarchive, otherbot: noindex"], [], {"noarchive"}),
        (["*: noindex"], [], {"noindex"}),
        (["otherbot: noindex", "nofollow"], [], {"nofollow"}),  # each header begins with everyone
        (["max-snippet: 20, noindex, max-image-preview:large"], [], {"noindex"}),
        (["unavailable_after: 25 Jun 2010 15:00:00 UTC, noindex"], [], {"noindex"}),
        ([], [("robots", "noindex")], {"noindex"}),
        ([], [("ROBOTS ", "noindex")], {"noindex"}),
        ([], [("Amble", "nofollow")], {"nofollow"}),
        ([], [("otherbot", "noindex")], set()),
        ([], [("robots", "index"), ("amble", "noindex")], {"noindex"}),
        (["index"], [("robots", "noindex"), ("amble", "index, follow")], {"noindex"}),
        (["nosnippet"], [("robots", "noimageindex, noai")], {"nosnippet", "noimageindex", "noai"}),
        ([], [("robots", "noindex nofollow")], set()),  # not a list: no comma
        ([], [("robots", "")], set()),
    ],
)
def test_restrictions_add_up(headers: list[str], metas: list[tuple[str, str]], restrictions: set[str]) -> None:
    assert read_directives(headers, metas, "amble").restrictions == restrictions


@pytest.mark.parametrize(
    "date",
    [
        "25 Jun 2010 15:00:00 UTC",
        "25 Jun 2010 07:00:00 PST",
        "Fri, 25 Jun 2010 15:00:00 GMT",
        "Friday, 25-Jun-10 15:00:00 UTC",
        "2010-06-25T15:00:00Z",
        "2010-06-25T17:00:00+02:00",
        "2010-06-25 15:00:00",
        "Fri, 2010-06-25T15:00:00Z",
    ],
)
def test_the_comma_in_a_date_ends_no_directive(date: str) -> None:
    directives = read_directives([f"noarchive, unavailable_after: {date}, nosnippet"], [], "amble")
    assert directives == Directives(frozenset({"noarchive", "nosnippet"}))
    assert not directives.noindex


def test_made_up_words_do_not_crowd_out_the_essential_ones() -> None:
    flood = ", ".join(f"no{chr(97 + i % 26)}{chr(97 + i // 26)}x" for i in range(500))
    directives = read_directives([flood, "noindex"], [("robots", "none")], "amble")
    assert directives.noindex
    assert directives.nofollow
    assert len(directives.restrictions) < 40


@given(st.lists(st.text(), max_size=3), st.lists(st.tuples(st.text(), st.text()), max_size=3))
def test_any_text_is_read(headers: list[str], metas: list[tuple[str, str]]) -> None:
    read_directives(headers, metas, "amble")


@given(st.permutations(["noindex", "nofollow", "noarchive", "index", "max-snippet: 3"]))
def test_the_order_of_words_does_not_matter(words: list[str]) -> None:
    assert read_directives([", ".join(words)], [], "amble").restrictions == {"noindex", "nofollow", "noarchive"}
