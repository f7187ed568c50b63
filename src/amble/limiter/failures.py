"""What an exception of some HTTP library means: one of our kinds of failure."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator

from amble.core.outcome import Failure

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


def failure_of(error: BaseException) -> Failure:
    """Looks through what the error was raised from; HTTP libraries wrap the cause in their own types."""
    for cause in _causes(error):
        for kind, failure in _KINDS:
            if isinstance(cause, kind):
                return failure
        if "timeout" in type(cause).__name__.lower():
            return Failure.NETWORK_TIMEOUT
    return Failure.NETWORK_RESET if isinstance(error, OSError) else Failure.NETWORK_PROTOCOL_ERROR


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
