"""Kept connections: used while they can be, not when their end was seen, and whose fault it is when they break."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from amble.core.outcome import Failure
from amble.fetcher import Fetcher, FetchRequest, FetchResult, Phase
from amble.testing.rawserver import Connection, RawServer, Script, answer_each, response, serve
from tests.fetcher.h2server import Http2, http2
from tests.fetcher.helpers import fetcher, until
from tests.fetcher.test_tls import Authority, authority, refuses_the_stream, refuses_unread

__all__ = ["authority"]  # a fixture

GAPS_S = (0.0, 0.05, 0.5, 0.9)
STALE = (Failure.NETWORK_RESET, Phase.HEADERS, True, False)


def verdict(result: FetchResult) -> tuple[Failure | None, Phase, bool, bool]:
    return result.failure, result.phase, result.stale, result.local_fault


async def closes_without_a_word(connection: Connection) -> None:
    """One answer that says nothing of it, and then the connection is gone."""
    await connection.request()
    await connection.send(response(b"x"))
    if connection.server.requests[-1].startswith(b"GET /gone "):
        await connection.request()


async def ask(f: Fetcher, server: RawServer, gap_s: float, requests: int, **wanted: Any) -> list[FetchResult]:
    """Ask again and again, each request made good once where its connection broke, as a crawl does it."""
    results = []
    for i in range(requests):
        request = FetchRequest(server.url(f"/{i}", **wanted))
        result = await f.fetch(request)
        if result.stale:
            result = await f.fetch(request._replace(new_connection=True))
        results.append(result)
        await asyncio.sleep(gap_s)
    return results


# --- Connections whose end was seen ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("gap_s", GAPS_S)
async def test_a_server_that_closes_idle_connections_without_a_word_costs_no_page(
    authority: Authority, gap_s: float, tls: bool, both_loops: str
) -> None:
    context = authority.context("site.test") if tls else None
    async with serve(closes_without_a_word, tls=context) as server, fetcher(ca_file=authority.file) as f:
        results = await ask(f, server, gap_s, 20 if gap_s < 0.5 else 5, scheme="https" if tls else "http")
        made = server.connections
    assert {result.status for result in results} == {200}
    assert made <= len(results)  # libcurl opens none that nothing is sent on


@pytest.mark.parametrize("gap_s", GAPS_S)
async def test_a_connection_whose_end_was_seen_is_not_used(gap_s: float) -> None:
    """Nothing is sent there, so nothing has to be made good."""
    async with serve(closes_without_a_word) as server, fetcher() as f:
        for i in range(20 if gap_s < 0.5 else 4):
            result = await f.fetch(FetchRequest(server.url(f"/{i}")))
            assert (result.status, result.reused) == (200, False)
            await until(lambda: server.open_connections == 0)
            await asyncio.sleep(gap_s + 0.02)
        assert server.connections == len(server.requests)


async def test_what_is_sent_before_it_was_asked_for_is_not_an_answer() -> None:
    """Whoever writes into an idle connection would answer the next question before it is put."""

    async def answers_ahead(connection: Connection) -> None:
        await connection.request()
        await connection.send(response(b"x"))
        await asyncio.sleep(0.05)
        await connection.send(response(b"smuggled"))
        await connection.wait_until_closed()

    async with serve(answers_ahead) as server, fetcher() as f:
        for i in range(2):
            result = await f.fetch(FetchRequest(server.url(f"/{i}")))
            assert result.body == b"x"
            await asyncio.sleep(0.3)
        assert server.connections == 2


async def test_an_idle_http2_connection_that_was_closed_is_not_used(authority: Authority) -> None:
    async def one_each(spoken: Http2, stream: int, path: str) -> None:
        await spoken.answer(stream)
        await asyncio.sleep(0.05)
        spoken._connection.writer.transport.abort()  # a FIN, and no GOAWAY

    context = authority.context("site.test", alpn=("h2",))
    async with serve(http2(one_each), tls=context) as server, fetcher(ca_file=authority.file) as f:
        for i in range(5):
            result = await f.fetch(FetchRequest(server.url(f"/{i}", scheme="https")))
            assert (result.status, result.http_version, result.reused) == (200, "2", False)
            await until(lambda: server.open_connections == 0)
            await asyncio.sleep(0.05)
        assert server.connections == 5


# --- Keep-Alive: timeout=N -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "connections"),
    [
        ("timeout=2, max=100", 2),
        ("timeout=60", 1),
        ("max=3", 1),
        ("timeout=soon", 1),
        ("TIMEOUT = 2", 2),
    ],
)
async def test_a_connection_is_not_used_when_the_server_is_about_to_close_it(field: str, connections: int) -> None:
    async with serve(answer_each(lambda head: response(b"x", f"Keep-Alive: {field}"))) as server, fetcher() as f:
        for i in range(3):
            assert (await f.fetch(FetchRequest(server.url(f"/{i}")))).status == 200
        assert server.connections == 1
        await asyncio.sleep(1.1)
        assert (await f.fetch(FetchRequest(server.url()))).status == 200
        assert server.connections == connections


# --- What crosses on the wire ----------------------------------------------------------------------------------------


async def breaks_as_it_is_used(connection: Connection) -> None:
    while head := await connection.request():
        if b" /1 " in head:
            return
        await connection.send(response(b"x"))


async def resets_as_it_is_used(connection: Connection) -> None:
    while head := await connection.request():
        if b" /1 " in head:
            connection.reset()
            return
        await connection.send(response(b"x"))


@pytest.mark.parametrize("script", [breaks_as_it_is_used, resets_as_it_is_used])
async def test_a_kept_connection_that_breaks_as_it_is_used_says_so(script: Script, both_loops: str) -> None:
    async with serve(script) as server, fetcher() as f:
        await f.fetch(FetchRequest(server.url("/0")))
        broke = await f.fetch(FetchRequest(server.url("/1")))
        assert verdict(broke) == STALE
        assert broke.reused
        assert broke.started_at is not None
        assert server.connections == 1  # none was opened for a request that nobody has paid for
        again = await f.fetch(FetchRequest(server.url("/1"), new_connection=True))
        assert verdict(again) == (Failure.NETWORK_RESET, Phase.HEADERS, False, False)  # and there it is the site's
        assert not again.reused
    assert server.paths == ["/0", "/1", "/1"]


async def test_an_answer_that_breaks_off_is_not_a_stale_connection() -> None:
    async def breaks_off(connection: Connection) -> None:
        await connection.request()
        await connection.send(response(b"x"))
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Le")

    async with serve(breaks_off) as server, fetcher() as f:
        await f.fetch(FetchRequest(server.url()))
        result = await f.fetch(FetchRequest(server.url()))
    assert (result.failure, result.stale) == (Failure.NETWORK_RESET, False)


async def test_a_new_connection_is_one() -> None:
    async with serve(answer_each(lambda head: response(b"x"))) as server, fetcher() as f:
        await f.fetch(FetchRequest(server.url()))
        assert not (await f.fetch(FetchRequest(server.url(), new_connection=True))).reused
        assert server.connections == 2
        assert (await f.fetch(FetchRequest(server.url()))).reused  # what one request wants is not the next one's
        assert server.connections == 2


async def test_who_breaks_kept_connections_twice_is_asked_over_new_ones() -> None:
    async def breaks_each_second(connection: Connection) -> None:
        await connection.request()
        await connection.send(response(b"x"))
        await connection.request()

    async with serve(breaks_each_second) as server, fetcher() as f:
        results = [await f.fetch(FetchRequest(server.url(f"/{i}"))) for i in range(10)]
        assert [result.stale for result in results] == [False, True, False, True] + [False] * 6
        assert [result.status for result in results[4:]] == [200] * 6
        assert [b"Connection: close\r\n" in head for head in server.requests] == [False] * 4 + [True] * 6
        other = await f.fetch(FetchRequest(server.url(host="other.test")))
        assert b"Connection: close" not in server.requests[-1]  # other hosts may keep theirs
        assert other.status == 200


async def test_two_breaks_among_many_answers_are_forgiven() -> None:
    """A server that is restarted, or goes away after a thousand requests, still keeps its connections."""

    async def restarts(connection: Connection) -> None:
        while head := await connection.request():
            if b" /restart " in head:
                return
            await connection.send(response(b"x"))

    async with serve(restarts) as server, fetcher() as f:
        for _ in range(3):
            for _ in range(102):
                assert (await f.fetch(FetchRequest(server.url()))).status == 200
            assert (await f.fetch(FetchRequest(server.url("/restart")))).stale
        await f.fetch(FetchRequest(server.url()))
    assert not any(b"Connection: close" in head for head in server.requests)


# --- HTTP/2 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handle", [refuses_the_stream, refuses_unread])
async def test_a_stream_refused_on_a_new_connection_is_the_sites_failure(authority: Authority, handle: Any) -> None:
    context = authority.context("site.test", alpn=("h2",))
    async with serve(http2(handle), tls=context) as server, fetcher(ca_file=authority.file) as f:
        for new_connection in (False, True, True):
            request = FetchRequest(server.url(scheme="https"), new_connection=new_connection)
            result = await f.fetch(request)
            if not result.reused:
                assert verdict(result) == (Failure.NETWORK_RESET, Phase.HEADERS, False, False)
        assert len(server.requests) == 3


@pytest.mark.parametrize("handle", [refuses_the_stream, refuses_unread])
async def test_a_stream_refused_on_a_kept_connection_is_made_good(authority: Authority, handle: Any) -> None:
    async def refuses_the_second(spoken: Http2, stream: int, path: str) -> None:
        if stream > 1:
            await handle(spoken, stream, path)
        else:
            await spoken.answer(stream)

    context = authority.context("site.test", alpn=("h2",))
    async with serve(http2(refuses_the_second), tls=context) as server, fetcher(ca_file=authority.file) as f:
        assert (await f.fetch(FetchRequest(server.url("/0", scheme="https")))).status == 200
        refused = await f.fetch(FetchRequest(server.url("/1", scheme="https")))
        assert verdict(refused) == STALE
        assert server.connections == 1
        again = await f.fetch(FetchRequest(server.url("/1", scheme="https"), new_connection=True))
        assert again.status == 200


def falls_silent(connections: list[int]) -> Any:
    """The first connection answers one request and then nothing, though it stays open."""

    async def handle(spoken: Http2, stream: int, path: str) -> None:
        first = connections.setdefault(id(spoken), len(connections)) == 0  # type: ignore[attr-defined]
        if stream == 1 or not first:
            await spoken.answer(stream)

    return handle


async def test_a_silent_http2_connection_is_used_no_more(authority: Authority) -> None:
    context = authority.context("site.test", alpn=("h2",))
    known: Any = {}
    async with (
        serve(http2(falls_silent(known)), tls=context) as server,
        fetcher(ca_file=authority.file, header_timeout_s=0.4) as f,
    ):
        assert (await f.fetch(FetchRequest(server.url(scheme="https")))).status == 200
        silent = await f.fetch(FetchRequest(server.url("/1", scheme="https")))
        assert (silent.failure, silent.repeated) == (Failure.NETWORK_TIMEOUT, False)
        for i in range(5):
            assert (await f.fetch(FetchRequest(server.url(f"/a{i}", scheme="https")))).status == 200
        assert server.connections == 2


async def test_time_outs_on_one_connection_are_told_apart(authority: Authority) -> None:
    """Sixteen requests on a connection that falls silent: one time-out, and fifteen repetitions of it."""
    context = authority.context("site.test", alpn=("h2",))
    known: Any = {}
    async with (
        serve(http2(falls_silent(known)), tls=context) as server,
        fetcher(ca_file=authority.file, header_timeout_s=0.4) as f,
    ):
        url = server.url(scheme="https")
        await f.fetch(FetchRequest(url))
        silent = await asyncio.gather(*(f.fetch(FetchRequest(url)) for _ in range(16)))
        assert {result.failure for result in silent} == {Failure.NETWORK_TIMEOUT}
        assert sum(result.repeated for result in silent) == 15
        later = await asyncio.gather(*(f.fetch(FetchRequest(url)) for _ in range(4)))
        assert {result.status for result in later} == {200}
        before = server.connections
        assert (await f.fetch(FetchRequest(url))).reused  # those who timed out later did not end it again
        assert server.connections == before


async def test_time_outs_on_connections_of_their_own_are_each_one() -> None:
    async def silent(connection: Connection) -> None:
        await connection.request()
        await connection.wait_until_closed()

    async with serve(silent) as server, fetcher(header_timeout_s=0.2) as f:
        results = [await f.fetch(FetchRequest(server.url())) for _ in range(3)]
    assert [(result.failure, result.repeated) for result in results] == [(Failure.NETWORK_TIMEOUT, False)] * 3


# --- A proxy that keeps nothing --------------------------------------------------------------------------------------


@asynccontextmanager
async def tinyproxy(folder: Path) -> AsyncIterator[str]:
    program = shutil.which("tinyproxy")
    if program is None:
        pytest.skip("tinyproxy is not installed")
    with_port = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = with_port.sockets[0].getsockname()[1]
    with_port.close()
    await with_port.wait_closed()
    settings = folder / "tinyproxy.conf"
    settings.write_text(
        f"Port {port}\nListen 127.0.0.1\nTimeout 30\nMaxClients 50\nAllow 127.0.0.1\n"
        f'LogFile "{folder}/log"\nPidFile "{folder}/pid"\n'
    )
    process = await asyncio.create_subprocess_exec(program, "-d", "-c", str(settings), stdout=-3, stderr=-3)
    try:
        async with asyncio.timeout(20):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    break
                except OSError:
                    await asyncio.sleep(0.05)
        writer.close()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.parametrize("gap_s", GAPS_S)
async def test_behind_tinyproxy_no_page_is_lost(tmp_path: Path, gap_s: float) -> None:
    async with (
        serve(answer_each(lambda head: response(b"hello"))) as server,
        tinyproxy(tmp_path) as proxy,
        fetcher(http_proxy=proxy) as f,
    ):
        results = await ask(f, server, gap_s, 20 if gap_s < 0.5 else 5, host="127.0.0.1")
        assert [result.status for result in results] == [200] * len(results)
        assert server.connections <= len(results) + 2


# --- How many are kept -----------------------------------------------------------------------------------------------


async def test_many_names_of_one_server_keep_few_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amble.fetcher.kept._is_public", lambda address: True)
    async with serve(answer_each(lambda head: response(b"x"))) as server, fetcher() as f:
        for i in range(40):
            assert (await f.fetch(FetchRequest(server.url(host=f"h{i}.test")))).status == 200
        await until(lambda: server.open_connections <= 8)
        assert server.connections == 40
        for i in range(39, 32, -1):  # the last ones are kept
            assert (await f.fetch(FetchRequest(server.url(host=f"h{i}.test")))).reused
        for i in range(5):
            assert (await f.fetch(FetchRequest(server.url(host=f"h{i}.test")))).status == 200


async def test_at_home_as_many_are_kept_as_may_be() -> None:
    async with serve(answer_each(lambda head: response(b"x"))) as server, fetcher() as f:
        for _ in range(2):
            for i in range(40):
                assert (await f.fetch(FetchRequest(server.url(host=f"h{i}.test")))).status == 200
        assert server.connections == 40


async def test_idle_connections_do_not_take_the_place_of_requests() -> None:
    """More hosts than there are places, and each keeps its connection."""
    async with (
        serve(answer_each(lambda head: response(b"x"))) as server,
        fetcher(max_total_connections=5, max_kept_connections=50) as f,
    ):
        for _ in range(3):
            for i in range(40):
                assert (await f.fetch(FetchRequest(server.url(host=f"h{i}.test")))).status == 200
        assert server.connections == 40


# --- TLS sessions ----------------------------------------------------------------------------------------------------


async def test_the_tls_sessions_of_many_hosts_are_remembered(authority: Authority) -> None:
    names = [f"h{i}.test" for i in range(200)]
    context = authority.context(*names)
    resumed = []

    async def tells(connection: Connection) -> None:
        tls = connection.writer.get_extra_info("ssl_object")
        assert isinstance(tls, ssl.SSLObject)
        await connection.request()
        resumed.append(tls.session_reused)
        await connection.send(response(b"x", "Connection: close"))

    async with serve(tells, tls=context) as server, fetcher(ca_file=authority.file) as f:
        for _ in range(3):
            for name in names:
                assert (await f.fetch(FetchRequest(server.url(scheme="https", host=name)))).status == 200
    assert resumed == [False] * 200 + [True] * 400
