"""That remembering anchors shows in nothing but time, and fills no memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.page.known import KnownAnchors
from amble.core.page.links import Link, collect_links
from amble.core.urls import Base

PAGES = [
    "https://a.test/",
    "https://a.test/dir/page",
    "https://a.test/dir/page?q",
    "https://a.test/dir/sub/other",
    "http://a.test/dir/page",
    "https://a.test:8443/dir/page",
]
ENCODINGS = ["utf-8", "cp1252", "shift_jis"]
HREFS = st.sampled_from(
    [
        *("/x", "/x#y", "/é", "/?é", "//b.test/x", "/\\b.test", "/\t/b.test", "https://b.test/x", "http://b.test/?é"),
        *("x", "x?é", "./x", "../x", "../../x", ".", "..", "..?é", "a:b", "http:x", "https:x", "https:?x", "1:2"),
        *("", "?", "?q=é", "#", "#top", " x", "\n../x", "javascript:x", "mailto:x", "http://["),
    ]
)
ANCHORS = st.lists(st.tuples(HREFS, st.sampled_from(["", "nofollow"]), st.sampled_from(["", "text"])), max_size=6)


@given(st.lists(st.tuples(st.sampled_from(PAGES), st.sampled_from(ENCODINGS), ANCHORS), min_size=2, max_size=6))
def test_what_other_pages_held_changes_nothing(pages: list[tuple[str, str, list[tuple[str, str, str]]]]) -> None:
    """Links that one page taught are those that the next one has: all are what `join` makes of them there."""
    for url, encoding, anchors in pages:
        base = Base.at(url, encoding)
        for href, rel, text in anchors * 2:
            found = collect_links([(href, rel, text)], base, 10)
            joined = base.join(href)
            assert bool(found.links) is not bool(found.dropped)
            assert not found.links or found.links == (Link(str(joined), text, (rel,) if rel else ()),)


PAGE = Base.at("https://a.test/dir/page")
LINK = Link("https://a.test/x", "")


@pytest.mark.parametrize(
    ("href", "place"),
    [
        ("/x", PAGE.origin),
        ("//b.test/x", PAGE.origin),
        ("https://b.test/x", PAGE.origin),
        ("x", PAGE.directory),
        ("../x", PAGE.directory),
        ("", None),
        ("?q", None),
        ("#f", None),
        (" x", None),
        ("https:x", None),
        ("/?é", None),  # on a page in another encoding this is another URL
        ("/" + "x" * 300, None),
    ],
)
def test_an_anchor_is_kept_at_the_place_that_decides_where_it_leads(href: str, place: str | None) -> None:
    known: KnownAnchors[Link] = KnownAnchors(10)
    known.add([], PAGE)
    known.add([((href, "", ""), LINK)], PAGE)
    kept = {each: known.at(each) for each in (PAGE.origin, PAGE.directory, PAGE.url)}
    assert {each for each, anchors in kept.items() if anchors} == ({place} if place else set())


def test_the_first_page_of_a_site_teaches_nothing() -> None:
    known: KnownAnchors[Link] = KnownAnchors(10)
    held = []
    for number in range(3):
        known.add([((f"/{number}", "", ""), LINK)], PAGE)
        held.append(list(known.at(PAGE.origin)))
    assert held == [[], [("/1", "", "")], [("/1", "", ""), ("/2", "", "")]]


def test_when_it_is_full_it_begins_anew() -> None:
    known: KnownAnchors[Link] = KnownAnchors(10)
    held = []
    for number in range(30):
        known.add([((f"/{number}", "", ""), LINK)], PAGE)
        held.append(len(known.at(PAGE.origin)))
    assert held == [*range(10), *range(10), *range(10)]


def test_sites_of_one_page_fill_no_memory() -> None:
    known: KnownAnchors[Link] = KnownAnchors(10)
    for number in range(35):
        known.add([(("/x", "", ""), LINK)], Base.at(f"https://{number}.test/"))
    assert len(known._at) == 5
