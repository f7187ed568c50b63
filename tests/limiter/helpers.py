"""A limiter in virtual time, with a server that writes down what was done to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import contextmanager
from typing import Any, TypeVar

import uvloop

from amble import Limiter
from amble.core.pacing.events import Event
from amble.limiter import IssuedPermit, waiters
from amble.testing.virtual import VirtualClock, VirtualLoop, run

T = TypeVar("T")

URL = "https://a.test/page"

# Exact instants: a constant delay, no cap on the rate, no jitter.
EXACT: dict[str, Any] = {"pacing": "fixed", "fixed_delay": 1.0, "max_rate": None, "random": lambda: 0.0}
FREE: dict[str, Any] = {**EXACT, "fixed_delay": 0.0}
NEVER_TRIPS: dict[str, Any] = {"consecutive_fail_threshold": 100_000, "min_samples_to_trip": 100_000}

REAL_LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


class World:
    """A limiter and a clock that jumps."""

    def __init__(self, *, start: float = 1_000.0, **named: Any) -> None:
        self.start = start
        self.clock = VirtualClock(start)
        self.events: list[Event] = []
        self.limiter = Limiter(clock=self.clock, listeners=[self.events.append], **{**EXACT, **named})

    @property
    def now(self) -> float:
        """Seconds since the world began."""
        return self.clock.monotonic() - self.start

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return run(main, clock=self.clock)

    async def ask(self, url: str = URL, *, status: int = 200, takes_s: float = 0.0, **named: Any) -> float:
        """One whole request: wait, send, be answered. Returns when it was sent."""
        headers = named.pop("headers", None)
        async with self.limiter.permit(url, **named) as permit:
            sent_at = self.now
            if takes_s:
                await asyncio.sleep(takes_s)
            permit.settle(status=status, headers=headers)
        return sent_at

    def ask_now(self, url: str = URL, **settled: Any) -> None:
        """One whole request that need not wait."""
        self.permit_now(url).settle(**(settled or {"status": 200}))

    def permit_now(self, url: str = URL) -> IssuedPermit:
        permit = self.limiter.try_permit(url)
        assert permit is not None, self.limiter.snapshot()
        return permit

    def fail(self, times: int, url: str = URL) -> None:
        """So many failures in a row, as fast as is allowed."""
        for _ in range(times):
            wait_s = self.limiter.not_before(url) - self.clock.monotonic()
            self.clock.advance(max(0.0, wait_s))
            self.ask_now(url, status=500)

    def domain(self, name: str = "a.test") -> Any:
        found = [domain for domain in self.limiter.snapshot(top=1_000).domains if domain.domain == name]
        return found[0] if found else None


def turns() -> int:
    """How often the virtual loop has turned."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop.turns


async def settle_down() -> None:
    """Let every task run as far as it can without time passing."""
    for _ in range(10):
        await asyncio.sleep(0)


@contextmanager
def counted_waits(monkeypatch: Any) -> Any:
    """Counts how often each waiter goes to sleep, by the order in which they first did."""
    counts: dict[int, int] = {}
    kept: list[Any] = []  # keeps ids apart
    task_wait, thread_wait = waiters.TaskWaiter.wait, waiters.ThreadWaiter.wait

    def count(waiter: Any) -> None:
        if id(waiter) not in counts:
            kept.append(waiter)
        counts[id(waiter)] = counts.get(id(waiter), 0) + 1

    async def wait_task(self: Any, timeout_s: float | None) -> None:
        count(self)
        await task_wait(self, timeout_s)

    def wait_thread(self: Any, timeout_s: float | None) -> None:
        count(self)
        thread_wait(self, timeout_s)

    with monkeypatch.context() as patch:
        patch.setattr(waiters.TaskWaiter, "wait", wait_task)
        patch.setattr(waiters.ThreadWaiter, "wait", wait_thread)
        yield counts
