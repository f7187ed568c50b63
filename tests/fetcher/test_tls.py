"""TLS and HTTP/2: verified always, negotiated where offered, and no way for either to hang or crash [D6, D10, D11]."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from amble.core.outcome import Failure
from amble.fetcher import FetchRequest, FetchResult, Phase
from amble.testing.rawserver import Connection, Script, answer_each, response, serve
from tests.fetcher.h2server import Http2, http2
from tests.fetcher.helpers import fetcher, open_sockets, until

HELLO = answer_each(lambda head: response(b"hello"))


class Authority:
    """A certificate authority of our own, and the file that names it."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.file = str(folder / "ca.pem")
        self.ca.cert_pem.write_to_path(self.file)

    def context(self, *names: str, alpn: tuple[str, ...] = (), **wanted: Any) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names, **wanted).configure_cert(context)
        if alpn:
            context.set_alpn_protocols(list(alpn))
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


async def fetch_tls(script: Script, context: ssl.SSLContext, ca_file: str | None, **settings: Any) -> FetchResult:
    async with serve(script, tls=context) as server, fetcher(ca_file=ca_file, **settings) as f:
        return await f.fetch(FetchRequest(server.url(scheme="https")))


async def test_http1_over_tls(authority: Authority, both_loops: str) -> None:
    context = authority.context("site.test")
    async with serve(HELLO, tls=context) as server, fetcher(ca_file=authority.file) as f:
        results = [await f.fetch(FetchRequest(server.url(f"/{i}", scheme="https"))) for i in range(5)]
        assert server.connections == 1
    assert {(result.status, result.body, result.http_version) for result in results} == {(200, b"hello", "1.1")}


async def test_http2_is_negotiated(authority: Authority, both_loops: str) -> None:
    async def hello(spoken: Http2, stream: int, path: str) -> None:
        await spoken.answer(stream, b"h" * 50_000, ("content-type", "text/html"), ("Set-Cookie", "a"))

    context = authority.context("site.test", alpn=("h2", "http/1.1"))
    async with serve(http2(hello), tls=context) as server, fetcher(ca_file=authority.file) as f:
        first = await f.fetch(FetchRequest(server.url("/first", scheme="https")))
        later = await asyncio.gather(*(f.fetch(FetchRequest(server.url(f"/{i}", scheme="https"))) for i in range(20)))
    assert (first.http_version, first.status, first.body) == ("2", 200, b"h" * 50_000)
    assert first.headers.get("Content-Type") == "text/html"
    assert {(result.http_version, result.status, len(result.body or b"")) for result in later} == {("2", 200, 50_000)}


async def test_http2_may_be_turned_off(authority: Authority) -> None:
    context = authority.context("site.test", alpn=("h2", "http/1.1"))
    result = await fetch_tls(HELLO, context, authority.file, http2=False)
    assert (result.http_version, result.status) == ("1.1", 200)


def _expired() -> dict[str, Any]:
    return {"not_after": datetime.now(UTC) - timedelta(days=1), "not_before": datetime.now(UTC) - timedelta(days=9)}


@pytest.mark.parametrize(
    ("names", "wanted", "known"),
    [
        (("site.test",), _expired(), True),
        (("other.test",), {}, True),
        (("*.site.test",), {}, True),
        (("site.test",), {}, False),
    ],
    ids=["expired", "wrong host", "wildcard of another level", "unknown authority"],
)
async def test_certificates_that_are_not_believed(
    authority: Authority, names: tuple[str, ...], wanted: dict[str, Any], known: bool
) -> None:
    """D10."""
    context = authority.context(*names, **wanted)
    async with serve(HELLO, tls=context) as server, fetcher(ca_file=authority.file if known else None) as f:
        result = await f.fetch(FetchRequest(server.url(scheme="https")))
    assert (result.failure, result.phase, result.started_at) == (Failure.NETWORK_TLS_ERROR, Phase.CONNECT, None)
    assert result.untrusted
    assert server.requests == []
    assert "invalid:" not in result.detail


async def test_no_tls_behind_https(authority: Authority) -> None:
    async def speaks_plainly(connection: Connection) -> None:
        await connection.reader.read(10)
        await connection.send(response(b"x"))

    async with serve(speaks_plainly) as server, fetcher(ca_file=authority.file) as f:
        result = await f.fetch(FetchRequest(server.url(scheme="https")))
    assert (result.failure, result.phase, result.untrusted) == (Failure.NETWORK_TLS_ERROR, Phase.CONNECT, False)


async def test_a_reset_in_the_handshake(authority: Authority) -> None:
    """F11."""

    async def resets(connection: Connection) -> None:
        await connection.reader.read(10)
        connection.reset()

    async with serve(resets) as server, fetcher(ca_file=authority.file) as f:
        result = await f.fetch(FetchRequest(server.url(scheme="https")))
    assert (result.failure, result.phase) == (Failure.NETWORK_RESET, Phase.CONNECT)


async def test_a_handshake_that_never_ends(authority: Authority) -> None:
    async def silent(connection: Connection) -> None:
        await connection.wait_until_closed()

    async with serve(silent) as server, fetcher(ca_file=authority.file, connect_timeout_s=0.2) as f:
        result = await f.fetch(FetchRequest(server.url(scheme="https")))
    assert (result.failure, result.phase) == (Failure.NETWORK_TIMEOUT, Phase.CONNECT)


async def test_names_under_one_certificate_do_not_share_an_http2_connection(authority: Authority) -> None:
    """D6: no coalescing, though the certificate and the address would allow it."""

    async def hello(spoken: Http2, stream: int, path: str) -> None:
        await spoken.answer(stream)

    context = authority.context("a.test", "b.test", alpn=("h2",))
    async with serve(http2(hello), tls=context) as server, fetcher(ca_file=authority.file) as f:
        for name in ("a.test", "b.test", "a.test"):
            result = await f.fetch(FetchRequest(server.url(scheme="https", host=name)))
            assert (result.status, result.http_version) == (200, "2")
        assert server.connections == 2


# --- HTTP/2 that misbehaves ------------------------------------------------------------------------------------------


async def goes_away(spoken: Http2, stream: int, path: str) -> None:
    """Finishes this stream, and wants no more on the connection."""
    spoken.h2.send_headers(stream, [(":status", "200")])
    spoken.h2.close_connection(last_stream_id=stream)
    await spoken.flush()


async def refuses_unread(spoken: Http2, stream: int, path: str) -> None:
    spoken.h2.close_connection(last_stream_id=0)
    await spoken.flush()


async def resets_the_stream(spoken: Http2, stream: int, path: str) -> None:
    spoken.h2.send_headers(stream, [(":status", "200")])
    spoken.h2.send_data(stream, b"part")
    spoken.h2.reset_stream(stream, 2)
    await spoken.flush()


async def refuses_the_stream(spoken: Http2, stream: int, path: str) -> None:
    spoken.h2.reset_stream(stream, 7)
    await spoken.flush()


async def floods_with_settings(spoken: Http2, stream: int, path: str) -> None:
    while True:
        await spoken.send_raw(bytes.fromhex("000000040000000000") * 1000)


async def floods_with_pings(spoken: Http2, stream: int, path: str) -> None:
    while True:
        await spoken.send_raw((bytes.fromhex("000008060000000000") + b"12345678") * 1000)


async def bombs_with_headers(spoken: Http2, stream: int, path: str) -> None:
    """One large field in the table of HPACK, then referred to again and again by a byte each."""
    spoken.h2.send_headers(stream, [(":status", "200"), ("x-big", "v" * 3000), *[("x-big", "v" * 3000)] * 3000])
    await spoken.flush()


async def many_headers(spoken: Http2, stream: int, path: str) -> None:
    spoken.h2.send_headers(stream, [(":status", "200"), *((f"x-{i}", "v") for i in range(1000))])
    await spoken.flush()


async def never_answers(spoken: Http2, stream: int, path: str) -> None:
    pass


async def never_ends(spoken: Http2, stream: int, path: str) -> None:
    spoken.h2.send_headers(stream, [(":status", "200")])
    await spoken.flush()


async def speaks_nonsense(spoken: Http2, stream: int, path: str) -> None:
    await spoken.send_raw(b"\xff" * 100)


async def storms_with_hints(spoken: Http2, stream: int, path: str) -> None:
    for _ in range(100):
        spoken.h2.send_headers(stream, [(":status", "103")])
    await spoken.flush()


@pytest.mark.parametrize(
    ("handle", "failures"),
    [
        (goes_away, {Failure.NETWORK_RESET, Failure.NETWORK_PROTOCOL_ERROR, Failure.NETWORK_TIMEOUT}),
        (refuses_unread, {Failure.NETWORK_RESET}),
        (resets_the_stream, {Failure.NETWORK_RESET}),
        (refuses_the_stream, {Failure.NETWORK_RESET}),
        (floods_with_settings, {Failure.NETWORK_PROTOCOL_ERROR, Failure.NETWORK_RESET, Failure.NETWORK_TIMEOUT}),
        (floods_with_pings, {Failure.NETWORK_PROTOCOL_ERROR, Failure.NETWORK_RESET, Failure.NETWORK_TIMEOUT}),
        (bombs_with_headers, {Failure.NETWORK_PROTOCOL_ERROR, Failure.NETWORK_RESET}),
        (many_headers, {Failure.NETWORK_PROTOCOL_ERROR, Failure.NETWORK_RESET}),
        (never_answers, {Failure.NETWORK_TIMEOUT}),
        (never_ends, {Failure.NETWORK_TIMEOUT}),
        (speaks_nonsense, {Failure.NETWORK_PROTOCOL_ERROR, Failure.NETWORK_RESET, Failure.NETWORK_TIMEOUT}),
        (storms_with_hints, {Failure.NETWORK_PROTOCOL_ERROR, Failure.NETWORK_RESET}),
    ],
)
async def test_http2_that_misbehaves_is_a_failure_like_any_other(
    authority: Authority, handle: Any, failures: set[Failure]
) -> None:
    """D11."""
    context = authority.context("site.test", alpn=("h2",))
    async with serve(http2(handle), tls=context) as server, fetcher(ca_file=authority.file, http_timeout=0.5) as f:
        before = open_sockets()
        result = await f.fetch(FetchRequest(server.url(scheme="https")))
        assert result.failure in failures, result
        assert result.body is None
        assert len(server.requests) == 1  # whatever went wrong, nothing was asked twice
        assert result.elapsed_s < 4.0
    await until(lambda: open_sockets() <= before)


async def test_going_away_lets_what_is_under_way_finish(authority: Authority) -> None:
    """D11: GOAWAY that covers our stream; the answer still comes, and the next request has a new connection."""

    async def polite(spoken: Http2, stream: int, path: str) -> None:
        spoken.h2.send_headers(stream, [(":status", "200")])
        # The h2 library sends nothing after its own GOAWAY: this is one by hand, with no error.
        await spoken.flush()
        await spoken.send_raw(b"\0\0\x08\x07\0\0\0\0\0" + stream.to_bytes(4, "big") + b"\0\0\0\0")
        spoken.h2.send_data(stream, b"rest", end_stream=True)
        await spoken.flush()

    context = authority.context("site.test", alpn=("h2",))
    async with serve(http2(polite), tls=context) as server, fetcher(ca_file=authority.file) as f:
        results = [await f.fetch(FetchRequest(server.url(f"/{i}", scheme="https"))) for i in range(20)]
        assert server.connections == 20
    assert {(result.status, result.body, result.failure) for result in results} == {(200, b"rest", None)}


async def test_cancelled_http2_leaves_no_socket(authority: Authority) -> None:
    context = authority.context("site.test", alpn=("h2",))
    async with serve(http2(never_answers), tls=context) as server:
        before = open_sockets()
        async with fetcher(ca_file=authority.file) as f:
            tasks = [asyncio.create_task(f.fetch(FetchRequest(server.url(f"/{i}", scheme="https")))) for i in range(20)]
            await until(lambda: len(server.requests) == 20)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: open_sockets() <= before)
