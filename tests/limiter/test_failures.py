"""What the exceptions of real HTTP libraries mean: raised by the libraries themselves, against a server on loopback."""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import httpx
import pytest

from amble import Failure, Limiter
from amble.limiter.failures import failure_of, response_in
from amble.testing.rawserver import Connection, Script, answer, response, serve
from tests.limiter.helpers import FREE

# -- by hand


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (TimeoutError(), Failure.NETWORK_TIMEOUT),
        (ssl.SSLCertVerificationError(), Failure.NETWORK_TLS_ERROR),
        (socket.gaierror(-2, "Name or service not known"), Failure.NETWORK_DNS_FAILURE),
        (ConnectionRefusedError(), Failure.NETWORK_CONNECTION_REFUSED),
        (ConnectionResetError(), Failure.NETWORK_RESET),
        (BrokenPipeError(), Failure.NETWORK_RESET),
        (OSError(113, "No route to host"), Failure.NETWORK_RESET),
        (http.client.BadStatusLine("x"), Failure.NETWORK_PROTOCOL_ERROR),
        (EOFError(), Failure.NETWORK_PROTOCOL_ERROR),
        (asyncio.CancelledError(), Failure.CANCELLED),
        (KeyboardInterrupt(), Failure.CANCELLED),
        (SystemExit(1), Failure.CANCELLED),
        (TypeError(), Failure.CANCELLED),
        (RuntimeError("Session is closed"), Failure.CANCELLED),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "x"), Failure.CANCELLED),
        (httpx.ReadTimeout("slow"), Failure.NETWORK_TIMEOUT),
        (httpx.RemoteProtocolError("garbage"), Failure.NETWORK_PROTOCOL_ERROR),
        (aiohttp.ServerDisconnectedError(), Failure.NETWORK_PROTOCOL_ERROR),
    ],
    ids=repr,
)
def test_what_an_exception_means(error: BaseException, failure: Failure) -> None:
    assert failure_of(error) is failure


def test_the_cause_is_looked_for_behind_the_wrapping() -> None:
    def breaks() -> None:
        try:
            raise ConnectionRefusedError
        except OSError as refused:
            raise RuntimeError("the library's own") from refused

    def breaks_further() -> None:
        try:
            breaks()
        except RuntimeError:
            raise KeyError("the caller's own")  # noqa: B904

    with pytest.raises(KeyError) as caught:
        breaks_further()
    assert failure_of(caught.value) is Failure.NETWORK_CONNECTION_REFUSED


def test_a_ring_of_causes_comes_to_an_end() -> None:
    one, two = ValueError(), KeyError()
    one.__cause__, two.__cause__ = two, one
    assert failure_of(one) is Failure.CANCELLED


# -- by the libraries


async def with_httpx(url: str) -> None:
    async with httpx.AsyncClient(timeout=0.3, trust_env=False) as client:
        (await client.get(url)).raise_for_status()


async def with_httpx_threads(url: str) -> None:
    def get() -> None:
        with httpx.Client(timeout=0.3, trust_env=False) as client:
            client.get(url).raise_for_status()

    await asyncio.to_thread(get)


async def with_aiohttp(url: str) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.3)) as session, session.get(url) as got:
        got.raise_for_status()
        await got.read()


async def with_urllib(url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    await asyncio.to_thread(lambda: opener.open(url, timeout=0.3).read())


Client = Callable[[str], Awaitable[None]]
CLIENTS: dict[str, Client] = {
    "httpx": with_httpx,
    "httpx in threads": with_httpx_threads,
    "aiohttp": with_aiohttp,
    "urllib": with_urllib,
}


async def says_nothing(connection: Connection) -> None:
    await connection.request()
    await connection.wait_until_closed()


async def cuts(connection: Connection) -> None:
    await connection.request()
    connection.reset()


async def stops_short(connection: Connection) -> None:
    await connection.request()
    await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")


def _close_responses(error: BaseException) -> None:
    if isinstance(error, urllib.error.HTTPError):
        error.close()


async def _error_of(client: Client, script: Script) -> BaseException:
    async with serve(script) as server:
        try:
            await client(server.url(host="127.0.0.1"))
        except Exception as error:
            return error
    raise AssertionError("nothing was raised")


BROKEN = {Failure.NETWORK_RESET, Failure.NETWORK_PROTOCOL_ERROR}


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (says_nothing, {Failure.NETWORK_TIMEOUT}),
        (cuts, BROKEN),
        (stops_short, BROKEN),
        (answer(b"\x00\x01 this is no HTTP\r\n\r\n"), BROKEN),
        (answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), {*BROKEN, None}),
    ],
    ids=["says nothing", "cuts", "stops short", "no HTTP", "two lengths"],
)
def test_what_a_library_raises_is_understood(client: Client, script: Script, expected: set[Failure | None]) -> None:
    """No library's idea of a broken answer is taken for an HTTP status."""

    async def main() -> None:
        try:
            error = await _error_of(client, script)
        except AssertionError:
            assert None in expected  # this library does not mind
            return
        assert response_in(error) is None
        assert failure_of(error) in expected

    asyncio.run(main())


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_a_closed_port_is_a_refused_connection(client: Client) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        with pytest.raises(Exception) as caught:
            asyncio.run(client(url))  # type: ignore[arg-type]
    assert failure_of(caught.value) is Failure.NETWORK_CONNECTION_REFUSED


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize("status", ["404 Not Found", "429 Too Many Requests", "503 Service Unavailable"])
def test_a_status_that_is_raised_counts_as_the_status(client: Client, status: str) -> None:
    """`raise_for_status` before `settle` loses neither the status nor Retry-After."""
    limiter = Limiter(**FREE)

    async def main() -> None:
        async with serve(answer(response(b"no", "Retry-After: 90", status=status))) as server:
            url = server.url(host="127.0.0.1")
            with pytest.raises(Exception) as caught:
                async with limiter.permit(url):
                    await client(url)
            _close_responses(caught.value)

    asyncio.run(main())
    snapshot = limiter.snapshot()
    limited = not status.startswith("404")
    assert (snapshot.limited, snapshot.successes, snapshot.failures) == (int(limited), int(not limited), 0)
    assert (85 < snapshot.domains[0].blocked_s < 95) == limited


def test_what_a_parser_complains_of_is_no_status() -> None:
    """aiohttp reports bytes that are no HTTP as a response of status 400, raised from the parser's complaint."""

    def raise_as_aiohttp_does() -> None:
        try:
            raise ValueError("bad chunk")
        except ValueError as complaint:
            raise Odd(status=400, headers={}) from complaint

    with pytest.raises(Odd) as caught:
        raise_as_aiohttp_does()
    assert response_in(caught.value) is None
    assert response_in(Odd(status=400, headers={})) == (400, {})


class Odd(Exception):
    def __init__(self, **fields: Any) -> None:
        super().__init__("odd")
        for name, value in fields.items():
            setattr(self, name, value)


@pytest.mark.parametrize(
    "error",
    [
        Odd(code=429),
        Odd(status=0, headers={}),
        Odd(status="429", headers={}),
        Odd(code=429, headers={}),
        Odd(status=1006, headers={}),
        Odd(response=None),
        Odd(response=Odd(status_code=None, headers={})),
        SystemExit(429),
    ],
    ids=lambda error: str(vars(error) or repr(error)),
)
def test_a_number_alone_is_no_response(error: BaseException) -> None:
    assert response_in(error) is None
