"""The limiter inside httpx, aiohttp and requests, against the real libraries: turns, refusals, faults, streams."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import httpx
import pytest
import requests
from urllib3.util.retry import Retry

import amble
from amble.core.pacing.snapshot import LimiterSnapshot
from amble.integrations.aiohttp import limited
from amble.integrations.httpx import AsyncLimitedTransport, LimitedTransport
from amble.integrations.requests import LimitedAdapter
from tests.integrations.conftest import Site

Get = Callable[[str], Awaitable[int]]
HALF_S = 0.05  # of the delay: connecting takes its time, and makes the gap after it look shorter at the server
DIRECT: dict[str, Any] = {"trust_env": False}


@contextlib.asynccontextmanager
async def with_httpx(limiter: amble.Limiter) -> AsyncIterator[Get]:
    async with httpx.AsyncClient(
        transport=AsyncLimitedTransport(limiter), follow_redirects=True, timeout=10, **DIRECT
    ) as client:

        async def get(url: str) -> int:
            return (await client.get(url)).status_code

        yield get


@contextlib.asynccontextmanager
async def with_httpx_sync(limiter: amble.Limiter) -> AsyncIterator[Get]:
    with httpx.Client(transport=LimitedTransport(limiter), follow_redirects=True, timeout=10, **DIRECT) as client:

        async def get(url: str) -> int:
            return (await asyncio.to_thread(client.get, url)).status_code

        yield get


@contextlib.asynccontextmanager
async def with_aiohttp(limiter: amble.Limiter) -> AsyncIterator[Get]:
    async with aiohttp.ClientSession(middlewares=[limited(limiter)]) as session:

        async def get(url: str) -> int:
            async with session.get(url) as response:
                await response.read()
                return response.status

        yield get


@contextlib.asynccontextmanager
async def with_requests(limiter: amble.Limiter) -> AsyncIterator[Get]:
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", LimitedAdapter(limiter))

        async def get(url: str) -> int:
            return (await asyncio.to_thread(session.get, url, timeout=10)).status_code

        yield get


LIBRARIES = {"httpx": with_httpx, "httpx sync": with_httpx_sync, "aiohttp": with_aiohttp, "requests": with_requests}


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Any:
    return LIBRARIES[request.param]


def run(library: Any, limiter: amble.Limiter, *urls: str) -> list[int | BaseException]:
    """All at once; what each brought."""

    async def main() -> list[int | BaseException]:
        async with library(limiter) as get:
            got: list[int | BaseException] = await asyncio.gather(*map(get, urls), return_exceptions=True)
            return got

    return asyncio.run(main())


def looked(limiter: amble.Limiter) -> LimiterSnapshot:
    return limiter.snapshot()


def free() -> amble.Limiter:
    return amble.Limiter(pacing="fixed", fixed_delay=0.0, max_rate=None)


def test_requests_wait_their_turn_and_are_counted(library: Any, site: Site) -> None:
    limiter = amble.Limiter(pacing="fixed", fixed_delay=0.1, max_rate=None)
    assert run(library, limiter, *[site.url(f"/{n}") for n in range(4)]) == [200] * 4
    assert min(site.gaps()) >= HALF_S
    snapshot = looked(limiter)
    assert (snapshot.requests, snapshot.successes, snapshot.in_flight) == (4, 4, 0)


def test_a_refusal_with_a_time_is_kept_to(library: Any, site: Site) -> None:
    limiter = free()

    async def main() -> list[int]:
        async with library(limiter) as get:
            return [await get(site.url(path)) for path in ("/busy", "/page")]

    assert asyncio.run(main()) == [429, 200]
    assert site.gaps()[0] >= 1.0
    assert looked(limiter).limited == 1


def test_every_hop_of_a_redirect_is_a_request_of_its_own(library: Any, site: Site) -> None:
    limiter = amble.Limiter(pacing="fixed", fixed_delay=0.1, max_rate=None)
    assert run(library, limiter, site.url("/moved")) == [200]
    assert [path for path, _ in site.came] == ["/moved", "/page"]
    assert looked(limiter).requests == 2
    assert site.gaps()[0] >= HALF_S
    assert looked(limiter).in_flight == 0


@pytest.mark.parametrize("path", ["/hangup", ""], ids=["hung up", "nobody there"])
def test_a_fault_is_raised_as_the_library_does_and_counts_as_one(library: Any, path: str, site: Site) -> None:
    limiter = free()
    (error,) = run(library, limiter, site.url(path) if path else "http://127.0.0.1:9/")
    assert isinstance(error, httpx.TransportError | aiohttp.ClientError | requests.RequestException)
    snapshot = looked(limiter)
    assert snapshot.in_flight == 0
    assert snapshot.failures == snapshot.requests >= 1  # libraries may ask once more on a connection they kept


def test_an_open_circuit_is_refused_before_anything_is_sent(library: Any, site: Site) -> None:
    limiter = amble.Limiter(pacing="fixed", fixed_delay=0.0, consecutive_fail_threshold=1, max_rate=None)
    run(library, limiter, site.url("/hangup"))
    sent = len(site.came)
    (error,) = run(library, limiter, site.url("/page"))
    assert isinstance(error, amble.CircuitOpen)
    assert len(site.came) == sent


async def in_flight(limiter: amble.Limiter, count: int) -> None:
    for _ in range(1_000):
        if looked(limiter).in_flight == count:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(looked(limiter))


@pytest.mark.parametrize("name", ["httpx", "aiohttp"])
def test_a_request_that_is_given_up_frees_its_slot_and_blames_nobody(name: str, site: Site) -> None:
    limiter = free()

    async def main() -> None:
        async with LIBRARIES[name](limiter) as get:
            task = asyncio.ensure_future(get(site.url("/slow")))
            await in_flight(limiter, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        gc.collect()
        await in_flight(limiter, 0)

    asyncio.run(main())
    assert looked(limiter).failures == 0


@pytest.mark.parametrize("ends", ["read", "dropped"])
def test_a_streamed_body_counts_as_under_way_until_it_is_read_or_dropped_httpx(ends: str, site: Site) -> None:
    limiter = free()
    with httpx.Client(transport=LimitedTransport(limiter), **DIRECT) as client:
        with client.stream("GET", site.url("/slow")) as response:
            assert looked(limiter).in_flight == 1
            if ends == "read":
                site.go_on.set()
                assert len(response.read()) == 100
        assert looked(limiter).in_flight == 0
    assert looked(limiter).successes == 1


@pytest.mark.parametrize("ends", ["read", "dropped"])
def test_a_streamed_body_counts_as_under_way_until_it_is_read_or_dropped_requests(ends: str, site: Site) -> None:
    limiter = free()
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", LimitedAdapter(limiter))
        response = session.get(site.url("/slow"), stream=True, timeout=10)
        assert looked(limiter).in_flight == 1
        if ends == "read":
            site.go_on.set()
            assert len(response.content) == 100
        else:
            response.close()
        assert looked(limiter).in_flight == 0
    assert looked(limiter).successes == 1


@pytest.mark.parametrize("ends", ["read", "dropped"])
def test_a_streamed_body_counts_as_under_way_until_it_is_read_or_dropped_aiohttp(ends: str, site: Site) -> None:
    limiter = free()

    async def main() -> None:
        async with aiohttp.ClientSession(middlewares=[limited(limiter)]) as session:
            response = await session.get(site.url("/slow"))
            assert looked(limiter).in_flight == 1
            if ends == "read":
                site.go_on.set()
                assert len(await response.read()) == 100
            else:
                response.close()
                del response
                gc.collect()
            await in_flight(limiter, 0)

    asyncio.run(main())
    assert looked(limiter).successes == 1


CONNECTING_S = 0.3


def dawdle(stage: str) -> None:
    """What a handshake does: it takes its time before anything is written."""
    if stage == "connection.connect_tcp.complete":
        time.sleep(CONNECTING_S)


@pytest.mark.parametrize("hops", [("/page",), ("/moved", "/page")], ids=["one request", "a redirect"])
@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_httpx_tells_when_a_request_leaves_and_passes_on_what_the_caller_traces(
    awaited: bool, hops: tuple[str, ...], site: Site
) -> None:
    """The gap counts from the send: the site sees it whole, however long the first request took to connect."""
    limiter, traced = amble.Limiter(pacing="fixed", fixed_delay=0.4, max_rate=None), []

    def trace(stage: str, info: dict[str, Any]) -> None:
        traced.append(stage)
        dawdle(stage)

    async def trace_async(stage: str, info: dict[str, Any]) -> None:
        trace(stage, info)

    async def main() -> None:
        transport = AsyncLimitedTransport(limiter)
        async with httpx.AsyncClient(transport=transport, follow_redirects=True, **DIRECT) as client:
            for path in (hops[0], "/other"):
                await client.get(site.url(path), extensions={"trace": trace_async})

    if awaited:
        asyncio.run(main())
    else:
        with httpx.Client(transport=LimitedTransport(limiter), follow_redirects=True, **DIRECT) as client:
            for path in (hops[0], "/other"):
                client.get(site.url(path), extensions={"trace": trace})
    assert [path for path, _ in site.came] == [*hops, "/other"]
    assert min(site.gaps()) > 0.4 - CONNECTING_S / 2, "counted from the permit, the first gap would be 0.1 s"
    assert traced.count("http11.send_request_headers.complete") == len(hops) + 1, "each stage is passed on once"


def test_no_client_is_imported_before_its_integration_is() -> None:
    clients = ("httpx", "aiohttp", "requests", "scrapy")
    code = f"import sys, amble.integrations; print([name for name in {clients} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- permits that nobody would give back


def test_each_retry_of_requests_waits_its_turn_and_counts(site: Site) -> None:
    limiter = amble.Limiter(
        pacing="fixed", fixed_delay=0.1, max_rate=None, consecutive_fail_threshold=100, min_samples_to_trip=100
    )
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", LimitedAdapter(limiter, max_retries=Retry(4, backoff_factor=0)))
        with pytest.raises(requests.ConnectionError):
            session.get(site.url("/hangup"), timeout=10)
    assert len(site.came) == 5
    assert min(site.gaps()) >= HALF_S
    snapshot = looked(limiter)
    assert (snapshot.requests, snapshot.failures, snapshot.retries, snapshot.in_flight) == (5, 5, 4, 0)


@pytest.mark.parametrize("when", ["made", "later"])
def test_a_retry_for_a_status_is_a_request_of_its_own(when: str, site: Site) -> None:
    limiter = free()
    retries = Retry(3, status_forcelist=[429], backoff_factor=0)
    adapter = LimitedAdapter(limiter, max_retries=retries if when == "made" else 0)
    if when == "later":
        adapter.max_retries = retries
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", adapter)
        assert session.get(site.url("/busy"), timeout=10).status_code == 200
    assert site.gaps()[0] >= 1.0
    snapshot = looked(limiter)
    assert (snapshot.requests, snapshot.limited, snapshot.in_flight) == (2, 1, 0)


def test_retries_that_are_used_up_end_as_requests_says(site: Site) -> None:
    retries = Retry(1, status_forcelist=[200], backoff_factor=0)
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", LimitedAdapter(free(), max_retries=retries))
        with pytest.raises(requests.exceptions.RetryError):
            session.get(site.url("/page"), timeout=10)
    assert len(site.came) == 2


def test_a_body_that_breaks_off_gives_its_slot_back_at_once_aiohttp(site: Site) -> None:
    """Though somebody keeps the exception, and with it the response."""
    limiter, kept = free(), []

    async def main() -> None:
        async with aiohttp.ClientSession(middlewares=[limited(limiter)]) as session:
            gc.disable()
            try:
                response = await session.get(site.url("/broken"))
                try:
                    await response.read()
                except aiohttp.ClientPayloadError as error:
                    kept.append((response, error))
                assert looked(limiter).in_flight == 0
            finally:
                gc.enable()

    asyncio.run(main())
    assert len(kept) == 1
    assert looked(limiter).failures == 1


def test_a_streamed_response_that_is_dropped_gives_its_slot_back_httpx(site: Site) -> None:
    limiter = free()
    with httpx.Client(transport=LimitedTransport(limiter), **DIRECT) as client:
        response = client.send(client.build_request("GET", site.url("/slow")), stream=True)
        assert looked(limiter).in_flight == 1
        del response
        gc.collect()
        assert looked(limiter).in_flight == 0


def test_a_streamed_response_that_is_dropped_gives_its_slot_back_httpx_async(site: Site) -> None:
    limiter = free()

    async def main() -> None:
        async with httpx.AsyncClient(transport=AsyncLimitedTransport(limiter), **DIRECT) as client:
            response = await client.send(client.build_request("GET", site.url("/slow")), stream=True)
            assert looked(limiter).in_flight == 1
            del response
            gc.collect()
            assert looked(limiter).in_flight == 0

    asyncio.run(main())
