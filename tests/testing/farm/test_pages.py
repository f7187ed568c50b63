"""Pages are what they claim to be: in size, links, dates, validators and compression."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import pytest
from selectolax.lexbor import LexborHTMLParser

from amble.testing.farm import Pages, Site
from amble.testing.farm.graph import Paged, Tree
from amble.testing.farm.pages import LOGIN

from .helpers import asked, body_of, hrefs

SITE = Site(name="a.test", pages=Pages(40, graph=Tree(6)))


@pytest.mark.parametrize("size_bytes", [5_000, 20_000, 100_000])
def test_a_page_is_about_as_large_as_asked_for(size_bytes: int) -> None:
    site = Site(name="a.test", pages=Pages(1000, size_bytes))
    for path in ("/", site.pages.path(7), site.pages.path(999)):
        assert size_bytes - 600 < len(body_of(asked(site, path))) <= size_bytes


def test_a_page_reads_like_one() -> None:
    page = LexborHTMLParser(body_of(asked(SITE, SITE.pages.path(3))))
    title, described, canonical = (
        page.css_first("title"),
        page.css_first("meta[name=description]"),
        page.css_first("link"),
    )
    assert title is not None
    assert "a.test" in title.text()
    assert described is not None
    assert len(described.attributes["content"] or "") > 40
    assert canonical is not None
    assert canonical.attributes["href"] == "http://a.test:8000" + SITE.pages.path(3)
    assert len(page.css("p")) > 20
    assert page.css("nav a")


def test_every_link_of_a_plain_site_leads_to_one_of_its_pages() -> None:
    known = set(SITE.pages.paths())
    for path in SITE.pages.paths():
        found = hrefs(body_of(asked(SITE, path)))
        assert len(found) > 25
        assert set(found) <= known


def test_the_same_page_twice_is_the_same_and_two_pages_differ() -> None:
    bodies = [body_of(asked(SITE, path)) for path in SITE.pages.paths()]
    assert bodies == [body_of(asked(SITE, path)) for path in SITE.pages.paths()]
    assert len(set(bodies)) == 40


def test_what_is_not_there_is_not_found() -> None:
    assert asked(SITE, "/nothing").status == 404
    assert asked(SITE, LOGIN).status == 404


def test_a_query_that_means_nothing_gives_the_page_with_its_canonical() -> None:
    path = SITE.pages.path(3)
    assert body_of(asked(SITE, f"{path}?ref=x")) == body_of(asked(SITE, path))


LATER, TAG = "Wed, 01 Jan 2031 00:00:00 GMT", '"3.1"'
CONDITIONS = {
    # sent with the request, status
    "nothing known": ({}, 200),
    "the tag we gave": ({"If_None_Match": TAG}, 304),
    "one tag of several, and weak": ({"If_None_Match": f'"x", W/{TAG}'}, 304),
    "any tag": ({"If_None_Match": "*"}, 304),
    "another tag": ({"If_None_Match": '"3.2"'}, 200),
    "a date after the change": ({"If_Modified_Since": LATER}, 304),
    "a date before": ({"If_Modified_Since": "Sun, 31 Dec 2023 00:00:00 GMT"}, 200),
    "a date that is none": ({"If_Modified_Since": "yesterday"}, 200),
    "a date without a zone": ({"If_Modified_Since": "Wed, 01 Jan 2031 00:00:00 -0000"}, 200),
    "a tag that has changed, whatever the date": ({"If_None_Match": '"x"', "If_Modified_Since": LATER}, 200),
}


@pytest.mark.parametrize(("sent", "status"), CONDITIONS.values(), ids=CONDITIONS)
def test_conditional_requests(sent: dict[str, str], status: int) -> None:
    response = asked(SITE, SITE.pages.path(3), **sent)
    assert response.status == status
    assert bool(response.body) == (status == 200)
    assert response.headers["ETag"] == TAG


def test_its_own_date_is_not_modified_since() -> None:
    dated = asked(SITE, "/").headers["Last-Modified"]
    assert asked(SITE, "/", If_Modified_Since=dated).status == 304


def test_without_validators_nothing_is_conditional() -> None:
    site = Site(name="a.test", pages=Pages(5, validators=False))
    response = asked(site, "/", If_None_Match="*", If_Modified_Since=LATER)
    assert response.status == 200
    assert "ETag" not in response.headers


def test_a_new_edition_changes_every_fifth_page_and_no_other() -> None:
    old, new = Pages(20), Pages(20, edition=2)
    changed = [page for page in range(20) if old.body(page, "http://a.test") != new.body(page, "http://a.test")]
    assert changed == [0, 5, 10, 15]
    assert changed == [page for page in range(20) if old.changed_at(page) < new.changed_at(page)]
    assert all(pages.changed_at(page) < datetime.now(UTC) for pages in (old, new) for page in range(20))


def test_compression_is_for_those_who_accept_it() -> None:
    site = Site(name="a.test", pages=Pages(5, compress=True))
    plain, packed = asked(site, "/"), asked(site, "/", Accept_Encoding="br, gzip")
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body_of(packed)) == body_of(plain)
    assert len(body_of(packed)) < len(body_of(plain)) / 2


def test_quirks_are_sprinkled_and_hide_no_page() -> None:
    site = Site(name="a.test", pages=Pages(60, graph=Paged(10), quirks=True))
    pages = {path: LexborHTMLParser(body_of(asked(site, path))) for path in site.pages.paths()}
    noindex = [path for path, page in pages.items() if page.css("meta[name=robots][content=noindex]")]
    nofollow = {node.attributes["href"] for page in pages.values() for node in page.css("a[rel=nofollow]")}
    twice = [node.attributes["href"] for page in pages.values() for node in page.css("a[href*='?ref=']")]
    assert 3 <= len(noindex) <= 10
    assert nofollow == {LOGIN}
    assert asked(site, LOGIN).status == 200
    assert len(twice) > 3
    assert all(asked(site, href or "").status == 200 for href in twice)
