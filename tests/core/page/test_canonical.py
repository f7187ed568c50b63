"""The URL a page prefers [C8]."""

from __future__ import annotations

from typing import Literal

import pytest

from amble.core.page.canonical import Canonical, read_canonical
from amble.core.urls import Base

PAGE = Base.at("https://a.test/dir/page")
BASE = Base.at("https://a.test/base/")


@pytest.mark.parametrize(
    ("rel", "href", "url"),
    [
        ("canonical", "x", "https://a.test/base/x"),
        ("canonical", PAGE.url, PAGE.url),
        ("Canonical nofollow", "https://a.test:443/x#y", "https://a.test/x"),
        ("canonical", "http://a.test/x", "http://a.test/x"),
        ("canonical", "https://b.test/x", "https://b.test/x"),
        ("canonical", "https://a.test:8443/x", "https://a.test:8443/x"),
        ("canonical", "https://user:pw@a.test/", "https://a.test/"),
        ("canonical", "javascript:alert(1)", None),
        ("canonical", "ftp://a.test/", None),
        ("canonical", "", None),
        ("canonicals", "x", None),
        ("alternate", "x", None),
    ],
)
def test_the_tag(rel: str, href: str, url: str | None) -> None:
    expected = None if url is None else Canonical(url, "tag")
    assert read_canonical([{"rel": rel, "href": href}], [], PAGE, BASE) == expected


@pytest.mark.parametrize(
    ("header", "url"),
    [
        ('<x>; rel="canonical"', "https://a.test/dir/x"),
        ("</x>;rel=canonical", "https://a.test/x"),
        ('<y>; rel="next", <x>; REL = "prev canonical"', "https://a.test/dir/x"),
        ('<y>; title="a, <z>; rel=canonical"; rel=next, <x>; rel=canonical', "https://a.test/dir/x"),
        ('<y>; rel=next; rel=canonical, <x>; title="\\"," ;rel=canonical', "https://a.test/dir/x"),
        ('<x>; rel="canonical"; anchor="#foo"', None),
        ("<javascript:1>; rel=canonical, <x>; rel=canonical", "https://a.test/dir/x"),
        ("x; rel=canonical", None),
        ("<x", None),
        ("<x>; rel", None),
        ('<x>; rel="canonical', None),
    ],
)
def test_the_header_is_resolved_against_the_page(header: str, url: str | None) -> None:
    expected = None if url is None else Canonical(url, "header")
    assert read_canonical([], [header], PAGE, BASE) == expected


@pytest.mark.parametrize(
    ("href", "url", "source"), [("t", "https://a.test/base/t", "tag"), ("data:x", "https://a.test/h", "header")]
)
def test_the_tag_goes_first_if_it_can_be_used(href: str, url: str, source: Literal["tag", "header"]) -> None:
    found = read_canonical([{"rel": "canonical", "href": href}], ["</h>; rel=canonical"], PAGE, BASE)
    assert found == Canonical(url, source)


@pytest.mark.parametrize("piece", ["<", "<>;", '<x>;a="', '"\\', ";a=b", "<x>; rel=canonical,"])
def test_a_long_header_is_read_at_once(piece: str) -> None:
    read_canonical([], [piece * (1_000_000 // len(piece))], PAGE, PAGE)
