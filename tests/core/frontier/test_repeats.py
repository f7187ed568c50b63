"""A request under which a kept connection broke is made good once, over a new one, at the pace of its domain."""

from __future__ import annotations

from typing import Any

import pytest

from amble.core.frontier.visit import KEPT_CONNECTION_BROKE, Kind
from amble.core.outcome import Failure
from amble.core.pacing.events import CircuitOpened
from tests.core.frontier.story import FREE, OK, Answers, Story, broken, moved

A_ROBOTS, X, Y = "http://a.test/robots.txt", "http://a.test/x", "http://a.test/y"
STALE = broken(Failure.NETWORK_RESET, stale=True)
RESET = broken(Failure.NETWORK_RESET)
QUIET: dict[str, Any] = {"discover": False, "max_retries": 2}


def sends(story: Story, url: str) -> list[tuple[int, bool]]:
    """Each request for a URL: its attempt, and whether it had to be over a new connection."""
    return [(asked.visit.attempt, asked.visit.new_connection) for asked in story.asked if asked.url == url]


@pytest.mark.parametrize(
    ("why", "answers", "sent", "end"),
    [
        ("made good at once", [STALE, OK], [(1, False), (1, True)], "done"),
        ("what breaks anew is the site's", [STALE, RESET, OK], [(1, False), (1, True), (2, False)], "done"),
        ("once for each attempt", [STALE, RESET, STALE, OK], [(1, False), (1, True), (2, False), (2, True)], "done"),
        (
            "never more than twice as often as there are attempts",
            [STALE, RESET] * 20,
            [(attempt, repeated) for attempt in (1, 2, 3) for repeated in (False, True)],
            "network_reset",
        ),
    ],
)  # fmt: skip
def test_repeats_of_a_page(why: str, answers: list[Any], sent: list[tuple[int, bool]], end: str) -> None:
    web: dict[str, Answers] = {A_ROBOTS: FREE, X: answers}
    story = Story([X], web, **QUIET).run()
    assert sends(story, X) == sent
    assert story.ends() == {X: end}


def test_the_repeat_keeps_the_gap_and_costs_no_attempt() -> None:
    story = Story([X], {A_ROBOTS: FREE, X: [STALE, OK]}, **QUIET).run()
    assert [asked.at for asked in story.asked] == [0.0, 1.0, 2.0]
    assert story.finals[X].visit.attempt == 1
    assert story.asked[2].visit.why_sent == KEPT_CONNECTION_BROKE
    assert [asked.visit.why_sent for asked in story.asked[:2]] == [None, None]


def test_it_says_nothing_about_the_site() -> None:
    """Neither the breaker nor the threshold of failed URLs hears of it."""
    pages = [f"http://a.test/{number}" for number in range(30)]
    web: dict[str, Answers] = {A_ROBOTS: FREE, **{url: [STALE, OK] for url in pages}}
    story = Story(pages, web, consecutive_fail_threshold=2, **QUIET).run()
    assert set(story.ends().values()) == {"done"}
    assert max(story.gaps("a.test")) == 1.0


@pytest.mark.parametrize("first", [STALE, moved("/elsewhere")])
def test_a_robots_txt_is_made_good_as_well(first: Any) -> None:
    elsewhere = "http://a.test/elsewhere"
    web: dict[str, Answers] = {A_ROBOTS: [first, FREE], elsewhere: [STALE, FREE], X: OK, Y: OK}
    story = Story([X, Y], web, **QUIET).run()
    assert story.ends() == {X: "done", Y: "done"}
    assert story.urls(Kind.ROBOTS) == ([A_ROBOTS] * 2 if first is STALE else [A_ROBOTS, elsewhere, elsewhere])
    assert max(story.gaps("a.test")) == 1.0


def test_stopped_before_the_repeat_it_is_handed_back() -> None:
    story = Story([X], {A_ROBOTS: FREE, X: [STALE, OK]}, **QUIET).run(until=1.5)
    story.stop()
    assert story.end(X) == ("deferred", "cancelled")


def test_time_outs_on_one_connection_count_once_for_the_breaker() -> None:
    """Until a new one was tried. Each is still a failed attempt of its URL."""
    timed_out = broken(Failure.NETWORK_TIMEOUT)
    again = broken(Failure.NETWORK_TIMEOUT, repeated=True)
    pages = [f"http://a.test/{number}" for number in range(4)]
    for answers, opened in [([timed_out], True), ([again], False)]:
        web: dict[str, Answers] = {A_ROBOTS: FREE, **{url: [*answers, OK] for url in pages}}
        story = Story(pages, web, consecutive_fail_threshold=3, **QUIET).run()
        assert set(story.ends().values()) == {"done"}
        assert {final.visit.attempt for final in story.finals.values()} == {2}
        assert any(isinstance(event, CircuitOpened) for event in story.events) is opened
