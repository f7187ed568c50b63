"""Whether every request kept the rules: the receipts of a file, checked, for oneself or for the owner of a site.

Five things are checked: that the gap before each request was as long as the rule in force required, also from the last
request of one run to the first of the next; that the gaps which the receipts state agree with the instants that they
state; that no more requests of a domain were under way at once than might be, as they state and as their instants
show; that nothing was sent to a domain within a Retry-After that an answer of it stated; and that robots.txt, as it was
known then, allowed the URL.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from duckdb import DuckDBPyConnection

from amble.core.pacing.settings import PacingSettings
from amble.core.robots.book import robots_url_of
from amble.core.robots.match import escape_path, path_of
from amble.core.robots.policy import Policy, RobotsAnswer, Terms, policy_of
from amble.core.urls import domain_of, origin_of
from amble.report.crowded import crowded
from amble.report.words import duration, html_table, marked, page, safe
from amble.settings import Settings
from amble.store.knowledge import load_jobs

ROUNDING_S = 0.001
VIOLATIONS_MAX = 1_000  # kept of each kind, the worst first; all are counted
_SHOWN = 20
_DOMAINS_SHOWN = 1_000


@dataclass(frozen=True, slots=True)
class Violation:
    """A request that broke a rule."""

    domain: str
    url: str
    rule: str  # what set the gap; `receipt`: its numbers disagree; `at_once`; `retry_after`; `robots.txt`: forbidden
    text: str
    at: datetime | None = None  # in UTC, as everything in the tables
    required_gap_s: float | None = None
    actual_gap_s: float | None = None


@dataclass(frozen=True, slots=True)
class DomainAudit:
    """What the receipts say of one domain."""

    domain: str
    requests: int
    first_at: datetime | None
    last_at: datetime | None
    refusals: int  # answers that asked us to slow down
    at_once: int  # most requests under way together
    smallest_gap_s: float | None
    smallest_margin_s: float | None  # how much longer than required the tightest gap was
    rules: dict[str, int]  # what set the gap -> requests
    violations: int = 0


@dataclass(frozen=True, slots=True)
class Audit:
    """What the receipts say."""

    requests: int
    domains: int
    smallest_margin_s: float | None  # of all gaps, how much longer than required the tightest was
    violations: tuple[Violation, ...]  # the worst of each kind
    violation_count: int = 0
    by_domain: tuple[DomainAudit, ...] = ()  # those with violations first, then the busiest

    def as_dict(self) -> dict[str, Any]:
        found = asdict(self)
        for entry in (*found["violations"], *found["by_domain"]):
            entry.update({name: f"{time.isoformat()}Z" for name, time in entry.items() if isinstance(time, datetime)})
        return found

    def __str__(self) -> str:
        return self.as_text()

    def as_text(self) -> str:
        lines = [f"{self.requests} requests to {self.domains} domains"]
        if self.smallest_margin_s is not None:
            lines.append(f"smallest margin over the required gap: {self.smallest_margin_s * 1000:.1f} ms")
        lines.append(self._verdict())
        lines += [f"  {each.domain}: {safe(each.text)}" for each in self.violations[:_SHOWN]]
        return "\n".join(lines)

    def as_html(self) -> str:
        """A page to send to the owner of a site: nothing in it is fetched, run or taken for markup."""
        return page("Requests of a web crawler", self._repr_html_())

    def _repr_html_(self) -> str:
        kind = "bad" if self.violation_count else "good"
        parts = [
            "<h1>Requests of a web crawler</h1>",
            f"<p>{self.requests} requests to {self.domains} domains. <span class={kind}>{self._verdict()}</span>.</p>",
            html_table(_HEADS, [_line(each) for each in self.by_domain[:_DOMAINS_SHOWN]]),
        ]
        if len(self.by_domain) > _DOMAINS_SHOWN:
            parts.append(f"<p>{len(self.by_domain) - _DOMAINS_SHOWN} more domains are not shown.</p>")
        if self.violations:
            shown = [(each.domain, each.at or "", each.url, each.text) for each in self.violations[:VIOLATIONS_MAX]]
            parts.append("<h2>Violations</h2>" + html_table(("domain", "time (UTC)", "URL", "what"), shown, left=4))
        parts.append(f"<p>{marked(_EXPLANATION)}</p>")
        return "".join(parts)

    def _verdict(self) -> str:
        return f"{self.violation_count} violations" if self.violation_count else "no rule was broken"


_HEADS = ("domain", "requests", "first (UTC)", "last (UTC)", "what set the gaps", "refused", "at once", "smallest gap",
          "smallest margin", "violations")  # fmt: skip
_EXPLANATION = (
    "The gap is the time between the starts of two requests to a domain. The margin is how much longer it was than"
    " the rule in force required. A violation is a gap that was too short, a request beside more others than might be"
    " under way, one sent before the end of a Retry-After, or one for something that robots.txt forbade."
)


def _line(each: DomainAudit) -> tuple[object, ...]:
    rules = ", ".join(f"{rule} {count}" for rule, count in sorted(each.rules.items(), key=lambda item: -item[1]))
    gap, margin = (
        "" if value is None else duration(value) if value >= 0 else f"-{duration(-value)}"
        for value in (each.smallest_gap_s, each.smallest_margin_s)
    )
    times = ("" if at is None else f"{at:%Y-%m-%d %H:%M:%S}" for at in (each.first_at, each.last_at))
    return each.domain, each.requests, *times, rules, each.refusals, each.at_once, gap, margin, each.violations


def audit(connection: DuckDBPyConnection, domain: str | None = None) -> Audit:
    """Check every receipt, of one domain or of all."""
    name = None if domain is None else domain_of(domain)
    narrow, values = ("", []) if name is None else ("WHERE domain = $1", [name])
    early, early_count = _too_early(connection, narrow, values)
    hasty, hasty_count = _too_soon_after_a_run(connection, narrow, values)
    lying, lying_count = _disagreeing(connection, narrow, values)
    refused = [
        Violation(each.domain, each.url, "robots.txt", f"{each.why}: {each.url}", each.at)
        for each in forbidden(connection, name)
    ]
    crowd = [Violation(each.domain, each.url, "at_once", each.text, each.at) for each in crowded(connection, name)]
    shut = [
        Violation(each.domain, each.url, "retry_after", each.text, each.at, each.asked_s, each.after_s)
        for each in shut_out(connection, name)
    ]
    others = (*crowd, *shut, *refused)
    counts = early_count + hasty_count + lying_count + Counter(each.domain for each in others)
    domains = _domains(connection, narrow, values, counts)
    margins = [each.smallest_margin_s for each in domains if each.smallest_margin_s is not None]
    return Audit(
        requests=sum(each.requests for each in domains),
        domains=len(domains),
        smallest_margin_s=min(margins, default=None),
        violations=(
            *early,
            *hasty,
            *lying,
            *(each for kind in (crowd, shut, refused) for each in kind[:VIOLATIONS_MAX]),
        ),
        violation_count=counts.total(),
        by_domain=tuple(sorted(domains, key=lambda each: (-each.violations, -each.requests, each.domain))),
    )


def _too_early(
    connection: DuckDBPyConnection, narrow: str, values: Sequence[str]
) -> tuple[list[Violation], Counter[str]]:
    narrow = f"{narrow} AND" if narrow else "WHERE"
    early = f"SELECT * FROM amble.requests {narrow} actual_gap_s < required_gap_s - {ROUNDING_S}"
    rows = connection.execute(
        f"SELECT domain, url, rule, started_at, required_gap_s, actual_gap_s FROM ({early}) "
        f"ORDER BY actual_gap_s - required_gap_s LIMIT {VIOLATIONS_MAX}",
        values,
    ).fetchall()
    found = [
        Violation(name, url, rule, f"{actual_s:.3f} s instead of {required_s:.3f} s ({rule})", at, required_s, actual_s)
        for name, url, rule, at, required_s, actual_s in rows
    ]
    return found, _counts(connection, early, values)


def _too_soon_after_a_run(
    connection: DuckDBPyConnection, narrow: str, values: Sequence[str]
) -> tuple[list[Violation], Counter[str]]:
    """Receipts that know of no request before theirs, although another run had sent one. Only the date tells when."""
    narrow = f"{narrow} AND" if narrow else "WHERE"
    hasty = (
        "SELECT first.*, epoch(first.started_at) - epoch(before.started_at) AS shown_s "
        f"FROM (SELECT * FROM amble.requests {narrow} actual_gap_s IS NULL AND required_gap_s > {CLOCK_S}) AS first "
        "ASOF JOIN amble.requests AS before ON first.domain = before.domain AND first.started_at > before.started_at "
        f"WHERE first.session <> before.session AND shown_s < first.required_gap_s - {CLOCK_S}"
    )
    rows = connection.execute(
        f"SELECT domain, url, rule, started_at, required_gap_s, shown_s FROM ({hasty}) "
        f"ORDER BY shown_s - required_gap_s LIMIT {VIOLATIONS_MAX}",
        values,
    ).fetchall()
    found = [
        Violation(name, url, rule, f"{shown_s:.3f} s after the run before it instead of {required_s:.3f} s ({rule})",
                  at, required_s, shown_s)
        for name, url, rule, at, required_s, shown_s in rows
    ]  # fmt: skip
    return found, _counts(connection, hasty, values)


def _disagreeing(
    connection: DuckDBPyConnection, narrow: str, values: Sequence[str]
) -> tuple[list[Violation], Counter[str]]:
    """Receipts that state a longer gap than their own instants show. What other jobs sent can only shorten it."""
    lying = (
        "SELECT * FROM (SELECT *, started_s - lag(started_s) OVER "
        f"(PARTITION BY domain, session ORDER BY started_s) AS shown_s FROM amble.requests {narrow}) "
        f"WHERE shown_s < required_gap_s - {ROUNDING_S} "
        f"AND (actual_gap_s IS NULL OR actual_gap_s >= required_gap_s - {ROUNDING_S})"
    )
    rows = connection.execute(
        f"SELECT domain, url, started_at, required_gap_s, shown_s FROM ({lying}) "
        f"ORDER BY shown_s - required_gap_s LIMIT {VIOLATIONS_MAX}",
        values,
    ).fetchall()
    found = [
        Violation(name, url, "receipt", f"sent {shown_s:.3f} s after the request before it, not as its receipt states",
                  at, required_s, shown_s)
        for name, url, at, required_s, shown_s in rows
    ]  # fmt: skip
    return found, _counts(connection, lying, values)


def _counts(connection: DuckDBPyConnection, select: str, values: Sequence[str]) -> Counter[str]:
    return Counter(
        dict(connection.execute(f"SELECT domain, count(*) FROM ({select}) GROUP BY domain", values).fetchall())
    )


def _domains(
    connection: DuckDBPyConnection, narrow: str, values: Sequence[str], violations: Counter[str]
) -> list[DomainAudit]:
    rules: dict[str, dict[str, int]] = {}
    for name, rule, count in connection.execute(
        f"SELECT domain, rule, count(*) FROM amble.requests {narrow} GROUP BY domain, rule", values
    ).fetchall():
        rules.setdefault(name, {})[rule] = count
    rows = connection.execute(
        f"""
        SELECT domain, count(*), min(started_at), max(started_at), count(*) FILTER (status IN (429, 503)),
            max(in_flight), min(actual_gap_s), min(actual_gap_s - required_gap_s)
        FROM amble.requests {narrow} GROUP BY domain
        """,
        values,
    ).fetchall()
    return [
        DomainAudit(name, count, first, last, refusals, at_once, gap_s, margin_s, rules[name], violations[name])
        for name, count, first, last, refusals, at_once, gap_s, margin_s in rows
    ]


# What began this shortly after the last byte of the answer may have been on its way already: an answer is known when it
# has been read and judged, and other requests start meanwhile.
HEARD_S = 0.1
MOST_S = PacingSettings().max_retry_after  # kept where a job says nothing of it
CLOCK_S = 1.0  # between two runs only the wall clock tells, and it may be set right by as much


class ShutOut(NamedTuple):
    """A request that should have waited."""

    domain: str
    url: str
    at: datetime | None
    asked_s: float
    after_s: float  # how long after the answer it was sent

    @property
    def text(self) -> str:
        return f"sent {self.after_s:.3f} s after an answer that asked for {self.asked_s:g} s of silence (Retry-After)"


def shut_out(connection: DuckDBPyConnection, domain: str | None) -> list[ShutOut]:
    """Every such request, the worst first: once each, against the longest silence that it broke."""
    narrow, values = ("", []) if domain is None else ("WHERE domain = $1", [domain])
    rows = connection.execute(
        f"""
        WITH sent AS (
            SELECT *, epoch(started_at) AS utc_s FROM amble.requests {narrow}
        ), kept AS (
            SELECT id AS job_id, TRY((settings->>'max_retry_after')::DOUBLE) AS most_s FROM amble.jobs
        ), asked AS (
            SELECT domain, session, least(retry_after_s, coalesce(most_s, {MOST_S})) AS asked_s,
                started_s + coalesce(elapsed_s, 0) AS heard_s,
                utc_s + coalesce(elapsed_s, 0) AS heard_utc_s
            FROM sent LEFT JOIN kept USING (job_id) WHERE retry_after_s IS NOT NULL
        ), broken AS (
            SELECT domain, url, permit, session, started_at, asked_s, started_s - heard_s AS after_s
            FROM sent JOIN asked USING (domain, session)
            WHERE started_s - heard_s > {HEARD_S} AND started_s - heard_s < asked_s - {ROUNDING_S}
            UNION ALL
            SELECT sent.domain, url, permit, sent.session, started_at, asked_s, utc_s - heard_utc_s
            FROM sent JOIN asked ON sent.domain = asked.domain AND sent.session <> asked.session
            WHERE utc_s - heard_utc_s > {HEARD_S} AND utc_s - heard_utc_s < asked_s - {CLOCK_S}
        )
        SELECT domain, url, started_at, max(asked_s), arg_max(after_s, asked_s) FROM broken
        GROUP BY domain, url, permit, session, started_at ORDER BY max(asked_s - after_s) DESC, started_at
        """,
        values,
    ).fetchall()
    return [ShutOut(*row) for row in rows]


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
