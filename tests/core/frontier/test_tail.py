"""When nothing but failing domains is left: who is waited for, for how long, and what is said."""

from __future__ import annotations

from typing import Any

import pytest

from amble.core.frontier.backlog import Window
from amble.core.frontier.changes import Changes, WaitUntil
from amble.core.frontier.outage import Outage
from amble.core.frontier.visit import Kind
from amble.core.outcome import Failure, Phase
from amble.core.pacing.events import NetworkDown, TailBegan
from tests.core.frontier.story import DOWN, FREE, MISSING, OK, Answers, Reply, Story, broken, moved, robots, status

A, B = "http://a.test/", "http://b.test/"
URLS = [f"{A}{number}" for number in range(30)]
SILENT = broken(Failure.NETWORK_TIMEOUT, phase=Phase.HEADERS)
RESET = broken(Failure.NETWORK_RESET, phase=Phase.HEADERS)
CUT = Reply(200, None, (), Failure.NETWORK_RESET, {"phase": Phase.BODY})
QUIET: dict[str, Any] = {"discover": False, "follow_links": True, "max_tail": 120.0, "job_failure_threshold": 1_000}
SLACK_S = 1.0


def web_of(*urls: str, answer: Answers) -> dict[str, Answers]:
    return {f"{A}robots.txt": FREE, f"{B}robots.txt": FREE, **dict.fromkeys(urls, answer), B: OK}


@pytest.mark.parametrize(
    ("why", "answer"),
    [
        ("says nothing", SILENT),
        ("hangs up", RESET),
        ("breaks off in the midst of pages", CUT),
        ("answers with errors", status(500)),
        ("is overloaded for good", DOWN),
    ],
)
def test_who_brings_no_page_is_waited_for_so_long(why: str, answer: Reply) -> None:
    story = Story([*URLS, B], web_of(*URLS, answer=answer), took_s=0.5, **QUIET).run()
    assert story.end(B) == ("done", None)
    ends = {story.end(url) for url in URLS}
    assert ("failed", "domain_given_up") in ends
    assert {state for state, _ in ends} == {"failed"}, "a row each"
    assert 120.0 <= story.now - story.ended_at[B] <= 120.0 + 5.0 + SLACK_S
    assert "no page in this run" in story.finals[URLS[-1]].reason


def test_time_in_which_the_store_gives_back_what_is_next_counts() -> None:
    """Found by the simulation: a domain of which nothing was in memory for a moment was taken for one that works."""
    settings = {**QUIET, "max_tail": 10.0, "max_retries": 0}
    web = web_of(*URLS, answer=RESET)
    story = Story([*URLS, B], web, window=Window(1), store_took_s=0.9, took_s=0.1, **settings).run()
    assert ("failed", "domain_given_up") in {story.end(url) for url in URLS}
    assert story.asked[-1].at <= story.ended_at[B] + 10.0 + SLACK_S


@pytest.mark.parametrize("answer", [SILENT, RESET, DOWN, moved("http://c.test/robots.txt")])
def test_a_robots_txt_that_cannot_be_had_likewise(answer: Reply) -> None:
    web: dict[str, Answers] = {f"{A}robots.txt": answer, "http://c.test/robots.txt": SILENT, B: OK}
    story = Story([*URLS, B], web, took_s=0.5, robots_retry_delay=60.0, **QUIET).run()
    assert story.ended_at[B] + 120.0 <= story.now <= story.ended_at[B] + 125.0 + SLACK_S
    assert {story.end(url) for url in URLS} == {("failed", "domain_given_up")}


def test_what_is_under_way_is_abandoned_and_what_lies_in_the_store_ends() -> None:
    """Answers take an hour to fail: nobody waits for that."""
    web = web_of(*URLS, answer=[RESET, SILENT])
    story = Story([*URLS, B], web, window=Window(4), **QUIET)
    story.run(until=3.0)
    story.took_s = 3_600.0
    story.run()
    assert story.now < 130.0
    assert len(story.ends()) == len(story.tasks) == 31
    assert {state for state, _ in map(story.end, URLS)} == {"failed"}
    assert story.shelf == []


def test_a_site_that_brought_a_page_has_an_outage_and_is_waited_for() -> None:
    def answer(url: str) -> Reply:
        return RESET if url in URLS[1:5] and story.now < 200.0 else OK

    web: dict[str, Answers] = {f"{A}robots.txt": FREE, **dict.fromkeys(URLS[:5], answer)}
    story = Story(URLS[:5], web, **QUIET)
    story.run()
    assert set(story.ends().values()) == {"done"}
    assert story.now > 130.0


def test_each_page_of_another_gives_it_more_time() -> None:
    slow: dict[str, Answers] = {f"{B}robots.txt": robots("Crawl-delay: 50"), **{f"{B}{n}": OK for n in range(6)}}
    seeds = [*URLS[:3], *(f"{B}{n}" for n in range(6))]
    story = Story(seeds, {**web_of(*URLS, answer=SILENT), **slow}, max_retries=100, **QUIET).run()
    assert {story.ends()[f"{B}{n}"] for n in range(6)} == {"done"}, "slow is not failing"
    assert story.now >= story.ended_at[f"{B}5"] + 120.0


def test_who_asked_for_a_pause_does_not_fail() -> None:
    web: dict[str, Answers] = {f"{A}robots.txt": FREE, URLS[0]: [status(503, Retry_After="400"), OK]}
    story = Story(URLS[:1], web, **QUIET).run()
    assert story.end(URLS[0]) == ("done", None)


def test_a_robots_txt_alone_is_no_page_and_a_missing_page_no_failure() -> None:
    story = Story(URLS, {f"{A}robots.txt": FREE, **dict.fromkeys(URLS, MISSING)}, fixed_delay=60.0, **QUIET).run()
    assert set(story.ends().values()) == {"http_client_error"}


def test_a_site_whose_sitemap_lies_at_a_dead_host_goes_on_when_that_is_given_up() -> None:
    web: dict[str, Answers] = {
        f"{A}robots.txt": robots(f"Sitemap: {B}map.xml"), f"{B}robots.txt": FREE, f"{B}map.xml": SILENT, A: OK,
    }  # fmt: skip
    story = Story([A], web, **{**QUIET, "discover": True, "max_retries": 100}).run()
    assert story.end(A) == ("done", None)
    assert 120.0 < story.now < 130.0
    assert story.urls(Kind.SITEMAP)[0] == f"{B}map.xml"


def test_the_time_of_an_outage_does_not_count() -> None:
    """All fall silent; nobody is given up while it is the network's fault."""
    hosts = [f"http://{name}.test/" for name in "cdefghijkl"]
    web: dict[str, Answers] = {f"{host}robots.txt": [*[RESET] * 2, FREE] for host in hosts}
    web.update(dict.fromkeys(hosts, OK))
    story = Story(hosts, web, **QUIET).run()
    assert any(isinstance(event, NetworkDown) for event in story.events)
    assert set(story.ends().values()) == {"done"}


def test_the_clock_stands_while_the_network_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story([*URLS, B], web_of(*URLS, answer=SILENT), **QUIET)
    story.run(until=60.0)
    with monkeypatch.context() as patch:
        patch.setattr(Outage, "is_down", property(lambda outage: True))
        story.plan.wait(WaitUntil(70.0), story.now, story.utc, Changes())
    story.now += 1_000.0
    story.run()
    assert 1_120.0 < story.now < 1_130.0


def test_the_clock_stands_during_a_pause() -> None:
    story = Story([*URLS, B], web_of(*URLS, answer=SILENT), **QUIET)
    story.run(until=60.0)
    story.plan.tail.stop_clock(story.now)
    story.now += 1_000.0
    story.run()
    assert 1_120.0 < story.now < 1_130.0


def test_it_is_said_once_with_the_time_it_will_still_take() -> None:
    story = Story([*URLS, B], web_of(*URLS, answer=SILENT), **QUIET).run()
    [event] = [event for event in story.events if isinstance(event, TailBegan)]
    assert (event.given_up, event.wait_s, event.others) == (["a.test"], 110.0, 0)


def test_what_is_over_within_seconds_needs_no_word() -> None:
    story = Story(URLS[:1], web_of(*URLS, answer=[RESET, OK]), **QUIET).run()
    assert not [event for event in story.events if isinstance(event, TailBegan)]


def test_who_recovers_in_time_is_crawled() -> None:
    web: dict[str, Answers] = {f"{A}robots.txt": [SILENT, SILENT, FREE], **dict.fromkeys(URLS, OK)}
    story = Story(URLS, web, robots_retry_delay=20.0, **QUIET).run()
    assert set(story.ends().values()) == {"done"}


def test_a_stop_hands_back_what_would_be_given_up() -> None:
    story = Story([*URLS, B], web_of(*URLS, answer=SILENT), took_s=30.0, **QUIET)
    story.run(until=100.0)
    story.stop()
    story.cancel_all()
    story.run()
    assert {state for state, _ in map(story.end, URLS)} == {"deferred"}
