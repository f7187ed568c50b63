"""A domain that keeps failing: who asks is told at once, who waits is told when it happens, one trial at a time."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from amble import CircuitOpen, Denied, Limiter
from tests.limiter.helpers import FREE, URL, World, counted_waits, settle_down

BREAKER: dict[str, Any] = {**FREE, "consecutive_fail_threshold": 3, "open_state_duration": 15.0}


def failing(**named: Any) -> World:
    """A world in which the circuit of a.test has just opened."""
    world = World(**{**BREAKER, **named})
    world.fail(3)
    assert world.domain().circuit == "open"
    return world


def kinds(world: World) -> list[str]:
    return [type(event).__name__ for event in world.events if type(event).__name__.startswith("Circuit")]


# -- who asks


def test_who_asks_is_refused_at_once_with_the_time_left() -> None:
    world = failing()
    world.clock.advance(5.0)

    async def main() -> None:
        with pytest.raises(CircuitOpen) as caught:
            await world.limiter.permit(URL)
        assert caught.value.domain == "a.test"
        assert caught.value.wait_s == pytest.approx(10.0)
        assert "10.0 s" in str(caught.value)
        assert "wait_if_open" in str(caught.value)

    world.run(main())
    assert world.now == 5.0
    assert world.limiter.snapshot().denied == 1


def test_threads_are_refused_at_once_too() -> None:
    with pytest.raises(Denied):
        failing().limiter.permit_sync(URL)


def test_try_permit_gives_none() -> None:
    world = failing()
    assert world.limiter.try_permit(URL) is None


def test_other_domains_do_not_notice() -> None:
    world = failing()
    world.ask_now("https://b.test/")


def test_who_asks_to_wait_waits_and_is_the_trial() -> None:
    world = failing()

    async def main() -> None:
        async with world.limiter.permit(URL, wait_if_open=True) as permit:
            assert world.now == 15.0
            assert permit.receipt.probe
            permit.settle(status=200)

    world.run(main())
    assert world.domain().circuit == "closed"
    assert kinds(world) == ["CircuitOpened", "CircuitHalfOpened", "CircuitClosed"]


def test_after_the_time_is_up_anybody_may_be_the_trial() -> None:
    world = failing()
    world.clock.advance(15.0)
    world.limiter.permit_sync(URL).settle(status=200)
    assert world.domain().circuit == "closed"


def test_a_trial_is_told_when_it_is_sent() -> None:
    world = failing()
    world.clock.advance(15.0)
    world.permit_now()
    assert kinds(world) == ["CircuitOpened", "CircuitHalfOpened"]
    assert world.limiter.snapshot().half_open_circuits == 1


# -- who waits


def test_those_who_wait_are_told_when_the_circuit_opens() -> None:
    world = World(**{**BREAKER, "max_parallel_per_domain": 3})

    async def main() -> None:
        flying = [world.permit_now() for _ in range(3)]
        waiting = [asyncio.create_task(world.ask()) for _ in range(5)]
        await asyncio.sleep(2.0)
        for permit in flying:
            permit.settle(status=500)
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(answer) for answer in told] == [CircuitOpen] * 5
        assert world.now == 2.0

    world.run(main())
    assert world.limiter.snapshot().waiting == 0


def test_those_who_wait_are_told_when_every_answer_is_overdue() -> None:
    """Nothing is settled: what is under way is known to hang all the same."""
    world = World(**{**BREAKER, "max_parallel_per_domain": 3})

    async def main() -> None:
        for _ in range(10):
            await world.ask(takes_s=0.1)
        began, flying = world.now, [world.permit_now() for _ in range(3)]
        waiting = [asyncio.create_task(world.ask()) for _ in range(5)]
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(answer) for answer in told] == [CircuitOpen] * 5
        assert world.now - began == pytest.approx(5.0)
        for permit in flying:
            permit.settle(status=200)

    world.run(main())
    assert kinds(world) == ["CircuitOpened"]
    assert world.limiter.snapshot().waiting == 0


def test_waiters_of_both_kinds_part_ways_when_the_circuit_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(**{**BREAKER, "consecutive_fail_threshold": 1, "max_parallel_per_domain": 1})

    async def main() -> None:
        flying = world.permit_now()
        tasks = [asyncio.create_task(world.ask(wait_if_open=number % 3 == 0)) for number in range(9)]
        await asyncio.sleep(1.0)
        flying.settle(error=ConnectionRefusedError())
        await settle_down()
        assert [task.done() for task in tasks] == [False, True, True] * 3
        assert all(isinstance(task.exception(), CircuitOpen) for task in tasks if task.done())
        assert world.now == 1.0
        assert [await task for task in tasks[::3]] == [16.0, 16.0, 16.0]

    with counted_waits(monkeypatch) as waits:
        world.run(main())
    # The patient ones behind the first are woken when they become first, not by the circuit.
    assert list(waits.values())[1:] == [1] * 8


def test_a_failed_trial_tells_those_who_hoped_for_it_and_the_next_pause_is_longer() -> None:
    world = failing()
    world.clock.advance(15.0)

    async def main() -> None:
        trial = world.permit_now()
        hoping = asyncio.create_task(world.ask())
        patient = asyncio.create_task(world.ask(wait_if_open=True))
        await asyncio.sleep(1.0)
        assert not hoping.done()
        trial.settle(status=500)
        with pytest.raises(CircuitOpen) as caught:
            await hoping
        assert caught.value.wait_s == 30.0
        assert world.now - 15.0 == 1.0
        assert await patient - 15.0 == 31.0

    world.run(main())


def test_only_one_trial_is_out_at_a_time_and_its_success_lets_the_others_go() -> None:
    world = failing()

    async def main() -> list[float]:
        return await asyncio.gather(*(world.ask(wait_if_open=True, takes_s=2.0) for _ in range(4)))

    assert world.run(main()) == [15.0, 17.0, 17.0, 17.0]


def test_with_two_trials_wanted_two_are_out() -> None:
    world = failing(half_open_probes=2)

    async def main() -> list[float]:
        return await asyncio.gather(*(world.ask(wait_if_open=True, takes_s=2.0) for _ in range(4)))

    assert world.run(main()) == [15.0, 15.0, 17.0, 17.0]


@pytest.mark.parametrize("how", ["cancelled task", "given back", "ignored", "lost"])
def test_a_trial_that_comes_to_nothing_passes_to_the_next(how: str) -> None:
    """Half-open race: a lost trial must not lock the domain for ever."""
    world = failing(permit_timeout=60.0)
    world.clock.advance(15.0)

    async def main() -> float:
        trial = asyncio.create_task(world.ask(takes_s=1e6)) if how == "cancelled task" else world.permit_now()
        await settle_down()
        next_one = asyncio.create_task(world.ask())
        await asyncio.sleep(1.0)
        assert not next_one.done()
        if isinstance(trial, asyncio.Task) or how == "given back":
            trial.cancel()
        elif how == "ignored":
            trial.settle(error=asyncio.CancelledError())
        return await next_one - 15.0

    assert world.run(main()) == (60.0 if how == "lost" else 1.0)
    assert world.domain().circuit == "closed"


# -- a limit is no failure


def test_a_directed_retry_after_makes_callers_wait_and_opens_no_circuit() -> None:
    world = World(**BREAKER)
    for _ in range(3):
        world.ask_now(status=429, headers={"Retry-After": "20"})
        world.clock.advance(21.0)
    world.ask_now(status=429, headers={"Retry-After": "20"})

    async def main() -> float:
        before = world.now
        return await world.ask() - before

    assert 20.0 <= world.run(main()) < 21.0


# -- threads


def test_threads_in_the_queue_are_told_when_the_circuit_opens() -> None:
    limiter = Limiter(**{**BREAKER, "consecutive_fail_threshold": 1, "max_parallel_per_domain": 1})
    flying = limiter.permit_sync(URL)
    refused: list[float] = []

    def ask() -> None:
        try:
            limiter.permit_sync(URL)
        except CircuitOpen as error:
            refused.append(error.wait_s)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    while limiter.snapshot().waiting < 8:
        time.sleep(0.001)
    flying.settle(status=503)
    for thread in threads:
        thread.join(10.0)
    assert len(refused) == 8
    assert all(10.0 < wait_s <= 15.0 for wait_s in refused)
