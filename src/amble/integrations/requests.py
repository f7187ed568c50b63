"""An adapter for requests that waits for the limiter before each request, and tells it of each answer."""

from __future__ import annotations

import weakref
from typing import Any

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from requests.exceptions import ConnectionError, ReadTimeout, RetryError
from requests.utils import rewind_body
from urllib3.exceptions import HTTPError, MaxRetryError
from urllib3.util.retry import Retry

from amble.integrations.landing import Landing
from amble.limiter import Limiter

ONCE = Retry(0, read=False)  # what requests itself takes for no retries


class LimitedAdapter(HTTPAdapter):
    """`session.mount("https://", LimitedAdapter(limiter))`, and the same for `http://`.

    `turn` are the options of `Limiter.permit_sync`; all else is for `HTTPAdapter`. Its `max_retries` hold as ever, but
    each try is a request: it waits for its turn, and counts.
    """

    def __init__(self, limiter: Limiter, *, turn: dict[str, Any] | None = None, **adapter: Any) -> None:
        self._limiter = limiter
        self._turn = turn or {}
        self._retries = ONCE
        super().__init__(**adapter)

    @property
    def max_retries(self) -> Retry:
        """What is left to urllib3, which would send again without asking: nothing."""
        return ONCE

    @max_retries.setter
    def max_retries(self, retries: Retry) -> None:
        self._retries = retries

    def send(self, request: PreparedRequest, *arguments: Any, **named: Any) -> Response:
        retries, attempt = self._retries, int(self._turn.get("attempt", 1))
        while True:
            try:
                response = self._send_once(request, attempt, *arguments, **named)
            except (ConnectionError, ReadTimeout) as error:
                cause = _cause_of(error)
                try:
                    retries = retries.increment(request.method, request.url, error=cause)
                except Exception:  # it is not to be tried again
                    raise error from None
                retries.sleep()
            else:
                if not retries.is_retry(str(request.method), response.status_code, "Retry-After" in response.headers):
                    return response
                try:
                    retries = retries.increment(request.method, request.url, response=response.raw)
                except MaxRetryError as error:
                    if not retries.raise_on_status:
                        return response
                    response.close()
                    raise RetryError(error, request=request) from error
                response.close()
                retries.sleep(response.raw)
            attempt += 1
            if isinstance(request._body_position, int):
                rewind_body(request)

    def _send_once(self, request: PreparedRequest, attempt: int, *arguments: Any, **named: Any) -> Response:
        permit = self._limiter.permit_sync(str(request.url), **{**self._turn, "attempt": attempt})
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


def _cause_of(error: Exception) -> Exception:
    """What urllib3 raised, by which its rules for retries go."""
    cause = error.args[0] if error.args else None
    if isinstance(cause, MaxRetryError):
        cause = cause.reason
    return cause if isinstance(cause, HTTPError | OSError) else error
