"""Domains that share an address share a second budget, where the settings ask for one (F12)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amble import Limiter
from tests.limiter.helpers import FREE, World, counted_waits, turns


def test_domains_at_one_address_keep_their_distance_from_each_other() -> None:
    world = World(pacing="fixed", fixed_delay=0.0, max_rate="unlimited", min_address_delay=2.0)
    for name in "abc":
        world.limiter.set_address(f"https://{name}.test/", "192.0.2.7")

    async def main() -> list[float]:
        return await asyncio.gather(*(world.ask(f"https://{name}.test/") for name in "abc"))

    assert world.run(main()) == pytest.approx([0.0, 2.0, 4.0])


def test_slots_of_an_address_go_round_its_domains_without_waiting_for_a_timeout() -> None:
    world = World(pacing="fixed", fixed_delay=0.0, max_rate="unlimited", max_parallel_per_address=2)
    for name in "abcdef":
        world.limiter.set_address(f"https://{name}.test/", "192.0.2.7")

    async def main() -> list[float]:
        return await asyncio.gather(*(world.ask(f"https://{name}.test/", takes_s=1.0) for name in "abcdef"))

    assert sorted(world.run(main())) == pytest.approx([0.0, 0.0, 1.0, 1.0, 2.0, 2.0])


def test_other_addresses_are_not_held_up() -> None:
    world = World(pacing="fixed", fixed_delay=0.0, max_rate="unlimited", min_address_delay=60.0)
    for name, address in (("a", "192.0.2.7"), ("b", "192.0.2.7"), ("c", "192.0.2.8")):
        world.limiter.set_address(f"https://{name}.test/", address)

    async def main() -> list[float]:
        return await asyncio.gather(*(world.ask(f"https://{name}.test/") for name in "abc"))

    assert world.run(main()) == pytest.approx([0.0, 60.0, 0.0])


def test_a_cancelled_permit_gives_the_place_at_the_address_back() -> None:
    limiter = Limiter(pacing="fixed", fixed_delay=0.0, max_rate="unlimited", max_parallel_per_address=1)
    for name in "ab":
        limiter.set_address(f"https://{name}.test/", "192.0.2.7")
    first = limiter.permit_sync("https://a.test/")
    assert limiter.try_permit("https://b.test/") is None
    first.cancel()
    assert limiter.try_permit("https://b.test/") is not None


def test_without_the_settings_an_address_means_nothing() -> None:
    limiter = Limiter(pacing="fixed", fixed_delay=0.0, max_rate="unlimited")
    for name in "ab":
        limiter.set_address(f"https://{name}.test/", "192.0.2.7")
    assert limiter.try_permit("https://a.test/") is not None
    assert limiter.try_permit("https://b.test/") is not None


def crowd(domains: int, **named: Any) -> World:
    """A world of domains that all live at one address and have no pace of their own."""
    world = World(**{**FREE, **named})
    for number in range(domains):
        world.limiter.set_address(f"https://site-{number}.test/", "192.0.2.7")
    return world


@pytest.mark.parametrize("named", [{"min_address_delay": 0.1}, {"max_parallel_per_address": 2}], ids=str)
def test_thousands_of_waiters_at_one_address_are_no_herd_and_go_round_the_domains(
    named: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = crowd(200, **named)
    served: list[int] = []

    async def ask(number: int) -> None:
        await world.ask(f"https://site-{number}.test/", takes_s=0.05)
        served.append(number)

    async def main() -> int:
        before = turns()
        await asyncio.gather(*(ask(number % 200) for number in range(600)))
        return turns() - before

    with counted_waits(monkeypatch) as waits:
        taken = world.run(main())
    assert max(waits.values()) <= 5
    assert taken <= 10 * 600
    # Each domain in turn: all are served once before any is served twice.
    assert [sorted(served[at : at + 200]) for at in (0, 200, 400)] == [list(range(200))] * 3


def test_a_domain_held_up_by_itself_does_not_hold_up_its_neighbours() -> None:
    """It stood at the head of the line when its own server asked to be left alone."""
    world = crowd(3, max_parallel_per_address=2, max_parallel_per_domain=2)
    blocked, neighbour, third = (f"https://site-{number}.test/" for number in range(3))

    async def main() -> list[float]:
        flying = [world.permit_now(blocked), world.permit_now(third)]
        head = asyncio.create_task(world.ask(blocked))
        behind = asyncio.create_task(world.ask(neighbour))
        await asyncio.sleep(1.0)
        flying[0].settle(status=429, headers={"Retry-After": "60"})
        return [await behind, await head]

    sent = world.run(main())
    assert sent[0] == 1.0
    assert sent[1] >= 61.0


def test_a_waiter_that_goes_away_leaves_the_line_to_the_next() -> None:
    world = crowd(3, max_parallel_per_address=1)

    async def main() -> float:
        flying = world.permit_now("https://site-0.test/")
        tasks = [asyncio.create_task(world.ask(f"https://site-{number}.test/")) for number in (1, 2)]
        await asyncio.sleep(1.0)
        tasks[0].cancel()
        await asyncio.sleep(1.0)
        flying.settle(status=200)
        return await tasks[1]

    assert world.run(main()) == 2.0


def test_a_domain_that_moves_while_requests_are_under_way() -> None:
    """F8: the slot goes back to the address it was taken from."""
    world = crowd(2, max_parallel_per_address=2)
    url = "https://site-0.test/"
    flying = [world.permit_now(url), world.permit_now(url)]
    world.limiter.set_address(url, "192.0.2.99")
    flying += [world.permit_now(url), world.permit_now(url)]
    assert world.limiter.try_permit(url) is None
    assert world.limiter.try_permit("https://site-1.test/") is None
    for permit in flying:
        permit.settle(status=200)
    assert world.limiter.snapshot().in_flight == 0
    for other in (url, "https://site-1.test/"):
        assert [world.limiter.try_permit(other) is not None for _ in range(3)] == [True, True, False]


def test_a_domain_that_moves_away_need_not_wait_for_its_old_address() -> None:
    world = crowd(2, min_address_delay=600.0)
    world.ask_now("https://site-1.test/")

    async def main() -> float:
        waiting = asyncio.create_task(world.ask("https://site-0.test/"))
        await asyncio.sleep(5.0)
        world.limiter.set_address("https://site-0.test/", "192.0.2.99")
        return await waiting

    assert world.run(main()) == 5.0


def test_an_evicted_domain_keeps_its_address_and_the_address_its_distance() -> None:
    """M1"""
    world = crowd(2, min_address_delay=900.0, domain_state_ttl=600.0)
    world.limiter.set_address("https://far.test/", "192.0.2.99")
    world.ask_now("https://site-0.test/")
    world.clock.advance(700.0)
    world.ask_now("https://far.test/")  # sweeps: site-0 is idle, but its address has not rested yet
    assert world.limiter.try_permit("https://site-1.test/") is None
    world.clock.advance(1_000.0)
    world.ask_now("https://far.test/")
    assert world.limiter.snapshot().domains_known == 1
    world.ask_now("https://site-0.test/")
    assert world.limiter.try_permit("https://site-1.test/") is None


def test_an_address_that_everybody_left_keeps_its_distance_all_the_same() -> None:
    world = crowd(1, min_address_delay=900.0, domain_state_ttl=600.0)
    world.ask_now("https://site-0.test/")
    world.limiter.set_address("https://site-0.test/", "192.0.2.99")
    world.clock.advance(700.0)
    world.ask_now("https://site-0.test/")  # sweeps
    world.limiter.set_address("https://new.test/", "192.0.2.7")
    assert world.limiter.try_permit("https://new.test/") is None
    world.clock.advance(201.0)
    world.ask_now("https://new.test/")


def test_a_permit_lost_at_an_address_is_told_and_its_slot_comes_back() -> None:
    world = crowd(2, max_parallel_per_address=1, permit_timeout=30.0)
    world.permit_now("https://site-0.test/")

    async def main() -> float:
        return await world.ask("https://site-1.test/")

    assert world.run(main()) == 30.0
    assert [(type(event).__name__, event.domain) for event in world.events] == [("PermitLost", "192.0.2.7")]
    assert world.limiter.snapshot().lost == 1


def test_addresses_nobody_lives_at_any_more_are_forgotten() -> None:
    world = World(**{**FREE, "min_address_delay": 1.0, "domain_state_ttl": 60.0})
    for number in range(100):
        world.limiter.set_address(f"https://site-{number}.test/", f"192.0.2.{number}")
        world.ask_now(f"https://site-{number}.test/")
    world.clock.advance(200.0)
    world.ask_now("https://site-0.test/")
    world.clock.advance(200.0)
    world.ask_now("https://site-0.test/")
    assert len(world.limiter._shards[0].registry._addresses) <= 1
