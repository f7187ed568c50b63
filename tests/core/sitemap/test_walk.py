"""Which sitemaps are read, in which order, and whose URLs they may bring."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amble.core.sitemap.document import Drop, SitemapDocument
from amble.core.sitemap.read import read_sitemap
from amble.core.sitemap.walk import SitemapWalk, WalkLimits
from amble.core.urls import Refusal, join
from amble.errors import AmbleError, BadUrl
from tests.core.sitemap.documents import index, locs

ORIGIN = "https://a.example"
Site = dict[str, bytes | str | None]


def walk_through(
    site: Site, robots: list[str] | None = None, origin: str = ORIGIN, limits: WalkLimits | None = None
) -> tuple[SitemapWalk, list[str], list[str]]:
    """Walks a site given as path or URL -> body, redirect target (text), or nothing (404).

    Returns the walk, what was requested, and the URLs admitted.
    """
    pages = {url if "://" in url else origin + url: body for url, body in site.items()}
    walk = SitemapWalk(origin, robots or [], limits=limits or WalkLimits())
    asked: list[str] = []
    urls: list[str] = []
    while (url := walk.next_sitemap()) is not None:
        asked.append(at := url)
        body = pages.get(at)
        while isinstance(body, str) and walk.redirected(url, target := str(join(at, body))):
            asked.append(at := target)
            body = pages.get(at)
        if isinstance(body, bytes):
            urls += [entry.url for entry in walk.settle(url, read_sitemap(body, at))]
        elif body is None:
            walk.failed(url, "http_client_error")
    assert walk.finished
    return walk, asked, urls


def paths(urls: list[str]) -> list[str]:
    """URLs of the origin as paths."""
    return [url.removeprefix(ORIGIN) for url in urls]


STARTS = [
    # story, robots lines, more paths, the first URLs asked when nothing is there
    ("nothing known", [], (), ["/sitemap.xml", "/sitemap_index.xml"]),
    ("more paths", [], ("/sitemap.txt", "/feed"), ["/sitemap.xml", "/sitemap_index.xml", "/sitemap.txt", "/feed"]),
    ("robots lists some", [f"{ORIGIN}/s1.xml", f"{ORIGIN}/s2.xml"], (), ["/s1.xml", "/s2.xml"]),
    ("robots lists one twice", [f"{ORIGIN}/s.xml", f"{ORIGIN}:443/s.xml#x"], (), ["/s.xml"]),
    ("robots lists a path", ["/s.xml"], (), ["/s.xml"]),
    ("robots lists nothing fit to ask", ["file:///s.xml", "ftp://x/s"], (), ["/sitemap.xml", "/sitemap_index.xml"]),
]


@pytest.mark.parametrize(
    ("robots", "more_paths", "expected"), [row[1:] for row in STARTS], ids=[row[0] for row in STARTS]
)
def test_a_walk_starts_where_robots_says_else_at_the_usual_places(
    robots: list[str], more_paths: tuple[str, ...], expected: list[str]
) -> None:
    walk = SitemapWalk(ORIGIN, robots, more_paths=more_paths)
    asked = []
    while (url := walk.next_sitemap()) is not None:
        asked.append(url)
        walk.failed(url, "http_client_error")
    assert paths(asked) == expected
    assert walk.failures == {"http_client_error": len(expected)}
    assert not walk.found


def test_the_second_guess_is_not_asked_where_the_first_was_right() -> None:
    walk, asked, urls = walk_through({"/sitemap.xml": locs("/1"), "/sitemap_index.xml": locs("/2")})
    assert (paths(asked), paths(urls), walk.found) == (["/sitemap.xml"], ["/1"], True)


def test_b14_a_guess_that_finds_a_login_page_is_no_sitemap_and_the_next_is_tried() -> None:
    site: Site = {"/sitemap.xml": b"<!doctype html><title>Log in", "/sitemap_index.xml": index("/s.xml"), "/s.xml": b""}
    walk, asked, urls = walk_through(site)
    assert paths(asked) == ["/sitemap.xml", "/sitemap_index.xml", "/s.xml"]
    assert (urls, walk.failures) == ([], {"sitemap_invalid": 2})


def test_indexes_are_read_breadth_first() -> None:
    site: Site = {
        "/sitemap.xml": index("/i1.xml", "/s3.xml"),
        "/i1.xml": index("/s1.xml", "/s2.xml"),
        "/s1.xml": locs("/1"),
        "/s2.xml": locs("/2"),
        "/s3.xml": locs("/3"),
    }
    walk, asked, urls = walk_through(site)
    assert paths(asked) == ["/sitemap.xml", "/i1.xml", "/s3.xml", "/s1.xml", "/s2.xml"]
    assert paths(urls) == ["/3", "/1", "/2"]
    assert (walk.read_count, walk.url_count) == (5, 3)
    assert walk.body_bytes == sum(len(body) for body in site.values() if isinstance(body, bytes))


LOOPS: list[tuple[str, Site, list[str]]] = [
    ("B9 an index that lists itself", {"/sitemap.xml": index("/sitemap.xml")}, ["/sitemap.xml"]),
    (
        "B9 two that list each other",
        {"/sitemap.xml": index("/b.xml"), "/b.xml": index("/sitemap.xml", "/b.xml")},
        ["/sitemap.xml", "/b.xml"],
    ),
    (
        "B9 one that redirects to the start",
        {"/sitemap.xml": index("/r.xml"), "/r.xml": "/sitemap.xml"},
        ["/sitemap.xml", "/r.xml"],
    ),
    (
        "B9 one that redirects to another in the queue",
        {"/sitemap.xml": index("/r.xml", "/s.xml"), "/r.xml": "/s.xml", "/s.xml": locs("/1")},
        ["/sitemap.xml", "/r.xml", "/s.xml"],
    ),
    ("B9 one that redirects to itself", {"/sitemap.xml": "/sitemap.xml"}, ["/sitemap.xml", "/sitemap_index.xml"]),
    (
        "B9 two that redirect to each other",
        {"/sitemap.xml": index("/x.xml"), "/x.xml": "/y.xml", "/y.xml": "/x.xml"},
        ["/sitemap.xml", "/x.xml", "/y.xml"],
    ),
    (
        "the first guess redirects to the second",
        {"/sitemap.xml": "/sitemap_index.xml", "/sitemap_index.xml": index("/s.xml"), "/s.xml": locs("/1")},
        ["/sitemap.xml", "/sitemap_index.xml", "/s.xml"],
    ),
]


@pytest.mark.parametrize(("site", "expected"), [row[1:] for row in LOOPS], ids=[row[0] for row in LOOPS])
def test_no_sitemap_is_asked_for_twice(site: Site, expected: list[str]) -> None:
    _, asked, _ = walk_through(site)
    assert paths(asked) == expected


def test_a_redirect_that_leads_nowhere_settles_the_sitemap() -> None:
    walk = SitemapWalk(ORIGIN, ["/s.xml"])
    url = walk.next_sitemap()
    assert url is not None
    assert not walk.redirected(url, "file:///etc/passwd")
    assert walk.finished
    assert walk.dropped_sitemaps == {Refusal.NOT_HTTP: 1}


def test_a_document_that_turns_out_to_have_been_read_brings_nothing() -> None:
    walk = SitemapWalk(ORIGIN, ["/1.xml", "/2.xml"])
    first, second = walk.next_sitemap(), walk.next_sitemap()
    assert first is not None
    assert second is not None
    document = read_sitemap(locs("/a"), f"{ORIGIN}/final.xml")
    assert len(walk.settle(first, document)) == 1
    assert walk.settle(second, document) == []
    assert walk.dropped_sitemaps == {Drop.DUPLICATE: 1}


def test_b10_a_tree_without_end_stops_at_its_depth_and_number() -> None:
    walk = SitemapWalk(ORIGIN, limits=WalkLimits(depth_max=3, sitemap_count_max=50))
    made_up = 0
    asked = 0
    while (url := walk.next_sitemap()) is not None:
        asked += 1
        children = [f"/{made_up + number}.xml" for number in range(10)]
        made_up += 10
        walk.settle(url, read_sitemap(index(*children), url))
    assert asked == 50
    assert walk.dropped_sitemaps[Drop.TOO_MANY_SITEMAPS] + walk.dropped_sitemaps[Drop.TOO_DEEP] == made_up + 1 - 50
    assert walk.dropped_sitemaps[Drop.TOO_DEEP] > 0


@pytest.mark.parametrize("depth_max", [1, 2, 3])
def test_b10_depth_counts_from_one(depth_max: int) -> None:
    site: Site = {"/sitemap.xml": index("/2.xml"), "/2.xml": index("/3.xml"), "/3.xml": index("/4.xml")}
    walk, asked, _ = walk_through(site, limits=WalkLimits(depth_max=depth_max))
    assert len(asked) == depth_max
    assert walk.dropped_sitemaps == {Drop.TOO_DEEP: 1}


def test_b10_enough_urls_end_the_walk() -> None:
    site: Site = {
        "/sitemap.xml": index("/1.xml", "/2.xml", "/3.xml"),
        "/1.xml": locs("/a", "/b"),
        "/2.xml": locs("/c", "/d"),
    }
    walk, asked, urls = walk_through(site, limits=WalkLimits(url_count_max=3))
    assert paths(urls) == ["/a", "/b", "/c"]
    assert "/3.xml" not in paths(asked)
    assert walk.dropped_urls == {Drop.TOO_MANY_URLS: 1}
    assert walk.dropped_sitemaps == {Drop.TOO_MANY_URLS: 1}


def test_b10_enough_bytes_end_the_walk() -> None:
    site: Site = {"/sitemap.xml": index("/1.xml", "/2.xml"), "/1.xml": locs("/a"), "/2.xml": locs("/b")}
    walk, asked, _ = walk_through(site, limits=WalkLimits(body_bytes_max=len(index("/1.xml", "/2.xml")) + 1))
    assert paths(asked) == ["/sitemap.xml", "/1.xml"]
    assert walk.dropped_sitemaps == {Drop.TOO_MANY_BYTES: 1}


CDN_SITEMAP, CDN_INDEX = "https://cdn.test/s.xml", "https://cdn.test/i.xml"

WHOSE = [
    # story, origin, robots, entry, admitted
    ("the same host", "https://a.example", [], "https://a.example/p", True),
    ("with www", "https://a.example", [], "https://www.a.example/p", True),
    ("without www", "https://www.a.example", [], "https://a.example/p", True),
    ("another host of the site", "https://a.example", [], "https://shop.a.example/p", True),
    ("another scheme", "https://a.example", [], "http://a.example/p", True),
    ("another port of the site", "https://a.example", [], "https://a.example:8443/p", True),
    ("another site", "https://a.example", [], "https://b.example/p", False),
    ("a name that ends alike", "https://a.example", [], "https://evil-a.example/p", False),
    ("a neighbour under a public suffix", "https://a.github.io", [], "https://b.github.io/p", False),
    ("a private address", "https://a.example", [], "http://10.0.0.1/p", False),
    ("the metadata service", "https://a.example", [], "http://169.254.169.254/latest", False),
    ("this machine", "https://a.example", [], "http://localhost/p", False),
    ("the same address", "http://127.0.0.1:8000", [], "http://127.0.0.1:8000/p", True),
    ("the same address, another port", "http://127.0.0.1:8000", [], "http://127.0.0.1:8001/p", False),
    ("another address of the network", "http://10.0.0.1", [], "http://10.0.0.2/p", False),
    ("named by robots, its own URL", "https://a.example", [CDN_SITEMAP], "https://a.example/p", True),
    ("named by robots, the stranger's URL", "https://a.example", [CDN_SITEMAP], "https://cdn.test/p", False),
]


@pytest.mark.parametrize(
    ("origin", "robots", "entry", "admitted"), [row[1:] for row in WHOSE], ids=[row[0] for row in WHOSE]
)
def test_b12_a_sitemap_speaks_for_its_own_site_only(origin: str, robots: list[str], entry: str, admitted: bool) -> None:
    at = robots[0] if robots else "/sitemap.xml"
    walk, _, urls = walk_through({at: locs(entry)}, robots, origin)
    assert urls == ([entry] if admitted else [])
    assert walk.dropped_urls == ({} if admitted else {Drop.OTHER_SITE: 1})


CHILDREN = [
    # story, robots, index at, child, asked
    ("the own host", [], "/sitemap.xml", f"{ORIGIN}/s.xml", True),
    ("another host of the site", [], "/sitemap.xml", "https://static.a.example/s.xml", True),
    ("a stranger", [], "/sitemap.xml", "https://victim.test/s.xml", False),
    ("a private address", [], "/sitemap.xml", "http://192.168.0.1/s.xml", False),
    ("beside an index that robots named", [CDN_INDEX], CDN_INDEX, "https://cdn.test/s.xml", True),
    ("back home from one", [CDN_INDEX], CDN_INDEX, f"{ORIGIN}/s.xml", True),
    ("on to a stranger from one", [CDN_INDEX], CDN_INDEX, "https://victim.test/s.xml", False),
]


@pytest.mark.parametrize(
    ("robots", "at", "child", "asked"), [row[1:] for row in CHILDREN], ids=[row[0] for row in CHILDREN]
)
def test_b12_an_index_sends_us_to_no_stranger(robots: list[str], at: str, child: str, asked: bool) -> None:
    walk, requests, urls = walk_through({at: index(child), child: locs(f"{ORIGIN}/p")}, robots)
    assert (child in requests) is asked
    assert paths(urls) == (["/p"] if asked else [])
    assert walk.dropped_sitemaps == ({} if asked else {Drop.OTHER_SITE: 1})


def test_a_url_listed_in_two_sitemaps_is_admitted_once() -> None:
    site: Site = {
        "/sitemap.xml": index("/1.xml", "/2.xml"),
        "/1.xml": locs("/a", "/b"),
        "/2.xml": locs("/b", "/c", "/c"),
    }
    walk, _, urls = walk_through(site)
    assert paths(urls) == ["/a", "/b", "/c"]
    assert walk.dropped_urls == {Drop.DUPLICATE: 2}


def test_guesses_wait_for_what_is_under_way() -> None:
    walk = SitemapWalk(ORIGIN)
    first = walk.next_sitemap()
    assert first is not None
    assert walk.next_sitemap() is None
    assert not walk.finished
    walk.failed(first, "network_timeout")
    assert walk.next_sitemap() == f"{ORIGIN}/sitemap_index.xml"


@pytest.mark.parametrize("act", ["settle", "failed", "redirected"])
def test_settling_what_was_not_handed_out_is_a_mistake(act: str) -> None:
    walk = SitemapWalk(ORIGIN)
    url = walk.next_sitemap()
    assert url is not None
    walk.failed(url, "http_client_error")
    acts: dict[str, Callable[[], object]] = {
        "settle": lambda: walk.settle(url, SitemapDocument(url)),
        "failed": lambda: walk.failed(url, "http_client_error"),
        "redirected": lambda: walk.redirected(url, f"{ORIGIN}/x"),
    }
    with pytest.raises(AmbleError, match="not under way"):
        acts[act]()


def test_an_origin_that_is_none_is_a_mistake() -> None:
    with pytest.raises(BadUrl):
        SitemapWalk("a.example")


def test_a_walk_can_be_told_apart_in_a_log() -> None:
    assert repr(SitemapWalk(ORIGIN)) == "<SitemapWalk https://a.example 0 read, 2 waiting, 0 URLs>"


names = st.sampled_from(["/a.xml", "/b.xml", "/c.xml", "/d.xml", "/sitemap.xml", "https://cdn.test/e.xml"])
nodes = st.one_of(
    st.none(),
    names,
    st.lists(names, max_size=6).map(lambda children: index(*children)),
    st.lists(st.sampled_from(["/1", "/2", "https://b.example/3", "ftp://x"]), max_size=4).map(lambda urls: locs(*urls)),
    st.sampled_from([b"", b"<html>", b"<urlset><url><loc>/4</loc>"]),
)


@given(site=st.dictionaries(names, nodes), robots=st.lists(names, max_size=3), count_max=st.integers(1, 8))
@settings(max_examples=300, deadline=None)
def test_b9_b10_every_web_of_sitemaps_ends_and_every_url_is_accounted_for(
    site: Site, robots: list[str], count_max: int
) -> None:
    limits = WalkLimits(sitemap_count_max=count_max, url_count_max=3)
    walk, asked, urls = walk_through(site, robots, limits=limits)
    assert len(asked) == len(set(asked))
    assert len(urls) == len(set(urls)) == walk.url_count <= 3
    assert all(url.startswith(ORIGIN) for url in urls)
    assert walk.read_count + walk.failures.total() <= len(asked)


def test_no_more_sitemaps_are_under_way_than_can_be_taken_in() -> None:
    walk = SitemapWalk(ORIGIN, [f"{ORIGIN}/{number}.xml" for number in range(4)], limits=WalkLimits(under_way_max=2))
    first, second = walk.next_sitemap(), walk.next_sitemap()
    assert (first, second, walk.next_sitemap()) == (f"{ORIGIN}/0.xml", f"{ORIGIN}/1.xml", None)
    assert not walk.finished
    walk.failed(f"{ORIGIN}/1.xml", "gone")
    assert (walk.next_sitemap(), walk.next_sitemap()) == (f"{ORIGIN}/2.xml", None)
