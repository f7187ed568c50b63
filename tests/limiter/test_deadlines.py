"""A caller that cannot wait for ever: told at once when its turn cannot come in time, else at its deadline."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from amble import Limiter, SettingsError, TooLate
from tests.limiter.helpers import FREE, REAL_LOOPS, URL, World


async def too_late_at(world: World, **named: Any) -> tuple[float, TooLate]:
    with pytest.raises(TooLate) as caught:
        await world.ask(**named)
    return world.now, caught.value


@pytest.mark.parametrize("kind", ["a long delay", "a block", "a crawl delay"])
def test_a_turn_that_cannot_come_in_time_is_refused_at_once(kind: str) -> None:
    world = World(**FREE)
    if kind == "a block":
        world.ask_now(status=429, headers={"Retry-After": "60"})
    else:
        world.limiter.set_crawl_delay(URL, 60.0)
        world.ask_now()

    async def main() -> None:
        at, error = await too_late_at(world, deadline_s=30.0)
        assert at == 0.0
        assert error.domain == "a.test"
        assert 60.0 <= error.wait_s < 62.0
        assert error.hint is not None

    world.run(main())
    assert world.limiter.snapshot().denied == 1


def test_a_turn_that_comes_exactly_at_the_deadline_is_in_time() -> None:
    world = World()
    world.ask_now()

    async def main() -> float:
        return await world.ask(deadline_s=1.0)

    assert world.run(main()) == 1.0


def test_who_waits_for_a_slot_is_refused_at_the_deadline() -> None:
    world = World(**{**FREE, "max_parallel_per_domain": 1})
    world.permit_now()

    async def main() -> float:
        return (await too_late_at(world, deadline_s=7.5))[0]

    assert world.run(main()) == 7.5


def test_who_stands_too_far_behind_is_refused_at_the_deadline_and_the_others_go_on() -> None:
    world = World()
    world.ask_now()

    async def main() -> list[Any]:
        patient = [asyncio.create_task(world.ask()) for _ in range(3)]
        hurried = asyncio.create_task(too_late_at(world, deadline_s=2.5))
        later = asyncio.create_task(world.ask())
        return [*[await task for task in patient], (await hurried)[0], await later]

    assert world.run(main()) == [1.0, 2.0, 3.0, 2.5, 4.0]


def test_the_first_in_the_queue_that_gives_up_lets_the_next_one_go() -> None:
    world = World(**{**FREE, "max_parallel_per_domain": 1})
    holder = world.permit_now()

    async def main() -> list[float]:
        hurried = asyncio.create_task(too_late_at(world, deadline_s=1.0))
        patient = asyncio.create_task(world.ask())
        await asyncio.sleep(5.0)
        holder.settle(status=200)
        return [(await hurried)[0], await patient]

    assert world.run(main()) == [1.0, 5.0]


def test_a_block_that_comes_while_waiting_is_noticed_by_the_deadline() -> None:
    world = World(**{**FREE, "max_parallel_per_domain": 2})
    flying = [world.permit_now(), world.permit_now()]

    async def main() -> float:
        waiting = asyncio.create_task(too_late_at(world, deadline_s=20.0))
        await asyncio.sleep(3.0)
        flying[0].settle(status=429, headers={"Retry-After": "600"})
        return (await waiting)[0]

    assert world.run(main()) == 3.0  # its slot is free, but the domain is blocked beyond the deadline: told at once


def test_a_deadline_of_nothing_means_now_or_never() -> None:
    world = World()

    async def main() -> None:
        assert await world.ask(deadline_s=0.0) == 0.0
        assert (await too_late_at(world, deadline_s=0.0))[0] == 0.0

    world.run(main())


def test_a_deadline_also_holds_for_who_waits_for_an_open_circuit() -> None:
    world = World(**{**FREE, "consecutive_fail_threshold": 1})
    world.fail(1)

    async def main() -> float:
        return (await too_late_at(world, wait_if_open=True, deadline_s=10.0))[0]

    assert world.run(main()) == 0.0


def test_an_infinite_deadline_is_none() -> None:
    world = World()
    world.ask_now()

    async def main() -> float:
        return await world.ask(deadline_s=float("inf"))

    assert world.run(main()) == 1.0


@pytest.mark.parametrize("deadline_s", [-1.0, float("nan"), -float("inf")], ids=str)
def test_a_deadline_that_is_no_duration_is_refused(deadline_s: float) -> None:
    world = World()

    async def main() -> None:
        await world.limiter.permit(URL, deadline_s=deadline_s)

    with pytest.raises(SettingsError, match="deadline_s"):
        world.run(main())
    with pytest.raises(SettingsError, match="deadline_s"):
        world.limiter.permit_sync(URL, deadline_s=deadline_s)


@pytest.mark.parametrize("kind", [*REAL_LOOPS, "threads"])
def test_deadlines_in_real_time(kind: str) -> None:
    limiter = Limiter(**{**FREE, "max_parallel_per_domain": 1})
    held = limiter.permit_sync(URL)
    waited: list[float] = []

    def ask() -> None:
        began = time.monotonic()
        with pytest.raises(TooLate):
            limiter.permit_sync(URL, deadline_s=0.1)
        waited.append(time.monotonic() - began)

    async def ask_async() -> None:
        began = time.monotonic()
        with pytest.raises(TooLate):
            await limiter.permit(URL, deadline_s=0.1)
        waited.append(time.monotonic() - began)

    async def main() -> None:
        await asyncio.gather(*(ask_async() for _ in range(10)))

    if kind == "threads":
        threads = [threading.Thread(target=ask) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        with asyncio.Runner(loop_factory=REAL_LOOPS[kind]) as runner:
            runner.run(main())
    assert len(waited) == 10
    assert min(waited) >= 0.1
    held.settle(status=200)
    assert limiter.snapshot().waiting == 0
    limiter.permit_sync(URL, deadline_s=0.0).settle(status=200)
