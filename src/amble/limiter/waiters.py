"""How one caller waits for its turn: a task on an event loop, or a thread. Woken by time or by another's word."""

from __future__ import annotations

import asyncio
import math
import threading
from contextlib import suppress
from typing import Protocol

LONGEST_S = 86_400.0  # no platform can wait for centuries; to look once a day costs nothing


class Waiter(Protocol):
    """A place in a domain's queue."""

    on_settle: bool  # waits for a slot, not for an instant: any settling concerns it
    wait_if_open: bool  # stays when the circuit opens
    address: str | None  # in whose line it stands, where domains share addresses

    @property
    def gone(self) -> bool:
        """Whether it can never be woken again."""

    def wake(self) -> None:
        """Something changed: look again. Called with the shard's lock held, from any thread; never blocks."""


class TaskWaiter:
    """A coroutine's place in the queue."""

    __slots__ = ("_future", "_loop", "address", "on_settle", "wait_if_open")

    def __init__(self, wait_if_open: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None
        self.on_settle = False
        self.wait_if_open = wait_if_open
        self.address: str | None = None

    @property
    def gone(self) -> bool:
        """A loop that was closed over its sleeping tasks takes their places with it."""
        return self._loop.is_closed()

    def arm(self) -> None:
        """Begin to listen. Called with the lock held, so that no word is missed between looking and waiting."""
        self._future = self._loop.create_future()

    async def wait(self, timeout_s: float | None) -> None:
        """Until woken, or for so long."""
        future = self._future
        assert future is not None
        timer = None
        if timeout_s is not None:
            timeout_s = min(timeout_s, LONGEST_S)
            if type(self._loop).__module__ == "uvloop":
                # libuv counts whole milliseconds: it would make nothing of a shorter wait, and we would look in vain.
                timeout_s = math.ceil(timeout_s * 1_000) / 1_000
            timer = self._loop.call_later(timeout_s, _finish, future)
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
        else:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(_finish, future)


class ThreadWaiter:
    """A thread's place in the queue."""

    __slots__ = ("_event", "address", "on_settle", "wait_if_open")

    gone = False

    def __init__(self, wait_if_open: bool) -> None:
        self._event = threading.Event()
        self.on_settle = False
        self.wait_if_open = wait_if_open
        self.address: str | None = None

    def arm(self) -> None:
        self._event.clear()

    def wait(self, timeout_s: float | None) -> None:
        self._event.wait(None if timeout_s is None else min(timeout_s, LONGEST_S))

    def wake(self) -> None:
        self._event.set()


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
