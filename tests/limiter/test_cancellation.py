"""Whoever goes away gives back what they had: a place in the queue, a turn, a slot, a trial. At any point."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import Any

import pytest

from amble import Limiter
from amble.limiter import waiters
from tests.limiter.helpers import FREE, REAL_LOOPS, URL, World, settle_down


def at_rest(world: World) -> bool:
    snapshot = world.limiter.snapshot()
    return snapshot.waiting == 0 and snapshot.in_flight == 0


@pytest.mark.parametrize("gone", [[0], [1], [2], [4], [0, 1], [0, 2, 4], [3, 0], [0, 1, 2, 3, 4]], ids=str)
@pytest.mark.parametrize("after_s", [0.0, 0.5], ids=["at once", "half-way"])
def test_waiters_that_go_away_leave_no_hole(gone: list[int], after_s: float) -> None:
    """The first of the queue, those behind it, several, all."""
    world = World()
    world.ask_now()

    async def main() -> list[float]:
        tasks = [asyncio.create_task(world.ask()) for _ in range(5)]
        await settle_down()
        await asyncio.sleep(after_s)
        for number in gone:
            tasks[number].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        return [sent_at for sent_at in done if isinstance(sent_at, float)]

    assert world.run(main()) == [1.0, 2.0, 3.0, 4.0, 5.0][: 5 - len(gone)]
    assert at_rest(world)


def test_cancelled_between_being_woken_and_running() -> None:
    """The slot was meant for it; it must reach the next one all the same."""
    world = World(**{**FREE, "max_parallel_per_domain": 1})

    async def main() -> float:
        holder = world.permit_now()
        first, second = asyncio.create_task(world.ask()), asyncio.create_task(world.ask())
        await settle_down()
        holder.settle(status=200)  # wakes the first, which has not run yet
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await second

    assert world.run(main()) == 0.0
    assert at_rest(world)


def test_cancelled_in_the_very_turn_in_which_its_timer_fires() -> None:
    world = World()
    world.ask_now()

    async def main() -> float:
        loop = asyncio.get_running_loop()
        first, second = asyncio.create_task(world.ask()), asyncio.create_task(world.ask())
        await settle_down()
        loop.call_at(loop.time() + 1.0, first.cancel)  # due at the same instant as its turn
        with pytest.raises(asyncio.CancelledError):
            await first
        return await second

    assert world.run(main()) == 1.0
    assert at_rest(world)


def test_cancelled_before_it_ever_ran() -> None:
    world = World()

    async def main() -> None:
        task = asyncio.create_task(world.ask())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    world.run(main())
    assert world.limiter.snapshot().requests == 0


def test_cancelled_with_the_permit_in_hand_frees_the_slot_and_keeps_the_spacing() -> None:
    """The request may have been sent: the next one keeps its distance."""
    world = World(fixed_delay=5.0, max_parallel_per_domain=1)

    async def main() -> float:
        holder = asyncio.create_task(world.ask(takes_s=1e6))
        await settle_down()
        next_one = asyncio.create_task(world.ask())
        await asyncio.sleep(2.0)
        holder.cancel()
        return await next_one

    assert world.run(main()) == 5.0
    assert at_rest(world)
    assert world.limiter.snapshot().failures == 0


def test_a_deadline_of_the_callers_own_gives_the_place_back() -> None:
    world = World(fixed_delay=10.0)
    world.ask_now()

    async def main() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(world.limiter.permit(URL), 3.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3.0), world.limiter.permit(URL):
                pytest.fail("there is no turn yet")
        return await world.ask()

    assert world.run(main()) == 10.0
    assert at_rest(world)


def test_a_task_group_that_fails_takes_its_waiters_along() -> None:
    world = World()

    async def breaks() -> None:
        await asyncio.sleep(2.5)
        raise LookupError

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(world.ask())
            group.create_task(breaks())

    with pytest.raises(ExceptionGroup):
        world.run(main())
    assert at_rest(world)
    assert world.limiter.snapshot().requests == 3


def test_thousands_that_go_away_at_once_newest_first() -> None:
    world = World(fixed_delay=1_000.0)
    world.ask_now()

    async def main() -> None:
        tasks = [asyncio.create_task(world.ask()) for _ in range(4_000)]
        await settle_down()
        for task in reversed(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    world.run(main())
    assert at_rest(world)


# -- threads


def test_a_thread_interrupted_while_waiting_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.ask_now()

    def interrupted(self: Any, timeout_s: float | None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(waiters.ThreadWaiter, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            world.limiter.permit_sync(URL)
    assert at_rest(world)


# -- event loops that end


@pytest.mark.parametrize("kind", REAL_LOOPS)
def test_a_loop_closed_over_its_sleepers_does_not_hold_up_the_others(kind: str) -> None:
    """Tasks that were never cancelled sleep for ever in a closed loop; their places must not."""
    limiter = Limiter(**{**FREE, "max_parallel_per_domain": 1})
    held = limiter.permit_sync(URL)

    async def ask() -> None:
        async with limiter.permit(URL) as permit:
            permit.settle(status=200)

    async def start() -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(ask()) for _ in range(3)]
        await settle_down()
        return tasks

    loop = REAL_LOOPS[kind]()
    tasks = loop.run_until_complete(start())
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    assert limiter.snapshot().waiting == 3
    served: list[float] = []
    thread = threading.Thread(target=lambda: served.append(limiter.permit_sync(URL, deadline_s=20).waited_s))
    thread.start()
    while limiter.snapshot().waiting != 1:  # the dead have made way, the thread is first
        time.sleep(0.001)
    held.settle(status=200)
    thread.join(10.0)
    assert len(served) == 1
    del tasks, task
    with limiter._shard_of(URL)[0].lock:
        gc.collect()  # ends their coroutines, which leave the queue: it may come at any moment, also under the lock
    assert limiter.snapshot().waiting == 0


@pytest.mark.parametrize("kind", REAL_LOOPS)
def test_a_loop_that_ends_in_good_order_leaves_nothing_behind(kind: str) -> None:
    limiter = Limiter(**{**FREE, "max_parallel_per_domain": 1})
    held = limiter.permit_sync(URL)

    async def main() -> None:
        tasks = [asyncio.create_task(_ask(limiter)) for _ in range(3)]
        await settle_down()
        assert len(tasks) == limiter.snapshot().waiting

    with asyncio.Runner(loop_factory=REAL_LOOPS[kind]) as runner:
        runner.run(main())
    assert limiter.snapshot().waiting == 0
    held.settle(status=200)
    limiter.permit_sync(URL, deadline_s=0.0).settle(status=200)


async def _ask(limiter: Limiter) -> None:
    async with limiter.permit(URL) as permit:
        permit.settle(status=200)
