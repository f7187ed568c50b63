"""Transports for httpx that wait for the limiter before each request, and tell it of each send and each answer."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from amble.integrations.landing import Landing
from amble.limiter import IssuedPermit, Limiter

WRITTEN = "send_request_headers.started"  # as httpcore traces it, after http11. or http2.; once connected


class LimitedTransport(httpx.BaseTransport):
    """`httpx.Client(transport=LimitedTransport(limiter))`; `turn` are the options of `Limiter.permit_sync`."""

    def __init__(self, limiter: Limiter, transport: httpx.BaseTransport | None = None, **turn: Any) -> None:
        self._limiter = limiter
        self._inner = transport or httpx.HTTPTransport()
        self._turn = turn

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        permit = self._limiter.permit_sync(str(request.url), **self._turn)
        try:
            with _told_of_the_send(request, permit, awaited=False):
                response = self._inner.handle_request(request)
        except BaseException as error:
            permit.settle(error=error)
            raise
        landing = Landing(self._limiter, permit, response.status_code, response.headers)
        assert isinstance(response.stream, httpx.SyncByteStream)
        response.stream = _Stream(response.stream, landing)
        return response

    def close(self) -> None:
        self._inner.close()


class AsyncLimitedTransport(httpx.AsyncBaseTransport):
    """`httpx.AsyncClient(transport=AsyncLimitedTransport(limiter))`; `turn` are the options of `Limiter.permit`."""

    def __init__(self, limiter: Limiter, transport: httpx.AsyncBaseTransport | None = None, **turn: Any) -> None:
        self._limiter = limiter
        self._inner = transport or httpx.AsyncHTTPTransport()
        self._turn = turn

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        permit = await self._limiter.permit(str(request.url), **self._turn)
        try:
            with _told_of_the_send(request, permit, awaited=True):
                response = await self._inner.handle_async_request(request)
        except BaseException as error:
            permit.settle(error=error)
            raise
        landing = Landing(self._limiter, permit, response.status_code, response.headers)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _AsyncStream(response.stream, landing)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


@contextmanager
def _told_of_the_send(request: httpx.Request, permit: IssuedPermit, *, awaited: bool) -> Iterator[None]:
    """Connecting takes its time: have the inner transport tell when the request is written, which is when it starts.

    A transport that traces nothing leaves it at the permit. The request keeps its own extensions for the next hop.
    """
    extensions = request.extensions
    trace = extensions.get("trace")

    def told(name: str, info: dict[str, Any]) -> None:
        if name.endswith(WRITTEN):
            permit.sent()
        if trace is not None and not awaited:
            trace(name, info)

    async def told_async(name: str, info: dict[str, Any]) -> None:
        told(name, info)
        if trace is not None:
            await trace(name, info)

    request.extensions = {**extensions, "trace": told_async if awaited else told}
    try:
        yield
    finally:
        request.extensions = extensions


class _Stream(httpx.SyncByteStream):
    def __init__(self, inner: httpx.SyncByteStream, landing: Landing) -> None:
        self._inner = inner
        self._landing = landing
        weakref.finalize(self, landing.end)  # dropped, neither read nor closed

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._inner
        except Exception as error:
            self._landing.end(error)
            raise

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            self._landing.end()


class _AsyncStream(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, landing: Landing) -> None:
        self._inner = inner
        self._landing = landing
        weakref.finalize(self, landing.end)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                yield chunk
        except Exception as error:
            self._landing.end(error)
            raise

    async def aclose(self) -> None:
        try:
            await self._inner.aclose()
        finally:
            self._landing.end()
