"""Domains that share an address share a second budget, where the settings ask for one (F12)."""

from __future__ import annotations

import asyncio

import pytest

from amble import Limiter
from tests.limiter.helpers import World


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
