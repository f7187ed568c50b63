"""The network, the resolver or the proxy is down: nobody is blamed, and the crawl goes on when it is back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amble.core.frontier.inquiry import ASKED_MAX
from amble.core.frontier.outage import PARDONS_MAX, PROBE_EVERY_S, WINDOW_S, Fault, Outage, Turn, fault_of
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.pacing.events import CircuitOpened, NetworkBack, NetworkDown
from tests.core.frontier.story import FREE, OK, Answers, Reply, Story, broken, status

VISIT = Visit("http://a.test/", task="http://a.test/")
UP, NET, OWN = Fault.ANSWERED, Fault.REFUSED, Fault.OWN
MUTE, NAMELESS = Fault.SILENT, Fault.NAMELESS
TIMEOUT = broken(Failure.NETWORK_TIMEOUT)
PROXY = broken(Failure.NETWORK_CONNECTION_REFUSED, proxy_fault=True)

# --- What one answer says --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (OK, UP),
        (status(500), UP),
        (broken(Failure.NETWORK_TLS_ERROR), UP),
        (TIMEOUT, MUTE),
        (Reply(200, None, failure=Failure.NETWORK_TIMEOUT), UP),  # a body that dripped away came from somewhere
        (broken(Failure.NETWORK_RESET), NET),
        (broken(Failure.NETWORK_DNS_FAILURE, dns_error="no_such_name"), Fault.DENIED),  # perhaps of every name
        (broken(Failure.NETWORK_TLS_ERROR, untrusted=True), Fault.UNTRUSTED),
        (broken(Failure.NETWORK_DNS_FAILURE, dns_error="timeout"), NAMELESS),
        (PROXY, OWN),
        (broken(Failure.NETWORK_TIMEOUT, local_fault=True), OWN),
        (broken(Failure.NETWORK_RESET, local_fault=True), OWN),
        (broken(Failure.ADDRESS_FORBIDDEN), Fault.PRIVATE),  # the name says nothing against it, so its address does
        (broken(Failure.CANCELLED), None),
    ],
)
def test_what_one_answer_says_about_the_network(reply: Reply, fault: Fault | None) -> None:
    assert fault_of(reply.result("http://a.test/", 0.1), "http://a.test/") is fault


# --- When it is down -------------------------------------------------------------------------------------------------

Rows = list[tuple[float, str, Fault | None]]

STORIES: list[tuple[str, Rows, bool]] = [
    # story                                                   (instant, domains, answer)                   down?
    ("three that worked fail", [(0, "abc", UP), (1, "abc", NET)], True),
    ("two that cut us off are there", [(0, "ab", UP), (1, "ab", NET)], False),
    ("two that worked fall silent together", [(0, "ab", UP), (1, "ab", MUTE)], True),
    ("... though one of them only lost its name", [(0, "ab", UP), (1, "a", MUTE), (2, "b", NAMELESS)], True),
    ("two hosts of one site fall silent", [(0, "aA", UP), (1, "aA", MUTE)], False),
    ("one falls silent", [(0, "a", UP), (1, "aaaaaa", MUTE)], False),
    ("one falls silent, and another answers", [(0, "ab", UP), (1, "a", MUTE), (2, "b", UP), (3, "a", MUTE)], False),
    ("two that never answered are silent", [(0, "c", UP), (1 + WINDOW_S, "ab", MUTE)], False),
    ("no name at all can be looked up, from the start", [(0, "ab", NAMELESS)], True),
    ("one name cannot be looked up", [(0, "aaaaaa", NAMELESS)], False),
    ("one of five still answers", [(0, "abcde", UP), (1, "abcd", NET)], False),
    ("... until it is done, and the rest still fails", [(0, "abcde", UP), (1, "abcd", NET), (30, "abcd", NET)], False),
    ("... and all others fail again", [(0, "abcde", UP), (15, "abcd", NET), (1 + WINDOW_S, "a", NET)], True),
    ("one of twenty still answers", [(0, "abcdefghijklmnopqrst", UP), (1, "abcdefghijklmnopqrs", NET)], True),
    ("nobody ever answered: dead names", [(0, "abcdefg", NET)], False),
    ("nobody ever answered, and they are many", [(0, "abcdefgh", NET)], True),
    ("one domain that fails often", [(0, "abc", UP), (1, "aaaaaaaaaaaa", NET)], False),
    ("a proxy, with one domain", [(0, "aaa", OWN)], True),
    ("a proxy that works in between", [(0, "aa", OWN), (1, "a", UP), (2, "aa", OWN)], False),
    ("... though that was to be expected", [(0, "b", UP), (0.1, "aa", OWN), (0.2, "b", UP), (0.3, "a", OWN)], False),
    ("who has just answered fails", [(0, "abc", UP), (0.5, "abc", UP), (0.6, "abc", NET)], True),
    ("nothing was tried", [(0, "abc", UP), (1, "abcabc", None)], False),
]


def hear(outage: Outage, domain: str, visit: Visit, fault: Fault | None, now: float, *, known: bool) -> Turn:
    """What comes of it where whoever is asked fails as well."""
    turn = outage.observe(domain, visit, fault, now, known=known)
    return outage.go_down(now) if turn is Turn.DOUBT else turn


@pytest.mark.parametrize("url", ["http://10.0.0.1/", "http://localhost/", "http://a.test:25/", "http://[::1]:8080/"])
def test_an_address_that_is_written_there_says_nothing_about_the_network(url: str) -> None:
    assert fault_of(broken(Failure.ADDRESS_FORBIDDEN).result(url, 0.1), url) is None


@pytest.mark.parametrize(("rows", "down"), [row[1:] for row in STORIES], ids=[row[0] for row in STORIES])
def test_when_the_network_counts_as_down_f9(rows: Rows, down: bool) -> None:
    outage, known, turns = Outage(), set[str](), []
    for now, domains, fault in rows:
        for letter in domains:
            domain = f"{letter}.test" if letter.islower() else f"www.{letter.lower()}.test"
            turns.append(hear(outage, domain, VISIT, fault, now, known=domain in known))
            known |= {domain} if fault is UP else set()
    assert outage.is_down is down
    assert (Turn.DOWN in turns) is down


def down_at(now: float) -> Outage:
    outage = Outage(give_up_after_s=1_800.0)
    for domain in "aaa":
        outage.observe(domain, VISIT, OWN, now, known=True)
    return outage


def test_while_it_is_down_one_request_goes_out_now_and_then() -> None:
    outage = down_at(10.0)
    assert outage.hold_until(10.0) == 10.0 + PROBE_EVERY_S
    outage.sent(20.0)
    assert outage.hold_until(20.0) == 20.0 + PROBE_EVERY_S
    assert outage.observe("b", VISIT, NET, 21.0, known=True) is Turn.NONE
    assert outage.observe("b", VISIT, UP, 22.0, known=True) is Turn.BACK
    assert outage.hold_until(22.0) < 0


@pytest.mark.parametrize(
    ("story", "fault", "begun_at", "turn"),
    [
        ("a certificate is wrong, and who connected before it was is answered late", Fault.UNTRUSTED, 4.0, Turn.NONE),
        ("who connects afterwards is answered", Fault.UNTRUSTED, 11.0, Turn.BACK),
        ("connections are refused, and who had one is answered late", NET, 4.0, Turn.NONE),
        ("nothing came at all, and now something does", MUTE, 4.0, Turn.BACK),
    ],
)
def test_an_answer_ends_an_outage_where_it_came_by_the_way_that_failed(
    story: str, fault: Fault, begun_at: float, turn: Turn
) -> None:
    outage = Outage()
    for now, heard in ((0.0, UP), (10.0, fault)):
        for domain in ("a.test", "b.test", "c.test"):
            hear(outage, domain, VISIT, heard, now, known=True)
    assert outage.is_down
    assert outage.observe("d.test", VISIT, UP, 12.0, known=True, begun_at=begun_at) is turn, story


def test_the_attempts_of_the_window_are_given_back_and_no_others() -> None:
    outage = Outage()
    visits = {name: Visit(f"http://{name}.test/", attempt=3, task=name) for name in "abcd"}
    for name in "abcd":
        outage.observe(name, visits[name], UP, 0.0, known=True)
    outage.observe("d", visits["d"], NET, 1.0, known=True)  # long before: its own trouble
    for name in "aabcd"[:4]:
        hear(outage, name, visits[name], NET, 2.0 + WINDOW_S, known=True)
    assert outage.is_down
    forgiven = {name: outage.forgive(visit).attempt for name, visit in visits.items()}
    # c is the one that settled it: that visit is put back as it was, and needs no forgiving.
    assert forgiven == {"a": 1, "b": 2, "c": 3, "d": 3}
    assert outage.forgive(visits["a"]).attempt == 3, "once"


def test_who_fails_whenever_the_network_is_found_to_be_back_has_trouble_of_its_own() -> None:
    """Two dead sites beside one so slow that it is out of sight most of the time: never waited for without end."""
    outage, downs = Outage(), 0
    for domain in ("a.test", "b.test"):
        outage.observe(domain, VISIT, UP, 0.0, known=True)
    for minute in range(1, 10):
        began = 60.0 * minute
        turns = [hear(outage, domain, VISIT, MUTE, began, known=True) for domain in ("a.test", "b.test")]
        downs += Turn.DOWN in turns
        outage.observe("slow.test", VISIT, UP, began + 30.0, known=True)
    assert downs == PARDONS_MAX
    assert not outage.excuses("a.test", MUTE, 600.0), "what fails there, fails"
    for fault in (UP, MUTE):
        for domain in ("a.test", "b.test"):
            hear(outage, domain, VISIT, fault, 900.0, known=True)
    assert outage.is_down, "who has answered is believed again"


def test_after_half_an_hour_what_fails_fails() -> None:
    outage = down_at(0.0)
    assert outage.excuses("a", OWN, 0.0)
    assert outage.hold_until(1_800.0) < 0
    assert not outage.is_down
    assert not outage.excuses("a", OWN, 1_800.0)
    outage.observe("a", VISIT, OWN, 1_801.0, known=True)
    assert not outage.is_down
    outage.observe("a", VISIT, UP, 1_802.0, known=True)
    assert outage.excuses("a", OWN, 1_803.0), "and with the next answer it may begin again"


# --- Whole crawls in virtual time ------------------------------------------------------------------------------------

NAMES = ["a.test", "b.test", "c.test", "d.test"]
QUIET: dict[str, Any] = {"discover": False, "follow_links": True}


def crawl_through(fails: Callable[[str, float], Reply | None], names: list[str] = NAMES, pages: int = 20) -> Story:
    """Sites with pages enough for twenty seconds; `fails(host, now)` says what is wrong meanwhile."""
    web: dict[str, Answers] = {}

    def answer(url: str) -> Reply:
        wrong = fails(url.split("/")[2], story.now)
        return wrong or (FREE if url.endswith("robots.txt") else OK)

    seeds = [f"http://{name}/{number}" for name in names for number in range(pages)]
    web |= dict.fromkeys((*seeds, *(f"http://{name}/robots.txt" for name in names)), answer)
    story = Story(seeds, web, took_s=0.05, **QUIET)
    return story


def test_ten_minutes_without_a_network_cost_nothing_but_the_time_f9() -> None:
    story = crawl_through(lambda host, now: TIMEOUT if 5.0 <= now < 605.0 else None).run()
    assert set(story.ends().values()) == {"done"}
    assert max(final.visit.attempt for final in story.finals.values()) == 1, "no attempt is lost"
    during = [asked for asked in story.asked if 6.0 <= asked.at < 605.0]
    assert len(during) <= 600 / PROBE_EVERY_S + 1 + ASKED_MAX
    first = min(asked.at for asked in story.asked if asked.at >= 605.0)
    assert first <= 635.0
    assert max(story.ended_at.values()) <= 605.0 + 20.0 + PROBE_EVERY_S
    told = [type(event) for event in story.events if isinstance(event, NetworkDown | NetworkBack | CircuitOpened)]
    assert told == [NetworkDown, NetworkBack]
    for name in NAMES:
        pace = story.frontier.registry.find(name)
        assert pace is not None
        assert (pace.strategy.delay_s, pace.troubles.error_streak, pace.block) == (1.0, 0, None)


def test_a_resolver_that_is_down_when_the_crawl_begins_is_waited_for_f8() -> None:
    """Eight sites, whose robots.txt cannot be had: nobody is given up."""
    names = [f"{letter}.test" for letter in "abcdefghi"]
    no_names = broken(Failure.NETWORK_DNS_FAILURE, dns_error="timeout")
    story = crawl_through(lambda host, now: no_names if now < 300.0 else None, names, pages=2).run()
    assert set(story.ends().values()) == {"done"}
    assert max(story.ended_at.values()) <= 330.0
    assert len([asked for asked in story.asked if asked.at < 300.0]) <= 9 + 300 / PROBE_EVERY_S + 1


def test_a_fault_of_our_own_at_one_site_alone_is_not_put_back_for_ever() -> None:
    """As of a name that the system's resolver chokes on, while all others are fine."""
    odd = broken(Failure.NETWORK_DNS_FAILURE, dns_error="local", local_fault=True)
    story = crawl_through(lambda host, now: odd if host == "a.test" else None, NAMES[:2], pages=3_000)
    story.run(until=2_900.0)
    assert {story.ends().get(f"http://a.test/{number}") for number in range(20)} == {"robots_unreachable"}
    assert not story.finished, "though b.test answers all the time"


def test_two_sites_that_fall_silent_together_are_waited_for_f9() -> None:
    story = crawl_through(lambda host, now: TIMEOUT if 5.0 <= now < 305.0 else None, NAMES[:2]).run()
    assert set(story.ends().values()) == {"done"}
    assert max(final.visit.attempt for final in story.finals.values()) == 1
    assert max(story.ended_at.values()) <= 305.0 + 20.0 + PROBE_EVERY_S


def test_two_sites_that_begin_without_a_resolver_are_waited_for_f8() -> None:
    no_names = broken(Failure.NETWORK_DNS_FAILURE, dns_error="try_again")
    story = crawl_through(lambda host, now: no_names if now < 300.0 else None, NAMES[:2], pages=2).run()
    assert set(story.ends().values()) == {"done"}
    assert max(story.ended_at.values()) <= 300.0 + PROBE_EVERY_S + 5.0


def test_two_dead_sites_beside_a_slow_one_do_not_wait_for_its_end() -> None:
    """The slow one is asked every 100 s, so that for most of the time nobody is heard but those that are dead."""
    story = crawl_through(lambda host, now: TIMEOUT if now >= 5.0 and host != "c.test" else None, NAMES[:3])
    slow = Reply(200, b"User-agent: *\nCrawl-delay: 100", (("Content-Type", "text/plain"),))
    story.web["http://c.test/robots.txt"] = slow
    story.run()
    assert len([event for event in story.events if isinstance(event, NetworkDown)]) == PARDONS_MAX
    dead = [at for url, at in story.ended_at.items() if "c.test" not in url]
    assert max(dead) < max(story.ended_at.values())
    assert {story.ends()[f"http://c.test/{number}"] for number in range(20)} == {"done"}


def test_a_proxy_that_is_down_is_no_fault_of_the_only_site_f10() -> None:
    story = crawl_through(lambda host, now: PROXY if 5.0 <= now < 200.0 else None, ["a.test"]).run()
    assert set(story.ends().values()) == {"done"}
    assert max(final.visit.attempt for final in story.finals.values()) == 1
    pace = story.frontier.registry.find("a.test")
    assert pace is not None
    assert (pace.troubles.failures, pace.strategy.delay_s) == (0, 1.0)
    assert max(story.ended_at.values()) <= 200.0 + 30.0 + 20.0


def test_sites_that_die_beside_one_that_lives_are_to_blame_themselves() -> None:
    story = crawl_through(lambda host, now: TIMEOUT if now >= 5.0 and host != "a.test" else None).run()
    assert not [event for event in story.events if isinstance(event, NetworkDown)]
    assert [event for event in story.events if isinstance(event, CircuitOpened)]
    assert {story.ends()[f"http://a.test/{number}"] for number in range(20)} == {"done"}
    assert "network_timeout" in story.ends().values() or "cancelled" in story.ends().values()


def test_a_network_that_never_comes_back_lets_the_job_end() -> None:
    story = crawl_through(lambda host, now: TIMEOUT if now >= 5.0 else None, pages=7).run()
    ends = set(story.ends().values())
    assert "done" in ends
    assert len(ends) > 1
    assert max(story.ended_at.values()) >= 1_800.0


def test_a_proxy_that_never_answers_lets_the_job_end_though_it_has_no_robots_txt() -> None:
    story = crawl_through(lambda host, now: PROXY, ["a.test"], pages=2).run()
    assert set(story.ends().values()) == {"robots_unreachable"}
    assert max(story.ended_at.values()) >= 1_800.0


def test_a_stop_during_an_outage_hands_everything_back_at_once() -> None:
    story = crawl_through(lambda host, now: TIMEOUT if now >= 5.0 else None).run(until=30.0)
    assert story.plan.patience.outage.is_down
    story.stop()
    story.run(until=31.0)
    assert story.finished
    assert Kind.PAGE in {asked.visit.kind for asked in story.asked}
