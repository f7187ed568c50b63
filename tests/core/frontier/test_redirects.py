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


def end_of(story: Story, url: str) -> tuple[str, int]:
    """Where the redirects of a URL ended, and after how many."""
    return story.where_chains_end()[url]


def chain(hops: int, end: Reply = OK) -> dict[str, Answers]:
    urls = [X, *(f"http://a.test/hop{number}" for number in range(1, hops + 1))]
    web: dict[str, Answers] = {url: moved(to) for url, to in pairwise(urls)}
    return web | {urls[-1]: end}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_every_kind_of_redirect_is_followed(status: int) -> None:
    story = Story([X], {X: moved("/y", status), Y: OK}).run()
    final = story.finals[X]
    assert (end_of(story, X), final.failure) == ((Y, 1), None)
    assert final.fetched is not None
    assert final.fetched.status == status
    assert (list(story.tasks), story.urls(Kind.PAGE)) == ([X, Y], [X, Y])


@pytest.mark.parametrize("status", [300, 305, 306])
def test_other_statuses_of_the_kind_are_answers(status: int) -> None:
    story = Story([X], {X: moved("/y", status), Y: OK}).run()
    assert (story.urls(Kind.PAGE), story.ends()[X]) == ([X], "done")


def test_ten_hops_are_followed_and_the_row_says_so_d1() -> None:
    story = Story([X], chain(10)).run()
    last = "http://a.test/hop10"
    assert set(story.ends().values()) == {"done"}
    assert story.where_chains_end()[X] == (last, 10)
    assert {end for end, _ in story.where_chains_end().values()} == {last}
    assert story.finals[last].page is not None
    assert set(story.gaps("a.test")) == {1.0}  # every hop was paced


def test_the_eleventh_is_too_many_d1() -> None:
    story = Story([X], chain(100)).run()
    last = story.urls(Kind.PAGE)[-1]
    assert (story.end(last), len(story.urls(Kind.PAGE))) == (("failed", "too_many_redirects"), 11)
    assert story.where_chains_end()[X] == (last, 10)


def test_the_number_of_hops_is_a_setting() -> None:
    assert Story([X], chain(1), max_redirects=0).run().ends() == {X: "too_many_redirects"}
    assert set(Story([X], chain(12), max_redirects=12).run().ends().values()) == {"done"}


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
    assert story.end(story.urls(Kind.PAGE)[-1]) == ("failed", "too_many_redirects")
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
    assert (end_of(story, X), story.ends()) == ((url, 1), {X: "done", url: "done"})


@pytest.mark.parametrize(
    ("locations", "end"),
    [((Y, Y), "done"), ((Y, "http://a.test/z"), "network_protocol_error"), ((Y, ""), "network_protocol_error")],
    ids=["the same twice", "two different ones", "one of them empty"],
)
def test_two_locations_d2(locations: tuple[str, str], end: str) -> None:
    answer = Reply(302, b"", tuple(("Location", location) for location in locations))
    assert Story([X], {X: answer, Y: OK}).run().ends()[X] == end


def test_a_hop_to_another_domain_waits_for_that_domains_robots_and_pace_d1() -> None:
    web: dict[str, Answers] = {
        X: moved("http://b.test/1"), "http://b.test/1": moved("http://b.test/2"), "http://b.test/2": OK,
        B: OK, A_ROBOTS: FREE, B_ROBOTS: FREE,
    }  # fmt: skip
    story = Story([X, B], web, discover=False).run()
    assert set(story.ends().values()) == {"done"}
    assert story.gaps("b.test") == [1.0, 1.0, 1.0]
    assert [asked.visit.found_on for asked in story.asked if asked.visit.trail] == ["a.test", "b.test"]


def test_a_hop_that_robots_forbids_at_its_host_is_not_made_l4() -> None:
    story = Story([X, B], {X: moved("http://b.test/1"), B_ROBOTS: CLOSED}, discover=False).run()
    assert (story.end(X), story.end("http://b.test/1")) == (("done", None), ("skipped", "robots_disallowed"))
    assert "http://b.test/1" not in story.urls()


def test_a_hop_counts_as_a_page_of_the_domain_it_leads_to_d3() -> None:
    web: dict[str, Answers] = {f"http://a.test/{n}": moved(f"http://b.test/{n}") for n in range(3)}
    web |= {f"http://b.test/{n}": OK for n in range(3)} | {B: OK}
    story = Story([B, *(f"http://a.test/{n}" for n in range(3))], web, max_pages_per_domain=3, discover=False).run()
    assert [story.end(f"http://a.test/{n}") for n in range(3)] == [
        ("done", None), ("done", None), ("skipped", "out_of_scope"),
    ]  # fmt: skip


def test_two_redirects_to_a_page_for_which_there_is_no_room_both_say_so_l5() -> None:
    """Found by the simulation: the second was done, and named a page that had no row."""
    seeds = [f"{B}0", f"{B}1", X, Y]
    web: dict[str, Answers] = {X: moved(f"{B}new"), Y: moved(f"{B}new"), f"{B}0": OK, f"{B}1": OK}
    story = Story(seeds, web, max_pages_per_domain=2, discover=False).run()
    assert [story.end(url) for url in (X, Y)] == [("skipped", "out_of_scope")] * 2
    assert set(story.finals) == set(seeds)


def test_a_page_for_which_there_was_no_room_is_fetched_where_a_later_redirect_finds_some_l5() -> None:
    web: dict[str, Answers] = {
        X: moved(f"{B}new"), Y: [DOWN, moved(f"{B}new")], f"{B}0": OK, f"{B}1": moved(X), f"{B}new": OK,
    }  # fmt: skip
    story = Story([f"{B}0", f"{B}1", X, Y], web, max_pages_per_domain=2, discover=False).run()
    assert story.end(X) == ("skipped", "out_of_scope")
    assert (end_of(story, Y), story.end(f"{B}new")) == ((f"{B}new", 1), ("done", None))


def test_nothing_of_a_request_crosses_to_the_next_hop_d8() -> None:
    story = Story([X], {X: [DOWN, DOWN, moved("/y")], Y: OK}).run()
    hop = story.asked[-1].visit
    assert (hop.url, hop.attempt, hop.etag, hop.last_modified) == (Y, 1, None, None)


def test_a_hop_is_retried_like_any_request_without_starting_over() -> None:
    story = Story([X], {X: moved("/y"), Y: [DOWN, OK]}).run()
    assert story.urls(Kind.PAGE) == [X, Y, Y]
    assert (story.ends(), story.finals[Y].visit.attempt) == ({X: "done", Y: "done"}, 2)


def test_a_hop_that_fails_says_so_in_its_own_row() -> None:
    story = Story([X], {X: moved("/y"), Y: broken(Failure.CONTENT_TOO_LARGE)}).run()
    assert story.ends() == {X: "done", Y: "content_too_large"}


def test_a_page_reached_by_a_redirect_is_not_visited_again_for_a_link() -> None:
    story = Story([X], {X: moved("/y"), Y: page("/y", "/x", "/z"), "http://a.test/z": OK}, follow_links=True).run()
    assert story.urls(Kind.PAGE) == [X, Y, "http://a.test/z"]


def test_links_that_redirect_to_a_page_of_the_crawl_do_not_fetch_it_again() -> None:
    """A hundred links behind which there is one login page: it is asked for once."""
    old = [f"/old{number}" for number in range(20)]
    web: dict[str, Answers] = {f"http://a.test{path}": moved("/login") for path in old}
    story = Story([X], web | {X: page(*old), "http://a.test/login": OK}, follow_links=True).run()
    assert len(story.times("http://a.test/login")) == 1
    assert set(story.where_chains_end().values()) == {("http://a.test/login", 1)}
    assert set(story.ends().values()) == {"done"}
    assert sum(final.page is not None for final in story.finals.values()) == 2


def test_a_seed_that_redirects_to_another_seed_does_not_fetch_it_again() -> None:
    story = Story([X, Y], {X: moved("/y"), Y: OK}).run()
    assert {task: final.page is not None for task, final in story.finals.items()} == {X: False, Y: True}
    assert story.urls(Kind.PAGE) == [X, Y]


Z = "http://a.test/z"


@pytest.mark.parametrize("order", [[X, Y, Z], [Z, Y, X], [Y, X, Z], [Y, Z, X], [X, Z, Y], [Z, X, Y]])
def test_a_chain_ends_at_the_same_place_in_whatever_order_it_is_met(order: list[str]) -> None:
    story = Story(order, {X: moved("/y"), Y: moved("/z"), Z: OK}, max_parallel_per_domain=1).run()
    assert story.where_chains_end() == {X: (Z, 2), Y: (Z, 1)}
    assert sorted(story.urls(Kind.PAGE)) == [X, Y, Z]


def test_two_seeds_that_redirect_to_each_other_are_a_circle() -> None:
    story = Story([X, Y], {X: moved("/y"), Y: moved("/x")}).run()
    assert sorted(story.ends().values()) == ["done", "too_many_redirects"]


def test_a_redirect_spends_a_request_and_no_page_of_the_budget() -> None:
    old = [f"/old{number}" for number in range(5)]
    web: dict[str, Answers] = {f"http://a.test{path}": moved(f"{path}/new") for path in old}
    web |= {f"http://a.test{path}/new": OK for path in old} | {X: page(*old)}
    story = Story([X], web, follow_links=True, max_crawl_pages=4).run()
    assert sum(final.page is not None for final in story.finals.values()) == 4
    assert sum(final.move is not None for final in story.finals.values()) == 3


def test_what_a_budget_left_out_takes_the_place_of_what_turned_out_to_be_a_redirect() -> None:
    old = [f"/old{number}" for number in range(5)]
    web: dict[str, Answers] = {f"http://a.test{path}": moved("/login") for path in old}
    web |= {"http://a.test/login": OK, "http://a.test/last": OK, X: page(*old, "/last")}
    story = Story([X], web, follow_links=True, max_crawl_pages=3).run()
    pages = {task for task, final in story.finals.items() if final.page is not None}
    assert pages == {X, "http://a.test/login", "http://a.test/last"}
    assert story.left_out["max_crawl_pages"] == 0


def test_a_redirect_to_a_page_that_the_budget_had_left_out_gives_it_a_row() -> None:
    story = Story([X], {X: page("/y", "/z"), Y: moved("/z"), Z: OK}, follow_links=True, max_crawl_pages=2).run()
    assert story.ends() == {X: "done", Y: "done", Z: "done"}
    assert story.where_chains_end() == {Y: (Z, 1)}
    assert story.urls(Kind.PAGE).count(Z) == 1


def test_a_redirect_out_of_the_scope_tells_where_it_led() -> None:
    story = Story([X], {X: moved("/y"), Y: moved("http://evil.test/")}).run()
    assert story.where_chains_end() == {X: ("http://evil.test/", 2), Y: ("http://evil.test/", 1)}
    assert story.end(Y) == ("skipped", "out_of_scope")


# --- A site that lives elsewhere -------------------------------------------------------------------------------------


def test_a_site_that_moved_to_www_is_searched_for_sitemaps_there() -> None:
    web: dict[str, Answers] = {
        A: moved("https://www.a.test/"), "https://www.a.test/": OK,
        "https://www.a.test/robots.txt": Reply(200, b"Sitemap: https://www.a.test/map.xml"),
        "https://www.a.test/map.xml": sitemap("https://www.a.test/1"), "https://www.a.test/1": OK,
    }  # fmt: skip
    story = Story([A], web).run()
    assert story.ends() == {A: "done", "https://www.a.test/": "done", "https://www.a.test/1": "done"}


def test_a_site_that_moved_to_www_and_has_no_sitemap_is_followed_there() -> None:
    www = "http://www.a.test/"
    web: dict[str, Answers] = {A: moved(www), www: page("/1"), f"{www}1": page("/2"), f"{www}2": OK}
    story = Story([A], web).run()
    assert story.ends() == {A: "done", www: "done", f"{www}1": "done", f"{www}2": "done"}


def test_a_link_that_redirects_to_another_host_starts_no_search_there() -> None:
    www = "http://www.a.test/"
    story = Story([A], {A: page("/1"), f"{A}1": moved(f"{www}1"), f"{www}1": OK}).run()
    assert story.ends() == {A: "done", f"{A}1": "done", f"{www}1": "done"}
    assert {url for url in story.urls(Kind.SITEMAP) if url.startswith(www)} == set()


def test_a_site_whose_sitemap_was_found_before_it_moved_is_not_searched_again() -> None:
    https = "https://a.test/"
    web: dict[str, Answers] = {
        A_ROBOTS: moved("https://a.test/robots.txt"),
        "https://a.test/robots.txt": Reply(200, b"Sitemap: https://a.test/map.xml"),
        "https://a.test/map.xml": sitemap("https://a.test/1"), A: moved(https), https: page("/2"), f"{https}1": OK,
    }  # fmt: skip
    story = Story([A], web).run()
    assert story.ends() == {A: "done", https: "done", f"{https}1": "done"}
    assert story.urls(Kind.SITEMAP) == ["https://a.test/map.xml"]
