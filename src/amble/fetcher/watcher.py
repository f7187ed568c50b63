"""Which of libcurl's sockets are ready: watched by an epoll inside the loop's own, or by the loop where there is none.

libcurl begins and ends to watch a socket with every request. An event loop makes and unmakes a handle each time; an
epoll of our own, which the loop watches as a single descriptor, takes a quarter off the cost of a whole fetch.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Protocol

import pycurl

from amble.fetcher.sockets import end, has_ended, place_of

OnReady = Callable[[list[tuple[int, int]]], None]
OnFault = Callable[
    [Exception], None
]  # told what our own code raised: libcurl, and the loop, would go on without a word
# Told of an idle connection over which something came: where it leads to, our port, and whether it has ended. An empty
# address: it is not known any more.
OnStir = Callable[[str, int, bool], None]

READY_AT_ONCE = 64  # sockets served before the loop may turn to something else
END_WITHIN_S = 0.25  # all idle sockets are gone through to find those to end, so some are collected
_ENDS = select.EPOLLHUP | select.EPOLLERR if hasattr(select, "epoll") else 0


class Watcher(Protocol):
    def watch(self, what: int, fd: int, multi: pycurl.CurlMulti, data: object) -> None:
        """libcurl says what it waits for on a socket."""

    def expect_new(self) -> None:
        """A socket is about to be opened, perhaps under the number of one that was closed."""

    def end_idle(self, place: tuple[str, int]) -> None:
        """End an idle connection, known by its address and our port, where it can be found."""

    def close(self) -> None:
        """Watch nothing any more."""


def _nobody(address: str, port: int, has_ended: bool) -> None:
    """Whoever does not keep connections need not be told."""


def watcher_for(
    loop: asyncio.AbstractEventLoop, on_ready: OnReady, on_fault: OnFault, on_stir: OnStir = _nobody
) -> Watcher:
    make = EpollWatcher if hasattr(select, "epoll") else LoopWatcher
    return make(loop, on_ready, on_fault, on_stir)


class EpollWatcher:
    """Linux: an epoll within an epoll.

    A socket stays registered when libcurl has had its answer: most are waited for again with the next request, in the
    same way, and then nobody need be told.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_ready: OnReady, on_fault: OnFault, on_stir: OnStir = _nobody
    ) -> None:
        self._loop = loop
        self._on_ready = on_ready
        self._on_fault = on_fault
        self._on_stir = on_stir
        self._to_end: set[tuple[str, int]] = set()
        self._ending: asyncio.TimerHandle | None = None
        self._registered: dict[int, int] = {}  # for what, as far as that is certain
        self._resting: set[int] = set()  # libcurl does not wait for these
        self._wanted = {
            pycurl.POLL_NONE: 0,
            pycurl.POLL_IN: select.EPOLLIN,
            pycurl.POLL_OUT: select.EPOLLOUT,
            pycurl.POLL_INOUT: select.EPOLLIN | select.EPOLLOUT,
        }
        self._epoll = select.epoll()
        loop.add_reader(self._epoll.fileno(), self._look)

    def watch(self, what: int, fd: int, multi: pycurl.CurlMulti, data: object) -> None:
        try:
            if what == pycurl.POLL_REMOVE:
                self._resting.add(fd)
                return
            self._resting.discard(fd)
            wanted = self._wanted[what]
            if self._registered.get(fd) != wanted:
                self._register(fd, wanted)
        except Exception as error:
            self._on_fault(error)

    def _register(self, fd: int, wanted: int) -> None:
        try:
            self._epoll.modify(fd, wanted)
        except FileNotFoundError:  # a new one
            self._epoll.register(fd, wanted)
        self._registered[fd] = wanted

    def expect_new(self) -> None:
        # Idle connections are closed without a word to us, and the kernel forgets what is closed.
        self._registered.clear()

    def _look(self) -> None:
        ready = []
        try:
            for fd, events in self._epoll.poll(0, READY_AT_ONCE):
                if fd in self._resting:
                    self._forget(fd, has_ended=bool(events & _ENDS) or has_ended(fd))
                else:
                    ready.append((fd, _in_curls_words(events)))
        except Exception as error:
            self._on_fault(error)
        if ready:
            self._on_ready(ready)

    def end_idle(self, place: tuple[str, int]) -> None:
        if not self._to_end:
            self._ending = self._loop.call_later(END_WITHIN_S, self._end_some)
        self._to_end.add(place)

    def _end_some(self) -> None:
        """The server learns of it now; libcurl, when it looks at the connection next."""
        try:
            for fd in self._resting:
                if place_of(fd) in self._to_end:
                    end(fd)
            self._to_end.clear()
        except Exception as error:
            self._on_fault(error)

    def _forget(self, fd: int, *, has_ended: bool) -> None:
        """Mostly closed by the server; until libcurl looks at it, it would ring."""
        self._on_stir(*place_of(fd), has_ended)
        self._resting.discard(fd)
        self._registered.pop(fd, None)
        with suppress(OSError):  # closed by libcurl meanwhile
            self._epoll.unregister(fd)

    def close(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()


@lru_cache(maxsize=64)
def _in_curls_words(events: int) -> int:
    is_in = pycurl.CSELECT_IN if events & select.EPOLLIN else 0
    is_out = pycurl.CSELECT_OUT if events & select.EPOLLOUT else 0
    is_err = pycurl.CSELECT_ERR if events & (select.EPOLLERR | select.EPOLLHUP) else 0
    return int(is_in | is_out | is_err)


class LoopWatcher:
    """Elsewhere: readers and writers of the event loop. Nothing is heard of idle connections."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_ready: OnReady, on_fault: OnFault, _: OnStir = _nobody
    ) -> None:
        self._loop = loop
        self._on_ready = on_ready
        self._on_fault = on_fault
        self._reading: set[int] = set()
        self._writing: set[int] = set()

    def watch(self, what: int, fd: int, multi: pycurl.CurlMulti, data: object) -> None:
        try:
            self._watch(what, fd)
        except Exception as error:
            self._on_fault(error)

    def _watch(self, what: int, fd: int) -> None:
        reads = what in (pycurl.POLL_IN, pycurl.POLL_INOUT)
        writes = what in (pycurl.POLL_OUT, pycurl.POLL_INOUT)
        if reads and fd not in self._reading:
            self._reading.add(fd)
            self._loop.add_reader(fd, self._on_ready, [(fd, pycurl.CSELECT_IN)])
        elif not reads and fd in self._reading:
            self._reading.discard(fd)
            self._loop.remove_reader(fd)
        if writes and fd not in self._writing:
            self._writing.add(fd)
            self._loop.add_writer(fd, self._on_ready, [(fd, pycurl.CSELECT_OUT)])
        elif not writes and fd in self._writing:
            self._writing.discard(fd)
            self._loop.remove_writer(fd)

    def expect_new(self) -> None:
        """Nothing is watched here that libcurl does not wait for."""

    def end_idle(self, place: tuple[str, int]) -> None:
        """libcurl ends what there is too much of."""

    def close(self) -> None:
        for fd in self._reading:
            self._loop.remove_reader(fd)
        for fd in self._writing:
            self._loop.remove_writer(fd)
        self._reading.clear()
        self._writing.clear()
