"""What the answer to a request for robots.txt means for its origin: (status or failure, body) to policy. Pure.

RFC 9309 2.3.1 knows four results; each arm cites its clause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from amble.core.outcome import Failure
from amble.core.robots.match import Rules, decode_unreserved
from amble.core.robots.parse import crawl_delay_s, parse, product_token
from amble.core.robots.usage import NO_USAGE, Usage, read_usage
from amble.core.urls import normalize
from amble.errors import SettingsError

REDIRECTS_MAX = 5  # RFC 9309 2.3.1.2

# Measured: 20,000 rules of 10 to 20 characters take 2 MB without stars, 6 with, 17 with as many beginnings as rules.
_BYTES_PER_LINE = 300
_BYTES_PER_CHARACTER = 12


class Access(Enum):
    """How the request for a robots.txt ended."""

    SUCCESSFUL = "successful"  # its rules hold
    UNAVAILABLE = "unavailable"  # there is none: everything may be fetched, at the default pace
    UNREACHABLE = "unreachable"  # nobody knows: nothing may be fetched
    UNCHANGED = "unchanged"  # the copy we have is still the one


class RobotsAnswer(NamedTuple):
    """What came back for a robots.txt, redirects followed. `fetched_at` is UTC and only for the record."""

    status: int | None = None
    failure: Failure | None = None
    body: bytes | None = None  # its first 500 KiB; None: not read, or not to be trusted
    etag: str | None = None
    last_modified: str | None = None
    retry_after_s: float | None = None
    fetched_at: datetime | None = None
    lasts: bool = False  # trying again soon is no use: there is no such host
    found_nobody: bool = False  # and in this run nobody has answered there yet

    @property
    def access(self) -> Access:
        """What it is by RFC 9309. A file that was found but not read is as good as none at all."""
        access = access_of(self.status, self.failure)
        if access is Access.SUCCESSFUL and self.body is None and self.status not in (204, 205):
            return Access.UNREACHABLE
        return access


class Terms(NamedTuple):
    """Who asks, and what for."""

    token: str
    purpose: str | None = None

    @classmethod
    def of(cls, user_agent: str, purpose: str | None = None) -> Terms:
        token = product_token(user_agent)
        if not token:
            raise SettingsError(
                f"user_agent {user_agent!r} has no name that a robots.txt could address",
                hint="begin it with a name of letters, - and _, such as amble/1.0 (+https://example.com/bot)",
            )
        return cls(token, purpose)


@dataclass(frozen=True, slots=True)
class Policy:
    """What an origin lets one crawler do."""

    rules: Rules
    crawl_delay_s: float | None = None
    sitemaps: tuple[str, ...] = ()
    usage: Usage = NO_USAGE
    weight: int = 0  # bytes it takes, roughly

    def refusal(self, path: str) -> str | None:
        """Why a path (escaped, with its query) may not be fetched, or None."""
        if path == "/robots.txt":
            return None  # RFC 9309 2.2.2: implicitly allowed
        if not self.rules.allows(path):
            return "disallowed by robots.txt"
        return self.usage.refusal(path)


ALLOW_ALL = Policy(Rules(()))


def access_of(status: int | None, failure: Failure | None = None) -> Access:
    """Which of the results this is. A failure of the transfer outweighs a status that was seen before it."""
    if failure is Failure.TOO_MANY_REDIRECTS:
        return Access.UNAVAILABLE  # 2.3.1.2: more than five redirects
    if failure is not None and failure not in _SAID_BY_STATUS:
        return Access.UNREACHABLE  # 2.3.1.4: network errors; and whatever else kept the file from us
    if status is None:
        return Access.UNREACHABLE
    if 200 <= status < 300:
        return Access.SUCCESSFUL  # 2.3.1.1
    if status == 304:
        return Access.UNCHANGED  # 2.4: a cached copy, confirmed
    if 400 <= status < 500 and status != 429:
        return Access.UNAVAILABLE  # 2.3.1.3
    # 2.3.1.4: server errors. So is 429, which asks us to come later (RFC 6585 4), and a redirect that led nowhere.
    return Access.UNREACHABLE


# Failures that only repeat what the status says.
_SAID_BY_STATUS = frozenset({Failure.HTTP_CLIENT_ERROR, Failure.HTTP_SERVER_ERROR, Failure.HTTP_RATE_LIMITED})


def policy_of(answer: RobotsAnswer, robots_url: str, terms: Terms) -> Policy | None:
    """The policy in an answer; None where it holds none, because the file was unreachable or is unchanged.

    This is where the work is: up to half a second of it for a hostile file of the full size.
    """
    if answer.access is Access.SUCCESSFUL:
        return read_policy(answer.body or b"", robots_url, terms)
    return ALLOW_ALL if answer.access is Access.UNAVAILABLE else None


def read_policy(body: bytes, robots_url: str, terms: Terms) -> Policy:
    """What a robots.txt says to us. Rules hold for the origin first asked, wherever redirects led (2.3.1.2)."""
    file = parse(body)
    group = file.group_for(terms.token)
    rules = [rule._replace(pattern=decode_unreserved(rule.pattern)) for rule in group.rules]
    sitemaps = _sitemaps(file.sitemaps, robots_url)
    usage = read_usage(group.extras, terms.purpose)
    delay_s = crawl_delay_s(group.extras)
    text = [*[rule.pattern for rule in rules], *sitemaps, *usage.lines]
    if delay_s is None and not any(text):
        return ALLOW_ALL  # many files say no more, and need not take room each
    return Policy(
        rules=Rules(rules),
        crawl_delay_s=delay_s,
        sitemaps=sitemaps,
        usage=usage,
        weight=_BYTES_PER_LINE * len(text) + _BYTES_PER_CHARACTER * sum(map(len, text)),
    )


def _sitemaps(named: Iterable[str], robots_url: str) -> tuple[str, ...]:
    """Absolute http(s) URLs, each once, in the order of the file. A relative one is resolved, though none should be."""
    urls = (normalize(url, robots_url) for url in named if url)
    return tuple(dict.fromkeys(url for url in urls if isinstance(url, str)))
