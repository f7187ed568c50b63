"""What a limiter keeps: between runs, by age, by strategy; and within a run when domains are many."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from amble import BadDomain, Limiter, SettingsError
from tests.limiter.helpers import FREE, NEVER_TRIPS, URL, World, settle_down

LINEAR: dict[str, Any] = {"pacing": "linear", "fixed_delay": 0.0, "shards": 1}
STRATEGIES = ("gauge", "linear", "aimd", "fibonacci", "fixed")
HOUR = {"Retry-After": "3600"}


def limited_world(times: int = 1, **named: Any) -> World:
    """A world in which a.test answered 429 so many times and is well again: linear's delay is 0.5 + times."""
    world = World(**{**LINEAR, **NEVER_TRIPS, **named})
    for _ in range(times):
        world.ask_now(status=429)
        world.clock.advance(1_000.0)
    world.ask_now(status=200)
    world.clock.advance(1_000.0)
    return world


def next_run(rows: list[dict[str, Any]], *, days: float = 0.0, **named: Any) -> World:
    """Another process, so many days later, with the rows as they come back from a file."""
    world = World(start=50.0, **{**LINEAR, **named})
    world.clock.shift_wall(timedelta(days=days))
    world.limiter.load(json.loads(json.dumps(rows)))
    return world


def saved_at_zero(**named: Any) -> dict[str, Any]:
    """A row as of the beginning of every virtual world, with a learned delay of 2.5 s."""
    row = {
        "domain": "a.test",
        "strategy": "linear",
        "adaptive_delay_seconds": 2.5,
        "adaptive_delay_floor_seconds": 0.0,
        "learned_at": World().clock.utc().isoformat(),
        "numbers": {"delay_s": 2.5, "floor_s": 0.0},
        "blocked_until_at": None,
    }
    return {**row, **named}


def first_turn_s(world: World, url: str = URL) -> float:
    async def main() -> float:
        return await world.ask(url)

    return world.run(main())


# -- between runs


def test_a_row_is_plain_and_says_it_all() -> None:
    world = limited_world(2)
    (row,) = world.limiter.save()
    assert row == {
        "domain": "a.test",
        "strategy": "linear",
        "adaptive_delay_seconds": 2.5,
        "adaptive_delay_floor_seconds": 0.0,
        "learned_at": world.clock.utc().isoformat(),
        "numbers": {"delay_s": 2.5, "floor_s": 0.0},
        "blocked_until_at": None,
    }
    assert json.loads(json.dumps(row)) == row


def test_what_nobody_limited_is_not_worth_a_row() -> None:
    world = World(**LINEAR)
    world.ask_now()
    assert world.limiter.save() == []


@pytest.mark.parametrize(
    ("days", "delay_s"),
    [(0, 2.5), (6.99, 2.5), (7.01, 1.5), (29.99, 1.5), (30.01, 0.5), (400, 0.5), (-3, 2.5)],
    ids=str,
)
def test_learning_ages(days: float, delay_s: float) -> None:
    """Fresh: as it was. After a week: half-way back to the default of 0.5 s. After a month: forgotten."""
    world = next_run([saved_at_zero()], days=days)
    assert first_turn_s(world) == delay_s  # a loaded domain begins with its delay of silence
    assert world.domain().delay_s == delay_s


def test_a_loaded_domain_begins_with_its_delay_of_silence_counted_from_its_first_use() -> None:
    world = next_run([saved_at_zero()])
    world.clock.advance(100.0)
    assert world.limiter.try_permit(URL) is None
    world.clock.advance(2.4)
    assert world.limiter.try_permit(URL) is None
    world.clock.advance(0.2)
    world.ask_now()


def test_other_domains_begin_at_once() -> None:
    assert first_turn_s(next_run([saved_at_zero()]), "https://b.test/") == 0.0


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("retry_after", ["3600", "61", "50", "3"])
def test_a_block_survives_a_restart_however_short_it_is(strategy: str, retry_after: str) -> None:
    """F4, whatever the strategy, and though nothing else was learned of the domain."""
    world = World(**{**FREE, "pacing": strategy, "fixed_delay": 0.1})
    world.ask_now(status=429, headers={"Retry-After": retry_after})
    rows = world.limiter.save()
    assert rows == world.limiter.changed()
    later = next_run(rows, pacing=strategy)
    left_s = float(retry_after)
    assert left_s <= first_turn_s(later) <= left_s * 1.02 + 2.0


def test_a_block_is_anchored_to_the_wall_clock_across_a_restart() -> None:
    world = World(**FREE)
    world.ask_now(status=429, headers=HOUR)
    later = next_run(world.limiter.save(), days=600 / 86_400)  # ten minutes passed between the runs
    assert first_turn_s(later) == pytest.approx(3_000, abs=1.0)
    over = next_run(world.limiter.save(), days=1.0)
    assert first_turn_s(over) < 1.0


@pytest.mark.parametrize("strategy", ["gauge", "aimd", "fibonacci", "fixed"])
def test_a_block_says_nothing_of_the_pace(strategy: str) -> None:
    """A site that asked to be left alone at a redirect has not said how fast it can be asked."""
    world = World(**{**FREE, "pacing": strategy})
    world.ask_now(status=301, headers=HOUR)
    later = next_run(world.limiter.save(), pacing=strategy)
    assert first_turn_s(later) >= 3_600.0
    assert later.domain().reason != "learned earlier"
    assert later.limiter.save() == []


@pytest.mark.parametrize("now", STRATEGIES)
@pytest.mark.parametrize("before", STRATEGIES)
def test_the_strategy_may_change_between_runs(before: str, now: str) -> None:
    """Two delays mean the same to all; what a strategy cannot use it leaves alone."""
    world = World(**{**FREE, **NEVER_TRIPS, "pacing": before, "fixed_delay": 0.25, "aimd_decrease": 0.1})
    for _ in range(4):
        world.ask_now(status=429)
        world.clock.advance(1_000.0)
        world.ask_now(status=200)
        world.clock.advance(1_000.0)
    rows = world.limiter.save()
    assert bool(rows) == (before in ("gauge", "linear", "aimd"))
    later = next_run(rows, pacing=now)
    waited_s = first_turn_s(later)
    if rows and now in ("gauge", "linear", "aimd"):
        learned_s = rows[0]["adaptive_delay_seconds"]
        if now == "aimd":
            learned_s = min(learned_s, 4.0)  # min_rps
        assert 0.9 * learned_s <= waited_s <= 1.3 * learned_s
    assert later.limiter.save() == [] or later.limiter.save()[0]["strategy"] == now


def test_a_gauge_goes_on_near_the_limit_it_measured() -> None:
    world = World(**{**FREE, "pacing": "gauge", "random": lambda: 0.5})

    def serve(now: float, accepted: list[float]) -> int:
        """Two requests in any second, no more."""
        del accepted[: -2 or None]
        if len(accepted) == 2 and now - accepted[0] < 1.0:
            return 429
        accepted.append(now)
        return 200

    async def crawl(pages: int) -> None:
        accepted: list[float] = []
        while pages:
            async with world.limiter.permit(URL) as permit:
                status = serve(world.now, accepted)
                pages -= status == 200
                permit.settle(status=status, elapsed_s=0.05)

    world.run(crawl(300))
    (row,) = world.limiter.save()
    assert 0.4 < row["adaptive_delay_seconds"] < 0.8
    later = next_run([row], pacing="gauge")
    first_turn_s(later)
    assert later.domain().delay_s == pytest.approx(row["adaptive_delay_seconds"], rel=0.2)


def test_what_this_run_knows_is_not_overwritten_by_what_is_loaded_late() -> None:
    world = World(**LINEAR)
    world.ask_now()
    world.limiter.load([saved_at_zero()])
    assert world.domain().delay_s == 0.5


def test_domains_not_met_in_this_run_are_kept_for_the_next() -> None:
    world = next_run([saved_at_zero()])
    assert world.limiter.save() == [saved_at_zero()]


def test_a_domain_is_found_however_it_was_written() -> None:
    assert first_turn_s(next_run([saved_at_zero(domain="A.TEST")])) == 2.5


@pytest.mark.parametrize(
    "bad",
    [
        {"adaptive_delay_seconds": -1.0},
        {"adaptive_delay_seconds": float("nan")},
        {"adaptive_delay_seconds": float("inf")},
        {"adaptive_delay_seconds": "quick"},
        {"adaptive_delay_floor_seconds": -0.1},
        {"numbers": {"delay_s": float("nan")}},
        {"numbers": [1, 2]},
        {"learned_at": "yesterday"},
        {"learned_at": "2024-01-01T00:00:00"},
        {"learned_at": None},
        {"blocked_until_at": "2024-01-01T00:00:00"},
    ],
    ids=str,
)
def test_a_row_that_cannot_be_read_is_refused_with_a_hint(bad: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as caught:
        Limiter().load([saved_at_zero(**bad)])
    assert caught.value.hint is not None


@pytest.mark.parametrize("missing", ["domain", "strategy", "learned_at", "adaptive_delay_seconds"])
def test_a_row_with_a_column_missing_is_refused(missing: str) -> None:
    row = saved_at_zero()
    del row[missing]
    with pytest.raises(SettingsError):
        Limiter().load([row])


@pytest.mark.parametrize("domain", ["", "a b", "https://", "x" * 300], ids=repr)
def test_a_row_of_no_domain_is_refused(domain: str) -> None:
    with pytest.raises(BadDomain):
        Limiter().load([saved_at_zero(domain=domain)])


# -- what changed


def test_changes_are_handed_out_once_and_at_most_every_half_minute() -> None:
    world = World(**{**LINEAR, **NEVER_TRIPS})
    limiter = world.limiter
    handed: list[tuple[float, float]] = []

    def look() -> None:
        handed.extend((world.now, row["adaptive_delay_seconds"]) for row in limiter.changed())

    for second in range(100):
        if second in (5, 15, 70):
            world.ask_now(status=429)
        world.clock.advance(1.0)
        look()
    # The change of second 15 is not lost, only late; nothing is handed out twice.
    assert [round(at) for at, _ in handed] == [6, 36, 71]
    assert [delay_s for _, delay_s in handed] == [1.5, 2.5, 3.5]
    assert limiter.changed(force=True) == []


def test_at_exit_nothing_is_held_back() -> None:
    world = World(**{**LINEAR, **NEVER_TRIPS})
    world.ask_now(status=429)
    assert len(world.limiter.changed()) == 1
    world.clock.advance(10.0)
    world.ask_now(status=429)
    assert world.limiter.changed() == []
    (row,) = world.limiter.changed(force=True)
    assert row["adaptive_delay_seconds"] == 2.5


def test_each_domain_has_its_own_half_minute() -> None:
    world = World(**{**LINEAR, **NEVER_TRIPS})
    world.ask_now("https://a.test/", status=429)
    assert [row["domain"] for row in world.limiter.changed()] == ["a.test"]
    world.ask_now("https://b.test/", status=429)
    assert [row["domain"] for row in world.limiter.changed()] == ["b.test"]


# -- when domains are many


def test_an_idle_domain_is_forgotten_and_its_learning_comes_back() -> None:
    world = limited_world(3, domain_state_ttl=600.0)
    assert world.domain().delay_s == 3.5
    world.ask_now("https://b.test/")  # any settling sweeps
    assert world.domain() is None
    assert world.limiter.snapshot().domains_evicted == 1
    assert world.limiter.save()[0]["adaptive_delay_seconds"] == 3.5
    began = world.now
    assert first_turn_s(world) == began + 3.5
    assert world.domain().delay_s == 3.5


def test_an_evicted_domain_keeps_what_robots_txt_asks_for() -> None:
    """M1, B5: nobody fetches robots.txt again only because we forgot a number."""
    world = World(**{**FREE, "shards": 1, "domain_state_ttl": 600.0})
    world.limiter.set_crawl_delay(URL, 7.0)
    world.ask_now()
    for _ in range(2):
        world.clock.advance(700.0)
        world.ask_now("https://b.test/")
        assert world.domain() is None
        world.ask_now()
        assert world.domain().crawl_delay_s == 7.0
        assert world.limiter.try_permit(URL) is None


def test_learning_that_was_not_handed_out_survives_eviction() -> None:
    """M1: evicted states have their learned values persisted."""
    world = limited_world(3, domain_state_ttl=600.0)
    world.ask_now("https://b.test/")
    assert world.domain() is None
    (row,) = world.limiter.changed()
    assert (row["domain"], row["adaptive_delay_seconds"]) == ("a.test", 3.5)
    assert world.limiter.changed(force=True) == []


@pytest.mark.parametrize("kind", ["blocked", "in flight", "delay running", "circuit open", "waited for"])
@pytest.mark.parametrize("pressure", ["time", "room"])
def test_a_domain_that_matters_is_never_forgotten(kind: str, pressure: str) -> None:
    """F13, M1"""
    settings = {"shards": 1, "domain_state_ttl": 600.0, "max_domains": 4, "permit_timeout": 80_000}
    world = World(**{**FREE, **settings, "consecutive_fail_threshold": 1, "max_parallel_per_domain": 1})
    limiter = world.limiter

    async def press() -> None:
        await asyncio.sleep(1_300.0 if pressure == "time" else 1.0)
        for number in range(2 if pressure == "time" else 30):
            world.ask_now(f"https://other-{number}.test/")
            await asyncio.sleep(0.1)

    async def main() -> None:
        if kind == "in flight":
            world.permit_now()
        elif kind == "blocked":
            world.ask_now(status=429, headers=HOUR)
        elif kind == "circuit open":
            world.ask_now(status=500)
        else:
            limiter.set_crawl_delay(URL, 5_000.0)
            world.ask_now()
        if kind == "waited for":
            # At the instant its delay ends, and before the waiter has looked, somebody else needs room.
            waiting = asyncio.create_task(world.ask())
            await settle_down()
            world.clock.advance(5_000.0)
            limiter._shard_of(URL)[0].registry.sweep(world.clock.monotonic(), world.clock.utc())
            for number in range(30):
                world.ask_now(f"https://other-{number}.test/")
            assert world.domain() is not None
            assert await waiting == 5_000.0
            return
        await press()
        assert world.domain() is not None
        assert limiter.try_permit(URL) is None or kind == "circuit open"

    world.run(main())
    assert limiter.snapshot().domains_known <= 6


def test_the_least_recently_used_go_first() -> None:
    world = World(**{**FREE, "shards": 1, "max_domains": 4})
    for name in "abcd":
        world.ask_now(f"https://{name}.test/")
        world.clock.advance(1.0)
    world.ask_now("https://a.test/")  # used again: b is now the oldest
    world.clock.advance(1.0)
    world.ask_now("https://e.test/")
    assert [world.domain(f"{name}.test") is not None for name in "abcde"] == [True, False, True, True, True]


def test_totals_outlive_the_domains() -> None:
    world = World(**{**FREE, "shards": 1, "max_domains": 4})
    for number in range(100):
        world.ask_now(f"https://site-{number}.test/")
        world.clock.advance(1.0)
    snapshot = world.limiter.snapshot()
    assert (snapshot.requests, snapshot.successes) == (100, 100)
    assert (snapshot.domains_known, snapshot.domains_evicted) == (4, 96)
