"""Crawls that share paces: one budget per domain, the stricter of two settings, turns, wake-ups, learning for each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.pacing.bounds import Rulebook
from amble.core.pacing.commons import AFTER_YOU_S, Commons, Member
from amble.core.pacing.learned import Learned
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Permit
from amble.core.pacing.settings import PacingSettings
from tests.core.pacing.story import LIMITED, OK, STRATEGIES, limited, no_jitter

UTC_NOW = datetime(2026, 1, 1, tzinfo=UTC)
FREE: dict[str, Any] = {"pacing": "fixed", "fixed_delay": 0.0, "max_rate": None}


def join(commons: Commons, **settings: Any) -> Member:
    return commons.join(PacingSettings(**{**FREE, **settings}), no_jitter)


def pace_of(member: Member, domain: str = "a.test", now: float = 0.0) -> Pace:
    return member.pace(domain, now, UTC_NOW)


# settings of one, of the other -> gap in seconds, requests at once, strategy in use
TOLD: list[tuple[str, dict[str, Any], dict[str, Any], float, int, str]] = [
    ("the same", {"fixed_delay": 2.0}, {"fixed_delay": 2.0}, 2.0, 8, "fixed"),
    ("two fixed delays", {"fixed_delay": 2.0}, {"fixed_delay": 3.0}, 3.0, 8, "fixed"),
    ("rates", {"max_rate": 4.0}, {"max_rate": 2.0}, 0.5, 8, "fixed"),
    ("a rate and none", {}, {"max_rate": 2.0}, 0.5, 8, "fixed"),
    ("minima", {"min_crawl_delay": 1.0}, {"min_crawl_delay": 4.0}, 4.0, 8, "fixed"),
    ("default crawl delays", {"default_crawl_delay": 7.0}, {}, 7.0, 8, "fixed"),
    ("slots", {"max_parallel_per_domain": 3}, {"max_parallel_per_domain": 5}, 0.0, 3, "fixed"),
    ("a rule", {}, {"rules": {"a.test": {"delay": 6.0, "parallel": 2}}}, 6.0, 2, "fixed"),
    ("a rule lifts the rate", {"rules": {"a.test": {"max_rate": "unlimited"}}}, {"max_rate": 2.0}, 0.5, 8, "fixed"),
    ("one learns", {"pacing": "gauge"}, {"fixed_delay": 3.0}, 3.0, 8, "gauge"),
    ("one keeps no pace", {"enabled": False}, {"pacing": "linear", "base_delay": 0.5}, 0.5, 8, "linear"),
    ("two that learn", {"pacing": "gauge"}, {"pacing": "linear", "base_delay": 2.0}, 2.0, 8, "gauge"),
    ("a rate of its own", {"pacing": "gauge"}, {"pacing": "aimd", "max_rps": 2.0, "initial_rps": 1.0}, 0.5, 8, "gauge"),
]  # fmt: skip


@pytest.mark.parametrize("both_ways", [False, True], ids=["in turn", "the other way round"])
@pytest.mark.parametrize(("one", "other", "gap_s", "parallel", "strategy"), [row[1:] for row in TOLD],
                         ids=[row[0] for row in TOLD])  # fmt: skip
def test_the_stricter_holds_for_both_and_goes_with_whoever_was_told_so(
    one: dict[str, Any], other: dict[str, Any], gap_s: float, parallel: int, strategy: str, both_ways: bool
) -> None:
    commons = Commons()
    first, second = (join(commons, **told) for told in ((other, one) if both_ways else (one, other)))
    pace = pace_of(first)
    alone = pace.bounds.gap_s, pace.parallel, pace.strategy.name
    assert pace_of(second) is pace
    assert max(pace.bounds.gap_s, pace.strategy.gap_s if strategy == "fixed" else 0) == pytest.approx(gap_s)
    assert pace.parallel == parallel
    if not (both_ways and one.get("pacing") and other.get("pacing")):  # of two that learn, whoever came first
        assert pace.strategy.name == strategy
    second.leave()
    assert (pace.bounds.gap_s, pace.parallel, pace.strategy.name) == alone


def test_robots_txt_may_ask_one_crawler_for_more_and_the_longest_delay_holds() -> None:
    commons = Commons()
    one, two = join(commons), join(commons)
    pace = pace_of(one)
    pace_of(two)
    one.set_crawl_delay(pace, 5.0)
    two.set_crawl_delay(pace, 2.0)
    assert pace.crawl_delay_s == 5.0
    one.leave()
    assert pace.crawl_delay_s == 2.0


def test_a_block_of_one_crawl_holds_for_the_next_one_too() -> None:
    commons = Commons()
    one = join(commons)
    pace = pace_of(one)
    permit = one.reserve(pace, 0.0)
    assert isinstance(permit, Permit)
    pace.settle(permit, limited(30.0), 1.0)
    one.leave()
    later = join(commons)
    got = later.reserve(pace_of(later, now=2.0), 2.0)
    assert isinstance(got, float)
    assert got >= 31.0


def test_whoever_waits_is_told_when_another_settles_and_nobody_else() -> None:
    commons = Commons()
    one, two, elsewhere = (join(commons, max_parallel_per_domain=1) for _ in range(3))
    told: list[str] = []
    for name, member in (("one", one), ("two", two), ("elsewhere", elsewhere)):
        member.on_settled = lambda pace, name=name: told.append(f"{name}: {pace.domain}")  # type: ignore[misc]
    pace = pace_of(one)
    pace_of(two)
    pace_of(elsewhere, "b.test")
    permit = one.reserve(pace, 0.0)
    assert isinstance(permit, Permit)
    assert isinstance(two.reserve(pace, 0.0), float)
    pace.settle(permit, OK, 1.0)
    one.settled(pace)
    assert told == ["two: a.test"]
    one.leave()
    assert told == ["two: a.test"] * 2, "there may be more room without it"


def test_domains_that_share_an_address_wake_each_other_over_all_crawls() -> None:
    commons = Commons()
    one, two = (join(commons, max_parallel_per_address=1) for _ in range(2))
    told: list[str] = []
    two.on_settled = lambda pace: told.append(pace.domain)
    a, b = pace_of(one, "a.test"), pace_of(two, "b.test")
    one.share(a, "192.0.2.1", 0.0)
    two.share(b, "192.0.2.1", 0.0)
    permit = one.reserve(a, 0.0)
    assert isinstance(permit, Permit)
    assert isinstance(two.reserve(b, 0.0), float)
    a.settle(permit, OK, 1.0)
    one.settled(a)
    assert told == ["a.test"]
    assert isinstance(two.reserve(b, 1.0), Permit)


def test_a_domain_that_is_written_as_an_address_and_that_address_are_two_things() -> None:
    commons = Commons()
    one, two = join(commons, fixed_delay=2.0, max_parallel_per_address=1), join(commons, fixed_delay=3.0)
    pace = pace_of(one, "192.0.2.1")
    pace_of(two, "192.0.2.1")
    one.share(pace, "192.0.2.1", 0.0)
    assert pace.shared is not None
    assert (pace.gap_s, pace.shared.gap_s, pace.shared.parallel) == (3.0, 0.0, 1)
    two.leave()
    assert (pace.gap_s, pace.shared.gap_s, pace.shared.parallel) == (2.0, 0.0, 1)


def test_whoever_had_the_last_permit_lets_the_other_go_first_but_only_once() -> None:
    commons = Commons()
    one, two = join(commons, fixed_delay=1.0), join(commons, fixed_delay=1.0)
    told: list[str] = []
    two.on_settled = lambda pace: told.append(pace.domain)
    pace = pace_of(one)
    pace_of(two)
    assert isinstance(one.reserve(pace, 0.0), Permit)
    assert two.reserve(pace, 0.0) == 1.0
    assert one.reserve(pace, 1.0) == 1.0 + AFTER_YOU_S
    assert told == ["a.test"]
    assert isinstance(two.reserve(pace, 1.0), Permit)
    assert one.reserve(pace, 1.0 + AFTER_YOU_S) == 2.0
    assert isinstance(one.reserve(pace, 2.0), Permit)
    assert isinstance(one.reserve(pace, 3.0), Permit), "nobody was refused meanwhile"
    assert two.reserve(pace, 3.0) == 4.0
    assert one.reserve(pace, 4.0) == 4.0 + AFTER_YOU_S
    assert isinstance(one.reserve(pace, 4.0 + AFTER_YOU_S), Permit), "the other did not come"


def test_what_another_crawl_queues_for_is_not_forgotten() -> None:
    commons = Commons()
    one, two = (join(commons, domain_state_ttl=10.0) for _ in range(2))
    two.waited_for = {"b.test"}
    for domain in ("a.test", "b.test"):
        pace_of(one, domain)
    pace_of(two, "b.test")
    assert one.sweep(1000.0, UTC_NOW) == 1
    assert [pace.domain for pace in one] == ["b.test"]
    assert two.find("b.test") is one.find("b.test") is not None


def learned(delay_s: float, days: int, blocked_s: float | None = None) -> Learned:
    at = UTC_NOW - timedelta(days=days)
    blocked = None if blocked_s is None else UTC_NOW + timedelta(seconds=blocked_s)
    return Learned("a.test", "linear", delay_s, 0.0, at, {}, blocked)


@pytest.mark.parametrize("newest_first", [False, True])
def test_of_two_files_the_newer_row_holds(newest_first: bool) -> None:
    commons = Commons()
    rows = [learned(9.0, days=3), learned(4.0, days=1)]
    for row in reversed(rows) if newest_first else rows:
        join(commons, pacing="linear").load([row], 0.0, UTC_NOW)
    assert pace_of(join(commons, pacing="linear")).strategy.delay_s == 4.0


def test_a_domain_in_use_that_has_learned_nothing_yet_takes_what_a_second_file_knows() -> None:
    commons = Commons()
    pace = pace_of(join(commons, pacing="linear"))
    second = join(commons, pacing="linear")
    second.load([learned(4.0, days=1)], 5.0, UTC_NOW)
    assert pace.strategy.delay_s == 4.0
    assert pace.not_before == 9.0, "the last run of that file may just have ended"


def test_a_block_in_a_second_file_holds_even_for_a_domain_that_has_learned() -> None:
    commons = Commons()
    first = join(commons, pacing="linear")
    pace = pace_of(first)
    permit = first.reserve(pace, 0.0)
    assert isinstance(permit, Permit)
    join(commons).load([learned(4.0, days=1, blocked_s=300.0)], 5.0, UTC_NOW)
    assert pace.blocked_until == 305.0


def test_what_is_learned_is_handed_to_each_crawl_that_was_there_once() -> None:
    commons = Commons()
    one, two = (join(commons, pacing="linear", save_debounce=0.0) for _ in range(2))
    elsewhere = join(commons)
    pace_of(elsewhere, "b.test")
    pace = pace_of(one)
    pace_of(two)
    permit = one.reserve(pace, 0.0)
    assert isinstance(permit, Permit)
    pace.settle(permit, LIMITED, 1.0)
    rows = [[row.domain for row in member.changed(2.0, UTC_NOW, force=False)] for member in (one, elsewhere, two)]
    assert rows == [["a.test"], [], ["a.test"]]
    assert [member.changed(3.0, UTC_NOW, force=True) for member in (one, two)] == [[], []]


def test_what_is_learned_of_a_domain_forgotten_meanwhile_is_still_handed_out() -> None:
    commons = Commons()
    one, two = (join(commons, pacing="linear", domain_state_ttl=10.0) for _ in range(2))
    pace = pace_of(one)
    pace_of(two)
    for instant, answer in ((0.0, LIMITED), (50.0, OK)):
        permit = one.reserve(pace, instant)
        assert isinstance(permit, Permit)
        pace.settle(permit, answer, instant + 1.0)
    assert one.sweep(10_000.0, UTC_NOW) == 1
    assert [row.domain for row in two.changed(10_001.0, UTC_NOW, force=False)] == ["a.test"]
    assert [row.domain for row in one.changed(10_001.0, UTC_NOW, force=False)] == ["a.test"]


TOLD_ANYHOW = st.fixed_dictionaries(
    {},
    optional={
        "pacing": st.sampled_from(STRATEGIES),
        "max_rate": st.sampled_from([None, 1.0, 4.0]),
        "default_crawl_delay": st.sampled_from([0.0, 0.5, 3.0]),
        "max_parallel_per_domain": st.integers(1, 4),
        "enabled": st.booleans(),
    },
)
STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["join", "leave", "ask", "settle"]), st.floats(0.0, 2.0)), max_size=60
)


@given(told=st.lists(TOLD_ANYHOW, min_size=3, max_size=3), steps=STEPS, limited_at=st.sets(st.integers(0, 20)))
def test_whoever_comes_and_goes_nothing_is_sent_that_one_of_those_present_would_not_send(
    told: list[dict[str, Any]], steps: list[tuple[int, str, float]], limited_at: set[int]
) -> None:
    commons, now, last, answers = Commons(), 0.0, -1e9, 0
    present: dict[int, Member] = {}
    flying: list[tuple[Pace, Permit]] = []
    for who, what, wait_s in steps:
        now += wait_s
        if what == "join" and who not in present:
            present[who] = join(commons, **told[who])
            pace_of(present[who], now=now)
        elif what == "leave" and who in present:
            present.pop(who).leave()
        elif what == "ask" and who in present:
            pace = pace_of(present[who], now=now)
            got = present[who].reserve(pace, now)
            if isinstance(got, Permit):
                flying.append((pace, got))
                bounds = [Rulebook(member.settings, no_jitter).bounds("a.test") for member in present.values()]
                assert now - last >= max(each.gap_s for each in bounds) - 1e-9
                assert len(flying) <= min(each.parallel for each in bounds)
                last = now
        elif what == "settle" and flying:
            pace, permit = flying.pop(0)
            pace.settle(permit, LIMITED if answers in limited_at else OK, now)
            answers += 1
