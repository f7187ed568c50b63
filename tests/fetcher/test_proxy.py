"""Proxies: what goes through them, and whose fault it is when it does not [D7, D8, F10]."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from amble.core.addresses import AddressPolicy
from amble.core.outcome import Failure
from amble.fetcher import FetchRequest, FetchResult, Phase
from amble.testing.rawserver import Connection, RawServer, Script, answer, answer_each, response, serve
from tests.fetcher.helpers import Names, fetcher
from tests.fetcher.proxyserver import proxy
from tests.fetcher.test_tls import Authority, authority

__all__ = ["authority"]  # a fixture

HELLO = answer_each(lambda head: response(b"hello"))
LOGIN = {"http_proxy_username": "me", "http_proxy_password": "pass:word"}


def through(server: RawServer, **settings: Any) -> Any:
    return fetcher(http_proxy=f"http://proxy.test:{server.port}", **settings)


async def test_plain_requests_go_through_the_proxy(both_loops: str) -> None:
    names = Names()
    async with (
        serve(HELLO) as host,
        serve(proxy(username="me", password="pass:word")) as server,
        through(server, resolver=names, **LOGIN) as f,
    ):
        result = await f.fetch(FetchRequest(host.url("/a"), headers=(("X-Mine", "1"),)))
    assert (result.status, result.body, result.proxy_fault) == (200, b"hello", False)
    assert names.asked == ["proxy.test"]  # the host is the proxy's to look up
    assert host.paths == ["/a"]
    assert server.requests[0].startswith(f"GET {host.url('/a')} HTTP/1.1\r\n".encode())


async def test_tls_goes_through_a_tunnel(authority: Authority, both_loops: str) -> None:
    """D8: the proxy sees its own credentials and nothing of the request."""
    context = authority.context("site.test")
    request_headers = (("Authorization", "Bearer secret"),)
    async with (
        serve(HELLO, tls=context) as host,
        serve(proxy(username="me", password="pass:word")) as server,
        through(server, ca_file=authority.file, **LOGIN) as f,
    ):
        result = await f.fetch(FetchRequest(host.url("/a", scheme="https"), headers=request_headers))
    assert (result.status, result.body, result.proxy_fault) == (200, b"hello", False)
    assert "X-Proxy" not in result.headers
    assert b"Proxy-Authorization: Basic" in server.requests[0]
    assert b"secret" not in server.requests[0]
    assert b"/a" not in server.requests[0]
    assert b"Proxy-Authorization" not in host.requests[0]
    assert b"Authorization: Bearer secret" in host.requests[0]


async def test_hosts_that_go_around_the_proxy() -> None:
    async with serve(HELLO) as host, serve(proxy()) as server, through(server, no_proxy="site.test, x.test") as f:
        assert (await f.fetch(FetchRequest(host.url(host="a.site.test")))).status == 200
        assert server.requests == []
        assert (await f.fetch(FetchRequest(host.url(host="other.test")))).status == 200
        assert (await f.fetch(FetchRequest(host.url(host="site.test")))).status == 200
    assert len(server.requests) == 1


async def test_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """D7: libcurl would read these; which proxy is used is a setting."""
    async with serve(HELLO) as host, serve(proxy()) as server:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{server.port}")
        async with fetcher() as f:
            assert (await f.fetch(FetchRequest(host.url()))).status == 200
        assert server.connections == 0
        monkeypatch.setenv("no_proxy", "*")
        async with through(server) as f:
            assert (await f.fetch(FetchRequest(host.url()))).status == 200
        assert server.connections == 1


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "2130706433", "localhost", "169.254.169.254", "metadata.google.internal"]
)
async def test_private_hosts_are_not_asked_of_the_proxy_either(host: str) -> None:
    """D7: the proxy resolves names, but what can be seen to be private is refused here."""
    async with serve(proxy()) as server, through(server, policy=AddressPolicy()) as f:
        result = await f.fetch(FetchRequest(f"http://{host}:8080/"))
    assert (result.failure, server.connections) == (Failure.ADDRESS_FORBIDDEN, 0)


# --- Whose fault -----------------------------------------------------------------------------------------------------


async def hangs(connection: Connection) -> None:
    await connection.request()
    await connection.wait_until_closed()


async def resets(connection: Connection) -> None:
    await connection.request()
    connection.reset()


DENIES = answer(response(b"no", status="403 Forbidden"))
FAILS = answer(response(b"no", status="502 Bad Gateway"))
ASKS_WHO = proxy(username="somebody", password="else")


@pytest.mark.parametrize(
    ("script", "scheme", "failure"),
    [
        (ASKS_WHO, "http", Failure.NETWORK_CONNECTION_REFUSED),
        (ASKS_WHO, "https", Failure.NETWORK_CONNECTION_REFUSED),
        (FAILS, "http", None),
        (FAILS, "https", Failure.NETWORK_CONNECTION_REFUSED),
        (DENIES, "https", Failure.NETWORK_CONNECTION_REFUSED),
        (hangs, "https", Failure.NETWORK_TIMEOUT),
        (resets, "https", Failure.NETWORK_RESET),
        (answer(b"garbage\r\n\r\n"), "https", Failure.NETWORK_PROTOCOL_ERROR),
    ],
    ids=["407", "407 tunnel", "502", "502 tunnel", "403 tunnel", "hang", "reset", "garbage"],
)
async def test_what_the_proxy_does_is_the_proxys_fault(script: Script, scheme: str, failure: Failure | None) -> None:
    """F10: no domain learns from it."""
    async with serve(script) as server, through(server, http_timeout=0.4, **LOGIN) as f:
        result = await f.fetch(FetchRequest(f"{scheme}://site.test:8009/"))
    assert (result.failure, result.proxy_fault, result.local_fault) == (failure, True, False), result.detail


async def test_a_proxy_that_is_not_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with fetcher(http_proxy=f"http://127.0.0.1:{unused.getsockname()[1]}") as f:
            results = [await f.fetch(FetchRequest(f"{scheme}://site.test/")) for scheme in ("http", "https")]
    for result in results:
        assert (result.failure, result.phase) == (Failure.NETWORK_CONNECTION_REFUSED, Phase.CONNECT)
        assert (result.proxy_fault, result.local_fault) == (True, False)


async def test_a_proxy_without_an_address() -> None:
    async with fetcher(http_proxy="http://proxy.test:3128", resolver=Names(default=None)) as f:
        result = await f.fetch(FetchRequest("http://site.test/"))
    assert (result.failure, result.proxy_fault) == (Failure.NETWORK_DNS_FAILURE, True)


async def fetch_behind_a_good_proxy(script: Script, scheme: str = "http", **settings: Any) -> FetchResult:
    async with serve(script) as host, serve(proxy()) as server, through(server, http_timeout=0.5, **settings) as f:
        result: FetchResult = await f.fetch(FetchRequest(host.url(scheme=scheme)))
        return result


async def test_what_the_host_does_is_not_the_proxys_fault() -> None:
    for script, failure in [
        (answer(response(b"no", status="503 Busy")), None),
        (answer(response(b"no", status="429 Slow")), None),
        (resets, Failure.NETWORK_RESET),
        (hangs, Failure.NETWORK_TIMEOUT),
    ]:
        result = await fetch_behind_a_good_proxy(script)
        assert (result.failure, result.proxy_fault) == (failure, False)


async def test_a_bad_certificate_in_a_tunnel_is_the_hosts_fault(authority: Authority) -> None:
    async with (
        serve(HELLO, tls=authority.context("other.test")) as host,
        serve(proxy()) as server,
        through(server, ca_file=authority.file) as f,
    ):
        result = await f.fetch(FetchRequest(host.url(scheme="https")))
    assert (result.failure, result.proxy_fault) == (Failure.NETWORK_TLS_ERROR, False)
