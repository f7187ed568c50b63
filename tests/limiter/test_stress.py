"""Many at once in real time: threads, tasks, several event loops, one limiter; the server judges afterwards."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from amble import Limiter, TooLate
from tests.limiter.helpers import FREE, NEVER_TRIPS, REAL_LOOPS, URL
from tests.limiter.judge import StressServer

DOMAINS = 200
SETTINGS: dict[str, Any] = {**FREE, **NEVER_TRIPS, "fixed_delay": 0.01, "max_parallel_per_domain": 2}

pytestmark = pytest.mark.timeout(60)


def a_server(limited_share: float = 0.005, **named: Any) -> StressServer:
    limiter = Limiter(**{**SETTINGS, **named})
    return StressServer(limiter, delay_s=0.01, parallel=2, limited_share=limited_share)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Runs to the end; an error in any thread is an error here."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(45.0)
        assert not thread.is_alive(), "a thread waits for ever"
    if errors:
        raise errors[0]


def urls(seed: int, count: int) -> list[str]:
    dice = random.Random(seed)
    return [f"https://site-{dice.randrange(DOMAINS)}.test/" for _ in range(count)]


def ask_all(server: StressServer, wanted: list[str]) -> None:
    for url in wanted:
        with server.limiter.permit_sync(url) as permit:
            server.begin(permit)
            time.sleep(0.0005)
            server.answer(permit)


async def ask_all_async(server: StressServer, wanted: list[str]) -> None:
    for url in wanted:
        async with server.limiter.permit(url) as permit:
            server.begin(permit)
            await asyncio.sleep(0.0005)
            server.answer(permit)


def test_sixteen_threads_at_two_hundred_domains() -> None:
    server = a_server()
    in_threads(16, lambda number: ask_all(server, urls(number, 150)))
    server.judge(16 * 150)


@pytest.mark.parametrize("kind", REAL_LOOPS)
def test_two_thousand_tasks_at_two_hundred_domains(kind: str) -> None:
    server = a_server()

    async def main() -> None:
        await asyncio.gather(*(ask_all_async(server, urls(number, 2)) for number in range(2_000)))

    with asyncio.Runner(loop_factory=REAL_LOOPS[kind]) as runner:
        runner.run(main())
    server.judge(4_000)


def test_two_event_loops_and_plain_threads_share_one_limiter() -> None:
    """Two threads run loops of 100 tasks each, one of asyncio's own and one of uvloop; six ask by themselves."""
    server = a_server()

    def loop_of_tasks(number: int) -> None:
        async def main() -> None:
            await asyncio.gather(*(ask_all_async(server, urls(1_000 * number + task, 6)) for task in range(100)))

        with asyncio.Runner(loop_factory=list(REAL_LOOPS.values())[number]) as runner:
            runner.run(main())

    def work(number: int) -> None:
        if number < 2:
            loop_of_tasks(number)
        else:
            ask_all(server, urls(number, 100))

    in_threads(8, work)
    server.judge(2 * 100 * 6 + 6 * 100)


def test_one_domain_is_shared_fairly_by_loops_and_threads() -> None:
    """Everybody queues for the same domain: turns go round, nobody is starved and nobody is forgotten."""
    server = a_server(limited_share=0.0)
    first_served: dict[int, float] = {}
    last_served: dict[int, float] = {}

    def note(number: int) -> None:
        first_served.setdefault(number, time.monotonic())
        last_served[number] = time.monotonic()

    def work(number: int) -> None:
        async def main() -> None:
            for _ in range(10):
                await ask_all_async(server, [URL])
                note(number)

        if number < 4:
            with asyncio.Runner(loop_factory=list(REAL_LOOPS.values())[number % 2]) as runner:
                runner.run(main())
        else:
            for _ in range(10):
                ask_all(server, [URL])
                note(number)

    in_threads(8, work)
    server.judge(80)
    # Served in turn, nobody is done before everybody has begun.
    assert max(first_served.values()) < min(last_served.values())


def test_threads_that_give_up_take_nothing_with_them() -> None:
    """Half of the callers have a deadline too short for most turns."""
    server = a_server(limited_share=0.0)
    refused: list[int] = []
    served: list[int] = []

    def work(number: int) -> None:
        deadline_s = 0.005 if number % 2 else None
        for turn in range(100):
            try:
                with server.limiter.permit_sync(f"https://site-{turn % 3}.test/", deadline_s=deadline_s) as permit:
                    server.begin(permit)
                    server.answer(permit)
                    served.append(number)
            except TooLate:
                refused.append(number)

    in_threads(12, work)
    assert refused
    assert len(refused) + len(served) == 1_200
    server.judge(len(served))


def test_tasks_cancelled_at_any_moment_take_nothing_with_them() -> None:
    server = a_server(limited_share=0.0)
    dice = random.Random(3)

    async def one(url: str) -> None:
        async with server.limiter.permit(url) as permit:
            server.begin(permit)
            server.answer(permit)

    async def main() -> None:
        for _ in range(20):
            tasks = [asyncio.create_task(one(f"https://site-{number % 5}.test/")) for number in range(50)]
            for task in tasks:
                if dice.random() < 0.5:
                    asyncio.get_running_loop().call_later(dice.random() * 0.05, task.cancel)
            await asyncio.wait(tasks)

    with asyncio.Runner() as runner:
        runner.run(main())
    server.judge(server.answered)


def test_domains_come_and_go_under_pressure() -> None:
    """With room for few domains the limiter forgets and remembers all the time; politeness must not suffer."""
    server = a_server(max_domains=16, shards=4)
    in_threads(8, lambda number: ask_all(server, urls(number, 100)))
    server.judge(800)
    assert server.limiter.snapshot().domains_evicted > 100
