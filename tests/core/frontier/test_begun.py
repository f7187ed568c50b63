"""As many domains are begun as connections can be kept, and those begun are finished first."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from amble.core.outcome import Failure
from amble.core.urls import domain_of
from tests.core.frontier.story import FREE, OK, Answers, Story, broken, robots, status

QUIET: dict[str, Any] = {"discover": False}


def hosts(*names: str, pages: int = 3) -> list[str]:
    return [f"http://{name}.test/{number}" for number in range(pages) for name in names]


def crawl(seeds: list[str], most: int, web: dict[str, Answers] | None = None, **settings: Any) -> Story:
    found: dict[str, Answers] = dict.fromkeys(seeds, OK)
    found |= {f"http://{domain_of(seed)}/robots.txt": FREE for seed in seeds}
    story = Story(seeds, found | (web or {}), **QUIET, **settings)
    story.frontier.begun.most = most
    return story.run()


def begun(story: Story) -> list[str]:
    """Domains in the order of their first request."""
    return list(dict.fromkeys(domain_of(asked.url).removesuffix(".test") for asked in story.asked))


def test_one_at_a_time_is_finished_before_the_next_begins() -> None:
    story = crawl(hosts("a", "b", "c"), most=1)
    assert [name for name, _ in groupby(domain_of(asked.url) for asked in story.asked)] == [
        "a.test",
        "b.test",
        "c.test",
    ]
    assert set(story.ends().values()) == {"done"}
    assert story.frontier.begun.count == 0


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_never_more_at_once_than_may_be(most: int) -> None:
    names = [f"h{number}" for number in range(20)]
    story = crawl(hosts(*names), most)
    last = {domain_of(asked.url): asked.at for asked in story.asked}
    first = {domain_of(asked.url): asked.at for asked in reversed(story.asked)}
    for asked in story.asked:
        at_work = sum(first[domain] <= asked.at < last[domain] for domain in first)
        assert at_work <= most
    assert len(story.finals) == 60
    assert story.frontier.begun.count == 0


@pytest.mark.parametrize(
    ("why", "web"),
    [
        ("slow: the next request is due in ten seconds", {"http://a.test/robots.txt": robots("Crawl-delay: 10")}),
        ("blocked: it asked for a pause", {"http://a.test/0": [status(429, Retry_After="60"), OK]}),
        ("dead: nothing answers", {"http://a.test/robots.txt": broken(Failure.NETWORK_TIMEOUT)}),
    ],
)
def test_a_domain_that_has_to_wait_holds_up_nobody(why: str, web: dict[str, Answers]) -> None:
    story = crawl(hosts("a", "b"), most=1, web=web)
    b_ended = max(story.ended_at[url] for url in story.ended_at if "//b." in url)
    assert b_ended < 8.0, why
    assert max(story.ended_at.values()) > 15.0


def test_a_slow_domain_that_is_due_again_need_not_wait_for_room() -> None:
    """It was begun once; that others are at work meanwhile keeps nobody waiting for a connection."""
    slow: dict[str, Answers] = {"http://a.test/robots.txt": robots("Crawl-delay: 10")}
    story = crawl([*hosts("a"), *hosts("b", pages=60)], most=1, web=slow)
    assert story.gaps("a.test") == pytest.approx([10.0, 10.0, 10.0])
    assert begun(story) == ["a", "b"]
