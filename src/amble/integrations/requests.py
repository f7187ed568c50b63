"""An adapter for requests that waits for the limiter before each request, and tells it of each answer."""

from __future__ import annotations

import weakref
from typing import Any

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

from amble.integrations.landing import Landing
from amble.limiter import Limiter


class LimitedAdapter(HTTPAdapter):
    """`session.mount("https://", LimitedAdapter(limiter))`, and the same for `http://`.

    `turn` are the options of `Limiter.permit_sync`; all else is for `HTTPAdapter`.
    """

    def __init__(self, limiter: Limiter, *, turn: dict[str, Any] | None = None, **adapter: Any) -> None:
        self._limiter = limiter
        self._turn = turn or {}
        super().__init__(**adapter)

    def send(self, request: PreparedRequest, *arguments: Any, **named: Any) -> Response:
        permit = self._limiter.permit_sync(str(request.url), **self._turn)
        try:
            response = super().send(request, *arguments, **named)
        except BaseException as error:
            permit.settle(error=error)
            raise
        landing = Landing(self._limiter, permit, response.status_code, response.headers)
        release = response.raw.release_conn

        def released() -> None:
            """The body was read to its end, or the response closed."""
            release()
            landing.end()

        response.raw.release_conn = released
        weakref.finalize(response, landing.end)  # dropped before its end
        return response
