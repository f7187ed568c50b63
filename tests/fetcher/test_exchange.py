"""One request, one result: what is sent, what is read, and how connections are kept."""

from __future__ import annotations

import asyncio
import time

import pytest

from amble.core.outcome import Failure
from amble.errors import BadHeader, BadUrl, FetcherClosed
from amble.fetcher import FetchRequest, Phase
from amble.fetcher.slots import Slots
from amble.fetcher.watcher import LoopWatcher
from amble.testing.rawserver import Connection, answer, answer_each, response, serve
from tests.fetcher.helpers import Names, fetcher, open_sockets, until


async def test_an_answer_becomes_a_result(both_loops: str) -> None:
    before = time.monotonic()
    raw = response(b"<p>hi", "Content-Type: text/html", "Date: Mon, 01 Jan 2024 00:00:00 GMT", "X-A: 1", "x-a: 2")
    async with serve(answer(raw)) as server, fetcher() as f:
        result = await f.fetch(FetchRequest(server.url("/a?b=c#frag")))
    assert (result.status, result.body, result.failure, result.phase) == (200, b"<p>hi", None, Phase.DONE)
    assert result.url == server.url("/a?b=c")
    assert result.headers.get_all("X-a") == ["1", "2"]
    assert (result.http_version, result.peer_ip, result.date) == ("1.1", "127.0.0.1", "Mon, 01 Jan 2024 00:00:00 GMT")
    assert result.started_at is not None
    assert before <= result.started_at <= time.monotonic()
    assert result.ttfb_s is not None
    assert 0 <= result.ttfb_s <= result.elapsed_s
    assert (result.body_bytes, result.truncated, result.proxy_fault, result.local_fault) == (5, False, False, False)


async def test_keep_alive_uses_one_connection_and_says_so(both_loops: str) -> None:
    async with serve(answer_each(lambda head: response(b"x"))) as server, fetcher() as f:
        results = [await f.fetch(FetchRequest(server.url(f"/{i}"))) for i in range(20)]
        assert server.connections == 1
    assert [result.reused for result in results] == [False] + [True] * 19
    assert server.paths == [f"/{i}" for i in range(20)]


async def test_where_there_is_no_epoll_the_loop_watches(monkeypatch: pytest.MonkeyPatch, both_loops: str) -> None:
    monkeypatch.setattr("amble.fetcher.multi.watcher_for", LoopWatcher)
    async with serve(answer_each(lambda head: response(b"x" * 100_000))) as server, fetcher() as f:
        results = await asyncio.gather(*(f.fetch(FetchRequest(server.url(f"/{i}"))) for i in range(50)))
        later = [await f.fetch(FetchRequest(server.url(f"/{i}"))) for i in range(10)]
        assert server.connections <= 50
    assert {(result.status, len(result.body or b"")) for result in [*results, *later]} == {(200, 100_000)}


async def test_without_keep_alive_every_request_has_its_own_connection() -> None:
    async with serve(answer_each(lambda head: response(b"x"))) as server, fetcher(http_keep_alive=False) as f:
        for _ in range(3):
            assert (await f.fetch(FetchRequest(server.url()))).status == 200
    assert server.connections == 3
    assert all(b"Connection: close\r\n" in head for head in server.requests)


async def test_a_redirect_is_an_answer_not_an_errand() -> None:
    """D1: no hop is taken inside the fetcher, whatever Location says."""
    raw = response(b"", "Location: /next", status="302 Found")
    async with serve(answer_each(lambda head: raw)) as server, fetcher() as f:
        result = await f.fetch(FetchRequest(server.url("/first")))
    assert (result.status, result.headers.get("location"), server.paths) == (302, "/next", ["/first"])


async def test_only_what_this_request_carries_is_sent() -> None:
    """D8, D9: neither cookies nor credentials of one request reach the next; userinfo in a URL is never sent [C4]."""
    cookie = response(b"", "Set-Cookie: sid=1; Path=/")
    async with serve(answer_each(lambda head: cookie)) as server, fetcher(user_agent="bot/1 (+https://me)") as f:
        private = FetchRequest(server.url("/1"), headers=(("Authorization", "Basic abc"), ("Accept", "text/plain")))
        await f.fetch(private)
        await f.fetch(FetchRequest(server.url("/2").replace("://", "://user:pw@")))
    first, second = server.requests
    assert b"Authorization: Basic abc\r\n" in first
    assert first.count(b"Accept:") == 1
    assert b"User-Agent: bot/1 (+https://me)\r\n" in second
    for name in (b"Cookie", b"Authorization", b"text/plain", b"user"):
        assert name not in second


@pytest.mark.parametrize(
    ("compress", "asked"), [(True, b"gzip, deflate, br, zstd"), (False, b"identity")], ids=["compress", "identity"]
)
async def test_accept_encoding_follows_the_setting(compress: bool, asked: bytes) -> None:
    async with serve(answer(response(b"x"))) as server, fetcher(compress=compress, from_address="me@a.test") as f:
        await f.fetch(FetchRequest(server.url()))
    assert b"Accept-Encoding: " + asked + b"\r\n" in server.requests[0]
    assert b"From: me@a.test\r\n" in server.requests[0]


@pytest.mark.parametrize(
    ("etag", "sent"),
    [
        ('"abc"', True),
        ('W/"é"', False),
        ('"a\r\nX: y"', False),
        ('"' + "a" * 2000 + '"', False),
        ('"a\x00"', False),
    ],
    ids=["plain", "not ASCII", "line break", "too long", "NUL"],
)
async def test_validators_go_back_only_if_they_are_clean(etag: str, sent: bool) -> None:
    """E4: what a server once sent is replayed as it was or not at all."""
    date = "Mon, 01 Jan 2024 00:00:00 GMT"
    async with serve(answer(response(b"", status="304 Not Modified"))) as server, fetcher() as f:
        result = await f.fetch(FetchRequest(server.url(), etag=etag, last_modified=date))
    assert (result.status, result.body, result.failure) == (304, b"", None)
    assert (f"If-None-Match: {etag}\r\n".encode("latin-1") in server.requests[0]) is sent
    assert b"If-Modified-Since: " + date.encode() in server.requests[0]
    assert server.requests[0].count(b"\r\n\r\n") == 1


@pytest.mark.parametrize(
    "header",
    [
        ("X", "a\r\nY: b"),
        ("X", "a\nb"),
        ("X\r\nY", "a"),
        ("X y", "a"),
        ("", "a"),
        ("Host", "b"),
        ("X", "é"),
        ("X", "\0"),
    ],
    ids=["CRLF", "LF", "CRLF in name", "space in name", "no name", "Host", "not ASCII", "NUL"],
)
async def test_a_header_that_cannot_be_sent_is_our_own_mistake(header: tuple[str, str]) -> None:
    async with serve(answer_each(lambda head: response(b"x"))) as server, fetcher() as f:
        with pytest.raises(BadHeader):
            await f.fetch(FetchRequest(server.url(), headers=(header,)))
    assert server.connections == 0


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://a.test/", "gopher://a.test/", "javascript:1", "", "//a"])
async def test_only_http_and_https_are_fetched(url: str) -> None:
    """D2: another scheme never reaches libcurl."""
    async with fetcher() as f:
        with pytest.raises(BadUrl):
            await f.fetch(FetchRequest(url))


async def test_the_request_line_never_holds_a_raw_blank_or_line_break() -> None:
    """C3."""
    async with serve(answer_each(lambda head: response(b""))) as server, fetcher() as f:
        for path in ("/a b", "/a\r\nX: y", "/a\tb?c d", "/é?é", "/a\\b", "/%00%0d%0a", "/../../x", "/%2e%2e/y"):
            result = await f.fetch(FetchRequest(server.url() + path[1:]))
            assert result.status == 200
    assert all(head.split(b"\r\n")[0].count(b" ") == 2 for head in server.requests)
    assert not any(b"X: y" in head for head in server.requests)
    assert server.paths[-2:] == ["/x", "/y"]


async def test_the_send_is_stamped_when_it_happens_not_when_it_was_planned() -> None:
    """The loop is held for 0.2 s between the call and the send: the stamp must lie after that."""
    stamps: list[float] = []
    async with serve(answer_each(lambda head: response(b"x"))) as server, fetcher() as f:
        await f.fetch(FetchRequest(server.url()))
        task = asyncio.create_task(f.fetch(FetchRequest(server.url(), on_sent=stamps.append)))
        await asyncio.sleep(0)
        asked = time.monotonic()
        time.sleep(0.2)  # noqa: ASYNC251 - a busy loop is what is being tested
        result = await task
    assert stamps == [result.started_at]
    assert stamps[0] >= asked + 0.2


async def test_a_dead_kept_connection_does_not_make_libcurl_ask_twice() -> None:
    """P1: libcurl would repeat the request at once on a new connection; that is a send nobody paid for."""

    async def closes_on_the_second(connection: Connection) -> None:
        await connection.request()
        await connection.send(response(b"x"))
        await connection.request()

    async with serve(closes_on_the_second) as server, fetcher() as f:
        assert (await f.fetch(FetchRequest(server.url("/1")))).status == 200
        result = await f.fetch(FetchRequest(server.url("/2")))
        assert server.paths == ["/1", "/2"]
        assert (result.failure, result.stale, result.local_fault) == (Failure.NETWORK_RESET, True, False)
        assert (await f.fetch(FetchRequest(server.url("/3")))).status == 200
    assert server.paths == ["/1", "/2", "/3"]


async def test_it_does_not_either_when_its_pin_is_no_longer_held() -> None:
    """Two handles have asked one host. While one waits, the other goes elsewhere and takes the pin away; then the
    server closes. libcurl finds no address to connect to once more, and nobody is to blame."""
    at_once, gate = asyncio.Barrier(2), asyncio.Event()

    async def keeps_one(connection: Connection) -> None:
        head = await connection.request()
        await at_once.wait()
        closes = b" /2 " in head
        await connection.send(response(b"x", *(["Connection: close"] if closes else [])))
        if not closes:
            await connection.request()
            await gate.wait()

    async with serve(keeps_one) as server, serve(answer_each(lambda head: response(b"x"))) as other, fetcher() as f:
        await asyncio.gather(*(f.fetch(FetchRequest(server.url(path))) for path in ("/1", "/2")))
        waiting = asyncio.create_task(f.fetch(FetchRequest(server.url("/3"))))
        await until(lambda: server.paths[2:] == ["/3"])
        await f.fetch(FetchRequest(other.url(host="other.test")))
        gate.set()
        closed = await waiting
        assert (closed.failure, closed.stale, closed.local_fault) == (Failure.NETWORK_RESET, True, False)
        await at_once.abort()
        again = await f.fetch(FetchRequest(server.url("/4")))
        assert again.failure is Failure.NETWORK_RESET  # by the server: it was reached
    assert server.paths[2:] == ["/3", "/4"]


async def test_500_requests_in_flight_at_once(both_loops: str) -> None:
    gate = asyncio.Event()
    arrived = 0

    async def waits(connection: Connection) -> None:
        nonlocal arrived
        await connection.request()
        arrived += 1
        if arrived == 500:
            gate.set()
        await gate.wait()
        await connection.send(response(b"x"))

    async with serve(waits) as server, fetcher(max_total_connections=600, header_timeout_s=5.0) as f:
        results = await asyncio.gather(*(f.fetch(FetchRequest(server.url(f"/{i}"))) for i in range(500)))
    assert [result.status for result in results] == [200] * 500


async def test_more_requests_than_connections_wait_their_turn_without_losing_time() -> None:
    """The wait for a slot is not held against the host: each request lives for nearly its whole timeout."""

    async def slow(connection: Connection) -> None:
        while await connection.request():
            await asyncio.sleep(0.1)
            await connection.send(response(b"x"))

    async with serve(slow) as server, fetcher(max_total_connections=2, http_timeout=0.3) as f:
        results = await asyncio.gather(*(f.fetch(FetchRequest(server.url(f"/{i}"))) for i in range(12)))
        assert server.connections <= 2
    assert [result.failure for result in results] == [None] * 12


async def test_no_more_connections_are_kept_than_allowed() -> None:
    """P2c: idle ones are closed to make room."""
    async with (
        serve(answer_each(lambda head: response(b"x"))) as server,
        fetcher(max_total_connections=2, max_kept_connections=3) as f,
    ):
        for i in range(30):
            assert (await f.fetch(FetchRequest(server.url(host=f"h{i}.test")))).status == 200
        await until(lambda: server.open_connections <= 5)
        results = await asyncio.gather(*(f.fetch(FetchRequest(server.url(host=f"g{i}.test"))) for i in range(30)))
        assert {result.status for result in results} == {200}
        await until(lambda: server.open_connections <= 5)


def test_a_fetcher_belongs_to_one_loop() -> None:
    f = fetcher(resolver=Names(default=None))
    asyncio.run(f.fetch(FetchRequest("http://a.test/")))
    with pytest.raises(FetcherClosed):
        asyncio.run(f.fetch(FetchRequest("http://a.test/")))


async def test_250_cancelled_leave_no_socket_behind(both_loops: str) -> None:
    async def silent(connection: Connection) -> None:
        await connection.request()
        await connection.wait_until_closed()

    patient = fetcher(max_total_connections=300, http_timeout=60.0, header_timeout_s=60.0)
    async with serve(silent) as server, patient as f:
        idle = open_sockets()
        tasks = [asyncio.create_task(f.fetch(FetchRequest(server.url(f"/{i}")))) for i in range(250)]
        await until(lambda: len(server.requests) == 250)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        await until(lambda: open_sockets() == idle)  # long before any deadline would close them


async def test_cancelled_while_waiting_for_a_slot_gives_the_slot_to_the_next() -> None:
    gate = asyncio.Event()

    async def waits(connection: Connection) -> None:
        while await connection.request():
            await gate.wait()
            await connection.send(response(b"x"))

    async with serve(waits) as server, fetcher(max_total_connections=1) as f:
        first, second, third = (asyncio.create_task(f.fetch(FetchRequest(server.url(p)))) for p in ("/1", "/2", "/3"))
        await until(lambda: len(server.requests) == 1)
        second.cancel()
        gate.set()
        assert (await first).status == 200
        assert (await third).status == 200
    assert server.paths == ["/1", "/3"]


async def test_a_slot_given_to_one_who_is_cancelled_is_not_lost() -> None:
    slots = Slots(1, asyncio.get_running_loop())
    assert slots.take_now()
    waiting = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    slots.give_back()
    waiting.cancel()  # its turn has come, but it has not run yet
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    assert slots.take_now()


async def test_a_fetcher_serves_one_event_loop(both_loops: str) -> None:
    """Not one of another thread, and not the next one of its own."""
    async with serve(answer_each(lambda head: response(b"x"))) as server, fetcher() as f:
        assert (await f.fetch(FetchRequest(server.url()))).status == 200
        with pytest.raises(FetcherClosed):
            await asyncio.to_thread(asyncio.run, f.fetch(FetchRequest(server.url())))
        elsewhere = fetcher()

        def one_loop_after_another() -> None:
            asyncio.run(elsewhere.fetch(FetchRequest(server.url())))
            asyncio.run(elsewhere.fetch(FetchRequest(server.url())))

        with pytest.raises(FetcherClosed):
            await asyncio.to_thread(one_loop_after_another)
    assert len(server.requests) == 2


async def test_close_ends_what_is_under_way_and_refuses_more(both_loops: str) -> None:
    async def silent(connection: Connection) -> None:
        await connection.request()
        await connection.wait_until_closed()

    before = open_sockets()
    async with serve(silent) as server:
        f = fetcher()
        tasks = [asyncio.create_task(f.fetch(FetchRequest(server.url(f"/{i}")))) for i in range(5)]
        await until(lambda: len(server.requests) == 5)
        await f.close()
        assert {(await task).failure for task in tasks} == {Failure.CANCELLED}
        with pytest.raises(FetcherClosed):
            await f.fetch(FetchRequest(server.url()))
        await f.close()
    await until(lambda: open_sockets() <= before)
