"""What a limiter shows of itself: snapshots, listeners, log lines."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import Any

import pytest

from amble import Limiter
from amble.core.pacing.events import BlockClosed, BlockOpened, ConcurrencyChanged, Event, PaceChanged
from tests.limiter.helpers import FREE, URL, World, settle_down

# -- snapshot


def test_a_fresh_limiter_shows_zeros() -> None:
    snapshot = Limiter().snapshot()
    shown = dataclasses.asdict(snapshot)
    assert shown.pop("domains") == ()
    assert set(shown.values()) == {0}


def test_a_snapshot_counts_what_happened() -> None:
    world = World(consecutive_fail_threshold=2)

    async def main() -> None:
        await asyncio.gather(*(world.ask() for _ in range(3)))  # two of them wait, 1 s and 2 s
        await world.ask(status=429, headers={"Retry-After": "10"}, attempt=2)
        flying = await world.limiter.permit("https://b.test/")
        waiting = asyncio.create_task(world.ask())
        await settle_down()
        world.fail(2, "https://c.test/")
        with pytest.raises(Exception, match="keeps failing"):
            await world.ask("https://c.test/")
        snapshot = world.limiter.snapshot()
        assert (snapshot.requests, snapshot.successes, snapshot.limited, snapshot.failures) == (7, 3, 1, 2)
        assert (snapshot.throttled, snapshot.denied, snapshot.retries, snapshot.lost) == (4, 1, 1, 0)
        assert snapshot.waited_s == pytest.approx(1.0 + 2.0 + 1.0)
        assert (snapshot.domains_known, snapshot.domains_evicted) == (3, 0)
        assert (snapshot.open_circuits, snapshot.half_open_circuits) == (1, 0)
        assert (snapshot.blocked, snapshot.waiting, snapshot.in_flight) == (2, 1, 1)
        flying.settle(status=200)
        waiting.cancel()

    world.run(main())


def test_a_domain_shows_what_binds_it() -> None:
    world = World(max_parallel_per_domain=3)
    world.limiter.set_crawl_delay(URL, 4.0)
    permit = world.permit_now()
    world.clock.advance(0.5)
    permit.settle(status=200, elapsed_s=0.25)
    domain = world.domain()
    assert (domain.strategy, domain.source, domain.delay_s, domain.rate) == ("fixed", "crawl_delay", 4.0, 0.25)
    assert (domain.crawl_delay_s, domain.next_in_s) == (4.0, 3.5)
    assert (domain.in_flight, domain.parallel, domain.waiting) == (0, 3, 0)
    assert domain.latency_s == 0.25
    assert domain.latency_p95_s == pytest.approx(0.25, rel=0.04)
    assert (domain.circuit, domain.error_rate, domain.blocked_s) == ("closed", 0.0, 0.0)
    assert (domain.requests, domain.successes, domain.limited, domain.failures) == (1, 1, 0, 0)
    assert (domain.success_streak, domain.error_streak) == (1, 0)


def test_the_busiest_domains_come_first() -> None:
    world = World(**FREE)
    for number in range(50):
        for _ in range(number + 1):
            world.ask_now(f"https://site-{number:02}.test/")
    shown = world.limiter.snapshot(top=3).domains
    assert [domain.domain for domain in shown] == ["site-49.test", "site-48.test", "site-47.test"]
    assert world.limiter.snapshot(top=0).domains == ()
    assert world.limiter.snapshot(top=0).requests == 50 * 51 // 2


# -- listeners


def test_listeners_are_told_in_order_and_in_the_order_they_came() -> None:
    told: list[tuple[str, str]] = []

    def listener(name: str) -> Any:
        return lambda event: told.append((name, type(event).__name__))

    world = World(pacing="linear", fixed_delay=0.0)
    world.limiter.listen(listener("first"))
    world.limiter.listen(listener("second"))
    world.ask_now(status=429, headers={"Retry-After": "5"})
    world.clock.advance(6.0)
    world.ask_now()
    kinds = [type(event).__name__ for event in world.events]
    assert kinds == ["BlockOpened", "PaceChanged", "BlockClosed"]
    assert told == [(name, kind) for kind in kinds for name in ("first", "second")]


def test_an_event_says_what_happened_and_why() -> None:
    world = World(pacing="linear", fixed_delay=0.0)
    world.ask_now(status=429, headers={"Retry-After": "5"})
    opened, changed = world.events
    assert isinstance(opened, BlockOpened)
    assert isinstance(changed, PaceChanged)
    assert (opened.domain, opened.retry_after_s, opened.error_streak) == ("a.test", 5.0, 1)
    assert opened.wait_s == pytest.approx(5.0, abs=0.2)
    assert "429" in opened.reason
    assert (changed.was_s, changed.delay_s, changed.reason) == (0.5, 1.5, "limited")


def test_n_refusals_in_flight_are_one_event() -> None:
    """F5: a 429 storm from one host with 32 in flight."""
    world = World(**{**FREE, "max_parallel_per_domain": 32})
    flying = [world.permit_now() for _ in range(32)]
    for permit in flying:
        permit.settle(status=429, headers={"Retry-After": "60"})
    assert [type(event) for event in world.events] == [BlockOpened]
    assert world.limiter.snapshot().limited == 32


def test_a_listener_that_fails_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Event] = []

    def broken(event: Event) -> None:
        raise LookupError("mine")

    world = World(pacing="linear", fixed_delay=0.0)
    limiter = Limiter(clock=world.clock, listeners=[broken, told.append], pacing="linear")
    with caplog.at_level(logging.ERROR):
        permit = limiter.permit_sync(URL)
        permit.settle(status=429, headers={"Retry-After": "5"})
    assert [type(event) for event in told] == [BlockOpened, PaceChanged]
    assert permit.settled
    assert "a listener failed" in caplog.text
    assert "LookupError: mine" in caplog.text


def test_a_listener_may_use_the_limiter() -> None:
    """No lock is held while listeners are told."""
    seen: list[Any] = []
    world = World(pacing="linear", fixed_delay=0.0)

    def curious(event: Event) -> None:
        seen.append(world.limiter.snapshot().limited)
        world.ask_now("https://other.test/")
        world.limiter.set_crawl_delay("https://third.test/", 3.0)

    world.limiter.listen(curious)
    world.ask_now(status=429)
    assert seen == [1] * len(seen)
    assert seen


def test_a_change_by_robots_txt_is_told_at_once() -> None:
    world = World(pacing="fixed", fixed_delay=30.0, max_parallel_per_domain=8, base_delay=0.5)
    world.permit_now()
    assert [event for event in world.events if isinstance(event, ConcurrencyChanged)]
    world.events.clear()
    world.limiter.set_crawl_delay(URL, 30.0)  # the baseline rises to it: all slots are given back
    assert [(event.parallel, event.was) for event in world.events if isinstance(event, ConcurrencyChanged)] == [(8, 3)]


# -- log


def test_a_change_of_pace_is_one_line_with_domain_delay_streak_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    world = World(pacing="linear")
    caplog.clear()  # its settings may do nothing, which is said
    with caplog.at_level(logging.INFO, logger="amble.pacing"):
        world.ask_now(status=429, headers={"Retry-After": "5"})
    assert [record.getMessage() for record in caplog.records] == [
        "a.test: left alone for 5.0 s: HTTP 429, Retry-After 5 s",
        "a.test: delay 1.50 s (was 0.50 s), error streak 1: limited",
    ]
    blocked, slower = map(vars, caplog.records)
    assert (blocked["change"], blocked["domain"], blocked["error_streak"]) == ("BlockOpened", "a.test", 1)
    assert (slower["change"], slower["delay_s"], slower["reason"]) == ("PaceChanged", 1.5, "limited")


def test_a_pause_without_a_refusal_is_a_line_as_well(caplog: pytest.LogCaptureFixture) -> None:
    world = World(pacing="linear")
    caplog.clear()  # its settings may do nothing, which is said
    with caplog.at_level(logging.INFO, logger="amble.pacing"):
        world.ask_now(status=301, headers={"Retry-After": "5"})
    [record] = caplog.records
    assert record.getMessage() == "a.test: left alone for 5.0 s: HTTP 301, Retry-After 5 s"
    assert vars(record)["change"] == "Paused"


def test_blocks_close_with_an_event() -> None:
    world = World(**FREE)
    world.ask_now(status=429, headers={"Retry-After": "5"})
    world.clock.advance(7.0)
    world.ask_now()
    closed = world.events[-1]
    assert isinstance(closed, BlockClosed)
    assert closed.blocked_s == 7.0
