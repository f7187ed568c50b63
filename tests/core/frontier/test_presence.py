"""An origin where nobody is: two tries some seconds apart for all its URLs together, unless the user said otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from amble.core.frontier.visit import Kind
from amble.core.outcome import Failure, Phase
from tests.core.frontier.story import DOWN, FREE, OK, Answers, Asked, Reply, Story, broken, moved, page, robots, sitemap

A, A_ROBOTS = "http://a.test/", "http://a.test/robots.txt"
URLS = [f"http://a.test/{number}" for number in range(30)]
REFUSED = broken(Failure.NETWORK_CONNECTION_REFUSED, phase=Phase.CONNECT, detail="connection refused")
SWALLOWED = broken(Failure.NETWORK_TIMEOUT, phase=Phase.CONNECT, detail="no connection within 10 s")
NO_TLS = broken(Failure.NETWORK_TLS_ERROR, phase=Phase.CONNECT)
HUNG_UP = broken(Failure.NETWORK_RESET, phase=Phase.CONNECT)
MUTE_NAME = broken(Failure.NETWORK_DNS_FAILURE, phase=Phase.RESOLVE, dns_error="timeout")
NO_NAME = broken(Failure.NETWORK_DNS_FAILURE, phase=Phase.RESOLVE, dns_error="no_such_name")
SILENT = broken(Failure.NETWORK_TIMEOUT, phase=Phase.HEADERS)
RESET = broken(Failure.NETWORK_RESET, phase=Phase.HEADERS)
QUIET: dict[str, Any] = {"discover": False, "follow_links": True}
WITHOUT_ROBOTS: dict[str, Any] = {**QUIET, "respect_robots_txt": False}


def tries_of(story: Story) -> list[Asked]:
    """What was asked for, without the request that finds out what to check."""
    return [asked for asked in story.asked if not asked.visit.asks_other_scheme]


@pytest.mark.parametrize(
    ("why", "answer", "tries", "end"),
    [
        ("nobody listens at that port", REFUSED, 2, "robots_unreachable"),
        ("a black hole", SWALLOWED, 2, "robots_unreachable"),
        ("no TLS there", NO_TLS, 2, "robots_unreachable"),
        ("cut off in the handshake", HUNG_UP, 2, "robots_unreachable"),
        ("its name's servers say nothing", MUTE_NAME, 2, "robots_unreachable"),
        ("there is no such name", NO_NAME, 2, "network_dns_failure"),
        ("somebody was there, and said nothing", SILENT, 6, "robots_unreachable"),
        ("somebody was there, and hung up", RESET, 6, "robots_unreachable"),
        ("somebody answered, badly", DOWN, 6, "robots_unreachable"),
    ],
)
def test_how_often_a_robots_txt_is_tried_where_nobody_ever_answered(
    why: str, answer: Reply, tries: int, end: str
) -> None:
    story = Story(URLS, {A_ROBOTS: answer}, **QUIET).run()
    times = story.times(A_ROBOTS)
    assert len(times) == tries == len(tries_of(story)), "RFC 9309: unreachable, so nothing is allowed"
    assert times[1] - times[0] >= 5.0
    assert set(story.ends().values()) == {end}
    assert len(story.ends()) == len(URLS), "a row each"


def test_who_says_how_often_to_try_is_heard() -> None:
    story = Story(URLS, {A_ROBOTS: REFUSED}, robots_retries=3, **QUIET).run()
    assert len(story.times(A_ROBOTS)) == 4
    story = Story(URLS[:1], {URLS[0]: REFUSED}, max_retries=3, **WITHOUT_ROBOTS).run()
    assert len(story.times(URLS[0])) == 4


def test_none_are_all_of_them() -> None:
    assert len(Story(URLS, {A_ROBOTS: REFUSED}, robots_retries=0, **QUIET).run().times(A_ROBOTS)) == 1


def test_two_tries_for_all_urls_together_where_no_robots_txt_is_asked_for() -> None:
    web: dict[str, Answers] = dict.fromkeys(URLS, REFUSED)
    story = Story(URLS, web, max_parallel_per_domain=8, fixed_delay=0.0, took_s=1.0, **WITHOUT_ROBOTS).run()
    assert [asked.at for asked in tries_of(story)] == [0.0, 7.0], "after the other scheme was asked"
    assert set(story.ends().values()) == {"network_connection_refused"}
    assert story.finals[URLS[7]].reason == "connection refused; tried 2 times"


def test_what_is_found_there_later_is_not_tried_again() -> None:
    found = [f"http://b.test/{number}" for number in range(12)]
    web: dict[str, Answers] = {A: REFUSED, **{url: page(f"{A}{number}") for number, url in enumerate(found)}}
    story = Story([A, *found], web, **WITHOUT_ROBOTS).run()
    assert len([asked for asked in story.asked if asked.url.startswith(A)]) == 2
    assert story.end(f"{A}11") == ("failed", "network_connection_refused")


def test_one_answer_and_the_usual_retries_hold() -> None:
    web: dict[str, Answers] = {URLS[0]: [OK], URLS[1]: [REFUSED, REFUSED, REFUSED, OK]}
    story = Story(URLS[:2], web, **WITHOUT_ROBOTS).run()
    assert story.ends() == dict.fromkeys(URLS[:2], "done")


def test_whoever_answers_the_second_try_is_crawled() -> None:
    web: dict[str, Answers] = {A_ROBOTS: [SWALLOWED, FREE], **dict.fromkeys(URLS, OK)}
    story = Story(URLS, web, **QUIET).run()
    assert set(story.ends().values()) == {"done"}


@pytest.mark.parametrize("nobody", [MUTE_NAME, SWALLOWED, REFUSED, NO_TLS])
def test_names_are_looked_up_anew_for_the_second_try(nobody: Reply) -> None:
    """Where nobody was met, the addresses themselves may be at fault: one may be missing among them, or be old."""
    story = Story([A], {A_ROBOTS: nobody}, **QUIET).run()
    assert [asked.visit.new_name for asked in tries_of(story)] == [False, True]
    story = Story([A], {A: nobody}, **WITHOUT_ROBOTS).run()
    assert [asked.visit.new_name for asked in tries_of(story)] == [False, True]


def test_names_are_not_looked_up_anew_where_somebody_answered() -> None:
    story = Story([A], {A_ROBOTS: [DOWN, FREE], A: [SWALLOWED, OK]}, **QUIET).run()
    assert [asked.visit.new_name for asked in story.asked] == [False] * 4


def test_one_origin_of_a_host_that_is_not_there_says_nothing_of_the_other() -> None:
    web: dict[str, Answers] = {A_ROBOTS: moved("https://a.test/robots.txt"), "https://a.test/robots.txt": NO_TLS}
    seeds = [A, "https://a.test/x"]
    story = Story(seeds, web, **QUIET).run()
    assert len(story.times("https://a.test/robots.txt")) <= 4, "two for each of the files that lie there"
    assert set(story.ends().values()) == {"robots_unreachable"}
    web = {A_ROBOTS: FREE, "https://a.test/robots.txt": NO_TLS, A: OK}
    assert Story(seeds, web, **QUIET).run().ends() == {A: "done", "https://a.test/x": "robots_unreachable"}


def test_a_crawl_delay_known_from_an_earlier_answer_holds_between_the_tries() -> None:
    """The copy has become too old, and cannot be had again; it may be used, and its delay holds."""
    seeds = ["https://a.test/x", *URLS[:3]]
    web: dict[str, Answers] = {
        A_ROBOTS: robots("Crawl-delay: 40"), "https://a.test/robots.txt": REFUSED, **dict.fromkeys(URLS, OK),
    }  # fmt: skip
    story = Story(seeds, web, **QUIET).run()
    assert min(story.gaps("a.test")[1:]) >= 40.0
    assert len(story.times("https://a.test/robots.txt")) == 2


def test_unreachable_allowed_by_settings_still_takes_two_tries_at_most() -> None:
    web: dict[str, Answers] = {A_ROBOTS: REFUSED, **dict.fromkeys(URLS, REFUSED)}
    story = Story(URLS, web, robots_unreachable="allow", **QUIET).run()
    assert len(tries_of(story)) == 2
    assert set(story.ends().values()) == {"network_connection_refused"}


def test_a_sitemap_at_a_host_that_is_not_there_holds_up_nobody_for_long() -> None:
    elsewhere = "http://maps.test/map.xml"
    web: dict[str, Answers] = {
        A_ROBOTS: robots(f"Sitemap: {elsewhere}"), "http://maps.test/robots.txt": REFUSED, A: OK,
    }  # fmt: skip
    story = Story([A], web, discover=True).run()
    assert story.ends() == {A: "done"}
    assert len([asked for asked in tries_of(story) if "maps.test" in asked.url]) == 2
    web = {A_ROBOTS: robots(f"Sitemap: {elsewhere}"), elsewhere: REFUSED, A: OK}
    story = Story([A], web, discover=True, respect_robots_txt=True).run()
    assert len(story.urls(Kind.SITEMAP)) == 11, "who answers for robots.txt is there, and has only just begun to fail"


def test_a_sitemap_is_read_at_the_second_try_where_no_robots_txt_is_asked_for() -> None:
    web: dict[str, Answers] = {"http://a.test/sitemap.xml": [REFUSED, sitemap(*URLS)], **dict.fromkeys(URLS, OK)}
    story = Story([A], web, respect_robots_txt=False).run()
    assert story.ends()[URLS[3]] == "done"
