"""A page that hangs is noticed by what is usual at its domain, and loses nothing by it."""

from __future__ import annotations

from typing import Any

from amble.core.frontier.visit import Kind
from amble.core.outcome import Failure
from tests.core.frontier.story import FREE, Answers, Reply, Story, broken, page, sitemap

A = "http://a.test/"
URLS = [f"{A}{number}" for number in range(14)]
HANGS = broken(Failure.NETWORK_TIMEOUT)
QUIET: dict[str, Any] = {"retry_base_delay": 0.2, "took_s": 0.1}


def patience(story: Story, url: str) -> list[float | None]:
    """The time for headers that each try of a URL was given."""
    return [each.visit.header_timeout_s for each in story.asked if each.url == url]


def web(last: Answers, **more: Answers) -> dict[str, Answers]:
    return {f"{A}robots.txt": FREE, A: page(*URLS), **dict.fromkeys(URLS, page()), URLS[-1]: last, **more}


def test_each_try_has_twice_the_time_and_the_last_all_there_is() -> None:
    story = Story([A], web(HANGS), discover=False, follow_links=True, max_retries=3, **QUIET).run()
    assert patience(story, URLS[-1]) == [5.0, 10.0, 20.0, None]
    assert story.end(URLS[-1]) == ("failed", "network_timeout")


def test_before_ten_answers_every_page_has_all_the_time_there_is() -> None:
    story = Story([A], web(page()), discover=False, follow_links=True, **QUIET).run()
    given = [each.visit.header_timeout_s for each in story.asked]
    assert given == [None] * 10 + [5.0] * (len(given) - 10)  # robots.txt is an answer, too


def test_without_retries_nobody_is_hurried() -> None:
    story = Story([A], web(HANGS), discover=False, follow_links=True, max_retries=0, **QUIET).run()
    assert {each.visit.header_timeout_s for each in story.asked} == {None}


def test_sitemaps_and_robots_txt_have_all_the_time_there_is() -> None:
    listed = web(page()) | {f"{A}sitemap.xml": sitemap(A)}
    story = Story([A], listed, follow_links=True, robots_max_age=8.0, **QUIET).run()
    assert len(story.urls(Kind.ROBOTS)) > 1
    assert story.urls()[-1] == f"{A}sitemap.xml"
    assert {each.visit.header_timeout_s for each in story.asked if each.visit.kind is not Kind.PAGE} == {None}


def test_where_a_redirect_leads_counts_as_a_first_try_there() -> None:
    moves = web(Reply(302, b"", (("Location", "http://b.test/x"),)), **{"http://b.test/x": page()})
    story = Story([A, "http://b.test/"], moves, discover=False, follow_links=True, **QUIET).run()
    assert patience(story, "http://b.test/x") == [None]  # nobody knows yet what is usual there
