"""A client middleware for aiohttp (3.12 and newer) that waits for the limiter, and tells it of each answer."""

from __future__ import annotations

import weakref
from typing import Any

from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse

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
        weakref.finalize(response, landing.end)  # dropped before its end
        return response

    return middleware
