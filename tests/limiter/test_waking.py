"""Nobody is woken for nothing: no herd, no busy waiting, no timer left behind; on virtual and on real loops."""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import pairwise

import pytest

from amble import Limiter, TooLate
from amble.limiter.shard import Shard
from amble.testing.virtual import Deadlock, VirtualLoop
from tests.limiter.helpers import EXACT, FREE, REAL_LOOPS, URL, World, counted_waits, turns


def test_each_waiter_wakes_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    async def main() -> int:
        before = turns()
        await asyncio.gather(*(world.ask() for _ in range(500)))
        return turns() - before

    with counted_waits(monkeypatch) as waits:
        taken = world.run(main())
    assert len(waits) == 499
    assert max(waits.values()) <= 3
    assert taken <= 10 * 500


def test_each_waiter_for_a_slot_wakes_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(**{**FREE, "max_parallel_per_domain": 4})

    async def main() -> int:
        before = turns()
        await asyncio.gather(*(world.ask(takes_s=1.0) for _ in range(500)))
        return turns() - before

    with counted_waits(monkeypatch) as waits:
        taken = world.run(main())
    assert len(waits) == 496
    assert max(waits.values()) <= 3
    assert taken <= 10 * 500


def test_waiting_for_hours_takes_no_turns_of_the_loop() -> None:
    world = World()
    world.limiter.set_crawl_delay(URL, 40_000.0)
    world.ask_now()

    async def main() -> int:
        before = turns()
        await asyncio.gather(*(world.ask() for _ in range(3)))
        return turns() - before

    assert world.run(main()) <= 40
    assert world.now == 120_000.0


def test_other_answers_of_the_domain_do_not_wake_who_waits_for_an_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(**{**FREE, "max_parallel_per_domain": 100})
    flying = [world.permit_now() for _ in range(60)]
    world.limiter.set_crawl_delay(URL, 100.0)

    async def main() -> None:
        waiting = asyncio.create_task(world.ask())
        for permit in flying:
            await asyncio.sleep(1.0)
            permit.settle(status=200)
        assert await waiting == 100.0

    with counted_waits(monkeypatch) as waits:
        world.run(main())
    assert list(waits.values()) == [1]


def test_who_was_woken_or_went_away_leaves_no_timer_behind() -> None:
    world = World(**{**FREE, "max_parallel_per_domain": 1})

    async def main() -> int:
        for number in range(50):
            holder = world.permit_now()
            woken, cancelled = asyncio.create_task(world.ask()), asyncio.create_task(world.ask())
            await asyncio.sleep(1.0)
            (holder.settle if number % 2 else holder.cancel)(**({"status": 200} if number % 2 else {}))
            cancelled.cancel()
            await asyncio.wait([woken, cancelled])
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return sum(not timer.cancelled() for timer in loop._scheduled)

    assert world.run(main()) == 0


def test_a_thread_wakes_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    limiter = Limiter(**{**EXACT, "fixed_delay": 0.01})

    def ask() -> None:
        with limiter.permit_sync(URL) as permit:
            permit.settle(status=200)

    with counted_waits(monkeypatch) as waits:
        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert max(waits.values()) <= 5


@pytest.mark.parametrize("kind", REAL_LOOPS)
@pytest.mark.parametrize("delay_s", [0.0004, 0.0053, 0.011], ids=str)
def test_a_real_loop_does_not_spin_on_the_last_moment(
    kind: str, delay_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libuv counts in milliseconds; a shorter wait must not become a busy one."""
    limiter = Limiter(**{**EXACT, "fixed_delay": delay_s})
    sent: list[float] = []

    async def one() -> None:
        async with limiter.permit(URL) as permit:
            sent.append(permit.sent_at)
            permit.settle(status=200)

    async def main() -> None:
        await asyncio.gather(*(one() for _ in range(20)))

    with counted_waits(monkeypatch) as waits, asyncio.Runner(loop_factory=REAL_LOOPS[kind]) as runner:
        runner.run(main())
    assert max(waits.values()) <= 5
    assert all(later - earlier >= delay_s for earlier, later in pairwise(sent))


@pytest.mark.parametrize("kind", [*REAL_LOOPS, "threads"])
def test_waiting_costs_next_to_no_processor_time(kind: str) -> None:
    """50 wait for a slot for half a second. A busy wait would burn all of it; a look every millisecond a good part."""
    limiter = Limiter(**{**FREE, "max_parallel_per_domain": 1})
    held = limiter.permit_sync(URL)
    began_at, began = time.monotonic(), time.process_time()
    if kind == "threads":
        threads = [threading.Thread(target=_give_up, args=(limiter,)) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:

        async def main() -> None:
            await asyncio.gather(*(_give_up_async(limiter) for _ in range(50)))

        with asyncio.Runner(loop_factory=REAL_LOOPS[kind]) as runner:
            runner.run(main())
    waited_s = time.monotonic() - began_at
    assert not held.settled
    assert waited_s > 0.4
    assert time.process_time() - began < 0.5 * waited_s


def _give_up(limiter: Limiter) -> None:
    with pytest.raises(TooLate):
        limiter.permit_sync(URL, deadline_s=0.45)


async def _give_up_async(limiter: Limiter) -> None:
    with pytest.raises(TooLate):
        async with limiter.permit(URL, deadline_s=0.45):
            pass


def test_the_virtual_loop_would_notice_a_lost_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above mean something: without the word to the next one, they end in a deadlock."""
    monkeypatch.setattr(Shard, "tell_first", lambda self, domain: None)
    world = World()

    async def main() -> None:
        await asyncio.gather(*(world.ask() for _ in range(3)))

    with pytest.raises(Deadlock):
        world.run(main())
