"""Which sockets libcurl is told about, through all that happens to a connection that is kept."""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Callable, Iterator

import pycurl
import pytest

from amble.fetcher.watcher import EpollWatcher, LoopWatcher, OnFault, OnReady, Watcher

IN, OUT, REMOVE = pycurl.POLL_IN, pycurl.POLL_OUT, pycurl.POLL_REMOVE
IS_IN, IS_OUT = pycurl.CSELECT_IN, pycurl.CSELECT_OUT
Make = Callable[[asyncio.AbstractEventLoop, OnReady, OnFault], Watcher]
WATCHERS = [
    pytest.param(LoopWatcher, id="loop"),
    pytest.param(EpollWatcher, id="epoll", marks=pytest.mark.skipif(not hasattr(select, "epoll"), reason="Linux")),
]


class Line:
    """A connection: our end, and a server's."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.fd = self.ours.fileno()

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


class Told:
    """What libcurl was told since it was last asked about; it reads what has come."""

    def __init__(self, make: Make) -> None:
        self._ready: list[tuple[int, int]] = []
        self.faults: list[Exception] = []
        self.watcher = make(asyncio.get_running_loop(), self._ready.extend, self.faults.append)

    def watch(self, what: int, fd: int) -> None:
        self.watcher.watch(what, fd, pycurl.CurlMulti(), None)

    async def now(self) -> set[tuple[int, int]]:
        for _ in range(5):
            await asyncio.sleep(0)
        told = set(self._ready)
        self._ready.clear()
        return told


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


@pytest.mark.parametrize("make", WATCHERS)
async def test_a_kept_connection_is_heard_only_while_it_is_waited_for(make: Make, line: Line) -> None:
    told = Told(make)
    for round_ in range(3):
        told.watch(IN, line.fd)
        assert await told.now() == set()
        line.theirs.send(b"answer")
        assert (line.fd, IS_IN) in await told.now()
        line.ours.recv(100)
        told.watch(REMOVE, line.fd)
        assert await told.now() == set(), f"round {round_}"
    told.watcher.close()


@pytest.mark.parametrize("make", WATCHERS)
async def test_what_is_waited_for_may_change(make: Make, line: Line) -> None:
    told = Told(make)
    told.watch(OUT, line.fd)
    assert (line.fd, IS_OUT) in await told.now()
    told.watch(IN, line.fd)
    assert await told.now() == set()
    line.theirs.send(b"answer")
    assert (line.fd, IS_IN) in await told.now()
    told.watcher.close()


@pytest.mark.parametrize("make", WATCHERS)
async def test_a_server_that_closes_an_idle_connection_wakes_nobody(make: Make, line: Line) -> None:
    told = Told(make)
    told.watch(IN, line.fd)
    told.watch(REMOVE, line.fd)
    line.theirs.close()
    assert await told.now() == set()
    if isinstance(told.watcher, EpollWatcher):
        assert told.watcher._epoll.poll(0) == []  # nor does it go on ringing
    told.watch(IN, line.fd)  # libcurl would use it again, and finds out
    assert {fd for fd, _ in await told.now()} == {line.fd}
    told.watcher.close()


@pytest.mark.parametrize("make", WATCHERS)
async def test_a_new_connection_under_the_number_of_an_old_one_is_heard(make: Make, line: Line) -> None:
    """libcurl closes idle connections without a word."""
    told, new = Told(make), Line()
    told.watch(IN, line.fd)
    told.watch(REMOVE, line.fd)
    told.watcher.expect_new()
    os.dup2(new.fd, line.fd)
    told.watch(IN, line.fd)
    new.theirs.send(b"answer")
    assert (line.fd, IS_IN) in await told.now()
    told.watch(REMOVE, line.fd)
    told.watcher.close()
    new.close()


@pytest.mark.parametrize("make", WATCHERS)
async def test_a_fault_is_told_since_libcurl_would_swallow_it(make: Make) -> None:
    told = Told(make)
    told.watch(IN, 1_000_000)  # no such descriptor
    assert [type(fault) for fault in told.faults] in ([OSError], [ValueError], [PermissionError])
    told.watcher.close()


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="Linux")
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_the_end_of_an_idle_connection_is_told_by_its_place(reset: bool) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(listener.getsockname())
    theirs, _ = listener.accept()
    stirred: list[tuple[str, int, bool]] = []
    watcher = EpollWatcher(
        asyncio.get_running_loop(), lambda ready: None, lambda fault: None, lambda *what: stirred.append(what)
    )
    watcher.watch(IN, ours.fileno(), pycurl.CurlMulti(), None)
    watcher.watch(REMOVE, ours.fileno(), pycurl.CurlMulti(), None)
    if reset:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    else:
        theirs.send(b"last words")
    theirs.close()
    await asyncio.sleep(0.01)
    assert stirred == [("" if reset else "127.0.0.1", ours.getsockname()[1], True)]
    watcher.close()
    for end in (ours, listener):
        end.close()


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="Linux")
async def test_an_idle_connection_is_ended_by_its_place() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    lines = [(socket.create_connection(listener.getsockname()), listener.accept()[0]) for _ in range(2)]
    watcher = EpollWatcher(asyncio.get_running_loop(), lambda ready: None, lambda fault: None)
    for ours, _ in lines:
        watcher.watch(IN, ours.fileno(), pycurl.CurlMulti(), None)
    watcher.watch(REMOVE, lines[0][0].fileno(), pycurl.CurlMulti(), None)
    for ours, _ in lines:  # the second is in use
        watcher.end_idle(("127.0.0.1", ours.getsockname()[1]))
    await asyncio.sleep(0.4)
    for (_, theirs), wanted in zip(lines, (b"", None), strict=True):
        theirs.setblocking(False)
        try:
            came: bytes | None = theirs.recv(10)
        except BlockingIOError:
            came = None
        assert came == wanted
    watcher.close()
    for ours, theirs in lines:
        ours.close()
        theirs.close()
    listener.close()
