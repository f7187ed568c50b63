"""Redirects are followed by us: every hop a request through gate, scope, robots and pace of its own [D1-D3, L4]."""

from __future__ import annotations

from itertools import pairwise

import pytest

from amble.core.frontier.visit import Kind
from amble.core.outcome import Failure
from tests.core.frontier.story import CLOSED, DOWN, FREE, OK, Answers, Reply, Story, broken, moved, page, sitemap

A, B = "http://a.test/", "http://b.test/"
A_ROBOTS, B_ROBOTS = "http://a.test/robots.txt", "http://b.test/robots.txt"
X, Y = "http://a.test/x", "http://a.test/y"


def chain(hops: int, end: Reply = OK) -> dict[str, Answers]:
    urls = [X, *(f"http://a.test/hop{number}" for number in range(1, hops + 1))]
    web: dict[str, Answers] = {url: moved(to) for url, to in pairwise(urls)}
    return web | {urls[-1]: end}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_every_kind_of_redirect_is_followed(status: int) -> None:
    story = Story([X], {X: moved("/y", status), Y: OK}).run()
    final = story.finals[X]
    assert (final.visit.url, len(final.visit.trail), final.failure) == (Y, 1, None)
    assert (list(story.tasks), story.urls(Kind.PAGE)) == ([X], [X, Y])


@pytest.mark.parametrize("status", [300, 305, 306])
def test_other_statuses_of_the_kind_are_answers(status: int) -> None:
    story = Story([X], {X: moved("/y", status), Y: OK}).run()
    assert (story.urls(Kind.PAGE), story.ends()[X]) == ([X], "done")


def test_ten_hops_are_followed_and_the_row_says_so_d1() -> None:
    story = Story([X], chain(10)).run()
    final = story.finals[X]
    assert (story.ends(), final.visit.task, final.visit.url) == ({X: "done"}, X, "http://a.test/hop10")
    assert final.visit.trail[0] == X
    assert len(final.visit.trail) == 10
    assert set(story.gaps("a.test")) == {1.0}  # every hop was paced


def test_the_eleventh_is_too_many_d1() -> None:
    story = Story([X], chain(100)).run()
    assert (story.end(X), len(story.urls(Kind.PAGE))) == (("failed", "too_many_redirects"), 11)


def test_the_number_of_hops_is_a_setting() -> None:
    assert Story([X], chain(1), max_redirects=0).run().ends() == {X: "too_many_redirects"}
    assert Story([X], chain(12), max_redirects=12).run().ends() == {X: "done"}


@pytest.mark.parametrize(
    ("why", "web"),
    [
        ("to itself", {X: moved(X)}),
        ("to itself with a fragment", {X: moved("#top")}),
        ("there and back", {X: moved(Y, 301), Y: moved(X, 302)}),
        ("round three corners", {X: moved("/y"), Y: moved("/z"), "http://a.test/z": moved("/y")}),
        ("over another scheme and back", {X: moved("https://a.test/x"), "https://a.test/x": moved(X)}),
    ],
)
def test_circles_end_d1(why: str, web: dict[str, Answers]) -> None:
    story = Story([X], web).run()
    assert story.end(X) == ("failed", "too_many_redirects")
    assert len(story.urls(Kind.PAGE)) == len(set(story.urls(Kind.PAGE)))


@pytest.mark.parametrize(
    ("location", "end"),
    [
        ("file:///etc/passwd", ("failed", "out_of_scope")),
        ("ftp://a.test/x", ("failed", "out_of_scope")),
        ("gopher://a.test:70/1", ("failed", "out_of_scope")),
        ("javascript:alert(1)", ("failed", "out_of_scope")),
        ("data:text/html,x", ("failed", "out_of_scope")),
        ("http://", ("failed", "out_of_scope")),
        ("http://a.test:99999/", ("failed", "out_of_scope")),
        ("http://a.test:0/", ("failed", "out_of_scope")),
        ("/" + "x" * 10_000, ("failed", "out_of_scope")),
        ("//evil.test/y", ("skipped", "out_of_scope")),
        ("http://evil.test/y", ("skipped", "out_of_scope")),
        ("http://a.test@evil.test/y", ("skipped", "out_of_scope")),
        ("http://sub.a.test/y", ("skipped", "out_of_scope")),
        ("/a/b/a/b/a/b/a/b/a/b", ("skipped", "out_of_scope")),
        (None, ("failed", "network_protocol_error")),
        ("", ("failed", "network_protocol_error")),
    ],
)
def test_where_a_redirect_must_not_lead_d2_d3(location: str | None, end: tuple[str, str]) -> None:
    story = Story([X], {X: moved(location)}).run()
    assert (story.end(X), story.urls(Kind.PAGE)) == (end, [X])
    assert story.finals[X].fetched is not None  # the row tells of the redirect that was met


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("y", Y),
        ("/y", Y),
        ("//a.test/y", Y),
        ("http:y", Y),
        ("./z/../y", Y),
        ("http://user:secret@a.test/y", Y),
        ("HTTP://A.TEST:80/y#there", Y),
        ("\\\\a.test\\y", Y),
        ("/ü", "http://a.test/%C3%BC"),
        ("/a b", "http://a.test/a%20b"),
        ("?q=1", "http://a.test/x?q=1"),
        ("http://www.a.test/y", "http://www.a.test/y"),
    ],
)
def test_where_a_redirect_leads_d2(location: str, url: str) -> None:
    story = Story([X], {X: moved(location), url: OK}).run()
    assert (story.finals[X].visit.url, story.ends()) == (url, {X: "done"})


@pytest.mark.parametrize(
    ("locations", "end"),
    [((Y, Y), "done"), ((Y, "http://a.test/z"), "network_protocol_error"), ((Y, ""), "network_protocol_error")],
    ids=["the same twice", "two different ones", "one of them empty"],
)
def test_two_locations_d2(locations: tuple[str, str], end: str) -> None:
    answer = Reply(302, b"", tuple(("Location", location) for location in locations))
    assert Story([X], {X: answer, Y: OK}).run().ends() == {X: end}


def test_a_hop_to_another_domain_waits_for_that_domains_robots_and_pace_d1() -> None:
    web: dict[str, Answers] = {
        X: moved("http://b.test/1"), "http://b.test/1": moved("http://b.test/2"), "http://b.test/2": OK,
        B: OK, A_ROBOTS: FREE, B_ROBOTS: FREE,
    }  # fmt: skip
    story = Story([X, B], web, discover=False).run()
    assert story.ends() == {X: "done", B: "done"}
    assert story.gaps("b.test") == [1.0, 1.0, 1.0]
    assert [asked.visit.found_on for asked in story.asked if asked.visit.trail] == ["a.test", "b.test"]


def test_a_hop_that_robots_forbids_at_its_host_is_not_made_l4() -> None:
    story = Story([X, B], {X: moved("http://b.test/1"), B_ROBOTS: CLOSED}, discover=False).run()
    assert story.end(X) == ("skipped", "robots_disallowed")
    assert story.finals[X].visit.trail == (X,)
    assert "http://b.test/1" not in story.urls()


def test_a_hop_counts_as_a_page_of_the_domain_it_leads_to_d3() -> None:
    web: dict[str, Answers] = {f"http://a.test/{n}": moved(f"http://b.test/{n}") for n in range(3)}
    web |= {f"http://b.test/{n}": OK for n in range(3)} | {B: OK}
    story = Story([B, *(f"http://a.test/{n}" for n in range(3))], web, max_pages_per_domain=3, discover=False).run()
    assert [story.end(f"http://a.test/{n}") for n in range(3)] == [
        ("done", None), ("done", None), ("skipped", "out_of_scope"),
    ]  # fmt: skip


def test_nothing_of_a_request_crosses_to_the_next_hop_d8() -> None:
    story = Story([X], {X: [DOWN, DOWN, moved("/y")], Y: OK}).run()
    hop = story.asked[-1].visit
    assert (hop.url, hop.attempt, hop.etag, hop.last_modified) == (Y, 1, None, None)


def test_a_hop_is_retried_like_any_request_without_starting_over() -> None:
    story = Story([X], {X: moved("/y"), Y: [DOWN, OK]}).run()
    assert story.urls(Kind.PAGE) == [X, Y, Y]
    assert (story.ends(), story.finals[X].visit.attempt) == ({X: "done"}, 2)


def test_a_hop_that_fails_ends_the_task_that_began_the_chain() -> None:
    story = Story([X], {X: moved("/y"), Y: broken(Failure.CONTENT_TOO_LARGE)}).run()
    assert story.ends() == {X: "content_too_large"}


def test_a_page_reached_by_a_redirect_is_not_visited_again_for_a_link() -> None:
    story = Story([X], {X: moved("/y"), Y: page("/y", "/x", "/z"), "http://a.test/z": OK}, follow_links=True).run()
    assert story.urls(Kind.PAGE) == [X, Y, "http://a.test/z"]


def test_links_that_redirect_to_a_page_of_the_crawl_do_not_fetch_it_again() -> None:
    """A hundred links behind which there is one login page: it is asked for once."""
    old = [f"/old{number}" for number in range(20)]
    web: dict[str, Answers] = {f"http://a.test{path}": moved("/login") for path in old}
    story = Story([X], web | {X: page(*old), "http://a.test/login": OK}, follow_links=True).run()
    assert len(story.times("http://a.test/login")) == 1
    assert {final.visit.url for task, final in story.finals.items() if task != X} == {"http://a.test/login"}
    assert set(story.ends().values()) == {"done"}
    assert sum(final.page is not None for final in story.finals.values()) == 2


def test_what_the_user_asked_for_is_fetched_even_if_it_leads_to_the_same_page() -> None:
    story = Story([X, Y], {X: moved("/y"), Y: OK}).run()
    assert {task: final.page is not None for task, final in story.finals.items()} == {X: True, Y: True}


# --- A site that lives elsewhere -------------------------------------------------------------------------------------


def test_a_site_that_moved_to_www_is_searched_for_sitemaps_there() -> None:
    web: dict[str, Answers] = {
        A: moved("https://www.a.test/"), "https://www.a.test/": OK,
        "https://www.a.test/robots.txt": Reply(200, b"Sitemap: https://www.a.test/map.xml"),
        "https://www.a.test/map.xml": sitemap("https://www.a.test/1"), "https://www.a.test/1": OK,
    }  # fmt: skip
    story = Story([A], web).run()
    assert story.ends() == {A: "done", "https://www.a.test/1": "done"}


def test_a_site_that_moved_to_www_and_has_no_sitemap_is_followed_there() -> None:
    www = "http://www.a.test/"
    web: dict[str, Answers] = {A: moved(www), www: page("/1"), f"{www}1": page("/2"), f"{www}2": OK}
    story = Story([A], web).run()
    assert story.ends() == {A: "done", f"{www}1": "done", f"{www}2": "done"}


def test_a_link_that_redirects_to_another_host_starts_no_search_there() -> None:
    www = "http://www.a.test/"
    story = Story([A], {A: page("/1"), f"{A}1": moved(f"{www}1"), f"{www}1": OK}).run()
    assert story.ends() == {A: "done", f"{A}1": "done"}
    assert {url for url in story.urls(Kind.SITEMAP) if url.startswith(www)} == set()


def test_a_site_whose_sitemap_was_found_before_it_moved_is_not_searched_again() -> None:
    https = "https://a.test/"
    web: dict[str, Answers] = {
        A_ROBOTS: moved("https://a.test/robots.txt"),
        "https://a.test/robots.txt": Reply(200, b"Sitemap: https://a.test/map.xml"),
        "https://a.test/map.xml": sitemap("https://a.test/1"), A: moved(https), https: page("/2"), f"{https}1": OK,
    }  # fmt: skip
    story = Story([A], web).run()
    assert story.ends() == {A: "done", f"{https}1": "done"}
    assert story.urls(Kind.SITEMAP) == ["https://a.test/map.xml"]
