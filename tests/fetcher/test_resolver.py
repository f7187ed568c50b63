"""Names to addresses: one question per name, answers kept a short while, errors told apart [F8]."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from amble.core.outcome import Failure
from amble.fetcher import FetchRequest
from amble.fetcher.resolver import (
    ADDRESS_REMEMBERED_MIN_S,
    CLOSED,
    LOCAL_FAULT_REMEMBERED_S,
    DnsError,
    RememberingResolver,
    Resolution,
    ThreadedResolver,
    look_up,
)
from amble.fetcher.routes import OFFLINE
from amble.testing.rawserver import answer_each, response, serve
from tests.fetcher.helpers import Names, fetcher

HERE = Resolution(("192.0.2.1",))
GONE = Resolution(error=DnsError.NO_SUCH_NAME)


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def utc(self) -> Any:
        raise AssertionError("how long a name is known is not for the wall clock to say")


class Scripted:
    """Answers when it is let."""

    def __init__(self, *answers: Resolution) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.closed = False

    async def resolve(self, host: str) -> Resolution:
        self.asked.append(host)
        await self.gate.wait()
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def close(self) -> None:
        self.closed = True


async def test_an_answer_is_kept_for_its_time_and_no_longer() -> None:
    inner, clock = Scripted(HERE), Time()
    resolver = RememberingResolver(inner, remember_s=60, clock=clock)
    for now, asked in [(100.0, 1), (130.0, 1), (159.9, 1), (160.0, 2), (219.9, 2), (220.0, 3)]:
        clock.now = now
        assert await resolver.resolve("a.test") == HERE
        assert len(inner.asked) == asked


@pytest.mark.parametrize(
    ("story", "answer", "remember_s", "kept_s"),
    [
        ("nobody knows its lifetime", HERE, 60, 60),
        ("its own lifetime", HERE._replace(ttl_s=17.0), 60, 17),
        ("never longer than the setting", HERE._replace(ttl_s=86_400.0), 60, 60),
        ("a lifetime of nothing", HERE._replace(ttl_s=0.0), 60, ADDRESS_REMEMBERED_MIN_S),
        ("a lifetime of nothing, where less is wanted", HERE._replace(ttl_s=0.0), 1, 1),
        ("a dead name", GONE, 60, 60),
        ("a name without an answer", Resolution(error=DnsError.TIMEOUT), 60, 60),
        ("this machine could not ask", Resolution(error=DnsError.LOCAL), 60, LOCAL_FAULT_REMEMBERED_S),
    ],
)
async def test_how_long_an_answer_is_kept(story: str, answer: Resolution, remember_s: float, kept_s: float) -> None:
    inner, clock = Scripted(answer), Time()
    resolver = RememberingResolver(inner, remember_s=remember_s, clock=clock)
    for now, asked in [(100.0, 1), (100.0 + 0.99 * kept_s, 1), (100.0 + kept_s, 2)]:
        clock.now = now
        assert await resolver.resolve("a.test") == answer
        assert len(inner.asked) == asked, story


async def test_a_dead_name_is_asked_for_again_by_who_wants_it_anew_and_by_all_of_them_once() -> None:
    inner = Scripted(GONE, GONE, HERE)
    resolver = RememberingResolver(inner)
    assert [await resolver.resolve("a.test") for _ in range(3)] == [GONE] * 3
    assert inner.asked == ["a.test"]
    inner.gate.clear()
    anew = [asyncio.create_task(resolver.resolve_anew("a.test")) for _ in range(5)]
    await asyncio.sleep(0)
    assert resolver.known("a.test") == GONE  # for those who do not mind
    inner.gate.set()
    assert await asyncio.gather(*anew) == [GONE] * 5
    assert inner.asked == ["a.test"] * 2
    assert await resolver.resolve_anew("a.test") == HERE
    assert await resolver.resolve("a.test") == HERE
    assert inner.asked == ["a.test"] * 3


async def test_when_the_network_is_back_dead_names_are_forgotten() -> None:
    """Among them those still asked for: that was while it was down. Addresses stay."""
    inner = Scripted(HERE, GONE, GONE, GONE, HERE)
    resolver = RememberingResolver(inner)
    for host in ("good.test", "dead.test"):
        await resolver.resolve(host)
    inner.gate.clear()
    under_way = [asyncio.create_task(resolver.resolve(f"{word}.test")) for word in ("late", "later")]
    await asyncio.sleep(0.01)
    resolver.forget_failures()
    after = asyncio.create_task(resolver.resolve("late.test"))
    await asyncio.sleep(0.01)
    inner.gate.set()
    assert (await asyncio.gather(*under_way), await after) == ([GONE, GONE], HERE)
    assert [resolver.known(f"{word}.test") for word in ("good", "dead", "late", "later")] == [HERE, None, HERE, None]
    assert inner.asked == [f"{word}.test" for word in ("good", "dead", "late", "later", "late")]


async def test_a_thousand_who_wait_ask_once() -> None:
    inner = Scripted(HERE)
    inner.gate.clear()
    resolver = RememberingResolver(inner, remember_s=0)
    tasks = [asyncio.create_task(resolver.resolve("a.test")) for _ in range(1000)]
    await asyncio.sleep(0)
    tasks[0].cancel()  # the one who asked gives up: the others still get their answer
    inner.gate.set()
    answers = await asyncio.gather(*tasks[1:])
    assert set(answers) == {HERE}
    assert inner.asked == ["a.test"]
    assert tasks[0].cancelled()


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amble.fetcher.resolver.REMEMBERED_NAMES_MAX", 10)
    inner = Scripted(HERE)
    resolver = RememberingResolver(inner, remember_s=60)
    for i in range(100):
        await resolver.resolve(f"{i}.test")
    assert len(resolver._known) == 10
    await resolver.resolve("99.test")
    assert len(inner.asked) == 100


async def test_close_ends_the_questions() -> None:
    inner = Scripted(HERE)
    inner.gate.clear()
    resolver = RememberingResolver(inner)
    task = asyncio.create_task(resolver.resolve("a.test"))
    await asyncio.sleep(0)
    resolver.close()
    assert await task == CLOSED
    assert inner.closed


async def test_a_fetcher_closed_while_names_are_looked_up_says_so() -> None:
    inner = Scripted(HERE)
    inner.gate.clear()
    f = fetcher(resolver=RememberingResolver(inner))
    tasks = [asyncio.create_task(f.fetch(FetchRequest(f"http://a.test/{i}"))) for i in range(3)]
    await asyncio.sleep(0.01)
    await f.close()
    assert {(await task).failure for task in tasks} == {Failure.CANCELLED}


async def test_a_fetch_cancelled_while_its_name_is_looked_up_is_cancelled() -> None:
    inner = Scripted(HERE)
    inner.gate.clear()
    async with fetcher(resolver=RememberingResolver(inner)) as f:
        task = asyncio.create_task(f.fetch(FetchRequest("http://a.test/")))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_slow_name_holds_neither_the_loop_nor_its_asker() -> None:
    release = threading.Event()

    def slow(host: str) -> Resolution:
        release.wait(5)
        return HERE

    resolver = ThreadedResolver(threads=1, timeout_s=0.1, look_up=slow)
    began = time.monotonic()
    try:
        ticks = 0
        task = asyncio.create_task(resolver.resolve("slow.test"))
        while not task.done():
            await asyncio.sleep(0.01)
            ticks += 1
        assert (await task).error is DnsError.TIMEOUT
        assert time.monotonic() - began < 2
        assert ticks > 3
    finally:
        release.set()
        resolver.close()


async def test_the_time_of_a_name_runs_from_when_a_thread_has_it() -> None:
    """One thread, held for half a second by each of four names that have 1.2 seconds: none of them is late."""

    def slow(host: str) -> Resolution:
        time.sleep(0.5)
        return HERE

    resolver = ThreadedResolver(threads=1, timeout_s=1.2, look_up=slow)
    answers = await asyncio.gather(*(resolver.resolve(f"{number}.test") for number in range(4)))
    resolver.close()
    assert set(answers) == {HERE}


async def test_closed_while_names_wait_for_a_thread_it_says_so() -> None:
    release = threading.Event()

    def held(host: str) -> Resolution:
        release.wait(30)
        return HERE

    resolver = ThreadedResolver(threads=1, look_up=held)
    tasks = [asyncio.create_task(resolver.resolve(f"{number}.test")) for number in range(3)]
    await asyncio.sleep(0.05)
    resolver.close()
    release.set()
    assert await asyncio.gather(*tasks) == [HERE, CLOSED, CLOSED]
    assert await resolver.resolve("late.test") == CLOSED


async def test_no_more_threads_than_allowed() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def counted(host: str) -> Resolution:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return HERE

    resolver = ThreadedResolver(threads=3, look_up=counted)
    answers = await asyncio.gather(*(resolver.resolve(f"{i}.test") for i in range(30)))
    resolver.close()
    assert set(answers) == {HERE}
    assert most <= 3


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), DnsError.NO_SUCH_NAME),
        (socket.gaierror(socket.EAI_NODATA, "No address"), DnsError.NO_SUCH_NAME),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), DnsError.TRY_AGAIN),
        (socket.gaierror(socket.EAI_FAIL, "Failure"), DnsError.TRY_AGAIN),
        (socket.gaierror(socket.EAI_SYSTEM, "System error"), DnsError.LOCAL),
        (OSError(24, "Too many open files"), DnsError.LOCAL),
    ],
    ids=["NXDOMAIN", "no data", "SERVFAIL or timeout", "failure", "system", "EMFILE"],
)
def test_errors_are_told_apart(monkeypatch: pytest.MonkeyPatch, raised: OSError, error: DnsError) -> None:
    def fails(*arguments: Any, **more: Any) -> Any:
        raise raised

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    resolution = look_up("a.test")
    assert (resolution.addresses, resolution.error) == ((), error)
    assert resolution.detail


@pytest.mark.parametrize("host", ["a\0b", "é.test", "a" * 300], ids=["NUL", "not ASCII", "too long"])
def test_what_is_no_name_has_no_address(host: str) -> None:
    assert look_up(host).error is DnsError.NO_SUCH_NAME


def test_the_system_resolves() -> None:
    assert "127.0.0.1" in look_up("localhost").addresses or "::1" in look_up("localhost").addresses


def test_addresses_come_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(2, 1, 6, "", ("192.0.2.2", 0)), (2, 1, 6, "", ("192.0.2.1", 0)), (2, 1, 6, "", ("192.0.2.2", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **more: found)
    assert look_up("a.test").addresses == ("192.0.2.2", "192.0.2.1")


async def test_a_fetcher_asks_for_a_name_once_while_many_wait() -> None:
    inner = Scripted(GONE)
    inner.gate.clear()
    async with fetcher(resolver=RememberingResolver(inner)) as f:
        tasks = [asyncio.create_task(f.fetch(FetchRequest(f"http://a.test/{i}"))) for i in range(50)]
        await asyncio.sleep(0.01)
        inner.gate.set()
        results = await asyncio.gather(*tasks)
    assert {result.dns_error for result in results} == {DnsError.NO_SUCH_NAME}
    assert inner.asked == ["a.test"]


async def test_a_name_that_is_looked_up_holds_no_connection() -> None:
    """With one connection allowed, and a name that does not answer, all others are fetched."""

    class OneDead(Scripted):
        async def resolve(self, host: str) -> Resolution:
            return await super().resolve(host) if host == "dead.test" else Resolution(("127.0.0.1",))

    dead = OneDead(GONE)
    dead.gate.clear()
    hello = answer_each(lambda head: response(b"hello"))
    async with serve(hello) as server, fetcher(resolver=RememberingResolver(dead), max_total_connections=1) as f:
        waiting = [asyncio.create_task(f.fetch(FetchRequest(server.url(f"/{n}", host="dead.test")))) for n in range(3)]
        await asyncio.sleep(0)
        for number in range(3):
            assert (await f.fetch(FetchRequest(server.url(host=f"{number}.test")))).status == 200
        dead.gate.set()
        assert {(await task).dns_error for task in waiting} == {DnsError.NO_SUCH_NAME}


async def test_a_try_that_wants_the_name_anew_asks_for_it() -> None:
    inner = Scripted(GONE, GONE, Resolution(("127.0.0.1",)))
    hello = answer_each(lambda head: response(b"hello"))
    async with serve(hello) as server, fetcher(resolver=RememberingResolver(inner)) as f:
        url = server.url(host="a.test")
        told = []
        for new_name in (False, False, True, True, False, True):
            result = await f.fetch(FetchRequest(url, new_name=new_name))
            told.append((result.status, result.dns_error, len(inner.asked)))
    gone = DnsError.NO_SUCH_NAME
    assert told == [(None, gone, 1), (None, gone, 1), (None, gone, 2), (200, None, 3), (200, None, 3), (200, None, 4)]


async def test_a_resolver_that_remembers_nothing_is_simply_asked() -> None:
    hello = answer_each(lambda head: response(b"hello"))
    async with serve(hello) as server, fetcher(resolver=Names()) as f:
        f.forget_failures()
        assert (await f.fetch(FetchRequest(server.url(host="a.test"), new_name=True))).status == 200


CUT_OFF = """
import asyncio
from amble.fetcher import Fetcher, FetchRequest

async def main():
    async with Fetcher() as fetcher:
        for url in ("http://example.com/", "http://93.184.216.34/"):
            result = await fetcher.fetch(FetchRequest(url))
            print(result.local_fault, result.elapsed_s < 20.0, result.detail)

asyncio.run(main())
"""


def test_a_machine_without_a_network_blames_nobody_and_says_so_at_once_f9() -> None:
    """In a process that is cut off from every network, where the system lets us have one."""
    try:
        words = ["unshare", "--map-root-user", "--net", sys.executable, "-c", CUT_OFF]
        ran = subprocess.run(words, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no namespaces here")
    assert ran.stdout.splitlines() == [f"True True {OFFLINE}"] * 2
