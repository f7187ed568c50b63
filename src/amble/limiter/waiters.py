"""How one caller waits for its turn: a task on an event loop, or a thread. Woken by time or by another's word."""

from __future__ import annotations

import asyncio
import threading
from typing import Protocol


class Waiter(Protocol):
    """A place in a domain's queue."""

    on_settle: bool  # waits for a slot, not for an instant: any settling concerns it

    def wake(self) -> None:
        """Something changed: look again. Called with the shard's lock held, from any thread; never blocks."""


class TaskWaiter:
    """A coroutine's place in the queue."""

    __slots__ = ("_future", "_loop", "on_settle")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None
        self.on_settle = False

    def arm(self) -> asyncio.Future[None]:
        """Begin to listen. Called with the lock held, so that no word is missed between looking and waiting."""
        self._future = self._loop.create_future()
        return self._future

    async def wait(self, timeout_s: float | None) -> None:
        """Until woken, or for so long."""
        future = self._future
        assert future is not None
        timer = None if timeout_s is None else self._loop.call_later(timeout_s, _finish, future)
        try:
            await future
        finally:
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        future = self._future
        if future is None:
            return
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            _finish(future)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_finish, future)


class ThreadWaiter:
    """A thread's place in the queue."""

    __slots__ = ("_event", "on_settle")

    def __init__(self) -> None:
        self._event = threading.Event()
        self.on_settle = False

    def arm(self) -> None:
        self._event.clear()

    def wait(self, timeout_s: float | None) -> None:
        self._event.wait(timeout_s)

    def wake(self) -> None:
        self._event.set()


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
