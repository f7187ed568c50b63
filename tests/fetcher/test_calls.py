"""Being called instead of waiting: each request ends exactly once, however it ends, and a slot comes back from each."""

from __future__ import annotations

import asyncio
import gc
from functools import partial
from typing import NamedTuple

import pytest

from amble.clock import SystemClock
from amble.core.outcome import Failure
from amble.errors import BadUrl
from amble.fetcher import FetcherSettings, FetchRequest, FetchResult, Resolution
from amble.fetcher.authorities import default_ca_file
from amble.fetcher.calls import awaited, in_task
from amble.fetcher.engine import Engine
from amble.fetcher.guard import Route, pin_host
from amble.testing.rawserver import Connection, answer_each, response, serve
from tests.fetcher.helpers import Names, fetcher, until

HELLO = answer_each(lambda head: response(b"hello"))


class AtOnce(Names):
    """Knows its names without being asked."""

    def known(self, host: str) -> Resolution | None:
        return None if host.startswith("ask.") else Resolution(("127.0.0.1",))


class End(NamedTuple):
    result: FetchResult | None
    error: BaseException | None


class Ends:
    """What a callback was told, in order."""

    def __init__(self) -> None:
        self.all: list[End] = []

    def __call__(self, result: FetchResult | None, error: BaseException | None) -> None:
        self.all.append(End(result, error))


async def silent(connection: Connection) -> None:
    await connection.request()
    await connection.wait_until_closed()


@pytest.mark.parametrize("host", ["site.test", "ask.test", "127.0.0.1"])
async def test_a_request_ends_once_and_not_before_it_has_begun(host: str) -> None:
    async with serve(HELLO) as server, fetcher(resolver=AtOnce()) as f:
        ends = Ends()
        f.start(FetchRequest(server.url(host=host)), ends)
        assert ends.all == []
        await until(lambda: bool(ends.all))
        [(result, error)] = ends.all
        assert result is not None
        assert (result.body, error) == (b"hello", None)


async def test_names_that_are_known_are_not_asked_for() -> None:
    names = AtOnce()
    async with serve(HELLO) as server, fetcher(resolver=names) as f:
        for host in ("site.test", "ask.test"):
            assert (await f.fetch(FetchRequest(server.url(host=host)))).status == 200
    assert names.asked == ["ask.test"]


@pytest.mark.parametrize("host", ["site.test", "ask.test"])
async def test_cancelled_it_says_so_once_and_gives_its_slot_back(host: str) -> None:
    async with serve(silent) as server, fetcher(resolver=AtOnce(), max_total_connections=1) as f:
        for _ in range(3):  # a slot that was lost would keep the next one waiting
            ends, asked = Ends(), len(server.requests)
            cancel = f.start(FetchRequest(server.url(host=host)), ends)
            await until(lambda asked=asked: len(server.requests) > asked)  # type: ignore[misc]
            cancel()
            await until(lambda ends=ends: bool(ends.all))  # type: ignore[misc]
            cancel()
            assert len(ends.all) == 1
            assert isinstance(ends.all[0].error, asyncio.CancelledError)


async def test_cancelling_what_has_ended_does_not_touch_whoever_has_the_handle_now() -> None:
    gate = asyncio.Event()

    async def second_waits(connection: Connection) -> None:
        while await connection.request():
            if len(server.requests) > 1:
                await gate.wait()
            await connection.send(response(b"hello"))

    async with serve(second_waits) as server, fetcher(resolver=AtOnce()) as f:
        first, second = Ends(), Ends()
        cancel_first = f.start(FetchRequest(server.url("/1")), first)
        await until(lambda: bool(first.all))
        f.start(FetchRequest(server.url("/2")), second)  # by the same handle, over the same connection
        await until(lambda: len(server.requests) == 2)
        cancel_first()
        gate.set()
        await until(lambda: bool(second.all))
    assert [end.result is not None for end in first.all + second.all] == [True, True]


async def test_a_cancel_that_comes_late_does_not_end_the_next_transfer_of_its_handle() -> None:
    """As when a task is cancelled between the end of its request and its own turn."""
    clock, first, second = SystemClock(), Ends(), Ends()
    async with serve(HELLO) as server:
        engine = Engine(FetcherSettings(), default_ca_file(), clock, asyncio.get_running_loop())
        begin = partial(engine.start, FetchRequest(server.url()), server.url())
        route = Route(pin_host("site.test", ("127.0.0.1",), server.port))
        cancel_first = begin(route, clock.monotonic(), first)
        await until(lambda: bool(first.all))
        begin(route, clock.monotonic(), second)
        cancel_first()
        await until(lambda: bool(second.all))
        engine.close()
    assert [end.result is not None for end in first.all + second.all] == [True, True]


async def test_what_whoever_asked_gets_wrong_is_told_to_them_alone() -> None:
    def fails(instant: float) -> None:
        raise RuntimeError("ours")

    async with serve(HELLO) as server, fetcher(resolver=AtOnce()) as f:
        broken, whole = Ends(), Ends()
        f.start(FetchRequest(server.url("/1"), on_sent=fails), broken)
        f.start(FetchRequest(server.url("/2")), whole)
        await until(lambda: bool(broken.all and whole.all))
        with pytest.raises(BadUrl):
            f.start(FetchRequest("ftp://a.test/"), broken)
    assert isinstance(broken.all[0].error, RuntimeError)
    assert whole.all[0].error is None


async def test_what_is_forbidden_is_told_like_any_other_end() -> None:
    async with fetcher(resolver=AtOnce()) as f:
        ends = Ends()
        f.start(FetchRequest("http://site.test:22/"), ends)
        await until(lambda: bool(ends.all))
    assert ends.all[0].result is not None
    assert ends.all[0].result.failure is Failure.ADDRESS_FORBIDDEN


async def test_closing_ends_what_is_under_way_with_a_result() -> None:
    async with serve(silent) as server:
        f, ends = fetcher(resolver=AtOnce()), Ends()
        f.start(FetchRequest(server.url()), ends)
        await until(lambda: len(server.requests) == 1)
        await f.close()
    assert [end.result.failure for end in ends.all if end.result is not None] == [Failure.CANCELLED]


# --- From one to the other -------------------------------------------------------------------------------------------


async def _work(value: str | None) -> str | None:
    await asyncio.sleep(0)
    if value == "fails":
        raise LookupError(value)
    return value


@pytest.mark.parametrize("value", ["x", None])
async def test_a_task_that_is_called_for_can_be_awaited_again(value: str | None) -> None:
    assert await awaited(partial(in_task, _work(value))) == value


async def test_errors_and_giving_up_pass_through_both() -> None:
    with pytest.raises(LookupError):
        await awaited(partial(in_task, _work("fails")))
    inner: list[asyncio.Future[None]] = []

    async def hang() -> None:
        inner.append(asyncio.current_task())  # type: ignore[arg-type]
        await asyncio.Event().wait()

    outer = asyncio.create_task(awaited(partial(in_task, hang())))
    await until(lambda: bool(inner))
    outer.cancel()
    await asyncio.wait([outer, *inner], timeout=5)
    assert outer.cancelled()
    assert inner[0].cancelled()


async def test_a_request_leaves_nothing_for_the_garbage_collector() -> None:
    """Hundreds a second would else be held, with all that they hold, until it looks for them."""
    async with serve(HELLO) as server, fetcher(resolver=AtOnce()) as f:
        gc.collect()
        gc.disable()
        try:
            for path in ("/1", "/2", "/3"):
                assert (await f.fetch(FetchRequest(server.url(path)))).status == 200
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = {type(each).__name__ for each in gc.garbage}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert not left & {"_Call", "FetchRequest", "FetchResult", "partial"}
