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

OnReady = Callable[[list[tuple[int, int]]], None]

READY_AT_ONCE = 64  # sockets served before the loop may turn to something else


class Watcher(Protocol):
    def watch(self, what: int, fd: int, multi: pycurl.CurlMulti, data: object) -> None:
        """libcurl says what it waits for on a socket."""

    def expect_new(self) -> None:
        """A socket is about to be opened, perhaps under the number of one that was closed."""

    def close(self) -> None:
        """Watch nothing any more."""


def watcher_for(loop: asyncio.AbstractEventLoop, on_ready: OnReady) -> Watcher:
    return EpollWatcher(loop, on_ready) if hasattr(select, "epoll") else LoopWatcher(loop, on_ready)


class EpollWatcher:
    """Linux: an epoll within an epoll.

    A socket stays registered when libcurl has had its answer: most are waited for again with the next request, in the
    same way, and then nobody need be told.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_ready: OnReady) -> None:
        self._loop = loop
        self._on_ready = on_ready
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
        if what == pycurl.POLL_REMOVE:
            self._resting.add(fd)
            return
        self._resting.discard(fd)
        wanted = self._wanted[what]
        if self._registered.get(fd) == wanted:
            return
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
        for fd, events in self._epoll.poll(0, READY_AT_ONCE):
            if fd in self._resting:
                self._forget(fd)
            else:
                ready.append((fd, _in_curls_words(events)))
        if ready:
            self._on_ready(ready)

    def _forget(self, fd: int) -> None:
        """Mostly closed by the server, which libcurl sees when it wants to use it again; until then it would ring."""
        self._resting.discard(fd)
        self._registered.pop(fd, None)
        with suppress(OSError):  # closed by libcurl meanwhile
            self._epoll.unregister(fd)

    def close(self) -> None:
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()


@lru_cache(maxsize=64)
def _in_curls_words(events: int) -> int:
    is_in = pycurl.CSELECT_IN if events & select.EPOLLIN else 0
    is_out = pycurl.CSELECT_OUT if events & select.EPOLLOUT else 0
    is_err = pycurl.CSELECT_ERR if events & (select.EPOLLERR | select.EPOLLHUP) else 0
    return int(is_in | is_out | is_err)


class LoopWatcher:
    """Elsewhere: readers and writers of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_ready: OnReady) -> None:
        self._loop = loop
        self._on_ready = on_ready
        self._reading: set[int] = set()
        self._writing: set[int] = set()

    def watch(self, what: int, fd: int, multi: pycurl.CurlMulti, data: object) -> None:
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

    def close(self) -> None:
        for fd in self._reading:
            self._loop.remove_reader(fd)
        for fd in self._writing:
            self._loop.remove_writer(fd)
        self._reading.clear()
        self._writing.clear()
