"""What servers and networks do wrong, and the value each becomes [A9-A13, F8, F11]."""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from amble.core.outcome import Failure
from amble.fetcher import DnsError, FetchRequest, FetchResult, Phase
from amble.testing.rawserver import Connection, Script, answer, answer_each, response, serve
from tests.fetcher.helpers import Names, fetcher, open_sockets, until

PROTOCOL = Failure.NETWORK_PROTOCOL_ERROR
RESET = Failure.NETWORK_RESET
TIMEOUT = Failure.NETWORK_TIMEOUT


async def fetch_one(script: Script, **settings: Any) -> FetchResult:
    async with serve(script) as server, fetcher(**settings) as f:
        return await f.fetch(FetchRequest(server.url()))


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("raw", "status", "failure"),
    [
        (b"", None, RESET),
        (b"HTTP/1.1 2", None, RESET),
        (OK, None, RESET),
        (OK + b"A: b\r\n", None, RESET),
        (b"just some text\n", None, PROTOCOL),
        (b"<html>HTTP/0.9</html>", None, PROTOCOL),
        (b"ICY 200 OK\r\n\r\nmusic", None, PROTOCOL),
        (b"HTTP/1.1 000 Odd\r\n\r\n", None, PROTOCOL),
        (b"HTTP/1.1 2000 Odd\r\n\r\n", None, PROTOCOL),
        (b"HTTP/1.1 20 Odd\r\n\r\n", None, PROTOCOL),
        (b"HTTP/1.1 999 Denied\r\nContent-Length: 0\r\n\r\n", 999, None),
        (b"HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n", 600, None),
        (b"HTTP/3.0 200 OK\r\n\r\n", None, PROTOCOL),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", None, PROTOCOL),
        (OK + b"Content-Length: 10\r\n\r\nshort", 200, RESET),
        (OK + b"Content-Length: 3\r\n\r\nlonger", 200, None),
        (OK + b"Content-Length: -1\r\n\r\nx", None, PROTOCOL),
        (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", None, PROTOCOL),
        (OK + b"Content-Length: 99999999999999999999\r\n\r\nx", 200, Failure.CONTENT_TOO_LARGE),
        (OK + b"A: b\x00c\r\n\r\n", None, PROTOCOL),
        (OK + b"Folded: a\r\n b\r\nContent-Length: 0\r\n\r\n", 200, None),
        (OK + b"A: " + b"x" * 70_000 + b"\r\n\r\n", None, PROTOCOL),
        (OK + b"".join(b"A%d: b\r\n" % i for i in range(300)) + b"\r\n", None, PROTOCOL),
        (OK + b"".join(b"Set-Cookie: a=%d\r\n" % i for i in range(1000)) + b"\r\n", None, PROTOCOL),
        (b"HTTP/1.1 103 Hints\r\n\r\n" * 10 + response(b"x"), 200, None),
        (b"HTTP/1.1 103 Hints\r\n\r\n" * 11 + response(b"x"), None, PROTOCOL),
        (b"HTTP/1.1 100 Continue\r\nX: interim\r\n\r\n" + response(b"x"), 200, None),
        (CHUNKED + b"zz\r\nx", 200, PROTOCOL),
        (CHUNKED + b"FFFFFFFFFFFF\r\nx", 200, RESET),
        (CHUNKED + b"FFFFFFFFFFFFFFFFFF\r\nx", 200, PROTOCOL),
        (CHUNKED + b"-1\r\nx", 200, PROTOCOL),
        (CHUNKED + b"1\r\nxx\r\n", 200, PROTOCOL),
        (CHUNKED + b"1\r\nx\r\n", 200, RESET),
        (CHUNKED + b"1\r\nx\r\n0\r\nTrailer: t\r\n\r\n", 200, None),
        (CHUNKED + b"0\r\nContent-Type: evil\r\n\r\n", 200, None),
        (CHUNKED + b"0\r\n" + b"A: b\r\n" * 20_000 + b"\r\n", 200, PROTOCOL),
        (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", None, Failure.CONTENT_DECODE_ERROR),
    ],
    ids=[
        "closes at once",
        "cut status line",
        "cut after the status line",
        "cut headers",
        "no HTTP",
        "HTTP/0.9 [A13]",
        "ICY [A13]",
        "status 000 [A13]",
        "status 2000 [A13]",
        "status 20 [A13]",
        "status 999 [A13]",
        "status 600 [A13]",
        "HTTP/3 over TCP",
        "upgrade unasked",
        "length too big [A10]",
        "length too small [A10]",
        "length negative [A10]",
        "two lengths [A10]",
        "length beyond 64 bits [A10]",
        "NUL in a value [A12]",
        "folded [A12]",
        "one header of 70 kB [A12]",
        "300 headers [A12]",
        "1000 cookies [A12]",
        "ten hints [A13]",
        "eleven hints [A13]",
        "100 first",
        "chunk size not hex [A11]",
        "chunk of 2^48 [A11]",
        "chunk beyond 64 bits [A11]",
        "chunk negative [A11]",
        "chunk without CRLF [A11]",
        "chunks without end [A11]",
        "trailer",
        "trailer that poses as a header",
        "trailers without end [A11]",
        "transfer coding we did not ask for",
    ],
)
async def test_answers(raw: bytes, status: int | None, failure: Failure | None) -> None:
    result = await fetch_one(answer(raw))
    assert (result.failure, result.status) == (failure, status), result.detail
    if failure is None:
        assert result.headers.get("content-type") != "evil"
        assert "X" not in result.headers
    else:
        assert result.body is None
        assert result.detail
        assert result.detail.isprintable()


async def test_headers_of_an_interim_answer_are_forgotten() -> None:
    raw = b"HTTP/1.1 103 Hints\r\nLink: </a>\r\nContent-Type: evil\r\n\r\n" + response(b"x", "A: b")
    result = await fetch_one(answer(raw))
    assert list(result.headers) == [("A", "b"), ("Content-Length", "1")]


# --- Endless things end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [b"A: b\r\n", b"x" * 4096], ids=["headers", "one line"])
async def test_endless_headers(line: bytes) -> None:
    """A12."""

    async def endless(connection: Connection) -> None:
        await connection.request()
        await connection.send(OK)
        await connection.send_forever(line)

    assert (await fetch_one(endless)).failure is PROTOCOL


async def test_a_million_hints() -> None:
    """A13."""

    async def storm(connection: Connection) -> None:
        await connection.request()
        await connection.send_forever(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000)

    assert (await fetch_one(storm)).failure is PROTOCOL


# --- Deadlines -------------------------------------------------------------------------------------------------------


async def never_answers(connection: Connection) -> None:
    await connection.request()
    await connection.wait_until_closed()


async def drips_headers(connection: Connection) -> None:
    await connection.request()
    await connection.send(OK)
    await connection.send_forever(b"A: b\r\n", every_s=0.05)


async def hints_forever(connection: Connection) -> None:
    await connection.request()
    await connection.send_forever(b"HTTP/1.1 103 Hints\r\n\r\n", every_s=0.1)


async def drips_body(connection: Connection) -> None:
    await connection.request()
    await connection.send(OK + b"\r\n")
    await connection.send_forever(b"x", every_s=0.05)


async def stalls_in_the_body(connection: Connection) -> None:
    await connection.request()
    await connection.send(OK + b"\r\nsome")
    await connection.wait_until_closed()


@pytest.mark.parametrize(
    ("script", "settings", "phase", "at_least_s"),
    [
        (never_answers, {"header_timeout_s": 0.2}, Phase.HEADERS, 0.2),
        (drips_headers, {"header_timeout_s": 0.2}, Phase.HEADERS, 0.2),
        (hints_forever, {"header_timeout_s": 0.3}, Phase.HEADERS, 0.3),
        (never_answers, {"http_timeout": 0.2}, Phase.HEADERS, 0.2),
        (drips_body, {"http_timeout": 0.3}, Phase.BODY, 0.3),
        (drips_body, {"min_throughput_bytes_s": 100, "min_throughput_window_s": 0.2}, Phase.BODY, 0.2),
        (stalls_in_the_body, {"min_throughput_bytes_s": 1, "min_throughput_window_s": 0.2}, Phase.BODY, 0.2),
    ],
    ids=["headers", "slow headers [A9]", "hints", "total", "total in the body [A8]", "throughput [A8]", "stall [A8]"],
)
async def test_deadlines_say_where(
    script: Script, settings: dict[str, float], phase: Phase, at_least_s: float, both_loops: str
) -> None:
    result = await fetch_one(script, **settings)
    assert (result.failure, result.phase, result.body) == (TIMEOUT, phase, None)
    # libcurl counts whole milliseconds; a machine may be busy, but not for as long as all other deadlines
    assert at_least_s - 0.01 <= result.elapsed_s < 2.0


@pytest.mark.parametrize(
    ("request_s", "setting_s"),
    [(0.2, 30.0), (30.0, 0.2), (None, 0.2)],
    ids=["its own", "not above the setting", "none"],
)
async def test_a_request_may_have_less_time_for_its_headers(request_s: float | None, setting_s: float) -> None:
    async with serve(never_answers) as server, fetcher(header_timeout_s=setting_s, http_timeout=60.0) as f:
        result = await f.fetch(FetchRequest(server.url(), header_timeout_s=request_s))
        assert (result.failure, result.phase, result.detail) == (
            TIMEOUT,
            Phase.HEADERS,
            "headers not complete after 0.2 s",
        )
        patient = await f.fetch(FetchRequest(server.url(), header_timeout_s=None if request_s is None else 0.1))
        assert patient.failure is TIMEOUT  # the same handle, with another time


async def test_a_slow_but_steady_body_lives() -> None:
    async def steady(connection: Connection) -> None:
        await connection.request()
        await connection.send(OK + b"Content-Length: 1000\r\n\r\n")
        for _ in range(10):
            await connection.send(b"x" * 100)
            await asyncio.sleep(0.05)

    result = await fetch_one(steady, min_throughput_bytes_s=50, min_throughput_window_s=0.2)
    assert (result.failure, result.body) == (None, b"x" * 1000)


@contextmanager
def black_hole() -> Iterator[int]:
    """A port whose queue is full: what is sent there to connect is dropped."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    fillers = [socket.socket() for _ in range(4)]
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
    try:
        yield listener.getsockname()[1]
    finally:
        for each in [*fillers, listener]:
            each.close()


async def test_a_full_backlog_is_a_timeout_of_connecting() -> None:
    with black_hole() as port:
        async with fetcher(connect_timeout_s=0.2) as f:
            result = await f.fetch(FetchRequest(f"http://site.test:{port}/"))
    assert (result.failure, result.phase, result.started_at) == (TIMEOUT, Phase.CONNECT, None)


async def test_whoever_waits_for_nobody_leaves_its_slot_to_others_and_has_it_again_at_the_end() -> None:
    """One slot, three connections that never come about: a good host is asked long before these are given up."""
    with black_hole() as port:
        async with (
            fetcher(connect_timeout_s=60.0, http_timeout=60.0, max_total_connections=1) as f,
            serve(answer(response(b"x"))) as good,
        ):
            holes = [asyncio.create_task(f.fetch(FetchRequest(f"http://hole{n}.test:{port}/"))) for n in range(3)]
            await asyncio.sleep(0)
            async with asyncio.timeout(30):
                result = await f.fetch(FetchRequest(good.url()))
            assert result.failure is None
            for hole in holes:
                hole.cancel()
            await asyncio.gather(*holes, return_exceptions=True)
            assert f._engine is not None
            assert f._engine.slots.take_now(), "the only slot"
            assert not f._engine.slots.take_now(), "none that nobody has"


# --- Connections that break ------------------------------------------------------------------------------------------


async def test_refused() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with fetcher() as f:
            result = await f.fetch(FetchRequest(f"http://site.test:{unused.getsockname()[1]}/"))
    assert (result.failure, result.phase) == (Failure.NETWORK_CONNECTION_REFUSED, Phase.CONNECT)
    assert (result.started_at, result.local_fault) == (None, False)


async def resets_at_once(connection: Connection) -> None:
    connection.reset()


async def resets_after_the_request(connection: Connection) -> None:
    await connection.request()
    connection.reset()


async def resets_in_the_body(connection: Connection) -> None:
    await connection.request()
    await connection.send(OK + b"Content-Length: 99\r\n\r\nx")
    connection.reset()


@pytest.mark.parametrize("script", [resets_at_once, resets_after_the_request, resets_in_the_body])
async def test_resets(script: Script) -> None:
    """F11."""
    result = await fetch_one(script)
    assert (result.failure, result.local_fault, result.proxy_fault) == (RESET, False, False)


async def test_a_second_address_is_tried_when_the_first_is_dead() -> None:
    """F8: happy eyeballs among the checked addresses."""
    names = Names({"two.test": [["::1", "127.0.0.9", "127.0.0.1"]]})
    async with serve(answer(response(b"x"))) as server, fetcher(resolver=names) as f:
        result = await f.fetch(FetchRequest(server.url(host="two.test")))
    assert (result.status, result.peer_ip) == (200, "127.0.0.1")


async def test_a_name_with_a_hundred_addresses() -> None:
    """F8."""
    names = Names({"many.test": [["127.0.0.1", *(f"127.0.1.{i}" for i in range(100))]]})
    async with serve(answer(response(b"x"))) as server, fetcher(resolver=names) as f:
        assert (await f.fetch(FetchRequest(server.url(host="many.test")))).status == 200


async def test_no_such_name() -> None:
    async with fetcher(resolver=Names(default=None)) as f:
        result = await f.fetch(FetchRequest("http://none.test/"))
    assert (result.failure, result.dns_error, result.phase) == (
        Failure.NETWORK_DNS_FAILURE,
        DnsError.NO_SUCH_NAME,
        Phase.RESOLVE,
    )


# --- This machine breaks ---------------------------------------------------------------------------------------------


@contextmanager
def no_descriptors_left(but: int = 0) -> Iterator[list[socket.socket]]:
    """Every descriptor this process may have is taken, but so many; closing those yielded gives them back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    hoard: list[socket.socket] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    try:
        with suppress(OSError):
            while True:
                hoard.append(socket.socket())
        for _ in range(but):
            hoard.pop().close()
        yield hoard
    finally:
        for held in hoard:
            held.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_out_of_descriptors_waits_and_then_works() -> None:
    """F11: EMFILE is back-pressure, not a crash and not the host's fault."""
    async with serve(answer_each(lambda head: response(b"x"))) as server, fetcher() as f:
        assert (await f.fetch(FetchRequest(server.url("/warm", host="warm.test")))).status == 200
        with no_descriptors_left() as hoard:
            task = asyncio.create_task(f.fetch(FetchRequest(server.url("/cold", host="cold.test"))))
            await asyncio.sleep(0.1)
            assert not task.done()
            for held in hoard:
                held.close()
            result = await task
    assert (result.status, result.failure) == (200, None)


@pytest.mark.parametrize("left", [0, 1], ids=["none", "one, where pycurl needs two"])
async def test_out_of_descriptors_for_good_is_our_fault(left: int) -> None:
    async with serve(answer(response(b"x"))) as server, fetcher(http_timeout=0.3) as f:
        await f.fetch(FetchRequest(server.url()))
        with no_descriptors_left(but=left):
            result = await f.fetch(FetchRequest(server.url(host="cold.test")))
    assert (result.failure, result.local_fault) == (Failure.NETWORK_CONNECTION_REFUSED, True), result.detail
    assert result.started_at is None


async def test_drips_do_not_slow_the_others() -> None:
    """A8: 50 bodies that never end, and 200 quick ones beside them."""
    async with serve(drips_body) as slow, serve(answer_each(lambda head: response(b"x"))) as quick, fetcher() as f:
        drips = [asyncio.create_task(f.fetch(FetchRequest(slow.url(f"/{i}")))) for i in range(50)]
        await until(lambda: len(slow.requests) == 50)
        began = time.monotonic()
        results = await asyncio.gather(*(f.fetch(FetchRequest(quick.url(f"/{i}"))) for i in range(200)))
        took_s = time.monotonic() - began
        for drip in drips:
            drip.cancel()
        await asyncio.gather(*drips, return_exceptions=True)
    assert all(result.status == 200 for result in results)
    assert took_s < 4.0  # the drips would last for five


async def test_failures_leave_no_socket_behind() -> None:
    scripts = [never_answers, resets_in_the_body, drips_headers, stalls_in_the_body]
    async with fetcher(http_timeout=0.3) as f:
        before = open_sockets()
        for script in scripts:
            async with serve(script) as server:
                results = await asyncio.gather(*(f.fetch(FetchRequest(server.url(f"/{i}"))) for i in range(10)))
                assert all(result.failure for result in results)
        await until(lambda: open_sockets() <= before)
