"""What pages ask of robots, and that the strictest wish wins."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.page.directives import Directives, read_directives

JUNE_25 = datetime(2010, 6, 25, 15, 0, 0, tzinfo=UTC)


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
    ],
)
def test_the_last_day_of_a_page(date: str) -> None:
    directives = read_directives([f"noarchive, unavailable_after: {date}, nosnippet"], [], "amble")
    assert directives == Directives(frozenset({"noarchive", "nosnippet"}), JUNE_25)
    assert not directives.noindex
    assert not directives.noindex_at(datetime(2010, 6, 25, 14, 59, tzinfo=UTC))
    assert directives.noindex_at(JUNE_25)


def test_of_several_last_days_the_first_counts_and_nonsense_does_not() -> None:
    metas = [
        ("robots", "unavailable_after: 2030-01-01"),
        ("amble", "unavailable_after: 2010-06-25T15:00:00Z"),
        ("robots", "unavailable_after: someday"),
        ("otherbot", "unavailable_after: 2001-01-01"),
    ]
    assert read_directives(["otherbot: unavailable_after: 2002-01-01"], metas, "amble").unavailable_after == JUNE_25


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
