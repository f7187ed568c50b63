"""What an answer says: to its URL (a kind of failure, retried or not) and to its domain's pace (an outcome). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum


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
    CANCELLED = "cancelled"


class Outcome(Enum):
    """What an answer says about pace."""

    SUCCESS = "success"  # the server answered in its own time
    LIMITED = "limited"  # the server asked us to slow down
    FAILED = "failed"  # the server could not answer; counts for the breaker
    IGNORED = "ignored"  # says nothing about the server (cancelled, our own proxy, a refused address)
