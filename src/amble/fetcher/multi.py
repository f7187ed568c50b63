"""libcurl's multi interface on an asyncio loop: sockets and timers in, finished transfers out. Decides nothing.

pycurl prints what a callback raises and goes on, and libcurl then refuses everything. So whatever our own code raises
while libcurl, or the loop, calls it is kept here, and ends every transfer from the loop: a fault of ours is raised to
whoever fetches, and never leaves anybody waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, NamedTuple, Protocol, TypeVar

import pycurl

from amble.clock import Clock
from amble.fetcher.watcher import OnStir, watcher_for


class Finished(NamedTuple):
    """How libcurl ended a transfer: 0 and nothing, or a code and a message."""

    code: int = 0
    message: str = ""


class Easy(Protocol):
    """What the multi needs of a transfer."""

    easy: pycurl.Curl
    error: Exception | None  # what our own code raised; whoever waits for the transfer is given it

    def mark_sent(self, now: float) -> None:
        """The request has just been written."""


T = TypeVar("T", bound=Easy)


class Multi(Generic[T]):
    """Drives every transfer of one event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        connections_max: int,
        on_finished: Callable[[T, Finished], None],
        on_stir: OnStir,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._on_finished = on_finished
        self._under_way: dict[pycurl.Curl, T] = {}
        self.sending: list[Easy] = []  # transfers whose request libcurl writes during the present call
        self._soon: asyncio.Handle | None = None  # libcurl wants to be called at once,
        self._due: float | None = None  # or at this time of the loop,
        self._alarm: asyncio.Handle | None = None  # for which this alarm rings in time or too early:
        self._rings_at = 0.0  # at this time, which uvloop's handles do not always know
        self._fault: Exception | None = None  # what our own code raised; nothing can be fetched after that
        self._multi = multi = pycurl.CurlMulti()
        self._watcher = watcher_for(loop, self._on_ready, self.take_fault, on_stir)
        self.end_idle = self._watcher.end_idle
        self.expect_socket = self._watcher.expect_new  # to be told before one is opened
        multi.setopt(pycurl.M_SOCKETFUNCTION, self._watcher.watch)
        multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        multi.setopt(pycurl.M_MAXCONNECTS, connections_max)
        multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, 0)  # our slots bound them; libcurl would count idle ones, too

    # --- Transfers -------------------------------------------------------------------------------------------------

    def start(self, transfer: T) -> None:
        """Begin one transfer. It ends in a call of `on_finished`, never from within this one, unless it is dropped.
        After a fault of our own, none is begun: it is raised."""
        if self._fault is not None:
            raise self._fault
        self._multi.add_handle(transfer.easy)
        self._under_way[transfer.easy] = transfer

    def drop(self, transfer: T) -> None:
        """Let go of a transfer under way and close its connection."""
        del self._under_way[transfer.easy]
        self._multi.remove_handle(transfer.easy)

    def abandon(self, transfer: T, finished: Finished) -> None:
        """End a transfer from outside; its connection is closed."""
        self._settle(transfer.easy, finished)

    def under_way(self) -> list[T]:
        return list(self._under_way.values())

    def close(self, finished: Finished) -> None:
        """End every transfer and close every connection."""
        for easy in list(self._under_way):
            self._settle(easy, finished)
        self._multi.close()
        self._watcher.close()
        for handle in (self._soon, self._alarm):
            if handle is not None:
                handle.cancel()

    def _settle(self, easy: pycurl.Curl, finished: Finished) -> None:
        transfer = self._under_way.pop(easy, None)
        if transfer is not None:  # else it was dropped, perhaps by one that ended at the same time
            self._multi.remove_handle(easy)
            self._on_finished(transfer, finished)

    # --- Faults of our own -----------------------------------------------------------------------------------------

    def take_fault(self, error: Exception) -> None:
        """Our own code has failed, perhaps while libcurl called it: then libcurl may only be asked later."""
        if self._fault is None:
            self._fault = error
            self._loop.call_soon(self._fail_all)

    def _fail_all(self) -> None:
        for transfer in self.under_way():
            transfer.error = transfer.error or self._fault
            del self._under_way[transfer.easy]
            with suppress(pycurl.error):  # libcurl may be unable to go on; the transfer ends all the same
                self._multi.remove_handle(transfer.easy)
            self._on_finished(transfer, _FAULT)

    # --- Driving libcurl -------------------------------------------------------------------------------------------

    def _on_ready(self, sockets: list[tuple[int, int]]) -> None:
        try:
            for fd, ready in sockets:
                self._multi.socket_action(fd, ready)
            self._after_action()
        except Exception as error:
            self.take_fault(error)

    def _on_time(self) -> None:
        try:
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
            self._after_action()
        except Exception as error:
            self.take_fault(error)

    def _after_action(self) -> None:
        if self.sending:
            # Right after the send, not when it was planned: a busy loop would else break the spacing between sends.
            now = self._clock.monotonic()
            for transfer in self.sending:
                transfer.mark_sent(now)
            self.sending.clear()
        _, succeeded, failed = self._multi.info_read()
        for easy in succeeded:
            self._settle(easy, _SUCCEEDED)
        for easy, code, message in failed:
            self._settle(easy, Finished(code, message))

    # --- Timers ----------------------------------------------------------------------------------------------------

    def _set_timer(self, timeout_ms: int) -> None:
        """libcurl moves its one timer with almost every call, mostly further away; the alarm moves only if it must."""
        try:
            if timeout_ms == 0:
                if self._soon is None:
                    self._soon = self._loop.call_soon(self._on_soon)  # not at once: libcurl must not be entered twice
            elif timeout_ms < 0:
                self._due = None
            else:
                self._due = due = self._loop.time() + timeout_ms / 1000
                if self._alarm is None or self._rings_at > due:
                    self._set_alarm(due)
        except Exception as error:
            self.take_fault(error)

    def _set_alarm(self, due: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._rings_at = self._loop.call_at(due, self._on_alarm), due

    def _on_soon(self) -> None:
        self._soon = None
        self._on_time()

    def _on_alarm(self) -> None:
        self._alarm = None
        if self._due is None:
            return
        if self._loop.time() < self._due:
            self._set_alarm(self._due)
        else:
            self._due = None
            self._on_time()


_SUCCEEDED = Finished()
_FAULT = Finished(-1, "a fault of our own")
