"""Whether a request was for something that robots.txt forbids: receipts judged again by the files as they were then."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from duckdb import DuckDBPyConnection

from amble.core.robots.book import robots_url_of
from amble.core.robots.match import escape_path, path_of
from amble.core.robots.policy import Policy, RobotsAnswer, Terms, policy_of
from amble.core.urls import domain_of, origin_of
from amble.settings import Settings
from amble.store.knowledge import load_jobs

_READ_AT_ONCE = 10_000
# Receipts are dated when the answer is in; a file that had just arrived may not have been known to a request yet.
_JUST_READ = timedelta(seconds=2)


class Forbidden(NamedTuple):
    """A request that should not have been sent."""

    domain: str
    url: str
    at: datetime
    why: str


class _File(NamedTuple):
    """One reading of a robots.txt."""

    read_at: datetime
    status: int
    body: bytes | None
    served_by: str | None


class _Origin:
    """The robots.txt of one origin over time, as each crawler reads it."""

    def __init__(self, origin: str, files: list[_File]) -> None:
        self.origin = origin
        self._files = files
        self._times = [file.read_at for file in files]
        self._policies: dict[tuple[int, Terms], Policy | None] = {}

    def refusal(self, url: str, at: datetime, terms: Terms) -> str | None:
        """Why the file that was known then forbids a URL; None also where none was known."""
        known = bisect_right(self._times, at) - 1
        if known < 0 or url == self._files[known].served_by:
            return None
        path = escape_path(path_of(url))
        policy = self._policy(known, terms)
        why = policy.refusal(path) if policy else None
        if why is not None and known > 0 and at - self._times[known] < _JUST_READ:
            before = self._policy(known - 1, terms)
            return why if before is not None and before.refusal(path) else None
        return why

    def _policy(self, number: int, terms: Terms) -> Policy | None:
        key = number, terms
        if key not in self._policies:
            file = self._files[number]
            answer = RobotsAnswer(file.status, body=file.body)
            self._policies[key] = policy_of(answer, robots_url_of(self.origin), terms)
        return self._policies[key]


def forbidden(connection: DuckDBPyConnection, domain: str | None = None) -> Iterator[Forbidden]:
    """Every request of a job for a URL that the robots.txt known to it forbade."""
    origins = {files.origin: files for files in _origins(connection, domain)}
    if not origins:
        return
    terms = {job.id: _terms(dict(job.settings)) for job in load_jobs(connection)}
    names = sorted({domain_of(origin) for origin in origins})
    rows = connection.execute(
        "SELECT job_id, domain, url, started_at FROM amble.requests "
        "WHERE domain IN (SELECT unnest($1::VARCHAR[])) AND NOT ends_with(url, '/robots.txt')",
        [names],
    )
    while chunk := rows.fetchmany(_READ_AT_ONCE):
        for job_id, name, url, at in chunk:
            crawler, origin = terms.get(job_id), origins.get(origin_of(url))
            if crawler is None or origin is None:  # a plan, whose settings were not kept; a file without rules
                continue
            why = origin.refusal(url, at, crawler)
            if why is not None:
                yield Forbidden(name, url, at, why)


def _origins(connection: DuckDBPyConnection, domain: str | None) -> Iterator[_Origin]:
    """Origins whose robots.txt has ever held a rule. A reading without a body confirms the one before it."""
    files: dict[str, list[_File]] = {}
    rows = connection.execute(
        "SELECT origin, fetched_at, status, body, served_by FROM amble.robots_log ORDER BY seq"
    ).fetchall()
    for origin, read_at, status, body, served_by in rows:
        if read_at is None or (domain is not None and domain_of(origin) != domain):
            continue
        known = files.setdefault(origin, [])
        text = body if body is not None else known[-1].body if known else None
        known.append(_File(read_at, status, text, served_by))
    for origin, readings in files.items():
        if any(b":" in (file.body or b"") for file in readings):
            yield _Origin(origin, sorted(readings, key=lambda file: file.read_at))


def _terms(settings: dict[str, object]) -> Terms:
    resolved = Settings.as_stored(settings)
    return Terms.of(resolved.fetching.user_agent, resolved.robots.purpose)
