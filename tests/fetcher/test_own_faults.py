"""A fault of our own, wherever libcurl or the loop calls us, is raised to whoever fetches; nobody is left waiting."""

from __future__ import annotations

import asyncio
import importlib
import os
import pickle
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, cast

import pytest

from amble.core.outcome import Failure
from amble.fetcher import Fetcher, FetcherSettings, FetchRequest, FetchResult, Resolution
from amble.fetcher.multi import Multi
from amble.testing.rawserver import Connection, response, serve
from amble.workers.child import Child
from amble.workers.errand import Errand, Visited, Wants
from amble.workers.wire import Briefing
from tests.fetcher.helpers import LOOPBACK, LOOPBACK_OPEN, Names, fetcher

PLACES = [
    ("libcurl opens a socket", "curl", "Transfer._open_socket", False),
    ("libcurl is about to send", "curl", "Transfer._may_send", False),
    ("a header line is read", "reader", "read_header_block", False),
    ("a body is read", "reader", "Body.write", False),
    ("the result is put together", "engine", "read_result", False),
    ("libcurl sets its timer", "multi", "Multi._set_alarm", True),
    ("libcurl waits for a socket", "watcher", "EpollWatcher._register", True),
    ("a socket is ready", "watcher", "_in_curls_words", True),
    ("libcurl is called", "multi", "Multi._after_action", True),
    ("deadlines are looked after", "deadlines", "Deadlines._why_late", True),
]


async def slowly(connection: Connection) -> None:
    await connection.request()
    await asyncio.sleep(0.3)  # so that deadlines are looked after
    await connection.send(response(b"hello"))


class Broken(Exception):
    """Ours."""


def breaks(*_: Any) -> NoReturn:
    raise Broken("a fault of our own")


def break_code(patch: pytest.MonkeyPatch, module: str, name: str) -> None:
    patch.setattr(f"amble.fetcher.{module}.{name}", breaks)


@pytest.mark.parametrize(("module", "name", "for_good"), [place[1:] for place in PLACES], ids=[p[0] for p in PLACES])
async def test_it_is_raised_to_whoever_fetches(
    module: str, name: str, for_good: bool, both_loops: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(slowly) as server, fetcher() as f:
        with monkeypatch.context() as patch:
            break_code(patch, module, name)
            fetches = [f.fetch(FetchRequest(server.url(f"/{i}"))) for i in range(3)]
            async with asyncio.timeout(5):
                raised = await asyncio.gather(*fetches, return_exceptions=True)
        assert {type(error) for error in raised} == {Broken}
        again = f.fetch(FetchRequest(server.url(host="another.test")))
        if for_good:  # libcurl was not told, or did not hear, what it had to know
            with pytest.raises(Broken):
                await again
        else:
            assert (await again).status == 200


class BreaksElsewhere(Names):
    """A resolver that breaks the code of the process that it was sent to, at the first name that it looks up."""

    def __init__(self, module: str, name: str) -> None:
        super().__init__()
        self.breaks, self.sent_by = (module, name), os.getpid()

    async def resolve(self, host: str) -> Resolution:
        if os.getpid() != self.sent_by:
            module, name = self.breaks
            owner: Any = importlib.import_module(f"amble.fetcher.{module}")
            *within, last = name.split(".")
            for part in within:
                owner = getattr(owner, part)
            setattr(owner, last, breaks)
        return Resolution((LOOPBACK,))


@pytest.mark.parametrize(("module", "name"), [place[1:3] for place in PLACES[2::3]], ids=[p[0] for p in PLACES[2::3]])
async def test_a_worker_tells_it_by_name(module: str, name: str) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    told: asyncio.Future[BaseException | None] = loop.create_future()

    def done(visited: Visited | None, error: BaseException | None) -> None:
        told.set_result(error)

    async with serve(slowly) as server:
        child = Child(5.0, lambda _: ready.set_result(None), lambda _: None)
        settings = FetcherSettings(http_timeout=5.0)
        briefing = Briefing(settings, LOOPBACK_OPEN, BreaksElsewhere(module, name), Wants("amble", 10))
        await child.start(pickle.dumps(briefing))
        async with asyncio.timeout(20):
            await ready
            child.visit(Errand(server.url()), 0.0, lambda _: None, done)
            error = await told
        child.close()
        await child.gone()
    assert type(error) is Broken


# --- Connects that time out ------------------------------------------------------------------------------------------


@contextmanager
def swallows_connects() -> Iterator[int]:
    """A port where nobody takes connections any more: the kernel drops whatever asks for one."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for filler in fillers:
            filler.close()


async def fetch_later(f: Fetcher, url: str, wait_s: float) -> FetchResult:
    await asyncio.sleep(wait_s)
    return await f.fetch(FetchRequest(url))


async def test_many_connects_that_time_out_end_as_such(both_loops: str) -> None:
    """uvloop gives a handle that does not know its instant where less than half a millisecond is left."""
    with swallows_connects() as port:
        async with fetcher(connect_timeout_s=0.1, max_total_connections=500) as f:
            waits = [(f"http://h{i}.test:{port}/", i / 2_000) for i in range(1_000)]
            async with asyncio.timeout(60):
                results = await asyncio.gather(*(fetch_later(f, url, wait_s) for url, wait_s in waits))
    assert {(result.failure, result.local_fault) for result in results} == {(Failure.NETWORK_TIMEOUT, False)}


class ForgetfulAlarm:
    def __init__(self, alarm: asyncio.TimerHandle) -> None:
        self.cancel = alarm.cancel


class ForgetfulLoop:
    """Gives alarms that do not know when they ring, as uvloop does."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call_at(self, when: float, callback: Any, *args: Any) -> asyncio.Handle:
        return cast(asyncio.Handle, ForgetfulAlarm(self._loop.call_at(when, callback, *args)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


async def test_an_alarm_need_not_know_when_it_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    make = Multi.__init__

    def forgetful(self: Any, loop: Any, *rest: Any) -> None:
        make(self, cast(asyncio.AbstractEventLoop, ForgetfulLoop(loop)), *rest)

    monkeypatch.setattr(Multi, "__init__", forgetful)
    with swallows_connects() as port:
        async with fetcher(connect_timeout_s=0.1) as f, asyncio.timeout(20):
            waits = [(f"http://h{i}.test:{port}/", i / 500) for i in range(50)]
            results = await asyncio.gather(*(fetch_later(f, url, wait_s) for url, wait_s in waits))
    assert {result.failure for result in results} == {Failure.NETWORK_TIMEOUT}
