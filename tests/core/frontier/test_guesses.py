"""Where links are followed, no page waits for a sitemap that nobody named; where sitemaps decide that, pages wait."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from amble.core.frontier.lane import LATE_AFTER
from amble.core.frontier.visit import Kind
from tests.core.frontier.story import FREE, OK, Answers, Reply, Story, moved, page, robots, sitemap

A = "http://a.test/"
FIRST, SECOND = f"{A}sitemap.xml", f"{A}sitemap_index.xml"
AS_SHIPPED: dict[str, Any] = {"pacing": "gauge", "max_rate": 8.0, "max_parallel_per_domain": 8}


def site(pages: int, host: str = "a.test", robots_txt: Reply = FREE, **more: Answers) -> dict[str, Answers]:
    """A home page that leads to all others."""
    home, urls = f"http://{host}/", [f"http://{host}/{number}" for number in range(pages - 1)]
    return {f"{home}robots.txt": robots_txt, home: page(*urls), **dict.fromkeys(urls, OK), **more}


def order(story: Story, host: str = "http://a.test") -> str:
    """What was asked for, as letters: Robots, Page, Sitemap."""
    letters = {Kind.ROBOTS: "R", Kind.PAGE: "P", Kind.SITEMAP: "S"}
    return "".join(letters[asked.visit.kind] for asked in story.asked if asked.url.startswith(host))


NAMED = robots("Sitemap: http://a.test/listed.xml")
ORDERS: list[tuple[str, Any, Reply, str]] = [
    # story                                       follow_links, robots.txt, the order
    ("guesses come last where links are followed", True, FREE, "RPPPPSS"),
    ("a sitemap that robots.txt names comes first", True, NAMED, "RSPPPP"),
    ("guesses decide, and so come first", "auto", FREE, "RSSPPPP"),
    ("guesses are all there is", False, FREE, "RSSP"),
]


@pytest.mark.parametrize(("follow", "robots_txt", "expected"), [row[1:] for row in ORDERS], ids=[r[0] for r in ORDERS])
def test_what_comes_first(follow: Any, robots_txt: Reply, expected: str) -> None:
    story = Story([A], site(4, robots_txt=robots_txt), follow_links=follow).run()
    assert order(story) == expected


def test_what_a_late_guess_lists_is_visited() -> None:
    web = site(3) | {FIRST: sitemap(f"{A}only-listed", f"{A}0"), f"{A}only-listed": OK}
    story = Story([A], web, follow_links=True).run()
    assert order(story) == "RPPPSP"  # where the first guess was right, the second is not made
    assert story.end(f"{A}only-listed") == ("done", None)


def test_what_a_late_index_lists_comes_before_the_pages_then_due() -> None:
    index = Reply(200, b"<sitemapindex><sitemap><loc>http://a.test/one.xml</loc></sitemap></sitemapindex>")
    web = site(3) | {FIRST: index, f"{A}one.xml": sitemap(f"{A}x"), f"{A}x": OK}
    story = Story([A], web, follow_links=True).run()
    assert order(story) == "RPPPSSP"


def test_a_guess_waits_for_the_answer_that_may_bring_pages() -> None:
    """The home page takes its time: the slot is better used for what it leads to."""
    story = Story([A], site(4), took_s=3.5, follow_links=True, max_parallel_per_domain=8).run()
    assert order(story) == "RPPPPSS"


def test_a_guess_that_leads_elsewhere_is_late_there_as_well() -> None:
    web = site(3) | site(4, "b.test") | {FIRST: moved("http://b.test/theirs.xml")}
    story = Story([A, "http://b.test/"], web, follow_links=True).run()
    assert order(story, "http://b.test/").startswith("RPPPP")
    assert "http://b.test/theirs.xml" in story.urls(Kind.SITEMAP)


def endless(pages_max: int) -> dict[str, Answers]:
    """Each page leads to two more."""
    numbers = count(1)

    def answer(url: str) -> Reply:
        return page(f"/{next(numbers)}", f"/{next(numbers)}")

    return {f"{A}robots.txt": FREE, A: answer, **{f"{A}{number}": answer for number in range(2 * pages_max)}}


def test_on_a_site_without_an_end_guesses_have_their_turn_after_a_hundred_pages_each() -> None:
    story = Story([A], endless(400), follow_links=True, fixed_delay=0.1).run(until=35.0)
    pages = order(story)
    first, second = pages.index("S"), pages.rindex("S")
    assert pages.count("S") == 2
    assert pages[:first].count("P") == LATE_AFTER
    assert pages[first:second].count("P") == LATE_AFTER


def test_the_tenth_page_of_a_slow_host_starts_fifty_seconds_after_its_robots_txt() -> None:
    story = Story([A], site(10, robots_txt=robots("Crawl-delay: 5")), took_s=0.1, follow_links=True, **AS_SHIPPED)
    story.run()
    asked = {kind: [each.at for each in story.asked if each.visit.kind is kind] for kind in Kind}
    assert len(asked[Kind.PAGE]) == 10
    assert 50.0 <= asked[Kind.PAGE][9] - asked[Kind.ROBOTS][0] <= 50.5
    assert asked[Kind.SITEMAP][0] > asked[Kind.PAGE][9]


def test_its_fast_neighbours_finish_as_they_do_alone() -> None:
    fast = [f"http://fast{number}.test/" for number in range(5)]
    web: dict[str, Answers] = {}
    for number in range(5):
        web |= site(60, f"fast{number}.test")
    alone = Story(fast, web, took_s=0.1, follow_links=True, **AS_SHIPPED).run()
    slow = site(10, robots_txt=robots("Crawl-delay: 5"))
    beside = Story([A, *fast], web | slow, took_s=0.1, follow_links=True, **AS_SHIPPED).run()
    assert {task: beside.ended_at[task] for task in alone.ended_at} == pytest.approx(alone.ended_at)


def test_a_guess_that_fails_for_now_is_tried_again() -> None:
    web = site(3) | {FIRST: [Reply(500, b""), sitemap(f"{A}x")], f"{A}x": OK}
    story = Story([A], web, follow_links=True).run()
    assert story.urls(Kind.SITEMAP) == [FIRST, FIRST]
    assert story.end(f"{A}x") == ("done", None)


def test_what_is_stopped_hands_its_late_guesses_back() -> None:
    story = Story([A], site(30), follow_links=True)
    story.run(until=5.0)
    story.stop()
    story.run()
    assert SECOND not in story.urls()
