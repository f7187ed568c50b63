"""How decisions of the plan become rows of the store."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol

from amble.core.frontier.changes import Changes, Final, Keeps, Listing, Ready, State
from amble.core.frontier.recall import Leads
from amble.core.frontier.visit import FoundBy, Kind, Visit
from amble.core.pacing.events import BlockClosed, BlockOpened
from amble.core.pacing.learned import Learned, learn, worth_keeping
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Source
from amble.core.page.lines import CANONICAL, REFRESH, link_lines
from amble.core.page.links import Link
from amble.core.retry_after import HONOURED_ON, http_date, retry_after_s
from amble.core.surt import surt_key
from amble.core.urls import domain_of
from amble.fetcher import FetchResult
from amble.store.seam import (
    DomainRow,
    LinkRow,
    PageConfirmed,
    PageLinks,
    PageRow,
    RedirectRow,
    RequestRow,
    SitemapListing,
    TaskDone,
    TaskRow,
    TaskState,
)

LONGEST_GAP_S = 3_600.0  # no crawl delay that is kept is longer
CLOCK_TRUST = timedelta(minutes=15)  # a server's clock further off than this is not used


class Paces(Protocol):
    """The domains of a crawl; see `amble.core.pacing.registry.Registry`."""

    def find(self, domain: str) -> Pace | None: ...


_STATES = {
    State.DONE: TaskState.DONE,
    State.FAILED: TaskState.FAILED,
    State.SKIPPED: TaskState.SKIPPED,
    State.DEFERRED: TaskState.DEFERRED,
}
# The text of enum members, and members by a plain name: asking them and their class takes several times as long, and
# rows are made for every request.
_NAMES: dict[Enum, str] = {member: member.value for kind in (FoundBy, Source) for member in kind}
_ALL, _DONE = Keeps.ALL, State.DONE


def task_row(visit: Visit, job_id: int, state: TaskState = TaskState.RUNNING) -> TaskRow:
    """A URL that the crawl has just accepted: it holds it, or leaves it to the store."""
    url, found_by = visit.task, _NAMES[visit.found_by]
    return TaskRow(job_id, url, domain_of(url), state, visit.depth, 0, visit.parent, found_by, visit.priority)


def visit_of(row: TaskRow) -> Visit:
    """A task taken up again."""
    return Visit(
        row.url,
        Kind.PAGE,
        depth=row.depth,
        parent=row.parent_url,
        found_by=FoundBy(row.discovered_by or "seed"),
        priority=row.priority,
        task=row.url,
        found_on=domain_of(row.parent_url) if row.parent_url else None,
        etag=row.etag,
        last_modified=row.last_modified,
    )


def task_done(final: Final, job_id: int) -> TaskDone:
    failure = final.failure.value if final.failure else None
    return TaskDone(job_id, final.visit.task, _STATES[final.state], final.visit.attempt, failure)


def page_row(final: Final, job_id: int, utc: datetime, *, store_body: bool) -> PageRow:
    """The one row of a URL. By position, as one is made for every page: names would take three times as long."""
    visit, failure = final.visit, final.failure
    url, fetched = visit.task, final.fetched
    status = content_type = etag = last_modified = elapsed_ms = None
    if isinstance(fetched, FetchResult):
        get = fetched.headers.get
        status, elapsed_ms = fetched.status, fetched.elapsed_s * 1000
        content_type, etag, last_modified = fetched.headers.get_last("content-type"), get("etag"), get("last-modified")
        crawl_time = _crawl_time(fetched, utc)
    else:
        crawl_time = utc
    body = digest = title = description = canonical = directives = None
    page = final.page
    if page is not None:
        body = page.text if store_body and final.keeps is _ALL else None
        digest, title, description = page.digest, page.title, page.description
        canonical = page.canonical.url if page.canonical else None
        directives = ", ".join(sorted(said)) if (said := page.robots.restrictions) else None
    final_url, redirects, move = visit.url, 0, final.move
    if move is not None and move.final_url is not None:
        final_url, redirects = move.final_url, move.redirects
    error, error_type = ((final.reason or str(failure)), failure.value) if failure else (None, None)
    return PageRow(
        url, surt_key(url), status, body, content_type, crawl_time, error, error_type, etag, last_modified,
        digest, final_url, redirects, domain_of(url), elapsed_ms, visit.depth, visit.parent,
        _NAMES[visit.found_by], title, description, canonical, directives, visit.attempt, job_id,
    )  # fmt: skip


def redirect_row(final: Final, job_id: int, utc: datetime) -> RedirectRow | None:
    """One hop of a chain."""
    move, fetched = final.move, final.fetched
    if move is None or fetched is None:
        return None
    return RedirectRow(job_id, final.visit.task, move.target, fetched.status, move.order, utc)


def page_confirmed(final: Final, job_id: int, utc: datetime) -> PageConfirmed:
    """A page that has not changed: a new date for the row that is there."""
    fetched = final.fetched if isinstance(final.fetched, FetchResult) else None
    return PageConfirmed(
        job_id,
        final.visit.task,
        _crawl_time(fetched, utc),
        etag=fetched.headers.get("etag") if fetched else None,
        last_modified=fetched.headers.get("last-modified") if fetched else None,
        elapsed_ms=fetched.elapsed_s * 1000 if fetched else None,
        attempts=final.visit.attempt,
    )


def page_links(final: Final, job_id: int) -> PageLinks | None:
    """Where a page leads, as it has it: its links, and as if they were some, its canonical URL and its refresh."""
    page = final.page
    if page is None or final.state is not _DONE:
        return None
    return PageLinks(job_id, final.visit.task, *(page.lines or link_lines(page.links, page.canonical, page.refresh)))


def listing(read: Listing, job_id: int, utc: datetime) -> SitemapListing:
    return SitemapListing(job_id, read.sitemap, utc, read.entries, read.is_index, read.failure)


def leads_of(links: Iterable[LinkRow], directives: str | None) -> Leads:
    """The same, read back."""
    plain: list[Link] = []
    named: dict[str, str] = {}
    for link in links:
        if link.rel in (CANONICAL, REFRESH):
            named[link.rel] = link.to_url
        else:
            plain.append(Link(link.to_url, link.anchor or "", tuple(link.rel.split()) if link.rel else ()))
    said = set((directives or "").split(", "))
    return Leads(plain, named.get(CANONICAL), named.get(REFRESH), bool(said & {"nofollow", "none"}))


def request_row(ready: Ready, result: FetchResult, job_id: int, session: int, now: float, utc: datetime) -> RequestRow:
    """The receipt of a request: which gap was required, by which rule, which gap there was, how many were under way."""
    visit, permit = ready
    url, sent_at, status, elapsed_s = visit.url, permit.sent_at, result.status, result.elapsed_s
    # Whoever overtook the request before it, while that was connecting, came at the same time at the earliest.
    gap_s = max(0.0, sent_at - permit.previous_at)
    return RequestRow(
        job_id, session, permit.domain, url, permit.seq,
        sent_at,  # reserved, and
        sent_at,  # started
        utc - timedelta(seconds=elapsed_s),
        permit.gap_s, gap_s if math.isfinite(gap_s) else None, _NAMES[permit.source], permit.in_flight,
        status, result.failure.value if result.failure else None, elapsed_s,
        _asked_s(result, utc) if status in HONOURED_ON else None,
        visit.why_sent, permit.at_once_max, now,
    )  # fmt: skip


def _asked_s(result: FetchResult, utc: datetime) -> float | None:
    said = result.headers.get_all("retry-after")
    return retry_after_s(said, date=result.date, utc=utc) if said else None


def domain_row(pace: Pace, learned: Learned | None, utc: datetime, now: float) -> DomainRow:
    """What is remembered of a domain: what was counted in this run, and what was learned, if anything was."""
    trouble = pace.troubles

    def at(instant: float | None) -> datetime | None:
        return utc - timedelta(seconds=now - instant) if instant is not None and math.isfinite(instant) else None

    row = DomainRow(
        pace.domain,
        crawl_delay_seconds=pace.crawl_delay_s,
        concurrency=pace.parallel,
        last_request_at=at(pace.last_start),
        last_success_at=at(pace.last_success),
        last_limited_at=at(trouble.limited_at),
        requests=pace.seq,
        successes=pace.successes,
        limited=trouble.limited,
        failures=trouble.failures,
        last_reserved_at=utc,
    )
    return row if learned is None else _with(row, learned)


def evicted_row(learned: Learned, utc: datetime) -> DomainRow:
    """Of a domain that memory was made of, and whose counts went with it."""
    return _with(DomainRow(learned.domain, last_reserved_at=utc), learned)


def _with(row: DomainRow, learned: Learned) -> DomainRow:
    return row._replace(
        adaptive_delay_seconds=learned.adaptive_delay_seconds,
        adaptive_delay_floor_seconds=learned.adaptive_delay_floor_seconds,
        learned_at=learned.learned_at,
        strategy=learned.strategy,
        numbers=dict(learned.numbers),
        blocked_until_at=learned.blocked_until_at,
    )


def domain_as_it_stands(pace: Pace, now: float, utc: datetime) -> DomainRow:
    """With what this run has learned of it; if that is nothing, the store keeps what earlier runs have."""
    return domain_row(pace, learn(pace, now, utc) if worth_keeping(pace, now) else None, utc, now)


def limits_met(registry: Paces, changes: Changes, ready: Ready | None, now: float, utc: datetime) -> list[DomainRow]:
    """What was just learned of domains that refused us, asked us to wait, or answer again."""
    asked = None if ready is None else registry.find(ready.permit.domain)
    blocked = asked is not None and asked.blocked_until > now  # also where a Retry-After came with a page
    if not blocked and not changes.events:
        return []
    domains = {event.domain for event in changes.events if isinstance(event, BlockOpened | BlockClosed)}
    if asked is not None and blocked:
        domains.add(asked.domain)
    paces = [pace for pace in map(registry.find, sorted(domains)) if pace is not None and worth_keeping(pace, now)]
    return [domain_as_it_stands(pace, now, utc) for pace in paces]


def last_starts(domains: Iterable[DomainRow], now: float, utc: datetime) -> dict[str, float]:
    """When each domain may last have been asked, on the clock of this run; what no delay reaches back to is left out.

    A row is dated by its writing, which comes after the request: the silence it makes is never too short.
    """
    ages = ((row.domain, (utc - row.last_reserved_at).total_seconds()) for row in domains if row.last_reserved_at)
    return {domain: now - max(0.0, age_s) for domain, age_s in ages if age_s < LONGEST_GAP_S}


def learned_of(row: DomainRow) -> Learned | None:
    """What an earlier run learned, if it learned anything."""
    if row.strategy is None or row.learned_at is None or row.adaptive_delay_seconds is None:
        return None
    return Learned(
        row.domain,
        row.strategy,
        row.adaptive_delay_seconds,
        row.adaptive_delay_floor_seconds or 0.0,
        row.learned_at,
        dict(row.numbers),
        row.blocked_until_at,
    )


def _crawl_time(fetched: FetchResult | None, utc: datetime) -> datetime:
    """The server's own clock where it is close to ours."""
    said = http_date(fetched.date) if fetched and fetched.date else None
    return said if said is not None and abs(said - utc) <= CLOCK_TRUST else utc
