"""What a page or a sitemap leads to: which links are followed, which are left out and why, what a budget cuts off."""

from __future__ import annotations

from typing import Any

import pytest

from amble.core.frontier import intake
from amble.core.frontier.changes import Keeps
from amble.core.frontier.visit import FoundBy, Kind
from tests.core.frontier.story import (
    CLOSED,
    DOWN,
    FREE,
    MISSING,
    OK,
    Answers,
    Reply,
    Story,
    moved,
    page,
    sitemap,
)

A = "http://a.test/"
A_ROBOTS, A_SITEMAP = "http://a.test/robots.txt", "http://a.test/sitemap.xml"
NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"


def at(*paths: str) -> list[str]:
    return [f"http://a.test{path}" for path in paths]


def index(*urls: str) -> Reply:
    entries = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return Reply(200, f'<sitemapindex xmlns="{NAMESPACE}">{entries}</sitemapindex>'.encode())


# --- Whether links are followed --------------------------------------------------------------------------------------

SITE: dict[str, Answers] = {A: page("/1"), **dict.fromkeys(at("/1", "/2", "/3"), page("/2"))}


@pytest.mark.parametrize(
    ("why", "seed", "sitemap_answer", "wanted", "visited"),
    [
        ("a site without a sitemap is followed", A, MISSING, {}, ["/", "/1", "/2"]),
        ("a site with one is not", A, sitemap(*at("/3")), {}, ["/", "/3"]),
        ("unless told to", A, sitemap(*at("/3")), {"follow_links": True}, ["/", "/1", "/2", "/3"]),
        ("told not to, it is not", A, MISSING, {"follow_links": False}, ["/"]),
        ("a sitemap is read even so", A, sitemap(*at("/3")), {"follow_links": False}, ["/", "/3"]),
        ("an empty sitemap is a sitemap", A, sitemap(), {}, ["/"]),
        ("a page that calls itself one is none", A, page("/9"), {}, ["/", "/1", "/2"]),
        ("a page is a page, not its site", f"{A}1", sitemap(*at("/3")), {}, ["/1"]),
        ("unless the site is asked for", f"{A}1", sitemap(*at("/3")), {"discover": True}, ["/1", "/3"]),
        ("and followed where it has no sitemap", f"{A}1", MISSING, {"discover": True}, ["/1", "/2"]),
        ("a page is followed when told to", f"{A}1", sitemap(*at("/3")), {"follow_links": True}, ["/1", "/2"]),
        ("a site need not be discovered", A, sitemap(*at("/3")), {"discover": False}, ["/"]),
    ],
)  # fmt: skip
def test_follow_links_and_discover(
    why: str, seed: str, sitemap_answer: Reply, wanted: dict[str, Any], visited: list[str]
) -> None:
    story = Story([seed], SITE | {A_SITEMAP: sitemap_answer}, **wanted).run()
    assert sorted(story.urls(Kind.PAGE)) == sorted(at(*visited))
    assert set(story.ends().values()) == {"done"}


@pytest.mark.parametrize("near_max", [0, 3, intake.NEAR_MAX], ids=["none", "few", "as shipped"])
def test_links_kept_at_hand_change_nothing_and_are_few(near_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page has links that others have as well; each is visited once, whichever of the two memories knows it."""
    monkeypatch.setattr(intake, "NEAR_MAX", near_max)
    paths = [f"/{number}" for number in range(40)]
    web: dict[str, Answers] = {url: page("/", *paths[i : i + 6]) for i, url in enumerate([A, *at(*paths)])}
    story = Story([A], web, follow_links=True).run()
    assert sorted(story.urls(Kind.PAGE)) == sorted([A, *at(*paths)])
    assert len(story.plan._near) <= near_max + 7


def test_two_seeds_of_one_domain_have_a_search_each() -> None:
    """http and https share a lane and a pace, but not their sitemaps."""
    web: dict[str, Answers] = {
        A: OK, "https://a.test/": OK, A_SITEMAP: sitemap(f"{A}1"), f"{A}1": OK,
        "https://a.test/sitemap.xml": sitemap("https://a.test/2"), "https://a.test/2": OK,
    }  # fmt: skip
    story = Story([A, "https://a.test/"], web).run()
    assert set(story.finals) == {A, "https://a.test/", f"{A}1", "https://a.test/2"}
    assert set(story.ends().values()) == {"done"}


def test_pages_wait_until_it_is_known_whether_there_is_a_sitemap() -> None:
    story = Story([A], {A: OK, A_SITEMAP: MISSING, f"{A}sitemap_index.xml": MISSING}, took_s=3.0).run()
    assert [asked.visit.kind for asked in story.asked] == [Kind.ROBOTS, Kind.SITEMAP, Kind.SITEMAP, Kind.PAGE]


def test_a_sitemap_at_an_unusual_place_is_found_by_whoever_knows_the_place() -> None:
    web: dict[str, Answers] = {A: OK, f"{A}map.txt": Reply(200, f"{A}1\n".encode()), f"{A}1": OK}
    assert set(Story([A], web).run().finals) == {A}
    story = Story([A], web, sitemap_paths=["/map.txt", "/never.txt"]).run()
    assert story.urls(Kind.SITEMAP) == at("/sitemap.xml", "/sitemap_index.xml", "/map.txt")
    assert set(story.finals) == {A, f"{A}1"}
    named = Story(
        [A], web | {A_ROBOTS: Reply(200, f"Sitemap: {A}map.txt".encode())}, sitemap_paths=["/never.txt"]
    ).run()
    assert named.urls(Kind.SITEMAP) == at("/map.txt"), "robots.txt says where they are"


def test_sitemaps_may_lie_at_another_host_and_are_paced_and_allowed_there() -> None:
    web: dict[str, Answers] = {
        A: OK, A_ROBOTS: Reply(200, b"Sitemap: http://cdn.test/1.xml\nSitemap: http://cdn.test/2.xml\n"),
        "http://cdn.test/1.xml": sitemap(f"{A}1"), "http://cdn.test/2.xml": sitemap(f"{A}2"),
        f"{A}1": OK, f"{A}2": OK,
    }  # fmt: skip
    story = Story([A], web).run()
    assert set(story.finals) == {A, f"{A}1", f"{A}2"}
    assert story.gaps("cdn.test") == [1.0, 1.0]
    assert story.urls(Kind.ROBOTS) == [A_ROBOTS, "http://cdn.test/robots.txt"]
    closed = Story([A], web | {"http://cdn.test/robots.txt": CLOSED}).run()
    assert (set(closed.finals), closed.urls(Kind.SITEMAP)) == ({A}, [])


def test_a_sitemap_may_redirect_but_not_in_circles_b9() -> None:
    web: dict[str, Answers] = {
        A: page("/1"), f"{A}1": OK, A_SITEMAP: moved("/other.xml"), f"{A}other.xml": moved("/sitemap.xml"),
    }  # fmt: skip
    story = Story([A], web).run()
    assert story.urls(Kind.SITEMAP) == at("/sitemap.xml", "/other.xml", "/sitemap_index.xml")
    assert set(story.finals) == {A, f"{A}1"}  # none was found, so links are followed
    fine = Story([A], web | {f"{A}other.xml": sitemap(f"{A}2"), f"{A}2": OK}).run()
    assert set(fine.finals) == {A, f"{A}2"}


@pytest.mark.parametrize("location", ["file:///etc/passwd", "", "gopher://a.test/"])
def test_a_sitemap_that_redirects_nowhere_ends_the_search(location: str) -> None:
    story = Story([A], {A: page("/1"), f"{A}1": OK, A_SITEMAP: moved(location)}).run()
    assert set(story.finals) == {A, f"{A}1"}


def test_what_a_sitemap_may_name_b12() -> None:
    listed = ["http://evil.test/", "http://127.0.0.1/", "file:///etc/passwd", f"{A}1", "http://[::1]/", "javascript:1"]
    story = Story([A], {A: OK, A_SITEMAP: sitemap(*listed), f"{A}1": OK}).run()
    assert set(story.finals) == {A, f"{A}1"}
    assert story.finals[f"{A}1"].visit.found_by is FoundBy.SITEMAP


def test_an_index_is_walked_and_its_pages_have_the_priorities_it_gives() -> None:
    body = "".join(
        f"<url><loc>{A}{n}</loc><priority>{priority}</priority></url>" for n, priority in ((1, 0.1), (2, 1.0), (3, 0.6))
    )
    web: dict[str, Answers] = {
        A: OK, A_SITEMAP: index(f"{A}part.xml"), f"{A}part.xml": Reply(200, f"<urlset>{body}</urlset>".encode()),
        **dict.fromkeys(at("/1", "/2", "/3"), OK),
    }  # fmt: skip
    story = Story([A], web).run()
    assert story.urls(Kind.PAGE) == at("/2", "/3", "/", "/1")


# --- Which links are taken -------------------------------------------------------------------------------------------


def followed(*links: str, head: str = "", seed: str = A, **settings: Any) -> Story:
    return Story([seed], {seed: page(*links, head=head)}, follow_links=True, discover=False, **settings).run()


def test_links_are_taken_once_by_their_one_spelling() -> None:
    story = followed("/1", "/1#a", "http://a.test:80/1", "HTTP://A.test/1", "./1", "/x/../1", A)
    assert set(story.tasks) == {A, f"{A}1"}
    assert story.tasks[f"{A}1"].found_by is FoundBy.LINK
    assert story.tasks[f"{A}1"].depth == 1
    assert (story.tasks[f"{A}1"].parent, story.tasks[f"{A}1"].found_on) == (A, "a.test")


@pytest.mark.parametrize(
    "href",
    ["javascript:alert(1)", "data:text/html,x", "mailto:a@a.test", "blob:http://a.test/1", "about:blank", "vbscript:x",
     "file:///etc/passwd", "ftp://a.test/1", "tel:+1", "ws://a.test/", "http://", "http://a.test:0/", "//", "#x"],
)  # fmt: skip
def test_links_that_are_no_web_pages_are_not_followed_c1(href: str) -> None:
    assert set(followed(href).tasks) == {A}


def test_links_to_other_hosts_are_left_out_and_counted() -> None:
    story = followed("http://b.test/", "http://sub.a.test/", "http://a.test.evil.test/", "/1", "http://www.a.test/2")
    assert set(story.tasks) == {A, f"{A}1", "http://www.a.test/2"}
    assert story.left_out == {"other_host": 3}
    wider = followed("http://b.test/", "http://sub.a.test/", allow_subdomains=True)
    assert set(wider.tasks) == {A, "http://sub.a.test/"}


def test_what_was_found_by_following_links_is_followed_further_where_nobody_looked_for_sitemaps() -> None:
    sub = "http://sub.a.test/"
    web: dict[str, Answers] = {A: page(f"{sub}1"), f"{sub}1": page("2"), f"{sub}2": page("3"), f"{sub}3": OK}
    story = Story([A], web, allow_subdomains=True).run()
    assert set(story.finals) == {A, f"{sub}1", f"{sub}2", f"{sub}3"}
    listed = Story([A], web | {A_SITEMAP: sitemap(f"{sub}1")}, allow_subdomains=True).run()
    assert set(listed.finals) == {A, f"{sub}1"}


def test_a_base_of_another_host_moves_its_links_there_and_out_c8() -> None:
    story = followed("1", "http://a.test/2", head='<base href="http://evil.test/">')
    assert (set(story.tasks), story.left_out) == ({A, f"{A}2"}, {"other_host": 1})
    scripted = followed("1", head='<base href="javascript:/">')
    assert set(scripted.tasks) == {A, f"{A}1"}


def test_the_shapes_of_traps_are_left_out_c7() -> None:
    parameters = "&".join(f"p{n}=1" for n in range(40))
    story = followed("/a/b/a/b/a/b/a/b/a/b", f"/?{parameters}", "/" + "x" * 9_000, "/1")
    assert set(story.tasks) == {A, f"{A}1"}
    assert story.left_out == {"repeated_segments": 1, "too_many_parameters": 1}  # a URL too long is no link at all


def test_no_deeper_than_wanted_and_breadth_first() -> None:
    web: dict[str, Answers] = {
        A: page("/1", "/2"), f"{A}1": page("/1/1"), f"{A}2": page("/2/1"), f"{A}1/1": page("/1/1/1"), f"{A}2/1": OK,
    }  # fmt: skip
    story = Story([A], web, follow_links=True, discover=False, max_crawl_depth=2).run()
    assert story.urls(Kind.PAGE) == at("/", "/1", "/2", "/1/1", "/2/1")
    assert story.left_out == {"too_deep": 1}


@pytest.mark.parametrize(
    ("why", "head", "headers", "links", "wanted", "taken", "left_out"),
    [
        ("a link marked nofollow", "", {}, ['/1" rel="nofollow', "/2"], {}, ["/2"], {"nofollow": 1}),
        ("a page marked nofollow", '<meta name=robots content="nofollow">', {}, ["/1", "/2"], {}, [], {"nofollow": 1}),
        ("for us alone", '<meta name=amble content="nofollow">', {}, ["/1"], {}, [], {"nofollow": 1}),
        ("for another", '<meta name=otherbot content="nofollow">', {}, ["/1"], {}, ["/1"], {}),
        ("by its headers", "", {"X_Robots_Tag": "none"}, ["/1"], {}, [], {"nofollow": 1}),
        ("and none of it respected", '<meta name=robots content="nofollow">', {}, ['/1" rel="nofollow'],
         {"respect_nofollow": False}, ["/1"], {}),
    ],
)  # fmt: skip
def test_nofollow(
    why: str, head: str, headers: dict[str, str], links: list[str], wanted: dict[str, Any], taken: list[str],
    left_out: dict[str, int],
) -> None:  # fmt: skip
    story = Story([A], {A: page(*links, head=head, **headers)}, follow_links=True, discover=False, **wanted).run()
    assert (set(story.tasks), story.left_out) == ({A, *at(*taken)}, left_out)


@pytest.mark.parametrize(
    ("noindex", "keeps"), [("drop_body", Keeps.ROW), ("keep", Keeps.ALL), ("drop_row", Keeps.NOTHING)]
)
def test_what_is_kept_of_a_page_that_asks_not_to_be_indexed(noindex: str, keeps: Keeps) -> None:
    web: dict[str, Answers] = {A: page("/1", head='<meta name=robots content="noindex">'), f"{A}1": OK}
    story = Story([A], web, noindex=noindex).run()
    assert (story.finals[A].keeps, story.finals[f"{A}1"].keeps) == (keeps, Keeps.ALL)  # its links are followed


def test_a_refresh_is_followed_like_a_link_and_ends_c9() -> None:
    """At once or later, to a page, in a circle, to itself, elsewhere: whatever it says, each URL is visited once."""
    refresh = '<meta http-equiv=refresh content="{}">'.format
    targets = {A: "0; url=/b", f"{A}b": "3; url=/c", f"{A}c": "0; url=/"}
    web: dict[str, Answers] = {url: page(head=refresh(content)) for url, content in targets.items()}
    story = Story([A], web, max_crawl_depth=0).run()
    assert story.urls(Kind.PAGE) == at("/", "/b", "/c")
    for content in ("5", "0; url=#top", "0; url=javascript:alert(1)", "0; url=file:///etc/passwd"):
        assert set(Story([A], {A: page(head=refresh(content))}).run().tasks) == {A}
    away = Story([A], {A: page(head=refresh("0; url=http://evil.test/"))}).run()
    assert (set(away.tasks), away.left_out) == ({A}, {"other_host": 1})
    assert set(Story([A], web, follow_links=False).run().tasks) == {A}


# --- Canonical URLs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("why", "canonical", "wanted", "visited"),
    [
        ("not unless asked for", "/c", {"follow_canonical": False}, []),
        ("on the same host", "/c", {}, ["/c"]),
        ("the page itself", "/", {}, []),
        ("another host cannot be spoken for", "http://b.test/c", {}, []),
        ("nor another port", "http://a.test:8080/c", {}, []),
        ("nor a private address", "http://127.0.0.1/c", {}, []),
        ("nor another scheme", "file:///etc/passwd", {}, []),
        ("whether or not links are followed", "/c", {"follow_links": False}, ["/c"]),
    ],
)
def test_the_canonical_url_c8(why: str, canonical: str, wanted: dict[str, Any], visited: list[str]) -> None:
    web: dict[str, Answers] = {A: page(head=f'<link rel=canonical href="{canonical}">'), f"{A}c": OK}
    story = Story([A], web, **{"follow_canonical": True, **wanted}).run()
    assert story.urls(Kind.PAGE) == [A, *at(*visited)]


def test_canonical_urls_that_name_each_other_end_c8() -> None:
    web: dict[str, Answers] = {
        A: page(head='<link rel=canonical href="/b">'), f"{A}b": page(head='<link rel=canonical href="/">'),
    }  # fmt: skip
    story = Story([A], web, follow_canonical=True).run()
    assert story.urls(Kind.PAGE) == [A, f"{A}b"]
    assert (story.tasks[f"{A}b"].found_by, story.tasks[f"{A}b"].depth) == (FoundBy.CANONICAL, 0)


# --- Budgets ---------------------------------------------------------------------------------------------------------


def test_a_budget_of_pages_cuts_off_the_rest_and_says_so_c7() -> None:
    links = [f"/{number}" for number in range(20)]
    web: dict[str, Answers] = {A: page(*links), **dict.fromkeys(at(*links), OK)}
    story = Story([A], web, max_crawl_pages=5).run()
    assert (len(story.finals), story.left_out) == (5, {"max_crawl_pages": 16})


def test_a_budget_per_domain_leaves_the_other_domains_theirs_c7() -> None:
    links = [f"/{number}" for number in range(20)]
    web: dict[str, Answers] = {A: page(*links), "http://b.test/": page("/1", "/2")}
    web |= dict.fromkeys([*at(*links), "http://b.test/1", "http://b.test/2"], OK)
    story = Story([A, "http://b.test/"], web, max_pages_per_domain=4, follow_links=True).run()
    assert sum(task.startswith(A) for task in story.finals) == 4
    assert sum(task.startswith("http://b.test/") for task in story.finals) == 3
    assert story.left_out == {"max_pages_per_domain": 17}


def test_seeds_and_sitemaps_have_the_same_budget() -> None:
    seeds = at(*(f"/{number}" for number in range(10)))
    story = Story(seeds, dict.fromkeys(seeds, OK), max_crawl_pages=3).run()
    assert (len(story.finals), story.left_out) == (3, {"max_crawl_pages": 7})
    story = Story([A], {A: OK, A_SITEMAP: sitemap(*seeds), **dict.fromkeys(seeds, OK)}, max_crawl_pages=3).run()
    assert (len(story.finals), story.left_out) == (3, {"max_crawl_pages": 8})


def test_a_page_that_had_to_be_retried_is_followed_all_the_same() -> None:
    story = Story([A], {A_ROBOTS: FREE, A: [DOWN, page("/1")], f"{A}1": OK}).run()
    assert story.ends() == {A: "done", f"{A}1": "done"}
