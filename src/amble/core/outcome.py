"""What an answer says: to its URL (a kind of failure, retried or not) and to its domain's pace (an outcome). Pure."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple


class Failure(StrEnum):
    """Why a URL has no page. A closed set: nothing else is ever stored as `error_type`."""

    NETWORK_TIMEOUT = "network_timeout"
    NETWORK_DNS_FAILURE = "network_dns_failure"
    NETWORK_CONNECTION_REFUSED = "network_connection_refused"
    NETWORK_RESET = "network_reset"
    NETWORK_TLS_ERROR = "network_tls_error"
    NETWORK_PROTOCOL_ERROR = "network_protocol_error"
    HTTP_CLIENT_ERROR = "http_client_error"
    HTTP_SERVER_ERROR = "http_server_error"
    HTTP_RATE_LIMITED = "http_rate_limited"
    ROBOTS_DISALLOWED = "robots_disallowed"
    ROBOTS_UNREACHABLE = "robots_unreachable"
    CRAWL_DELAY_TOO_LONG = "crawl_delay_too_long"
    CONTENT_TOO_LARGE = "content_too_large"
    CONTENT_TYPE_REJECTED = "content_type_rejected"
    CONTENT_DECODE_ERROR = "content_decode_error"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    ADDRESS_FORBIDDEN = "address_forbidden"
    OUT_OF_SCOPE = "out_of_scope"
    BLOCKED_BY_BOT_PROTECTION = "blocked_by_bot_protection"
    DOMAIN_GIVEN_UP = "domain_given_up"  # never asked for; the next crawl does
    CANCELLED = "cancelled"


class Phase(StrEnum):
    """How far a request got."""

    RESOLVE = "resolve"  # the name had no address yet
    CONNECT = "connect"  # no connection, or no TLS on it
    HEADERS = "headers"  # sent; the headers were not complete
    BODY = "body"  # the body was not complete
    DONE = "done"


class Outcome(Enum):
    """What an answer says about pace."""

    SUCCESS = "success"  # the server answered in its own time
    LIMITED = "limited"  # the server asked us to slow down
    FAILED = "failed"  # the server could not answer; counts for the breaker
    IGNORED = "ignored"  # says nothing about the server (cancelled, our own proxy, a refused address)


class Lesson(NamedTuple):
    """What one kind of failure means: for the domain's pace, and for the URL that met it."""

    outcome: Outcome
    retried: bool


# The failure policy, whole. A URL that is not retried ends with this failure in its row.
LESSONS: dict[Failure, Lesson] = {
    Failure.NETWORK_TIMEOUT: Lesson(Outcome.FAILED, retried=True),
    Failure.NETWORK_DNS_FAILURE: Lesson(Outcome.FAILED, retried=True),
    Failure.NETWORK_CONNECTION_REFUSED: Lesson(Outcome.FAILED, retried=True),
    Failure.NETWORK_RESET: Lesson(Outcome.FAILED, retried=True),
    Failure.NETWORK_TLS_ERROR: Lesson(Outcome.FAILED, retried=True),
    Failure.NETWORK_PROTOCOL_ERROR: Lesson(Outcome.FAILED, retried=True),
    Failure.HTTP_SERVER_ERROR: Lesson(Outcome.FAILED, retried=True),
    Failure.HTTP_RATE_LIMITED: Lesson(Outcome.LIMITED, retried=True),
    Failure.BLOCKED_BY_BOT_PROTECTION: Lesson(Outcome.LIMITED, retried=True),
    # The server answered, in its own time; only this URL has no page.
    Failure.HTTP_CLIENT_ERROR: Lesson(Outcome.SUCCESS, retried=False),
    Failure.CONTENT_TOO_LARGE: Lesson(Outcome.SUCCESS, retried=False),
    Failure.CONTENT_TYPE_REJECTED: Lesson(Outcome.SUCCESS, retried=False),
    Failure.CONTENT_DECODE_ERROR: Lesson(Outcome.SUCCESS, retried=False),
    Failure.TOO_MANY_REDIRECTS: Lesson(Outcome.SUCCESS, retried=False),
    # Nothing was learned about the server: it was not asked, or we stopped listening.
    Failure.ROBOTS_DISALLOWED: Lesson(Outcome.IGNORED, retried=False),
    Failure.ROBOTS_UNREACHABLE: Lesson(Outcome.IGNORED, retried=False),
    Failure.CRAWL_DELAY_TOO_LONG: Lesson(Outcome.IGNORED, retried=False),
    Failure.ADDRESS_FORBIDDEN: Lesson(Outcome.IGNORED, retried=False),
    Failure.OUT_OF_SCOPE: Lesson(Outcome.IGNORED, retried=False),
    Failure.DOMAIN_GIVEN_UP: Lesson(Outcome.IGNORED, retried=False),
    Failure.CANCELLED: Lesson(Outcome.IGNORED, retried=True),
}


def failure_of_status(status: int) -> Failure | None:
    """The failure an HTTP status stands for; None where there is a page or a redirect."""
    if status < 400:
        return None
    if status == 429:
        return Failure.HTTP_RATE_LIMITED
    return Failure.HTTP_CLIENT_ERROR if status < 500 else Failure.HTTP_SERVER_ERROR


def speaks_of_url_alone(failure: Failure, status: int | None) -> bool:
    """Whether other URLs of the domain may well have pages: it answered, and has none for this one. Who answers 403 may
    be keeping us out of all of it."""
    return LESSONS[failure].outcome is Outcome.SUCCESS and status != 403


def lasts(dns_error: str | None, untrusted: bool) -> bool:
    """Whether trying again soon is no use: the name does not exist, or the certificate is another's. A handshake that
    failed otherwise may be a server that is overloaded, and is tried again like any failure of the network."""
    return untrusted or dns_error == "no_such_name"


_WITHOUT_A_CONNECTION = frozenset({Phase.RESOLVE, Phase.CONNECT})
# Whatever phase was told with them, they end a request before it is sent.
_BEFORE_A_CONNECTION = frozenset({
    Failure.NETWORK_DNS_FAILURE, Failure.NETWORK_CONNECTION_REFUSED, Failure.NETWORK_TLS_ERROR,
})  # fmt: skip


def found_nobody(failure: Failure | None, phase: Phase) -> bool:
    """Whether a request met nobody it could talk to: no name, no way, no port, no TLS."""
    if failure in _BEFORE_A_CONNECTION:
        return True
    return phase in _WITHOUT_A_CONNECTION and failure is not None and LESSONS[failure].outcome is Outcome.FAILED


def outcome_of(status: int | None, failure: Failure | None) -> Outcome:
    """What one answer says on its own; a run of 403s or 503s is judged by the pace, which has seen the others."""
    if failure is None and status is not None:
        failure = failure_of_status(status)
    return LESSONS[failure].outcome if failure is not None else Outcome.SUCCESS
