"""A window of each domain in memory, the rest in the store: nothing is lost between the two [C10, L1]."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from amble.core.frontier.backlog import FEW, Backlog, Window
from amble.core.frontier.changes import Changes, Ready, State
from amble.core.frontier.visit import Visit
from tests.core.frontier.story import DOWN, LIMITED, OK, Answers, Reply, Story, page, sitemap

A = "http://a.test/"
URLS = [f"http://a.test/{number:03}" for number in range(100)]
WEB: dict[str, Answers] = {A: page(*URLS), **dict.fromkeys(URLS, OK)}


def crawl(window: Window, web: dict[str, Answers] | None = None, **settings: object) -> Story:
    wanted: dict[str, Any] = {"follow_links": True, "discover": False, **settings}
    return Story([A], WEB | (web or {}), window=window, **wanted)


def held_at_most(story: Story) -> int:
    """The most visits that were in memory at any time."""
    most, take = 0, story.take

    def counting(changes: Changes, flying: list[Ready] | None = None) -> None:
        nonlocal most
        take(changes, flying)
        most = max(most, sum(len(lane) for lane in story.frontier.lanes.values()))

    story.take = counting  # type: ignore[method-assign]
    story.run()
    return most


@pytest.mark.parametrize("per_domain", [1, 2, 7, 50, 99])
def test_no_more_than_the_window_is_held_and_everything_is_visited_in_its_order(per_domain: int) -> None:
    story = crawl(Window(per_domain))
    assert held_at_most(story) <= per_domain
    assert story.urls()[1:] == [A, *URLS]
    assert set(story.ends().values()) == {"done"}


def test_breadth_comes_first_across_the_store() -> None:
    """What a page found late at the same depth as others lies behind them, and before what is deeper."""
    web: dict[str, Answers] = {A: page("/b", "/c"), "http://a.test/b": page("/b/1", "/b/2"), "http://a.test/c": OK}
    story = crawl(Window(1), web).run()
    assert [story.tasks[url].depth for url in story.urls()[1:]] == [0, 1, 1, 2, 2]


def test_a_full_memory_leaves_every_domain_a_few() -> None:
    """One domain that holds everything does not keep another from its turn."""
    backlog = Backlog(Window(1_000, 50))
    assert (backlog.share(held=49), backlog.share(held=50)) == (1_000, FEW)
    assert not backlog.takes("late.test", 0, held=60)
    assert backlog.takes("late.test", FEW, held=60)


def test_a_domain_is_hungry_once_and_not_while_it_is_served() -> None:
    backlog = Backlog(Window(10))
    backlog.put("a.test", 30)
    backlog.feed("a.test", 6, 6)
    assert backlog.wants(6, 100) == ([], 0)
    backlog.feed("a.test", 5, 5)
    assert backlog.wants(5, 100) == (["a.test"], 5)
    backlog.feed("a.test", 0, 0)
    assert backlog.wants(0, 100) == ([], 0)
    assert backlog.busy


def test_the_end_waits_for_what_is_being_claimed() -> None:
    story = crawl(Window(1), {A: page(*URLS[:2])})
    story.serve = lambda: None  # type: ignore[method-assign]
    story.frontier.backlog.feed = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="everybody waits"):
        story.run()


def test_rows_that_the_store_has_set_apart_are_written_off_and_counted() -> None:
    story = crawl(Window(1), {A: page(*URLS[:3])})
    story.run(until=1.5)
    lost = [visit for visit in story.shelf if visit.task != URLS[0]]
    story.shelf = []
    for visit in lost:
        del story.tasks[visit.task]
    story.check = lambda flying=None: None  # type: ignore[method-assign]
    story.run()
    assert story.left_out["not_stored"] == len(lost) > 0
    assert story.frontier.queued == 0


# --- Domains that are over -------------------------------------------------------------------------------------------


def test_what_lies_in_the_store_ends_with_its_domain_that_failed() -> None:
    dead: dict[str, Answers] = dict.fromkeys(URLS, Reply(500))
    story = crawl(Window(4), dead, job_failure_threshold=5, max_retries=0).run()
    assert Counter(final.state for final in story.finals.values())[State.FAILED] == 100
    assert len(story.asked) == 2 + 5
    assert story.shelf == []


@pytest.mark.parametrize(
    "settings",
    [{"domain_stall_timeout": 30.0}, {"cancel_on_limit_streak": 1, "max_adaptive_delay": 1.0, "pacing": "linear"}],
    ids=["stalled", "refused too often"],
)
def test_what_lies_in_the_store_of_a_deferred_domain_stays_there(settings: dict[str, object]) -> None:
    limited: dict[str, Answers] = dict.fromkeys(URLS, Reply(429, b"", (("Retry-After", "3600"),)))
    story = crawl(Window(4), limited, **settings).run()
    assert len(story.shelf) > 90
    assert story.frontier.deferred == 100
    assert story.frontier.queued == 0


def test_a_stop_leaves_the_rest_in_the_store() -> None:
    story = crawl(Window(4))
    story.run(until=3.5)
    story.stop()
    story.run()
    assert story.frontier.deferred == len(story.shelf) + 4
    assert story.frontier.queued == 0


def test_what_was_being_claimed_when_the_crawl_stopped_is_handed_back() -> None:
    story = crawl(Window(4), {A: page(*URLS[:20])})
    story.run(until=1.5)
    story.frontier.backlog.feed("a.test", 0, 0)
    domains, portion = story.frontier.wants(100)
    claimed = story.shelf[:portion]
    story.stop()
    assert not isinstance(story.plan.next_ready(story.now, story.utc, Changes()), Ready)
    assert story.frontier.backlog.busy, "the end waits for them"
    changes = story.plan.claimed(claimed, domains, story.now, story.utc)
    assert [final.visit for final in changes.finals] == claimed
    story.shelf = story.shelf[portion:]
    story.take(changes)
    story.run()


# --- Resuming --------------------------------------------------------------------------------------------------------


def test_a_resumed_job_claims_a_window_and_not_everything() -> None:
    story = Story([], WEB, window=Window(4))
    story.plan.scope = crawl(Window()).plan.scope
    story.resume(*(Visit(url, task=url) for url in URLS))
    assert held_at_most(story) <= 4
    assert set(story.ends().values()) == {"done"}


def test_budgets_hold_over_a_resumption() -> None:
    story = Story([], {A: page(*URLS)}, window=Window(4), max_pages_per_domain=6, max_crawl_pages=8, follow_links=True)
    story.plan.scope = crawl(Window()).plan.scope
    story.resume(Visit(A, task=A))
    story.frontier.pages["a.test"] = 4
    story.run()
    assert (len(story.tasks), story.left_out["max_pages_per_domain"]) == (3, 98)


# --- Long lists ------------------------------------------------------------------------------------------------------


def test_a_long_sitemap_is_taken_in_by_slices() -> None:
    urls = [f"http://a.test/{number}" for number in range(2_100)]
    closed = Reply(200, b"User-agent: *\nDisallow: /1")
    web: dict[str, Answers] = {A: OK, "http://a.test/sitemap.xml": sitemap(*urls), "http://a.test/robots.txt": closed}
    story = Story([A], web, window=Window(600), fixed_delay=0.001)
    largest, take = 0, story.take

    def watching(changes: Changes, flying: list[Ready] | None = None) -> None:
        nonlocal largest
        largest = max(largest, len(changes.accepted) + len(changes.overflow))
        take(changes, flying)

    story.take = watching  # type: ignore[method-assign]
    story.run()
    assert (len(story.tasks), largest) == (2_101, 1_000)


def test_idle_domains_are_forgotten_and_those_with_a_reason_are_not() -> None:
    """M1."""
    hosts = [f"http://h{number}.test/x" for number in range(50)]
    web: dict[str, Answers] = dict.fromkeys(hosts[:48], OK)
    story = Story(hosts, {**web, hosts[48]: DOWN, hosts[49]: LIMITED}, max_retries=0, discover=False).run()
    assert set(story.frontier.lanes) == {"h48.test", "h49.test"}
    assert story.frontier.registry.find("h0.test") is not None, "its pace goes on"


def test_what_several_domains_lost_in_the_store_adds_up() -> None:
    """In one answer of the store; `left_out` tells all of it, and not what the last domain lost."""
    domains = ["a.test", "b.test", "c.test"]
    story = Story([], {}, window=Window())
    story.plan.resume(dict.fromkeys(domains, 5), 0, 15, {}, story.now)
    changes = story.plan.claimed([], domains, story.now, story.utc)
    assert (changes.left_out["not_stored"], story.frontier.accepted) == (15, 0)
