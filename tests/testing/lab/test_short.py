"""The short hosts: what is drawn, how a crawl of one goes, and that nobody is faster than the oracle."""

from __future__ import annotations

import math
from functools import partial
from random import Random

import pytest

from amble.testing.lab.announce import Refusal
from amble.testing.lab.controller import Client, Reply, Spaced
from amble.testing.lab.controllers import STRATEGIES
from amble.testing.lab.limiters import FixedWindow, TokenBucket, Unlimited, WindowFromFirst
from amble.testing.lab.modifiers import Changing
from amble.testing.lab.queues import FifoQueue, InFlight
from amble.testing.lab.servers import LogNormal
from amble.testing.lab.short.crawl import ShortCrawl, ShortRun, Stalled
from amble.testing.lab.short.groups import GROUPS, ORACLE_S, ShortJob, do_short, part_lines, seeds_of, short_line
from amble.testing.lab.short.host import Downtime, ShortHost
from amble.testing.lab.short.oracle import oracle_s
from amble.testing.lab.short.score import ShortScore, judge_short, play_short, recovery_s
from amble.testing.lab.short.table import short_comparison, short_table

STEADY = LogNormal(0.1, 0.0)
CLOCK_S = 500.0


def site(**changes: object) -> ShortHost:
    plain = {"name": "s", "part": "p", "pages": 100, "limiter": Unlimited, "latency": STEADY, "clock_s": CLOCK_S}
    return ShortHost(**{**plain, **changes})  # type: ignore[arg-type]


def down(from_s: float, to_s: float) -> Downtime:
    return Downtime(CLOCK_S + from_s, CLOCK_S + to_s)


@pytest.mark.parametrize(
    ("story", "host", "seconds"),
    [
        ("a bucket gives its credit at once", site(limiter=partial(TokenBucket, 10.0, 5.0)), 9.5),
        ("windows from the first request", site(limiter=partial(WindowFromFirst, 40, 10.0)), 20.4),
        ("windows of a clock that is halfway", site(limiter=partial(FixedWindow, 4.0, 10.0), clock_s=505.0), 15.4),
        ("slots", site(limiter=partial(InFlight, 2, 0.1)), 5.0),
        ("our own limit at once", site(), 1.3),
        ("a queue that serves all the time", site(limiter=partial(FifoQueue, 10.0, 200)), 10.1),
        ("an outage ends", site(limiter=partial(TokenBucket, 10.0, 1.0), downtimes=(down(2.0, 7.0),)), 14.9),
        ("two outages", site(limiter=partial(TokenBucket, 10.0, 1.0), downtimes=(down(2, 4), down(5, 8))), 15.1),
        (
            "a bucket that halves",
            site(limiter=lambda: Changing(TokenBucket(10.0, 1.0), TokenBucket(5.0, 1.0), CLOCK_S + 5.0)),
            14.8,
        ),
    ],
)
def test_the_oracle_knows_the_limit_and_its_credit(story: str, host: ShortHost, seconds: float) -> None:
    assert oracle_s(host) == pytest.approx(seconds, abs=0.25), story


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_hosts_are_drawn_by_seed_and_last_as_long_as_their_group_says(group: object) -> None:
    assert isinstance(group, type(GROUPS["short-buckets"]))
    for number in range(5):
        host = group.host(number, 7)
        assert host.name == group.host(number, 7).name
        assert ORACLE_S[0] <= oracle_s(host) <= ORACLE_S[1]
        assert group.size.pages_least <= host.pages <= group.size.pages_most
    assert {group.host(number, 7).pages for number in range(5)} != {group.host(number, 8).pages for number in range(5)}


def test_the_seeds_of_a_commit_are_its_own() -> None:
    assert seeds_of("abc", 3) == seeds_of("abc", 4)[:3]
    assert not set(seeds_of("abc", 4)) & set(seeds_of("abd", 4))


class Eager(Spaced):
    """Waits for nothing; remembers what it heard."""

    def __init__(self, client: Client, random: Random) -> None:
        super().__init__(client, random)
        self.heard: list[Reply] = []

    def learn(self, reply: Reply, now: float) -> None:
        self.heard.append(reply)


def crawl(host: ShortHost, *, guesses_first: bool = False, client: Client | None = None) -> tuple[ShortRun, Eager]:
    client = client or Client(max_in_flight=8)
    eager = Eager(client, Random(1))
    return ShortCrawl(host, eager, client, Random(1), guesses_first=guesses_first).play(1_000.0), eager


def test_robots_comes_first_pages_are_found_by_links_and_guesses_come_when_no_page_is_due() -> None:
    run, _ = crawl(site(pages=20))
    assert (run.done, run.lost, run.refused, run.violations) == (20, 0, 0, 0)
    assert [arrival.at for arrival in run.arrivals[:2]] == pytest.approx([0.0, 0.1])
    assert [arrival.kind for arrival in run.arrivals].count("other") == 3
    # robots.txt, the first page, the eight that it links to (seven beside a guess), the others: 0.1 s each
    assert run.last_page_s == pytest.approx(0.5, abs=0.11)


def test_early_guesses_hold_the_pages_up() -> None:
    run, _ = crawl(site(pages=20), guesses_first=True)
    assert [arrival.kind for arrival in run.arrivals[:4]] == ["other", "other", "other", "page"]
    assert run.arrivals[3].at == pytest.approx(0.3)


def test_the_limit_counts_pages_only() -> None:
    run, _ = crawl(site(pages=1, limiter=partial(TokenBucket, 0.001, 1.0)))
    assert (run.done, run.refused) == (1, 0)


def test_an_outage_cuts_off_what_is_under_way_and_says_when_it_ends_if_it_does() -> None:
    _, eager = crawl(
        site(pages=200, downtimes=(down(1.05, 3.0),), tells_downtime=True, refusal=Refusal(503, "seconds"))
    )
    cut_off = [reply for reply in eager.heard if reply.status == 0]
    assert cut_off
    assert all(reply.latency_s == pytest.approx(0.05, abs=0.051) for reply in cut_off)
    refused = [reply for reply in eager.heard if reply.status == 503]
    assert {reply.headers["Retry-After"] for reply in refused} <= {"1", "2"}


def test_who_comes_back_inside_a_retry_after_breaks_a_promise() -> None:
    told = site(pages=50, limiter=partial(TokenBucket, 1.0, 5.0), refusal=Refusal(429, "seconds"))
    run, _ = crawl(told)
    assert run.violations > 0


def test_a_page_that_fails_too_often_is_lost_and_with_it_what_it_led_to() -> None:
    run, _ = crawl(site(pages=20, downtimes=(down(0.05, 900.0),)))
    assert (run.done, run.lost) == (0, 1)


@pytest.mark.parametrize("rule", ["gauge", "linear"])
@pytest.mark.parametrize("from_s", [0.15, 1.0, 2.0])
def test_an_outage_of_half_a_minute_costs_us_no_page(rule: str, from_s: float) -> None:
    run = play_short(site(pages=9, downtimes=(down(from_s, from_s + 33.0),)), STRATEGIES[rule], 1)
    assert (run.done, run.lost) == (9, 0)


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    _, eager = crawl(site(pages=1, latency=LogNormal(30.0, 0.0)))
    assert {reply.status for reply in eager.heard} == {0}
    assert all(reply.latency_s == pytest.approx(20.0) for reply in eager.heard)


class Waiting(Spaced):
    def request(self, now: float) -> object | float:
        return math.inf


class Backward(Spaced):
    def request(self, now: float) -> object | float:
        return now - 1.0


@pytest.mark.parametrize("broken", [Waiting, Backward])
def test_a_controller_that_can_never_send_is_reported(broken: type[Spaced]) -> None:
    client = Client()
    with pytest.raises(Stalled):
        ShortCrawl(site(), broken(client, Random(1)), client, Random(1), guesses_first=False).play(100.0)


def test_nobody_is_faster_than_the_oracle() -> None:
    for name, group in GROUPS.items():
        for rule in (STRATEGIES["gauge"], Eager):
            score = judge_short(group.host(0, 3), rule, 3)
            assert 0.0 <= score.goodput <= 1.0
            assert score.last_page_s >= 0.97 * score.oracle_s or score.incomplete, name


def test_recovery_is_counted_from_the_end_of_the_outage_to_most_of_the_old_rate() -> None:
    host = site(pages=400, limiter=partial(TokenBucket, 10.0, 1.0), downtimes=(down(10.0, 20.0),))
    run, _ = crawl(host)
    found = recovery_s(host, run)
    assert found is not None
    assert 0.0 <= found < 6.0  # pages that failed come back after their own waits


SCORE = ShortScore("h", "a", 0.9, 100, False, 1, 20.0, 18.0, 0, None, None)


@pytest.mark.parametrize(
    ("story", "scores", "missed"),
    [
        ("kept", [SCORE._replace(goodput=0.906)], ()),
        ("too slow", [SCORE], ("goodput",)),
        ("refused too often", [SCORE._replace(goodput=0.95, refused=2)], ("refusals",)),
        ("a page lost", [SCORE._replace(goodput=0.95, incomplete=True)], ("pages",)),
        ("a promise broken", [SCORE._replace(goodput=0.95, violations=1)], ("violations",)),
    ],
)
def test_short_verdicts(story: str, scores: list[ShortScore], missed: tuple[str, ...]) -> None:
    assert short_line(GROUPS["short-buckets"], scores).missed == missed, story


def test_a_group_of_several_parts_shows_them() -> None:
    assert part_lines([SCORE]) == []
    other = SCORE._replace(part="b", goodput=0.5)
    assert [(part.name, part.goodput) for part in part_lines([SCORE, other])] == [("a", 0.9), ("b", 0.5)]


def test_the_tables_show_every_group_that_was_played() -> None:
    results = [do_short(ShortJob(rule, "short-outages-told", 0, 1)) for rule in ("gauge", "linear")]
    table = list(short_table("gauge", results))
    assert "short-outages-told" in table[2]
    assert "0.88" in table[2]
    assert "linear" in list(short_comparison(["gauge", "linear"], results))[1]


def test_no_strategy_breaks_a_promise_at_any_kind_of_short_host() -> None:
    for group in GROUPS.values():
        for name, rule in STRATEGIES.items():
            assert play_short(group.host(1, 5), rule, 5).violations == 0, (group.name, name)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("rule", STRATEGIES)
def test_where_the_clock_began_changes_no_crawl(group: str, rule: str) -> None:
    """The same requests and verdicts in the same order, each at the same instant."""
    host = GROUPS[group].host(2, 5)

    def crawled(starts_at: float) -> ShortRun:
        client = Client(max_in_flight=8, starts_at=starts_at)
        controller = STRATEGIES[rule](client, Random(7))
        return ShortCrawl(host, controller, client, Random(8), guesses_first=False).play(40.0)

    here, there = crawled(1_000.0), crawled(9_876_543.2)
    assert [arrival.kind for arrival in there.arrivals] == [arrival.kind for arrival in here.arrivals]
    assert [arrival.at for arrival in there.arrivals] == pytest.approx(
        [arrival.at for arrival in here.arrivals], abs=1e-3
    )
