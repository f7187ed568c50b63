"""Which links a page has [A16, C1]."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.page.lines import link_line
from amble.core.page.links import Link, collect_links
from amble.core.page.markup import Anchor
from amble.core.urls import Base

BASE = Base.at("https://a.test/dir/page")


def collect(*hrefs: str, links_max: int = 100) -> list[str]:
    found = collect_links([Anchor(href, "", "") for href in hrefs], BASE, links_max)
    return [link.url for link in found.links]


def test_links_are_resolved_once_each_in_order() -> None:
    assert collect("b", "/a", "b#x", "https://A.test:443/a", "//c.test", "?q", "") == [
        "https://a.test/dir/b",
        "https://a.test/a",
        "https://c.test/",
        "https://a.test/dir/page?q",
        "https://a.test/dir/page",
    ]


def test_places_on_the_page_itself_are_no_links() -> None:
    found = collect_links([Anchor(href, "", "") for href in ("#", "#top", " \n#x")], BASE, 10)
    assert (found.links, found.dropped) == ((), (("fragment", 3),))


def test_other_schemes_are_dropped_and_counted() -> None:
    """C1."""
    hrefs = [
        "javascript:void(0)",
        "JavaScript:void(0)",
        " java\nscript:x",
        "data:text/html,<a>",
        "mailto:a@b",
        "blob:https://a.test/1",
        "about:blank",
        "vbscript:x",
        "file:///etc/passwd",
        "ftp://a.test/",
        "tel:1",
        "made-up:x",
        "other-made-up:x",
        "http://[",
        "http://" + "a" * 10_000,
        "/kept",
    ]
    found = collect_links([Anchor(href, "", "") for href in hrefs], BASE, 100)
    assert [link.url for link in found.links] == ["https://a.test/kept"]
    assert dict(found.dropped) == {
        "javascript": 3,
        "data": 1,
        "mailto": 1,
        "blob": 1,
        "about": 1,
        "vbscript": 1,
        "file": 1,
        "ftp": 1,
        "tel": 1,
        "other": 2,
        "not_a_url": 1,
        "url_too_long": 1,
    }


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        (("nofollow", "a"), ("", "b"), Link("https://a.test/x", "a", ())),
        (("", "a"), ("nofollow", "b"), Link("https://a.test/x", "a", ())),
        (("ugc nofollow", ""), ("NOFOLLOW", "b"), Link("https://a.test/x", "b", ("nofollow",))),
        (("sponsored", ""), ("sponsored", ""), Link("https://a.test/x", "", ("sponsored",))),
    ],
)
def test_a_url_linked_twice_keeps_what_both_say(first: tuple[str, str], second: tuple[str, str], merged: Link) -> None:
    found = collect_links([Anchor("/x", *first), Anchor("/x#y", *second)], BASE, 10)
    assert found.links == (merged,)


def test_rel_is_told_apart() -> None:
    link = collect_links([Anchor("x", " UGC\tnofollow nofollow ", "t")], BASE, 10).links[0]
    assert (link.rel, link.nofollow) == (("nofollow", "ugc"), True)


def test_more_links_than_wanted_are_left_out_and_told() -> None:
    """A16."""
    anchors = [Anchor(f"/{number}", "", "") for number in range(30)]
    assert collect_links(anchors, BASE, 30).truncated is False
    found = collect_links([*anchors, Anchor("/0", "", "again")], BASE, 20)
    assert (len(found.links), found.truncated, found.links[0].text) == (20, True, "again")


@given(st.lists(st.text(), max_size=8), st.integers(0, 4))
def test_any_hrefs_give_at_most_so_many_distinct_http_urls(hrefs: list[str], links_max: int) -> None:
    urls = collect(*hrefs, links_max=links_max)
    assert len(urls) == len(set(urls)) <= links_max
    assert all(url.startswith(("http://", "https://")) and "#" not in url for url in urls)


def test_every_link_has_its_line_whichever_page_it_was_read_on() -> None:
    """Also one that two anchors made, and one that is known from another page."""
    anchors = [
        ("/x", "nofollow", ""),
        ("/x", "ugc nofollow", "again"),
        ("/y", "", "tab\tand\u2028break"),
        ("/z", "", "z"),
    ]
    for _ in range(3):
        found = collect_links(anchors, BASE, 2)
        assert found.lines == [link_line(*link) for link in found.links]
        assert found.lines == ["https://a.test/x\tnofollow\tagain", "https://a.test/y\t\ttab and break"]
