"""What the book of robots.txt files says about a URL, and what it keeps on disk. Plain values. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from amble.core.outcome import Failure
from amble.core.robots.policy import Policy


class Allowed(NamedTuple):
    """The URL may be fetched, its domain asked no more often than `crawl_delay_s` says."""

    crawl_delay_s: float | None = None


ALLOWED = Allowed()  # what nearly every verdict is


class Refused(NamedTuple):
    """The URL ends here, with this failure in its row."""

    failure: Failure
    reason: str


class Ask(NamedTuple):
    """The caller, and nobody else, is to fetch `url` (paced at the domain of that URL) and then tell the book.

    It owes the book exactly one of `learn`, `redirected` or `forget_ask` for `origin`.
    """

    origin: str
    url: str
    hop: int = 0  # redirects already followed
    etag: str | None = None
    last_modified: str | None = None


class Wait(NamedTuple):
    """Nothing can be said yet. Without an instant: somebody is asking, come back when the book has learned."""

    not_before: float | None = None


Verdict = Allowed | Refused | Ask | Wait


class RobotsRow(NamedTuple):
    """One origin as a store keeps it. A body of None means: as stored before, confirmed at `fetched_at`."""

    origin: str
    status: int
    body: bytes | None
    etag: str | None = None
    last_modified: str | None = None
    served_by: str | None = None  # the URL that the validators belong to, where redirects led elsewhere
    fetched_at: datetime | None = None


class Standing(NamedTuple):
    """What the book holds about one origin, for reports."""

    policy: Policy | None  # in force; None: nothing may be fetched
    asking: bool
    ask_at: float  # monotonic instant from which on robots.txt is asked for again
    failures: int  # in a row
    given_up: bool
