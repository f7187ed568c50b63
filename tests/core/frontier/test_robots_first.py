"""The first visit of an origin is its robots.txt: asked once, paced like any request, obeyed [B4-B7, P5]."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from amble.core.frontier.changes import Changes, Ready, State
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.pacing.events import RobotsMissed
from amble.core.robots.policy import RobotsAnswer
from amble.core.robots.verdict import RobotsRow
from tests.core.frontier.story import (
    CLOSED,
    DOWN,
    FREE,
    LIMITED,
    MISSING,
    OK,
    Answers,
    Reply,
    Story,
    broken,
    moved,
    page,
    robots,
    sitemap,
    status,
)  # fmt: skip

A, B = "http://a.test/", "http://b.test/"
A_ROBOTS, B_ROBOTS = "http://a.test/robots.txt", "http://b.test/robots.txt"
CHALLENGE = page("/x", x_amzn_waf_action="challenge")
QUIET: dict[str, Any] = {"discover": False}  # no sitemaps: every request is a robots.txt or a page


def many(count: int, host: str = "a.test") -> list[str]:
    return [f"http://{host}/{number}" for number in range(count)]


def test_one_robots_request_for_a_thousand_queued_urls_b6() -> None:
    web = {A_ROBOTS: FREE} | dict.fromkeys(many(1_000), OK)
    story = Story(many(1_000), web, fixed_delay=0.0, took_s=0.5, max_parallel_per_domain=8).run()
    assert story.urls()[0] == A_ROBOTS
    assert story.urls(Kind.ROBOTS) == [A_ROBOTS]
    assert story.urls(Kind.PAGE) == many(1_000)  # in the order they came
    assert min(asked.at for asked in story.asked if asked.visit.kind is Kind.PAGE) == 0.5  # when it was answered


def test_robots_is_paced_like_any_request_b6() -> None:
    story = Story([A], {A: OK, A_ROBOTS: FREE}, **QUIET).run()
    assert [(asked.at, asked.url) for asked in story.asked] == [(0.0, A_ROBOTS), (1.0, A)]


def test_origins_of_one_host_have_a_robots_each_b7() -> None:
    """http, https and another port: three files; the first two share a pace."""
    seeds = ["http://a.test/x", "https://a.test/x", "http://a.test:8080/x"]
    web: dict[str, Answers] = {
        A_ROBOTS: FREE, "https://a.test/robots.txt": CLOSED, "http://a.test:8080/robots.txt": FREE,
        "http://a.test/x": OK, "http://a.test:8080/x": OK,
    }  # fmt: skip
    story = Story(seeds, web).run()
    assert sorted(story.urls(Kind.ROBOTS)) == sorted(url for url in web if url.endswith("robots.txt"))
    assert story.ends() == dict(zip(seeds, ["done", "robots_disallowed", "done"], strict=True))
    assert story.gaps("a.test") == [1.0, 1.0]
    assert story.times("http://a.test:8080/robots.txt") == [0.0]


def test_what_robots_forbids_ends_without_a_request() -> None:
    web: dict[str, Answers] = {A_ROBOTS: robots("Disallow: /private/")}
    story = Story(["http://a.test/private/1", "http://a.test/open"], web | {"http://a.test/open": OK}).run()
    assert story.end("http://a.test/private/1") == ("skipped", "robots_disallowed")
    assert story.end("http://a.test/open") == ("done", None)
    assert story.urls() == [A_ROBOTS, "http://a.test/open"]


def test_a_robots_that_forbids_a_great_many_urls_lets_others_in_between() -> None:
    """However many URLs end without a request, one call ends a bounded number of them."""
    story = Story(many(3_000), {A_ROBOTS: CLOSED}, fixed_delay=0.0)
    story.run(until=0.0)
    assert story.finished
    story = Story(many(3_000), {A_ROBOTS: CLOSED}, fixed_delay=0.0)
    story.dispatch()
    story.land()
    changes = Changes()
    story.plan.next_ready(story.now, story.utc, changes)
    assert 0 < len(changes.finals) <= 500


@pytest.mark.parametrize(
    ("story_of", "answer", "asked_for_it", "end"),
    [
        ("rules are read", robots("Disallow: /x"), 1, "robots_disallowed"),
        ("an empty file allows", Reply(200, b""), 1, "done"),
        ("no content allows", Reply(204, None), 1, "done"),
        ("unauthorised allows", status(401), 1, "done"),
        ("forbidden allows", status(403), 1, "done"),
        ("missing allows", MISSING, 1, "done"),
        ("gone allows", status(410), 1, "done"),
        ("a limit is waited for, then given up", LIMITED, 6, "robots_unreachable"),
        ("a server error likewise", status(500), 6, "robots_unreachable"),
        ("and an overloaded server", DOWN, 6, "robots_unreachable"),
        ("a timeout", broken(Failure.NETWORK_TIMEOUT), 6, "robots_unreachable"),
        ("a reset", broken(Failure.NETWORK_RESET), 6, "robots_unreachable"),
        ("a bad certificate", broken(Failure.NETWORK_TLS_ERROR, untrusted=True), 2, "network_tls_error"),
        ("a handshake that failed, and never went well", broken(Failure.NETWORK_TLS_ERROR), 2, "robots_unreachable"),
        ("no such name", broken(Failure.NETWORK_DNS_FAILURE, dns_error="no_such_name"), 2, "network_dns_failure"),
        ("a bot challenge is no file, whatever its status", CHALLENGE, 6, "robots_unreachable"),
        ("nor is one that is accepted", CHALLENGE._replace(status=202), 6, "robots_unreachable"),
        ("forbidden allows, with a challenge too", CHALLENGE._replace(status=403), 1, "done"),
        ("a redirect that says not where", moved(None), 6, "robots_unreachable"),
        ("a redirect to a file", moved("file:///etc/passwd"), 6, "robots_unreachable"),
        ("a redirect to itself is as good as no file", moved(A_ROBOTS), 1, "done"),
    ],
)  # fmt: skip
def test_the_status_matrix_b4(story_of: str, answer: Reply, asked_for_it: int, end: str) -> None:
    seed = "http://a.test/x"
    story = Story([seed], {A_ROBOTS: answer, seed: OK}, robots_retry_delay=15.0, open_state_duration=0.5).run()
    assert story.ends() == {seed: end}
    assert len(story.times(A_ROBOTS)) == asked_for_it
    assert story.times(seed) == ([] if end != "done" else story.times(seed)[:1])


def test_urls_behind_an_unreachable_robots_wait_and_lose_nothing_b4() -> None:
    story = Story(many(3), {A_ROBOTS: [DOWN, DOWN, FREE], **dict.fromkeys(many(3), OK)}, robots_retry_delay=15.0).run()
    first, second, third = story.times(A_ROBOTS)
    assert second - first >= 7.5  # 15 s, halved at most by jitter
    assert third - second >= 15.0
    assert set(story.ends().values()) == {"done"}
    assert {asked.visit.attempt for asked in story.asked} == {1}


def test_a_site_that_is_given_up_is_not_asked_for_ever_where_its_block_outlasts_that() -> None:
    """Found by the simulation: the URLs ended only where the domain could be asked before the book asked again."""
    hop = "http://a.test/hop"
    busy = status(503, **{"Retry-After": "50"})
    story = Story([A], {A_ROBOTS: moved(hop), hop: busy, A: OK}, robots_give_up_for=30.0, robots_retries=2, **QUIET)
    assert story.run().ends() == {A: "robots_unreachable"}
    assert len(story.times(A_ROBOTS)) == 3


def test_one_origin_without_robots_does_not_hold_up_the_other_of_its_domain() -> None:
    """https fails for minutes; http, which shares its pace, goes on meanwhile."""
    seeds = ["https://a.test/0", *many(20)]
    web: dict[str, Answers] = {
        "https://a.test/robots.txt": broken(Failure.NETWORK_RESET), A_ROBOTS: FREE, **dict.fromkeys(many(20), OK),
    }  # fmt: skip
    story = Story(seeds, web, robots_retry_delay=60.0, consecutive_fail_threshold=100).run()
    assert story.ends()["https://a.test/0"] == "robots_unreachable"
    assert max(story.ended_at[url] for url in many(20)) < 30.0


def test_an_unreachable_robots_may_be_set_to_allow() -> None:
    story = Story([A], {A_ROBOTS: DOWN, A: OK}, robots_unreachable="allow", **QUIET).run()
    assert (story.ends(), len(story.times(A_ROBOTS))) == ({A: "done"}, 1)


def test_a_proxys_fault_says_nothing_about_a_robots() -> None:
    """F10: asked again, as often as it takes; no failure is counted and no pace learns from it."""
    fault = broken(Failure.NETWORK_CONNECTION_REFUSED, proxy_fault=True)
    local = broken(Failure.NETWORK_CONNECTION_REFUSED, local_fault=True)
    story = Story([A], {A_ROBOTS: [*[fault, local] * 8, FREE], A: OK}, **QUIET).run()
    assert story.ends() == {A: "done"}
    standing = story.frontier.book.standing("http://a.test")
    assert standing is not None
    assert standing.failures == 0
    assert min(story.gaps("a.test")[:-1]) == 5.0
    pace = story.frontier.registry.find("a.test")
    assert pace is not None
    assert pace.troubles.failures == 0


# --- Redirects of robots.txt -----------------------------------------------------------------------------------------


def hops(count: int) -> dict[str, Answers]:
    """A robots.txt behind so many redirects, each at a host of its own, that forbids everything in the end."""
    urls = [A_ROBOTS, *(f"http://hop{number}.test/r" for number in range(1, count + 1))]
    web: dict[str, Answers] = {url: moved(to) for url, to in pairwise(urls)}
    return web | {urls[-1]: CLOSED}


def test_five_redirects_are_followed_each_at_the_pace_of_its_own_domain_b4() -> None:
    story = Story([A], hops(5) | {A: OK}, **QUIET).run()
    assert story.ends() == {A: "robots_disallowed"}
    assert [asked.at for asked in story.asked] == [0.0] * 6  # no two at one host, so none waits
    assert [asked.visit.found_on for asked in story.asked] == [
        None, "a.test", "hop1.test", "hop2.test", "hop3.test", "hop4.test",
    ]  # fmt: skip


def test_six_redirects_are_as_good_as_no_file_b4() -> None:
    story = Story([A], hops(6) | {A: OK}, **QUIET).run()
    assert story.ends() == {A: "done"}
    assert len(story.urls(Kind.ROBOTS)) == 6


def test_a_redirected_robots_waits_for_the_pace_of_the_domain_it_leads_to() -> None:
    """b.test is asked for its own robots.txt and then no sooner than its delay for that of a.test."""
    web: dict[str, Answers] = {B_ROBOTS: FREE, B: OK, A_ROBOTS: moved("http://b.test/theirs"), A: OK}
    story = Story([B, A], web | {"http://b.test/theirs": CLOSED}, **QUIET).run()
    assert story.ends() == {A: "robots_disallowed", B: "done"}
    assert story.gaps("b.test") == [1.0, 1.0]


def test_two_hosts_whose_robots_redirect_to_each_other_do_not_wait_for_ever() -> None:
    story = Story([A, B], {A_ROBOTS: moved(B_ROBOTS), B_ROBOTS: moved(A_ROBOTS), A: OK, B: OK}, **QUIET).run()
    assert story.ends() == {A: "done", B: "done"}


def test_a_robots_that_redirects_to_a_domain_that_wants_to_be_left_alone_is_unreachable() -> None:
    """Whoever waits for it is told; the wait of b.test is not the end of a.test."""
    web: dict[str, Answers] = {B_ROBOTS: status(429, Retry_After="86400"), A_ROBOTS: moved("http://b.test/theirs")}
    story = Story([B, A], web, took_s=0.1, **QUIET).run()
    assert story.end(B) == ("deferred", "http_rate_limited")
    assert story.end(A) == ("failed", "robots_unreachable")
    assert story.times("http://b.test/theirs") == []
    assert len(story.times(A_ROBOTS)) == 6


# --- What it asks for ------------------------------------------------------------------------------------------------


def test_the_crawl_delay_reaches_the_pace() -> None:
    story = Story(many(4), {A_ROBOTS: robots("Crawl-delay: 7"), **dict.fromkeys(many(4), OK)}).run()
    assert story.gaps("a.test") == [7.0] * 4


@pytest.mark.parametrize("order", [("http", "https"), ("https", "http")])
def test_of_two_origins_with_different_delays_the_longer_one_holds(order: tuple[str, str]) -> None:
    seeds = [f"{scheme}://a.test/{number}" for number in range(3) for scheme in order]
    web: dict[str, Answers] = {
        A_ROBOTS: robots("Crawl-delay: 3"), "https://a.test/robots.txt": robots("Crawl-delay: 8"),
        **dict.fromkeys(seeds, OK),
    }  # fmt: skip
    story = Story(seeds, web, fixed_delay=0.0).run()
    assert set(story.ends().values()) == {"done"}
    both_known = max(story.times(A_ROBOTS) + story.times("https://a.test/robots.txt"))
    assert {later - earlier for earlier, later in pairwise(at for at, *_ in story.asked if at >= both_known)} == {8.0}


def test_a_delay_known_from_an_earlier_run_holds_from_the_first_page_on() -> None:
    story = Story(many(3), dict.fromkeys(many(3), OK))
    row = RobotsRow("http://a.test", 200, b"user-agent: *\ncrawl-delay: 6")
    story.frontier.book.load([(row, 3_600.0)], story.now)
    story.run()
    assert story.urls() == many(3)
    assert story.gaps("a.test") == [6.0, 6.0]


def test_a_delay_known_from_an_earlier_run_does_not_hold_where_robots_txt_is_not_respected() -> None:
    story = Story(many(3), dict.fromkeys(many(3), OK), respect_robots_txt=False)
    row = RobotsRow("http://a.test", 200, b"user-agent: *\ncrawl-delay: 6")
    story.frontier.book.load([(row, 3_600.0)], story.now)
    story.frontier.release("http://a.test", story.now, story.utc)
    assert story.frontier.lane("http://a.test", story.now, story.utc).pace.gap_s == 1.0
    assert story.run().gaps("a.test") == [1.0, 1.0]


@pytest.mark.parametrize("answer", [DOWN, CLOSED, robots("Crawl-delay: 900")])
def test_what_a_robots_says_that_was_asked_for_to_see_whether_anybody_answers_is_not_heeded(answer: Reply) -> None:
    web: dict[str, Answers] = {A_ROBOTS: answer, A: [broken(Failure.NETWORK_RESET), OK]}
    story = Story([A], web, respect_robots_txt=False, robots_retries=0, fixed_delay=0.1, **QUIET)
    story.run(until=0.5)  # its page is to be tried again later
    changes = Changes()
    ready = story.frontier.ask_out_of_turn("http://a.test", story.now, story.utc, changes)
    assert isinstance(ready, Ready)
    story.take(story.plan.settle(ready, answer.result(A_ROBOTS, 0.0), None, story.now, story.utc))
    assert story.run().end(A) == ("done", None)


def test_a_robots_for_which_there_is_no_slot_is_asked_for_later() -> None:
    """The only slot is taken by a slow page of the other origin."""
    seeds = ["http://a.test/0", "https://a.test/0"]
    story = Story(seeds, dict.fromkeys(seeds, OK), took_s=10.0).run()
    assert set(story.ends().values()) == {"done"}
    assert min(story.gaps("a.test")) == 10.0


def test_a_delay_binds_the_robots_request_of_the_other_origin() -> None:
    seeds = ["http://a.test/0", "https://a.test/0"]
    web: dict[str, Answers] = {A_ROBOTS: robots("Crawl-delay: 9", "Disallow: /0"), "https://a.test/0": OK}
    story = Story(seeds, web, took_s=0.1, fixed_delay=0.5).run()
    assert story.times(A_ROBOTS) == [0.0]
    assert story.gaps("a.test")[-1] == 9.0


def test_a_delay_that_is_too_long_ends_the_urls_and_hurries_nobody() -> None:
    story = Story([A], {A_ROBOTS: robots("Crawl-delay: 900"), A: OK}, **QUIET).run()
    assert (story.end(A), story.times(A)) == (("skipped", "crawl_delay_too_long"), [])


def test_rules_that_change_hold_for_what_is_queued_b5() -> None:
    """Asked again when the copy is too old; what has become forbidden is not fetched, and the new delay holds."""
    web: dict[str, Answers] = {A_ROBOTS: [FREE, robots("Disallow: /4", "Crawl-delay: 20")]}
    story = Story(many(60), web | dict.fromkeys(many(60), OK), robots_max_age=45.5).run()
    assert story.times(A_ROBOTS)[:2] == [0.0, 46.0]
    assert story.times("http://a.test/44") == [45.0]  # while the old rules held
    forbidden = [url for url, end in story.ends().items() if end == "robots_disallowed"]
    assert forbidden == [f"http://a.test/{number}" for number in range(45, 50)]
    assert set(story.gaps("a.test")[46:]) == {20.0}


def test_a_copy_is_confirmed_by_its_etag() -> None:
    first = Reply(200, b"user-agent: *\ndisallow: /9", (("ETag", '"v1"'),))
    story = Story(many(10), {A_ROBOTS: [first, status(304)], **dict.fromkeys(many(10), OK)}, robots_max_age=5.5).run()
    assert [asked.visit.etag for asked in story.asked if asked.visit.kind is Kind.ROBOTS] == [None, '"v1"']
    assert story.ends()["http://a.test/9"] == "robots_disallowed"


# --- Addresses -------------------------------------------------------------------------------------------------------


def test_urls_of_a_host_that_must_not_be_reached_end_at_once_d4() -> None:
    """The guard refuses its robots.txt: not unreachable for a while, but forbidden for good, and not retried."""
    forbidden = broken(Failure.ADDRESS_FORBIDDEN, detail="a.test is loopback (127.0.0.1)")
    story = Story(["http://a.test/0", "http://a.test/1", B], {A_ROBOTS: forbidden, B: OK}).run()
    assert story.end("http://a.test/0") == story.end("http://a.test/1") == ("skipped", "address_forbidden")
    assert story.finals["http://a.test/0"].reason == "a.test is loopback (127.0.0.1)"
    assert (len(story.times(A_ROBOTS)), story.ends()[B]) == (1, "done")


def test_a_robots_redirected_to_a_forbidden_address_is_unreachable() -> None:
    web: dict[str, Answers] = {
        A_ROBOTS: moved("http://b.test/r"), "http://b.test/r": broken(Failure.ADDRESS_FORBIDDEN), A: OK,
    }  # fmt: skip
    story = Story([A], web, **QUIET).run()
    assert story.end(A) == ("failed", "robots_unreachable")
    assert story.urls() == [A_ROBOTS, "http://b.test/r"], "that will not pass, and is not tried again"


def test_forbidden_urls_do_not_end_a_domain_that_others_link_to() -> None:
    """A hostile page names twenty paths of a host that only the user may name: that host's own pages go on."""
    story = Story([A], {A: OK}, job_failure_threshold=3, **QUIET)
    for number in range(5):
        url = f"http://a.test/x{number}"
        story.web[url] = broken(Failure.ADDRESS_FORBIDDEN)
        story.frontier.add(Visit(url, task=url, depth=0, found_on="evil.test"), story.now, story.utc)
        story.tasks[url] = Visit(url)
    story.run()
    assert story.end(A) == ("done", None)
    assert {story.finals[f"http://a.test/x{n}"].state for n in range(5)} == {State.SKIPPED}


def test_a_sitemap_that_robots_forbids_ends_the_search_for_it() -> None:
    web: dict[str, Answers] = {A_ROBOTS: robots("Disallow: /*.xml"), A: page("/1"), "http://a.test/1": OK}
    story = Story([A], web).run()
    assert story.ends() == {A: "done", "http://a.test/1": "done"}


def test_sitemaps_that_robots_names_are_read_only_once_it_can_be_reached() -> None:
    web: dict[str, Answers] = {
        A_ROBOTS: [DOWN, robots("Sitemap: http://a.test/map")], "http://a.test/map": sitemap("http://a.test/1"),
        A: OK, "http://a.test/1": OK,
    }  # fmt: skip
    story = Story([A], web).run()
    assert story.urls(Kind.SITEMAP) == ["http://a.test/map"]
    assert story.ends() == {A: "done", "http://a.test/1": "done"}


def test_what_keeps_a_site_waiting_for_its_robots_is_told_b4() -> None:
    """Each time with how long it is left alone now, and in the end that it was given up; its row says why."""
    story = Story([A], {A_ROBOTS: DOWN, A: OK}, robots_retries=2, robots_retry_delay=10.0, **QUIET).run()
    told = [event for event in story.events if isinstance(event, RobotsMissed)]
    assert [(event.domain, event.reason, event.tries) for event in told] == [
        ("a.test", "HTTP 503", 1), ("a.test", "HTTP 503", 2), ("a.test", "HTTP 503", 3),
    ]  # fmt: skip
    first, second, last = (event.wait_s for event in told)
    assert 5.0 <= (first or 0.0) <= 10.0 <= (second or 0.0) <= 20.0
    assert last is None
    assert story.finals[A].reason == "no robots.txt after 3 tries: HTTP 503"


def test_a_copy_that_serves_is_not_missed() -> None:
    story = Story([A], {A_ROBOTS: DOWN, A: OK}, robots_unreachable="allow", **QUIET).run()
    assert not [event for event in story.events if isinstance(event, RobotsMissed)]


def test_a_crawl_delay_that_is_no_longer_stated_leaves_the_default_at_once() -> None:
    """Found by the simulation: a stated delay of 0 held on until the next page, for whatever was asked before it."""
    story = Story([A], {A: OK}, default_crawl_delay=5.0, **QUIET)
    frontier = story.plan.frontier
    lane = frontier.lane(A, story.now, story.utc)
    gaps_s = []
    for lines in ("Crawl-delay: 9", "Crawl-delay: 2", "Disallow: /x", "Crawl-delay: 0"):
        answer = RobotsAnswer(200, body=f"User-agent: *\n{lines}".encode())
        frontier.book.learn("http://a.test", answer, story.now)
        frontier.release("http://a.test", story.now, story.utc)
        gaps_s.append(lane.pace.gap_s)
    assert gaps_s == [9.0, 2.0, 5.0, 1.0]  # a second is the pace of this story


@pytest.mark.parametrize(
    ("why", "said", "gap_s"),
    [
        ("it asked for less than the default", "Crawl-delay: 2", 5.0),
        ("it asked for more, and has not taken that back", "Crawl-delay: 9", 9.0),
        ("it asked for nothing", "Disallow: /x", 5.0),
    ],
)
def test_while_a_robots_cannot_be_had_the_default_holds_at_least(why: str, said: str, gap_s: float) -> None:
    """Found by the simulation: of a copy that is too old to be used, the short delay held on."""
    story = Story([A], {A: OK}, default_crawl_delay=5.0, robots_stale_age=10.0, **QUIET)
    frontier = story.plan.frontier
    lane = frontier.lane(A, story.now, story.utc)
    answered = RobotsAnswer(200, body=f"User-agent: *\n{said}".encode())
    for now, answer in ((0.0, answered), (60.0, RobotsAnswer(503))):
        frontier.book.learn("http://a.test", answer, now)
        frontier.release("http://a.test", now, story.utc)
    assert lane.pace.gap_s == gap_s, why
