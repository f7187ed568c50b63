"""What to check where nobody is: said once in a job, of the first origin that does not answer. Pure.

A wrong port or scheme is the usual reason. Whether the other scheme is served there is found out by one request for its
robots.txt, at the pace of the domain like any other. While the network counts as down, nothing is said.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from amble.core.frontier.changes import Changes, Fetched
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.pacing.events import NobodyThere
from amble.core.robots.book import RobotsBook, robots_url_of
from amble.core.robots.verdict import Ask
from amble.core.urls import domain_of, origin_of

_CHECKS = {
    Failure.NETWORK_DNS_FAILURE: "is the name spelled right, and known to this machine?",
    Failure.NETWORK_CONNECTION_REFUSED: "is the port right, and does the server run?",
    Failure.NETWORK_TIMEOUT: "is the port right, and is there no firewall in between?",
    Failure.NETWORK_TLS_ERROR: "is it https that is served at this port?",
}
_CHECK = "are port and scheme right?"
_OTHER = {"http": "https", "https": "http"}


class _Missed(NamedTuple):
    origin: str
    failure: Failure
    reason: str


class Hint:
    """The one of a job."""

    def __init__(self, book: RobotsBook) -> None:
        self._book = book
        self._missed: _Missed | None = None
        self._is_asking = False
        self._told = False

    def nobody(
        self, url: str, failure: Failure, fetched: Fetched, now: float, changes: Changes, *, last: bool
    ) -> Visit | None:
        """Nobody answered. What to ask besides, before there is something to say; `last`: no other try may follow, by
        which it would be known whether the network is down."""
        if self._told or self._is_asking or fetched.untrusted:  # who has a certificate is there
            return None
        origin = origin_of(url)
        if self._missed is None:
            self._missed = _Missed(origin, failure, fetched.detail or failure.value)
            probe = self._probe(origin, failure, now)
            self._is_asking = probe is not None
            if probe is not None or not last:
                return probe
        if self._missed.origin == origin:
            self._tell(_CHECKS.get(failure, _CHECK), changes)
        return None

    def answered(self, probe: Visit, fetched: Fetched, changes: Changes) -> None:
        """How the request for the robots.txt of the other scheme ended."""
        self._is_asking = False
        if self._missed is None:
            return
        if fetched.status is not None:
            self._tell(f"{urlsplit(probe.url).scheme}:// answers there", changes)
        else:
            self._tell(_CHECKS.get(self._missed.failure, _CHECK), changes)

    def _tell(self, check: str, changes: Changes) -> None:
        assert self._missed is not None
        self._told = True
        origin, _, reason = self._missed
        changes.events = (*changes.events, NobodyThere(domain_of(origin), origin, reason, check))

    def _probe(self, origin: str, failure: Failure, now: float) -> Visit | None:
        """A request for the robots.txt of the other scheme, where that may be served though this one is not."""
        parts = urlsplit(origin)
        if failure is Failure.NETWORK_DNS_FAILURE:
            return None
        if parts.port is not None and failure is not Failure.NETWORK_TLS_ERROR:
            return None  # nobody listens at this port, whatever is spoken there
        other = f"{_OTHER[parts.scheme]}://{parts.netloc}"
        if self._book.standing(other) is not None:
            return None  # it is crawled as well
        if self._book.settings.respect_robots_txt and not isinstance(self._book.verdict(f"{other}/", now), Ask):
            return None
        return Visit(robots_url_of(other), Kind.ROBOTS, task=other, asks_other_scheme=True)
