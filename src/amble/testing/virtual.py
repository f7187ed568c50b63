"""Virtual time: a clock that jumps when everybody sleeps, and an asyncio event loop that runs on it.

An hour of waiting takes no time, the same program gives the same history, and "everybody waits for somebody else" is
an error at once in place of a test that hangs. There is no network and there are no threads in virtual time: work
handed to an executor is done at once, in the loop.
"""

from __future__ import annotations

import asyncio
import math
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
# A clock that only ever shows multiples of a power of two can be set ahead by such a multiple, and every difference
# between two of its readings stays what it was, to the last bit. What is measured is the same by both clocks, and what
# is waited for falls into the same tick: a sum is rounded by far less. So ties are ties by every clock.
TICK_S = 2.0**-10
TURNS_MAX = 1_000_000  # turns of the loop in which no time passes; more is a busy wait


class Stuck(RuntimeError):
    """The program cannot go on, or does not let time go on."""


class Deadlock(Stuck):
    """Every task waits, and nothing is scheduled that could wake one."""


class Livelock(Stuck):
    """Tasks keep waking each other, and time stands still."""


class VirtualClock:
    """Both clocks of `amble.clock.Clock`. Monotonic time moves only when told to; the wall clock can be set apart."""

    def __init__(self, start: float = 0.0, utc: datetime = EPOCH) -> None:
        self._now = start
        self._wall_at_zero = utc - timedelta(seconds=start)

    def monotonic(self) -> float:
        return self._now

    def utc(self) -> datetime:
        return self._wall_at_zero + timedelta(seconds=self._now)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.advance_to(self._now + seconds)

    def advance_to(self, instant: float) -> None:
        """Let time pass until a monotonic instant."""
        if not self._now <= instant < math.inf:
            raise ValueError(f"monotonic time cannot go from {self._now!r} to {instant!r}")
        self._now = instant

    def shift_wall(self, by: timedelta) -> None:
        """Somebody sets the wall clock forward or back. No time passes."""
        self._wall_at_zero += by

    def __repr__(self) -> str:
        return f"<VirtualClock {self._now:.3f} s, {self.utc():%Y-%m-%d %H:%M:%S} UTC>"


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop that jumps to the next timer when nothing is ready. `turns` counts its iterations.

    With a `tick_s`, timers are due at multiples of it, rounded up; see `TICK_S`.
    """

    _scheduled: list[asyncio.TimerHandle]  # asyncio's own heap of timers

    def __init__(self, clock: VirtualClock | None = None, tick_s: float | None = None) -> None:
        super().__init__()
        self.clock = clock or VirtualClock()
        self._tick_s = tick_s
        self.turns = 0
        self._idle_turns = 0
        self._selector = self  # the base class polls its selector once per turn: that is where time passes
        # In order of making, so that what happens to all of them happens in the same order in each run.
        self._made: list[weakref.ref[asyncio.Task[Any]]] = []
        self._made_max = 1_000

    def time(self) -> float:
        return self.clock.monotonic()

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self._tick_s is not None and when < math.inf:
            when = math.ceil(when / self._tick_s) * self._tick_s
        return super().call_at(when, callback, *args, context=context)

    def select(self, timeout: float | None) -> list[Any]:
        """One poll of asyncio: None means that nothing is scheduled, 0 that something is ready, else all sleep."""
        self.turns += 1
        self._idle_turns += 1
        if timeout is None:
            raise Deadlock(f"nothing is scheduled and nobody is ready{self._roll_call()}")
        if timeout > 0:
            when = self._scheduled[0].when()
            if when == math.inf:
                raise Deadlock(f"everybody sleeps for ever{self._roll_call()}")
            if when > self.time():
                self.clock.advance_to(when)
                self._idle_turns = 0
        elif self._idle_turns > TURNS_MAX:
            raise Livelock(f"{TURNS_MAX} turns without a moment passing{self._roll_call()}")
        # Timers are due exactly at their instant and not a rounding error earlier: one that fires early, looks at the
        # clock and goes back to sleep for 1e-16 s would do so for ever.
        self._clock_resolution = math.ulp(self.time())
        return []

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Tasks that are not done, in the order they were made."""
        alive = [task for reference in self._made if (task := reference()) is not None and not task.done()]
        self._made = [weakref.ref(task) for task in alive]
        return alive

    def create_task(self, coro: Any, **named: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, **named)
        self._made.append(weakref.ref(task))
        if len(self._made) > self._made_max:
            self._made_max = 1_000 + 2 * len(self.tasks())  # those that are done are let go from time to time
        return task

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """No threads in virtual time: the work is done here and now."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no files to read from."""

    def _write_to_self(self) -> None:
        """Nobody sleeps in a system call, so nobody need be woken from one."""

    def _roll_call(self) -> str:
        return "".join(f"\n  {task.get_name()} waits in {_where(task)}" for task in self.tasks())


def run(main: Coroutine[Any, Any, T], *, clock: VirtualClock | None = None, tick_s: float | None = None) -> T:
    """Run a coroutine to its end in virtual time; tasks left over are cancelled, the oldest first."""
    loop = VirtualLoop(clock, tick_s)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            return runner.run(main)
        finally:
            if left := loop.tasks():
                for task in left:
                    task.cancel()
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


def _where(task: asyncio.Task[Any]) -> str:
    """The innermost line of our own code that a sleeping task waits in."""
    awaited: Any = task.get_coro()
    frame = None
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or frame
        awaited = getattr(awaited, "cr_await", None)
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})" if frame else repr(task)
