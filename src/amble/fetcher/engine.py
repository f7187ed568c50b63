"""What one event loop needs to run transfers: libcurl's multi, the deadlines, easy handles to use again, free slots."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from functools import partial
from threading import get_ident

from amble.clock import Clock
from amble.core.outcome import Failure
from amble.fetcher.calls import Cancel, OnDone
from amble.fetcher.curl import Transfer
from amble.fetcher.deadlines import Deadlines
from amble.fetcher.guard import Route
from amble.fetcher.multi import Finished, Multi
from amble.fetcher.request import FetchRequest
from amble.fetcher.result import FetchResult
from amble.fetcher.settings import FetcherSettings
from amble.fetcher.verdict import read_result

_UNLIMITED = 1_000_000
_CLOSED = Finished(-1, "the fetcher was closed")


class Engine:
    """Runs transfers on one event loop, never more at once than connections are allowed."""

    def __init__(self, settings: FetcherSettings, ca_file: str, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = get_ident()
        self._settings = settings
        self._ca_file = ca_file
        self._clock = clock
        connections_max = min(settings.max_total_connections, _descriptors_to_spare())
        self.slots = Slots(connections_max, loop)
        self._multi = Multi[Transfer](loop, clock, connections_max, self._finished)
        self._deadlines = Deadlines(settings, self._multi, clock, loop)
        self._idle: list[Transfer] = []

    def is_here(self) -> bool:
        """Whether its loop is the running one, said without a call of the kernel, which Python 3.11 makes for it."""
        return self._thread == get_ident() and self._loop.is_running()

    def start(
        self,
        request: FetchRequest,
        url: str,
        route: Route,
        began: float,
        on_done: OnDone[FetchResult],
        *,
        left_s: float | None = None,
    ) -> Cancel:
        """One transfer, from connecting to its result, in what is left of its time (None: all of it). Takes no slot:
        whoever calls this has one."""
        transfer = self._idle.pop() if self._idle else self._new_transfer()
        transfer.prepare(request, url, route, left_s)
        transfer.began, transfer.on_done = began, on_done
        self._multi.start(transfer)
        self._deadlines.watch()
        return partial(self._cancel, transfer, on_done)

    def _finished(self, transfer: Transfer, finished: Finished) -> None:
        on_done, error, result = transfer.on_done, transfer.error, None
        if error is None:
            result = read_result(transfer, finished, self._clock.monotonic())
        self._put_away(transfer)
        on_done(result, error)

    def _cancel(self, transfer: Transfer, on_done: OnDone[FetchResult]) -> None:
        if transfer.on_done is on_done:  # else it has ended, and the handle may serve another
            self._multi.drop(transfer)
            self._put_away(transfer)
            on_done(None, asyncio.CancelledError())

    def _put_away(self, transfer: Transfer) -> None:
        transfer.let_go()
        self._idle.append(transfer)

    def _new_transfer(self) -> Transfer:
        return Transfer(self._settings, self._ca_file, self._multi, self._clock)

    def close(self) -> None:
        for transfer in self._multi.under_way():
            transfer.stop(Failure.CANCELLED, _CLOSED.message, final=True)
        self._deadlines.close()
        self._multi.close(_CLOSED)
        self._idle.clear()


class Slots:
    """Room for so many transfers at once. Who waits here waits before any clock of libcurl's runs."""

    def __init__(self, size: int, loop: asyncio.AbstractEventLoop) -> None:
        self._free = size
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take_now(self) -> bool:
        """Take a slot if one is free."""
        if not self._free:
            return False
        self._free -= 1
        return True

    async def take(self) -> None:
        """Wait for a slot, in the order of asking."""
        turn = self._loop.create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()  # the turn had come just before we were cancelled
            raise

    def give_back(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def _descriptors_to_spare() -> int:
    """How many sockets this process may open, with half its descriptors left for everything else [F11]."""
    if sys.platform == "win32":
        return _UNLIMITED
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else max(1, soft // 2)
