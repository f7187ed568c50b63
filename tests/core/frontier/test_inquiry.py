"""Before the network counts as down, those who answered are asked; and so where somebody answers for everybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amble.core.frontier.inquiry import ANSWER_WITHIN_S, ASK_WITHIN_S, ASKED_MAX, REMEMBERED_MAX, Finding, Inquiry, Way
from amble.core.frontier.visit import ASKS_NETWORK, Kind, Visit
from amble.core.outcome import Failure, Phase
from amble.core.pacing.events import NetworkBack, NetworkDown, NobodyReached
from amble.core.pacing.permit import Permit
from tests.core.frontier.story import FREE, OK, Answers, Reply, Story, broken

SILENT = broken(Failure.NETWORK_TIMEOUT, phase=Phase.CONNECT)
NO_NAME = broken(Failure.NETWORK_DNS_FAILURE, dns_error="timeout", phase=Phase.RESOLVE)
DENIED = broken(Failure.NETWORK_DNS_FAILURE, dns_error="no_such_name", phase=Phase.RESOLVE)
PRIVATE = broken(Failure.ADDRESS_FORBIDDEN, phase=Phase.RESOLVE)
UNTRUSTED = broken(Failure.NETWORK_TLS_ERROR, untrusted=True, phase=Phase.CONNECT)
NO_TLS = broken(Failure.NETWORK_TLS_ERROR, phase=Phase.CONNECT)
PROXY = broken(Failure.NETWORK_CONNECTION_REFUSED, proxy_fault=True)
BY_NAME = Way(new_name=True, new_connection=False)
BY_CONNECTING = Way(new_name=False, new_connection=True)
SLOW: dict[str, Any] = {"took_s": 2.0, "in_flight_max": 2}  # so that some are done long before others are asked
QUIET: dict[str, Any] = {"discover": False, "follow_links": True}
Trouble = Callable[[str, float], Reply | None]  # what is wrong with a host at an instant

# --- Whom to ask -----------------------------------------------------------------------------------------------------


def permit(domain: str) -> Permit:
    return Permit(domain, 1, 0.0, 0.0, 0, 0.0, None, 1, False)  # type: ignore[arg-type]


def opened(names: list[str], failing: frozenset[str] = frozenset(), blocked: str = "") -> Inquiry:
    inquiry = Inquiry()
    for name in names:
        inquiry.remember(name, f"http://{name}")
    inquiry.open(BY_NAME, failing, lambda domain: domain != blocked, 0.0)
    return inquiry


@pytest.mark.parametrize(
    ("names", "failing", "asked"),
    [
        ("a b c d", "", "d c b"),  # who answered last
        ("a b c d", "d c", "b a d"),  # rather those that do not fail
        ("a w.a x.a b", "", "b x.a"),  # of each site one
        ("a", "a", "a"),
        ("", "", ""),
    ],
)
def test_who_is_asked(names: str, failing: str, asked: str) -> None:
    inquiry = opened([f"{name}.test" for name in names.split()], frozenset(f"{name}.test" for name in failing.split()))
    assert inquiry.to_ask == [f"http://{name}.test" for name in asked.split()]


def test_who_hangs_already_is_heard_only_where_too_few_can_be_asked() -> None:
    busy = {name: permit(name) for name in ("a.test", "c.test", "e.test")}
    for blocked, to_ask, heard in (("", "f d b", ""), ("f", "d b", "e"), ("fdb", "", "e c a")):
        inquiry = Inquiry()
        for letter in "abcdef":
            inquiry.remember(f"{letter}.test", f"http://{letter}.test")
        inquiry.open(BY_CONNECTING, (), lambda domain, blocked=blocked: domain[0] not in blocked, 9.0, busy.get)  # type: ignore[misc]
        assert inquiry.to_ask == [f"http://{letter}.test" for letter in to_ask.split()]
        assert {name for name, one in busy.items() if inquiry.takes(one)} == {f"{one}.test" for one in heard.split()}


def test_it_is_open_as_long_as_every_place_is_taken() -> None:
    """Hundreds of requests that hang leave no room to ask anybody: that nobody was asked says nothing then."""
    inquiry = opened(["a.test"])
    assert inquiry.finding(100.0) is Finding.OPEN
    assert inquiry.look(100.0) == ["http://a.test"]
    assert inquiry.until == 100.0 + ASK_WITHIN_S
    inquiry.leave_out("http://a.test")
    assert inquiry.finding(101.0) is Finding.NOBODY


def test_who_is_blocked_is_not_asked_and_not_always_the_same() -> None:
    names = [f"{letter}.test" for letter in "abcdefg"]
    inquiry = opened(names, blocked="g.test")
    first = inquiry.to_ask
    assert first == ["http://f.test", "http://e.test", "http://d.test"]
    inquiry.close()
    inquiry.open(BY_NAME, (), lambda domain: True, 9.0)
    assert set(inquiry.to_ask).isdisjoint(first)
    assert len(inquiry.to_ask) == ASKED_MAX


def test_who_cannot_be_asked_after_all_is_replaced_as_long_as_there_is_somebody() -> None:
    inquiry = opened([f"{letter}.test" for letter in "abcde"])
    asked = []
    while inquiry.to_ask:
        asked.append(inquiry.to_ask[0].removeprefix("http://"))
        inquiry.leave_out(inquiry.to_ask[0])
    assert asked == ["e.test", "d.test", "c.test", "b.test", "a.test"]
    assert inquiry.finding(1.0) is Finding.NOBODY


def test_those_who_answered_last_are_remembered_and_no_more() -> None:
    inquiry = opened([f"a{number}.test" for number in range(REMEMBERED_MAX + 10)])
    assert len(inquiry._witnesses) == REMEMBERED_MAX
    assert inquiry.to_ask[0] == f"http://a{REMEMBERED_MAX + 9}.test"


@pytest.mark.parametrize(
    ("answers", "now", "finding"),
    [
        ([], 1.0, Finding.OPEN),
        ([False, False], 1.0, Finding.OPEN),
        ([False, False, True], 1.0, Finding.UP),
        ([True], 1.0, Finding.UP),  # one suffices
        ([False, False, False], 1.0, Finding.DOWN),
        ([False], 2.0 + ANSWER_WITHIN_S, Finding.DOWN),  # silence is an answer
        ([None, None, None], 1.0, Finding.NOBODY),  # what was not tried says nothing
        ([None, False, None], 1.0, Finding.DOWN),
    ],
)
def test_what_the_answers_amount_to(answers: list[bool | None], now: float, finding: Finding) -> None:
    inquiry = opened(["a.test", "b.test", "c.test"])
    permits = []
    for origin in inquiry.to_ask:
        permits.append(permit(origin))
        visit = inquiry.sent(origin, permits[-1], Visit(f"{origin}/"), 1.0)
        assert (visit.new_name, visit.new_connection, visit.why_sent) == (True, False, ASKS_NETWORK)
    for one, answer in zip(permits, answers, strict=False):
        assert inquiry.takes(one)
        if answer is None:
            inquiry.drop(one)
        else:
            inquiry.answered(one, 1.0, begun_at=1.0, got_through=answer)
    assert inquiry.finding(now) is finding


@pytest.mark.parametrize(
    ("story", "way", "all_silent", "begun_at", "reused", "finding"),
    [
        ("connected since", BY_CONNECTING, False, 10.0, False, Finding.UP),
        ("connected before a certificate was wrong", BY_CONNECTING, False, 9.9, False, Finding.OPEN),
        ("while others waited in vain for a connection", BY_CONNECTING, True, 8.1, False, Finding.UP),
        ("long before", BY_CONNECTING, True, 7.9, False, Finding.OPEN),
        ("over a connection that it had", BY_CONNECTING, True, 9.9, True, Finding.OPEN),
        ("by a name that it knew", BY_NAME, True, 9.9, False, Finding.OPEN),
    ],
)
def test_what_was_under_way_already_says_something_only_where_it_passed_the_way_that_fails(
    story: str, way: Way, all_silent: bool, begun_at: float, reused: bool, finding: Finding
) -> None:
    """Whose answer says nothing can be asked as soon as it is there."""
    inquiry, busy = Inquiry(), {name: permit(name) for name in ("b.test", "c.test", "d.test")}
    for name in busy:
        inquiry.remember(name, f"http://{name}")
    inquiry.open(way, (), lambda domain: True, 10.0, busy.get, all_silent=all_silent)
    assert inquiry.to_ask == []
    inquiry.answered(busy["b.test"], 11.0, begun_at=begun_at, got_through=True, reused=reused)
    assert inquiry.finding(11.0) is finding, story
    assert inquiry.to_ask == ([] if finding is Finding.UP else ["http://b.test"])


# --- Whole crawls ----------------------------------------------------------------------------------------------------


def crawl(names: list[str], trouble: Trouble, pages: int = 1, took_s: float = 0.05, **settings: Any) -> Story:
    def answer(url: str) -> Reply:
        wrong = trouble(url.split("/")[2], story.now)
        return wrong or (FREE if url.endswith("robots.txt") else OK)

    seeds = [f"http://{name}/{number}" for number in range(pages) for name in names]
    web: dict[str, Answers] = {}
    schemes = ("http", "https")  # who cannot be reached by one cannot by the other
    web |= dict.fromkeys((*seeds, *(f"{scheme}://{name}/robots.txt" for scheme in schemes for name in names)), answer)
    story = Story(seeds, web, took_s=took_s, **{**QUIET, **settings})
    return story


def hosts(word: str, count: int) -> list[str]:
    return [f"{word}{number}.test" for number in range(count)]


def downs(story: Story) -> int:
    return sum(isinstance(event, NetworkDown) for event in story.events)


def questions(story: Story) -> int:
    return sum(asked.visit.asks_network for asked in story.asked)


def dead(word: str, how: Reply, since: float = 0.0) -> Trouble:
    return lambda host, now: how if host.startswith(word) and now >= since else None


HOW = pytest.mark.parametrize("how", [SILENT, NO_NAME, DENIED, UNTRUSTED, PRIVATE], ids=lambda how: how.failure.value)


@HOW
@pytest.mark.parametrize(
    ("good", "bad", "since"),
    [(90, 10, 0.0), (97, 3, 0.0), (20, 3, 0.0), (20, 2, 3.0), (20, 12, 3.0)],
    ids=["a tenth", "a few of many", "the last three", "two that answered", "a third that answered"],
)
def test_dead_hosts_are_no_outage_however_few_others_are_left(how: Reply, good: int, bad: int, since: float) -> None:
    """Good hosts are done long before the dead ones have failed for the last time."""
    story = crawl([*hosts("good", good), *hosts("dead", bad)], dead("dead", how, since), pages=3, in_flight_max=10)
    story.run()
    assert downs(story) == 0
    ends = story.ends()
    assert {end for url, end in ends.items() if "good" in url} == {"done"}
    assert "done" not in {ends[f"http://dead{number}.test/2"] for number in range(bad)}
    assert max(story.ended_at.values()) < 300.0, "and nobody waits for a network that is up"
    assert questions(story) <= ASKED_MAX * 12


@HOW
def test_a_network_that_fails_everybody_costs_nothing_but_the_time(how: Reply) -> None:
    retries = {"max_retries": 0} if how in (DENIED, PRIVATE, UNTRUSTED) else {}
    story = crawl(hosts("a", 12), lambda host, now: how if 5.0 <= now < 205.0 else None, pages=20, **retries).run()
    assert set(story.ends().values()) == {"done"}
    assert max(final.visit.attempt for final in story.finals.values()) == 1
    [down] = [event for event in story.events if isinstance(event, NetworkDown)]
    [back] = [event for event in story.events if isinstance(event, NetworkBack)]
    assert down.reason.endswith("domains fail")
    assert 195.0 <= back.down_s <= 215.0
    paces = [story.frontier.registry.find(f"a{number}.test") for number in range(12)]
    assert {(pace.troubles.error_streak, pace.strategy.delay_s, pace.block) for pace in paces if pace} == {
        (0, 1.0, None)
    }


@pytest.mark.parametrize(
    ("how", "new_name", "new_connection"), [(SILENT, False, True), (NO_NAME, True, False), (UNTRUSTED, False, True)]
)
def test_what_is_asked_is_asked_by_the_way_that_fails(how: Reply, new_name: bool, new_connection: bool) -> None:
    story = crawl([*hosts("good", 9), *hosts("dead", 40)], dead("dead", how), **SLOW).run()
    assert downs(story) == 0
    asked = [one.visit for one in story.asked if one.visit.asks_network]
    assert {(visit.new_name, visit.new_connection) for visit in asked} == {(new_name, new_connection)}
    assert {visit.kind for visit in asked} == {Kind.ROBOTS}, "nothing else is left to ask them"
    assert {visit.why_sent for visit in asked} == {ASKS_NETWORK}


def test_what_is_queued_there_is_asked_rather_than_robots_txt() -> None:
    story = crawl(["good.test", *hosts("dead", 12)], dead("dead", SILENT, 3.0), pages=9).run()
    asked = [one.visit for one in story.asked if one.visit.asks_network]
    assert Kind.PAGE in {visit.kind for visit in asked}
    assert downs(story) == 0
    assert len(story.finals) == 9 * 13


def test_who_is_there_and_speaks_no_http_is_not_asked() -> None:
    """They were met last, and would leave nobody to speak for a network that is up."""

    def trouble(host: str, now: float) -> Reply | None:
        return NO_TLS if host.startswith("notls") else SILENT if host.startswith("dead") else None

    story = crawl([*hosts("good", 9), *hosts("notls", 6), *hosts("dead", 40)], trouble, **SLOW).run()
    assert downs(story) == 0
    assert {one.url.split("/")[2][:4] for one in story.asked if one.visit.asks_network} == {"good"}


def until_in_doubt(story: Story) -> Story:
    for _ in range(1_000):
        story.run(until=story.now + 0.1)
        if story.plan.patience.inquiry.is_open:
            return story
    raise AssertionError("nothing is doubted")


def test_nothing_is_blamed_while_it_is_not_known() -> None:
    """Who was asked takes seconds to answer: what fails meanwhile waits, and then counts as its own."""
    story = crawl([*hosts("good", 9), *hosts("dead", 40)], dead("dead", SILENT), **SLOW)
    until_in_doubt(story)
    sent = len(story.asked)
    story.run(until=story.now + 1.5)
    assert all(ready.visit.task not in story.finals for ready in story.plan.patience.held)
    assert len(story.asked) - sent <= ASKED_MAX, "nothing else is sent"
    story.run()
    assert downs(story) == 0
    assert story.finals.keys() == story.tasks.keys()


CASES: list[tuple[str, list[str], Trouble, dict[str, Any], int]] = [
    # story                            sites                    what is wrong                          settings  outages
    ("one domain that falls silent", ["a.test"], dead("a", SILENT, 3.0), {}, 0),
    ("... or is denied", ["a.test"], dead("a", DENIED, 3.0), {}, 0),
    ("... or private, which is rebinding", ["a.test"], dead("a", PRIVATE, 3.0), {}, 0),
    ("two hosts of one site", ["w.a.test", "x.a.test"], dead("", DENIED, 3.0), {}, 0),
    ("dead names, of which nobody ever answered", hosts("a", 5), dead("a", DENIED), {}, 0),
    ("... and they are many", hosts("a", 30), dead("a", DENIED), {}, 0),
    ("black holes, of which nobody ever answered", hosts("a", 5), dead("a", SILENT), {}, 0),
    ("... and they are many: the network, most likely", hosts("a", 30), dead("a", SILENT), {}, 1),
    ("a proxy that fails", ["a.test"], lambda host, now: PROXY if 3.0 < now < 60.0 else None, {}, 1),
    ("everybody, with no try to spare", hosts("a", 9), lambda host, now: SILENT if 3 < now < 60 else None,
     {"max_retries": 0}, 1),
    ("everybody, one request at a time", hosts("a", 9), lambda host, now: DENIED if 3 < now < 60 else None,
     {"in_flight_max": 1}, 1),
]  # fmt: skip


@pytest.mark.parametrize(("names", "trouble", "settings", "outages"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_each_kind_of_crawl(names: list[str], trouble: Trouble, settings: dict[str, Any], outages: int) -> None:
    story = crawl(names, trouble, pages=6, **settings).run()
    assert downs(story) == outages
    assert len(story.finals) == 6 * len(names)


LIES = [
    (hosts("a", 30), DENIED, "every name is denied: is this machine online, behind a portal?"),
    (hosts("a", 2), DENIED, "every name is denied: is this machine online, behind a portal?"),
    (hosts("a", 30), PRIVATE, "every name has a private address: is this machine behind a portal?"),
    (hosts("a", 3), UNTRUSTED, "every certificate is another's: is this machine behind a portal?"),
    (hosts("a", 1), DENIED, None),  # may be mistyped
    (hosts("a", 30), SILENT, None),
]


@pytest.mark.parametrize(("names", "how", "line"), LIES)
def test_where_nobody_was_ever_reached_one_line_says_so(names: list[str], how: Reply, line: str | None) -> None:
    story = crawl(names, dead("a", how)).run()
    assert [event.reason for event in story.events if isinstance(event, NobodyReached)] == ([line] if line else [])
    assert story.plan.patience.outage.lie == line
    assert story.finals.keys() == story.tasks.keys(), "a row each"


def test_one_that_answers_is_enough_to_say_nothing() -> None:
    story = crawl(["good.test", *hosts("dead", 9)], dead("dead", DENIED)).run()
    assert story.plan.patience.outage.lie is None
    assert not [event for event in story.events if isinstance(event, NobodyReached)]


def test_a_stop_while_it_is_not_known_blames_nobody_and_hands_everything_back() -> None:
    story = crawl(hosts("a", 9), lambda host, now: SILENT if now >= 3.0 else None, pages=9, took_s=1.0)
    until_in_doubt(story)
    story.stop()
    story.run()
    assert story.finished
    assert set(story.ends().values()) == {"done", "cancelled"}


def test_a_pause_while_it_is_not_known_leaves_it_open() -> None:
    """Nobody asks for an hour. Then it is found out as if nothing had been."""
    story = until_in_doubt(crawl([*hosts("good", 9), *hosts("dead", 40)], dead("dead", SILENT), **SLOW))
    while story._flying:
        story.now = max(story.now, story._flying[0][0])
        story.land()
    story.now += 3_600.0
    story.run()
    assert downs(story) == 0
    assert {end for url, end in story.ends().items() if "good" in url} == {"done"}


def test_asking_never_breaks_the_gap_of_a_domain() -> None:
    story = crawl([*hosts("good", 5), *hosts("dead", 40)], dead("dead", SILENT), **SLOW).run()
    assert questions(story)
    assert min(gap for number in range(5) for gap in story.gaps(f"good{number}.test")) >= 1.0


def test_trials_of_an_outage_ask_those_who_answered_as_well() -> None:
    """Nothing but dead names is left when the network comes back: they would never say so."""
    names = [*hosts("good", 6), *hosts("dead", 3)]
    end_s = 300.0

    def trouble(host: str, now: float) -> Reply | None:
        if host.startswith("dead"):
            return SILENT if now >= 2.0 else None
        return SILENT if 2.0 <= now < end_s else None

    story = crawl(names, trouble, pages=2)
    for number in range(6):  # done before it begins
        story.web[f"http://good{number}.test/1"] = OK
    story.run()
    assert downs(story) <= 1
    assert max(story.ended_at.values()) < end_s + 300.0


def test_who_is_busy_with_another_crawl_of_this_process_is_not_waited_for() -> None:
    """The paces of all who answered are in use: the dead ones never answered, and prove nothing."""
    story = crawl([*hosts("good", 9), *hosts("dead", 40)], dead("dead", SILENT), **SLOW)
    while not all(f"http://good{number}.test/0" in story.finals for number in range(9)):
        story.run(until=story.now + 1.0)
    story.run(until=story.now + 2.0)
    registry = story.frontier.registry
    taken = [
        registry.reserve(registry.pace(f"good{number}.test", story.now, story.utc), story.now) for number in range(9)
    ]
    assert not any(isinstance(one, float) for one in taken)
    story.run()
    assert (downs(story), questions(story)) == (0, 0)
    assert max(story.ended_at.values()) < 300.0


def test_a_crawl_that_is_taken_up_asks_only_those_who_answered_since() -> None:
    story = crawl(hosts("good", 2), dead("dead", DENIED))
    story.resume(*(Visit(f"http://dead{number}.test/0", task=f"http://dead{number}.test/0") for number in range(9)))
    for number in range(9):
        story.web[f"http://dead{number}.test/robots.txt"] = DENIED
    story.run()
    assert downs(story) == 0
    assert {asked.url.split("/")[2][:4] for asked in story.asked if asked.visit.asks_network} <= {"good"}
