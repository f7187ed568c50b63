"""What a server says about its limit in header fields: Retry-After in two forms, RateLimit in four dialects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from email.utils import formatdate
from typing import Literal

from amble.testing.lab.limiters import Quota, whole_seconds

# The virtual clock starts at 0; on the servers' wall clock that is the midnight that began 2026 (UTC).
WALL_AT_START = 1_767_225_600

RetryAfter = Literal["silent", "seconds", "date"]
Dialect = Literal["structured", "split", "x-delta", "x-epoch", "floored"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a server refuses: with which status, and whether it says for how long (RFC 9110 section 10.2.3)."""

    status: int = 429
    retry_after: RetryAfter = "silent"

    def announce(self, now: float, wait_s: float, headers: dict[str, str]) -> float | None:
        """Write Retry-After into the headers; return the instant before which the server does not want to be asked."""
        if self.retry_after == "silent":
            return None
        if self.retry_after == "seconds":
            seconds = whole_seconds(wait_s)
            headers["Retry-After"] = str(seconds)
            return now + seconds
        # A date has whole seconds only, so an honest one lies at or after the true end.
        until = math.ceil(WALL_AT_START + now + wait_s)
        headers["Date"] = formatdate(WALL_AT_START + math.floor(now), usegmt=True)
        headers["Retry-After"] = formatdate(until, usegmt=True)
        return until - WALL_AT_START


def announce_quota(dialect: Dialect, quota: Quota, now: float, headers: dict[str, str]) -> None:
    """Write how much is left until the reset.

    `structured`: draft-ietf-httpapi-ratelimit-headers from revision 08 on; `split`: its revisions up to 06, three
    fields; `x-delta` and `x-epoch`: the older X-RateLimit fields, with the reset in seconds or as a Unix time;
    `floored`: `x-delta` by a server that rounds down, so that its reset comes up to a second after what it says.
    """
    left, reset_s = quota.left, math.floor(quota.reset_s) if dialect == "floored" else math.ceil(quota.reset_s)
    if dialect == "structured":
        headers["RateLimit-Policy"] = f'"default";q={quota.limit};w={math.ceil(quota.window_s)}'
        headers["RateLimit"] = f'"default";r={left};t={reset_s}'
        return
    prefix = "RateLimit" if dialect == "split" else "X-RateLimit"
    headers[f"{prefix}-Limit"] = str(quota.limit)
    headers[f"{prefix}-Remaining"] = str(left)
    if dialect == "x-epoch":
        headers["Date"] = formatdate(WALL_AT_START + math.floor(now), usegmt=True)
        headers["X-RateLimit-Reset"] = str(math.ceil(WALL_AT_START + now + quota.reset_s))
    else:
        headers[f"{prefix}-Reset"] = str(reset_s)
