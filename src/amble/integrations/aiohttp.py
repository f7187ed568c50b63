"""A client middleware for aiohttp (3.12 and newer) that waits for the limiter, and tells it of each answer."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

from aiohttp import ClientConnectionError, ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse

from amble.integrations.landing import Landing
from amble.limiter import Limiter


def limited(limiter: Limiter, **turn: Any) -> ClientMiddlewareType:
    """`aiohttp.ClientSession(middlewares=[limited(limiter)])`; `turn` are the options of `Limiter.permit`."""

    async def middleware(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        permit = await limiter.permit(str(request.url), **turn)
        try:
            response = await handler(request)
        except BaseException as error:
            permit.settle(error=error)
            raise
        landing = Landing(limiter, permit, response.status, response.headers)
        response.content.on_eof(landing.end)
        if response.connection is not None:
            response.connection.add_callback(partial(_let_go, weakref.ref(response), landing))
        weakref.finalize(response, landing.end)  # dropped before its end
        return response

    return middleware


def _let_go(reference: weakref.ref[ClientResponse], landing: Landing) -> None:
    """The connection is no longer the response's: it was read, closed, or its body broke off, which clears `on_eof`."""
    response = reference()
    error = None if response is None else response.content.exception()
    # A response closed before its end is told so by an exception as well, of this very type.
    landing.end(None if type(error) is ClientConnectionError else error)
