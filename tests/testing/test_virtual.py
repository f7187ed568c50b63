"""Virtual time: it jumps, it is exact, it repeats itself, and it says when nobody can go on."""

from __future__ import annotations

import asyncio
import math
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.clock import Clock
from amble.testing import virtual
from amble.testing.virtual import EPOCH, TICK_S, Deadlock, Livelock, Stuck, VirtualClock, VirtualLoop, run

DAY_S = 86_400.0


# -- the clock


def test_the_clock_stands_still_until_told() -> None:
    clock: Clock = VirtualClock(start=5.0)
    assert (clock.monotonic(), clock.monotonic()) == (5.0, 5.0)
    assert clock.utc() == EPOCH


def test_both_clocks_move_together() -> None:
    clock = VirtualClock(utc=datetime(2030, 5, 1, tzinfo=UTC))
    clock.advance(90.5)
    assert clock.monotonic() == 90.5
    assert clock.utc() == datetime(2030, 5, 1, 0, 1, 30, 500_000, tzinfo=UTC)


@pytest.mark.parametrize("days", [1, -1, 400], ids=["forward", "back", "over a year"])
def test_setting_the_wall_clock_lets_no_time_pass(days: int) -> None:
    clock = VirtualClock(start=7.0)
    clock.shift_wall(timedelta(days=days))
    assert clock.monotonic() == 7.0
    assert clock.utc() == EPOCH + timedelta(days=days)


@pytest.mark.parametrize("instant", [-1.0, 9.999, math.nan, math.inf], ids=str)
def test_monotonic_time_never_goes_back_nor_to_nonsense(instant: float) -> None:
    clock = VirtualClock(start=10.0)
    with pytest.raises(ValueError, match="monotonic"):
        clock.advance_to(instant)
    assert clock.monotonic() == 10.0


def test_a_clock_shows_what_it_reads() -> None:
    clock = VirtualClock(start=1.5)
    clock.shift_wall(timedelta(days=1))
    assert repr(clock) == "<VirtualClock 1.500 s, 2024-01-02 00:00:00 UTC>"


# -- the loop


def test_a_year_of_sleep_takes_no_time() -> None:
    clock = VirtualClock()
    began = time.monotonic()
    run(asyncio.sleep(365 * DAY_S), clock=clock)
    assert clock.monotonic() == 365 * DAY_S
    assert time.monotonic() - began < 30


def test_sleepers_wake_in_order_of_their_instants_and_of_their_sleep() -> None:
    woken: list[tuple[float, str]] = []
    clock = VirtualClock(start=100.0)

    async def sleeper(name: str, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        woken.append((clock.monotonic(), name))

    async def main() -> None:
        await asyncio.gather(sleeper("late", 3.0), sleeper("early", 1.0), sleeper("middle", 2.0), sleeper("now", 0))

    run(main(), clock=clock)
    assert woken == [(100.0, "now"), (101.0, "early"), (102.0, "middle"), (103.0, "late")]


@given(
    start=st.floats(0, 1e9),
    delay_s=st.floats(0, 1e7, exclude_min=True),
)
def test_a_timer_is_never_early_and_an_instant_is_reached_in_a_few_steps(start: float, delay_s: float) -> None:
    """One that wakes a rounding error early and sleeps again for 1e-16 s must come to an end."""
    clock = VirtualClock(start=start)
    target = start + delay_s

    async def until() -> int:
        looks = 0
        while (left_s := target - clock.monotonic()) > 0:
            await asyncio.sleep(left_s)
            looks += 1
        return looks

    assert run(until(), clock=clock) <= 2
    assert clock.monotonic() == target


@pytest.mark.parametrize("delay_s", [1.1, 1.5, 0.3, 1 / 3, 1e-9])
@pytest.mark.parametrize("zero", [0.0, 1_000.0, 9_876_543.25])
def test_where_time_ticks_what_is_due_at_one_instant_is_so_by_every_clock(delay_s: float, zero: float) -> None:
    """One sleeps by the loop's clock, one by a clock that is set ahead and so loses bits: without ticks they change
    places, from one such clock to another."""
    woken: list[tuple[str, float]] = []
    loop = VirtualLoop(tick_s=TICK_S)

    async def sleeper(name: str, zero: float) -> None:
        for _ in range(100):
            until = loop.time() + zero + delay_s
            await asyncio.sleep(until - (loop.time() + zero))
            woken.append((name, loop.time()))

    async def main() -> None:
        await asyncio.gather(sleeper("ahead", zero), sleeper("plain", 0.0))

    loop.run_until_complete(main())
    loop.close()
    assert [name for name, _ in woken] == ["ahead", "plain"] * 100
    assert all(earlier == later for (_, earlier), (_, later) in zip(woken[::2], woken[1::2], strict=True))
    assert all(at % TICK_S == 0 for _, at in woken)
    assert woken[0][1] >= delay_s, "never too early"


def test_time_goes_on_from_run_to_run_on_one_clock() -> None:
    clock = VirtualClock()
    run(asyncio.sleep(2), clock=clock)
    run(asyncio.sleep(3), clock=clock)
    assert clock.monotonic() == 5.0


def test_timeouts_are_in_virtual_time() -> None:
    clock = VirtualClock()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 3_600)

    run(main(), clock=clock)
    assert clock.monotonic() == 3_600


def test_work_for_a_thread_is_done_at_once() -> None:
    clock = VirtualClock()

    async def main() -> int:
        return await asyncio.to_thread(sum, (1, 2, 3))

    assert run(main(), clock=clock) == 6
    assert clock.monotonic() == 0.0


def test_an_error_of_work_for_a_thread_reaches_who_asked() -> None:
    def broken() -> None:
        raise KeyError("page")

    async def main() -> None:
        with pytest.raises(KeyError, match="page"):
            await asyncio.to_thread(broken)

    run(main())


def test_there_is_no_network_in_virtual_time() -> None:
    async def main() -> None:
        with pytest.raises(NotImplementedError):
            await asyncio.open_connection("127.0.0.1", 9)

    run(main())


def test_an_error_of_the_program_comes_out_of_run() -> None:
    async def main() -> None:
        await asyncio.sleep(1)
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run(main())


def test_the_same_program_gives_the_same_history() -> None:
    def history() -> list[tuple[float, int, int]]:
        clock, told = VirtualClock(), list[tuple[float, int, int]]()
        loop_turns = 0

        async def worker(number: int) -> None:
            for step in range(5):
                await asyncio.sleep((number * 7 + step * 3) % 5 / 10)
                told.append((clock.monotonic(), number, step))

        async def main() -> None:
            nonlocal loop_turns
            tasks = [asyncio.create_task(worker(number)) for number in range(20)]
            await asyncio.wait(tasks)
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            loop_turns = loop.turns

        run(main(), clock=clock)
        return [*told, (clock.monotonic(), loop_turns, 0)]

    assert history() == history()


# -- nobody can go on


def test_everybody_waiting_for_somebody_else_is_an_error_that_names_them() -> None:
    async def waits(event: asyncio.Event) -> None:
        await event.wait()

    async def main() -> None:
        task = asyncio.create_task(waits(asyncio.Event()), name="the reader")
        await task

    with pytest.raises(Deadlock) as caught:
        run(main())
    assert "the reader waits in " in str(caught.value)
    assert "Event.wait" in str(caught.value)


def test_sleeping_for_ever_is_a_deadlock() -> None:
    with pytest.raises(Deadlock, match="for ever"):
        run(asyncio.sleep(math.inf))


def test_a_busy_wait_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "TURNS_MAX", 1_000)

    async def spin() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(Livelock, match="1000 turns"):
        run(spin())


def test_many_turns_are_no_livelock_while_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "TURNS_MAX", 10)

    async def steps() -> None:
        for _ in range(100):
            await asyncio.sleep(0.001)

    run(steps())


@pytest.mark.parametrize("ends", [None, LookupError("mine"), Deadlock], ids=["well", "by an error", "in a deadlock"])
def test_tasks_left_over_are_cancelled_oldest_first(ends: Exception | type[Stuck] | None) -> None:
    cancelled: list[int] = []

    async def stays(number: int) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    async def main() -> None:
        kept = [asyncio.create_task(stays(number)) for number in range(50)]
        await asyncio.sleep(1)
        if isinstance(ends, Exception):
            raise ends
        if ends is not None:
            await kept[0]

    try:
        run(main())
    except (LookupError, Deadlock):
        assert ends is not None
    assert cancelled == list(range(50))


def test_a_long_run_does_not_gather_finished_tasks() -> None:
    async def main() -> int:
        for _ in range(20):
            await asyncio.gather(*(asyncio.sleep(1) for _ in range(500)))
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return len(loop._made)

    assert run(main()) <= 2_000
