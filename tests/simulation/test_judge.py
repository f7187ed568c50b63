"""The judge of the simulation itself: what it calls wrong, and what it must let pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from amble.core.frontier.changes import Changes, Final, State
from amble.core.frontier.visit import Kind, Visit
from amble.core.headers import Headers
from amble.core.outcome import Failure
from amble.fetcher import FetchResult
from amble.jobs import rows
from amble.settings import Settings
from amble.testing.simulation.judge import GUESS_AFTER, Judge
from amble.testing.simulation.ledger import Ledger
from amble.testing.simulation.robots import RobotsFile
from amble.testing.simulation.tail_watch import SLACK_S, TailWatch

A, ORIGIN, ROBOTS = "https://a.test/", "https://a.test", "https://a.test/robots.txt"
GUESS = "https://a.test/sitemap.xml"
ZERO = RobotsFile(delay_s=0.0)
SLOW = RobotsFile(delay_s=9.0)


def judge_of(file: RobotsFile = ZERO, **settings: Any) -> Judge:
    return Judge(Settings.of(settings), frozenset({"a.test"}), {file.body(): file}, Counter())


def rules(judge: Judge) -> list[str]:
    return [violation.partition(" ")[0] for violation in judge.violations]


def learn(judge: Judge, now: float, file: RobotsFile | None) -> None:
    if file is None:
        answer = FetchResult(ROBOTS, failure=Failure.NETWORK_RESET)
    else:
        answer = FetchResult(ROBOTS, 200, Headers(), file.body())
    judge.learn_robots(ORIGIN, (), answer, now)


# --- Robots.txt ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_respected", "gap_s"), [(True, 9.0), (False, 0.0)])
def test_what_a_robots_txt_asks_for_binds_nobody_who_heeds_none(is_respected: bool, gap_s: float) -> None:
    judge = judge_of(SLOW, respect_robots_txt=is_respected, max_rate="unlimited")
    learn(judge, 0.0, SLOW)
    assert judge.gap_s("a.test") == gap_s


@pytest.mark.parametrize(
    ("why", "file", "clock_set_at", "missed_at", "settings", "gap_s"),
    [
        ("it can be used still", ZERO, None, 60.0, {}, 0.0),
        ("it is too old, and said less than the default", ZERO, None, 600.0, {}, 5.0),
        ("it is too old, and said more", SLOW, None, 600.0, {}, 9.0),
        ("likewise where that allows everything", SLOW, None, 600.0, {"robots_unreachable": "allow"}, 5.0),
        ("nobody knows how old it is", ZERO, 30.0, 60.0, {"robots_unreachable": "allow"}, 0.0),
        ("which makes nothing stricter", SLOW, 30.0, 60.0, {"robots_unreachable": "allow"}, 5.0),
        ("it is known how old it is", ZERO, -30.0, 60.0, {"robots_unreachable": "allow"}, 0.0),
    ],
)
def test_what_must_lie_between_requests_while_a_robots_txt_of_an_earlier_run_cannot_be_had(
    why: str, file: RobotsFile, clock_set_at: float | None, missed_at: float, settings: dict[str, Any], gap_s: float
) -> None:
    judge = judge_of(file, default_crawl_delay=5.0, max_rate="unlimited", robots_stale_age=100.0, **settings)
    learn(judge, 0.0, file)
    judge.clock_set_at = judge.clock_set_at if clock_set_at is None else clock_set_at
    judge.restart({origin: replace(known) for origin, known in judge.robots.items()}, 50.0)
    learn(judge, missed_at, None)
    assert judge.gap_s("a.test") == gap_s, why


# --- Guesses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("why", "requests", "found"),
    [
        ("a page waits for a guess", 3, ["G1"]),
        ("a guess has its turn, however often the same pages were asked for", GUESS_AFTER, []),
    ],
)
def test_when_a_guess_may_be_asked_for(why: str, requests: int, found: list[str]) -> None:
    judge = judge_of(follow_links=True, max_rate="unlimited")
    judge.waiting = lambda host, now: [f"{A}waits"]
    learn(judge, 0.0, ZERO)
    for number in range(requests):
        judge.end(judge.begin(f"{A}{number % 3}", Kind.PAGE, float(number)))
    judge.begin(GUESS, Kind.SITEMAP, 1_000.0)
    assert rules(judge) == found, why


def test_what_comes_out_of_the_store_in_this_very_instant_waits_for_nobody() -> None:
    ledger = Ledger(Settings(), lambda rule, what: None, Counter(), lambda line: None)
    row = rows.task_row(Visit(A, task=A), 1)
    ledger.tasks[A] = ledger.shelf[A] = row
    assert ledger.waiting("a.test", 5.0) == []
    ledger.claim("a.test", 1, 5.0)
    assert (ledger.waiting("a.test", 5.0), ledger.waiting("a.test", 5.1)) == ([], [A])


# --- Ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("why", "gave_up_at", "found"),
    [
        ("it is given up in time, and then the store gives back what it holds one by one", 10.0, []),
        ("it is given up too late", 11.0 + SLACK_S, ["V7"]),
        ("it is not given up", None, ["V7"]),
    ],
)
def test_when_a_crawl_of_failing_hosts_is_over(why: str, gave_up_at: float | None, found: list[str]) -> None:
    broken: list[str] = []
    watch = TailWatch(Settings.of({"max_tail": 10.0}), lambda rule, what: broken.append(rule), since=0.0)
    watch.failing["a.test"], watch.ticked_at = 2, 0.0
    if gave_up_at is not None:
        given_up = Final(Visit(A, task=A), State.FAILED, Failure.DOMAIN_GIVEN_UP, "no page in this run")
        watch.take(Changes(finals=[given_up]), None, None, gave_up_at)
    watch.end(100.0)
    assert broken == found, why
