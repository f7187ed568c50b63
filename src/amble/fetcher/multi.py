"""libcurl's multi interface on an asyncio loop: sockets and timers in, finished transfers out. Decides nothing."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol

import pycurl

from amble.clock import Clock


class Finished(NamedTuple):
    """How libcurl ended a transfer: 0 and nothing, or a code and a message."""

    code: int = 0
    message: str = ""


class Easy(Protocol):
    """What the multi needs of a transfer."""

    easy: pycurl.Curl

    def mark_sent(self, now: float) -> None:
        """The request has just been written."""


class Multi:
    """Drives every transfer of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, connections_max: int) -> None:
        self._loop = loop
        self._clock = clock
        self._timer: asyncio.Handle | None = None
        self._waiting: dict[pycurl.Curl, asyncio.Future[Finished]] = {}
        self._reading: set[int] = set()
        self._writing: set[int] = set()
        self.sending: list[Easy] = []  # transfers whose request libcurl writes during the present call
        self._multi = multi = pycurl.CurlMulti()
        multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        multi.setopt(pycurl.M_MAXCONNECTS, connections_max)
        multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, connections_max)

    async def perform(self, transfer: Easy) -> Finished:
        """Run one transfer to its end. Cancelled, it leaves no socket behind."""
        easy = transfer.easy
        finished: asyncio.Future[Finished] = self._loop.create_future()
        self._waiting[easy] = finished
        self._multi.add_handle(easy)
        try:
            return await finished
        finally:
            if self._waiting.pop(easy, None) is not None:
                self._multi.remove_handle(easy)

    def abandon(self, transfer: Easy, finished: Finished) -> None:
        """End a transfer from outside; its connection is closed."""
        future = self._waiting.pop(transfer.easy, None)
        if future is not None:
            self._multi.remove_handle(transfer.easy)
            if not future.done():
                future.set_result(finished)

    def close(self, finished: Finished) -> None:
        """End every transfer and close every connection."""
        for easy, future in list(self._waiting.items()):
            self._multi.remove_handle(easy)
            if not future.done():
                future.set_result(finished)
        self._waiting.clear()
        for fd in self._reading:
            self._loop.remove_reader(fd)
        for fd in self._writing:
            self._loop.remove_writer(fd)
        self._reading.clear()
        self._writing.clear()
        self._multi.close()
        self._set_timer(-1)

    def _watch(self, what: int, fd: int, _multi: pycurl.CurlMulti, _data: object) -> None:
        reads = what in (pycurl.POLL_IN, pycurl.POLL_INOUT)
        writes = what in (pycurl.POLL_OUT, pycurl.POLL_INOUT)
        if reads != (fd in self._reading):
            if reads:
                self._reading.add(fd)
                self._loop.add_reader(fd, self._drive, fd, pycurl.CSELECT_IN)
            else:
                self._reading.discard(fd)
                self._loop.remove_reader(fd)
        if writes != (fd in self._writing):
            if writes:
                self._writing.add(fd)
                self._loop.add_writer(fd, self._drive, fd, pycurl.CSELECT_OUT)
            else:
                self._writing.discard(fd)
                self._loop.remove_writer(fd)

    def _set_timer(self, timeout_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if timeout_ms == 0:
            self._timer = self._loop.call_soon(self._time_out)  # not at once: libcurl must not be entered twice
        elif timeout_ms > 0:
            self._timer = self._loop.call_later(timeout_ms / 1000, self._time_out)

    def _time_out(self) -> None:
        self._timer = None
        self._drive(pycurl.SOCKET_TIMEOUT, 0)

    def _drive(self, fd: int, ready: int) -> None:
        self._multi.socket_action(fd, ready)
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

    def _settle(self, easy: pycurl.Curl, finished: Finished) -> None:
        future = self._waiting.pop(easy, None)
        self._multi.remove_handle(easy)
        if future is not None and not future.done():
            future.set_result(finished)


_SUCCEEDED = Finished()
