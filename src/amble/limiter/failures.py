"""What an exception of some HTTP library means: a response that was raised, or one of our kinds of failure."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator

from amble.core.answer import Headers
from amble.core.outcome import Failure
from amble.errors import AmbleError

_KINDS: tuple[tuple[type[BaseException], Failure], ...] = (
    (asyncio.CancelledError, Failure.CANCELLED),
    (KeyboardInterrupt, Failure.CANCELLED),
    (GeneratorExit, Failure.CANCELLED),
    (TimeoutError, Failure.NETWORK_TIMEOUT),
    (ssl.SSLError, Failure.NETWORK_TLS_ERROR),
    (socket.gaierror, Failure.NETWORK_DNS_FAILURE),
    (ConnectionRefusedError, Failure.NETWORK_CONNECTION_REFUSED),
    (ConnectionError, Failure.NETWORK_RESET),
)

# Mistakes of the code around the request, and refusals of our own: they say nothing about the server.
_OUR_OWN = (
    AmbleError, ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, MemoryError, NameError,
    RuntimeError, SyntaxError, TypeError, ValueError,
)  # fmt: skip


def failure_of(error: BaseException) -> Failure:
    """Looks through what the error was raised from; HTTP libraries wrap the cause in their own types."""
    for cause in _causes(error):
        for kind, failure in _KINDS:
            if isinstance(cause, kind):
                return failure
        if "timeout" in type(cause).__name__.lower():
            return Failure.NETWORK_TIMEOUT
    if isinstance(error, _OUR_OWN) or not isinstance(error, Exception):
        return Failure.CANCELLED
    return Failure.NETWORK_RESET if isinstance(error, OSError) else Failure.NETWORK_PROTOCOL_ERROR


def response_in(error: BaseException) -> tuple[int, Headers] | None:
    """Status and headers, where a library raises a response of the server as an error (`raise_for_status`)."""
    if error.__cause__ is not None:
        return None  # aiohttp reports bytes that are no HTTP as "status 400", raised from the parser's complaint
    response = getattr(error, "response", None)  # httpx, requests
    for holder, name in ((response, "status_code"), (error, "status")):  # aiohttp, urllib
        status, headers = getattr(holder, name, None), getattr(holder, "headers", None)
        if isinstance(status, int) and 100 <= status <= 999 and headers is not None and hasattr(headers, "items"):
            return status, headers
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
