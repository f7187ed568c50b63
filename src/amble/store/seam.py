"""What a crawl asks of its store: rows in, one transaction per batch; tasks, knowledge and counts out.

The engine knows this file and nothing else of the store. The embedded store (DuckDB) and the shared one (PostgreSQL)
stand behind it. Times are aware and in UTC; `_s` is seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from amble.core.robots.verdict import RobotsRow
from amble.core.seen import SeenSet
from amble.core.sitemap.document import SitemapEntry


class TaskState(StrEnum):
    """Where one URL of a job stands. `RUNNING` means that a crawling process holds it; it is never on disk."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    DEFERRED = "deferred"


FINAL = frozenset({TaskState.DONE, TaskState.FAILED, TaskState.SKIPPED})


class JobStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    COMPLETED_WITH_ERRORS = "completed_with_errors"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DEFERRED = "deferred"


UNFINISHED = frozenset({JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.PAUSED, JobStatus.DEFERRED})


class PageRow(NamedTuple):
    """One row of the target table, in the order of its columns. Every accepted URL ends as exactly one of these."""

    url: str
    surt_key: str | None = None
    http_status: int | None = None
    body: str | None = None
    content_type: str | None = None
    crawl_time: datetime | None = None
    error: str | None = None
    error_type: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    content_hash: str | None = None
    final_url: str | None = None
    redirect_count: int = 0
    domain: str | None = None
    elapsed_ms: float | None = None
    depth: int = 0
    parent_url: str | None = None
    discovered_by: str | None = None
    title: str | None = None
    description: str | None = None
    canonical_url: str | None = None
    directives: str | None = None
    attempts: int = 1
    job_id: int = 0


class PageConfirmed(NamedTuple):
    """A page that the server says has not changed (304): its row keeps what it holds and gets a new date."""

    job_id: int
    url: str
    crawl_time: datetime
    etag: str | None = None  # None: as stored
    last_modified: str | None = None
    elapsed_ms: float | None = None
    attempts: int = 1


class TaskRow(NamedTuple):
    """One URL of a job, as it was found.

    Among `Batch.discovered`, `WAITING` leaves the task to the store, to be claimed later; `RUNNING` says that the
    frontier already holds it; a final state records a URL that was refused when it was found.
    """

    job_id: int
    url: str
    domain: str
    state: TaskState = TaskState.WAITING
    depth: int = 0
    attempts: int = 0
    parent_url: str | None = None
    discovered_by: str | None = None
    priority: float = 0.5  # higher comes first among equals in depth
    run_at: datetime | None = None
    error_type: str | None = None
    etag: str | None = None
    last_modified: str | None = None


class TaskDone(NamedTuple):
    """What became of a task that the frontier held. `WAITING`: it was tried, and the frontier goes on with it."""

    job_id: int
    url: str
    state: TaskState
    attempts: int = 1
    error_type: str | None = None


class DomainRow(NamedTuple):
    """What is remembered of a domain between runs."""

    domain: str
    crawl_delay_seconds: float | None = None
    adaptive_delay_seconds: float | None = None
    adaptive_delay_floor_seconds: float | None = None
    concurrency: int | None = None
    last_request_at: datetime | None = None
    last_success_at: datetime | None = None
    last_limited_at: datetime | None = None
    learned_at: datetime | None = None
    requests: int = 0
    successes: int = 0
    limited: int = 0
    failures: int = 0
    strategy: str | None = None
    numbers: Mapping[str, float] = {}  # the strategy's own
    blocked_until_at: datetime | None = None
    last_reserved_at: datetime | None = None


class SitemapUrlRow(NamedTuple):
    """One URL that a sitemap lists."""

    url: str
    sitemap: str
    lastmod: datetime | None = None
    changefreq: str | None = None
    priority: float | None = None
    fetched_at: datetime | None = None
    job_id: int = 0
    kind: str | None = None  # "sitemap": listed by an index, and no page


class SitemapListing(NamedTuple):
    """Everything that one sitemap lists: entries as they were read, which become rows only when they are written."""

    job_id: int
    sitemap: str
    fetched_at: datetime
    entries: Sequence[SitemapEntry]
    is_index: bool = False
    failure: str | None = None  # why there is none


class BareSitemap(NamedTuple):
    """A sitemap that lists nothing."""

    sitemap: str
    failure: str | None  # why there is none; None: it was read
    fetched_at: datetime | None
    job_id: int = 0


class RequestRow(NamedTuple):
    """The receipt of one request: what gap was required before it, by which rule, and what gap there was.

    `reserved_s` and `started_s` are monotonic seconds of one session of a process, so they compare within it only.
    """

    job_id: int
    session: int
    domain: str
    url: str
    permit: int
    reserved_s: float
    started_s: float
    started_at: datetime
    required_gap_s: float
    actual_gap_s: float | None  # None: the first of the session
    rule: str
    in_flight: int = 1
    status: int | None = None
    outcome: str | None = None
    elapsed_s: float | None = None
    retry_after_s: float | None = None  # how long the answer asked us to stay away
    why_sent: str | None = None  # where the request was not made for its own sake alone
    at_once_max: int | None = None  # how many might be under way when it was sent, itself included
    ended_s: float | None = None  # when it was over, on the clock of `started_s`


class LinkRow(NamedTuple):
    """One link of a page, as it is read back."""

    to_url: str
    rel: str | None = None
    anchor: str | None = None


class PageLinks(NamedTuple):
    """All links of a page, as lines; see `amble.core.page.lines`."""

    job_id: int
    from_url: str
    links_count: int
    lines: str


class RedirectRow(NamedTuple):
    """One hop: a URL that answered with a redirect, and where to."""

    job_id: int
    from_url: str
    to_url: str | None
    status: int | None
    hop: int  # its place in the chain as it was followed, from 1
    crawled_at: datetime


class ChainEndRow(NamedTuple):
    """Where the redirects of a URL ended, once that is known: for the row that is there."""

    job_id: int
    url: str
    final_url: str
    redirect_count: int


class JobRow(NamedTuple):
    id: int
    status: JobStatus
    settings: Mapping[str, object] = {}
    seeds: tuple[str, ...] = ()
    target: str = "pages"
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    counters: Mapping[str, int] = {}
    error: str | None = None


class JobChange(NamedTuple):
    """A job's new status. What is None stays as it is; an empty error is none."""

    job_id: int
    status: JobStatus
    at: datetime
    error: str | None = None
    counters: Mapping[str, int] | None = None
    settings: Mapping[str, object] | None = None


class Rejection(NamedTuple):
    """A row that could not be stored and was set apart, in amble.rejected."""

    table: str
    job_id: int | None  # None: it does not say of which
    reason: str


class Batch(NamedTuple):
    """What belongs together: stored in one transaction, all of it or nothing."""

    pages: Sequence[PageRow] = ()
    done: Sequence[TaskDone] = ()
    discovered: Sequence[TaskRow] = ()
    domains: Sequence[DomainRow] = ()
    robots: Sequence[RobotsRow] = ()
    requests: Sequence[RequestRow] = ()
    page_links: Sequence[PageLinks] = ()
    listings: Sequence[SitemapListing] = ()
    confirmed: Sequence[PageConfirmed] = ()
    redirects: Sequence[RedirectRow] = ()
    chain_ends: Sequence[ChainEndRow] = ()
    read_only: Sequence[str] = ()  # URLs whose body is there for EXTRACT, and is not kept
    jobs: Sequence[JobRow | JobChange] = ()


class Counts(NamedTuple):
    """How many of a job's tasks stand where. `accepted` is their sum, at any time."""

    waiting: int = 0
    running: int = 0
    deferred: int = 0
    done: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def accepted(self) -> int:
        return sum(self)

    @property
    def final(self) -> int:
        return self.done + self.failed + self.skipped


class KnownPage(NamedTuple):
    """What the target table says about a URL crawled before."""

    url: str
    http_status: int | None
    crawl_time: datetime | None
    error_type: str | None
    etag: str | None
    last_modified: str | None
    content_hash: str | None
    final_url: str | None = None
    directives: str | None = None


class StoreState(NamedTuple):
    """Whether rows get through. While paused, nothing is lost and nothing new should be fetched."""

    paused: bool = False
    reason: str = ""
    lacks: str = "the disk"  # what it waits for; or "memory", or "the table"


class Store(Protocol):
    """Every method may be called from any thread. Those that read may wait for a disk: not on an event loop."""

    # -- jobs
    def create_job(
        self, target: str, settings: Mapping[str, object], seeds: Sequence[str], created_at: datetime
    ) -> JobRow: ...
    def set_job_state(self, change: JobChange) -> Future[None]: ...
    def jobs(self) -> list[JobRow]: ...
    def resume(self, job_id: int) -> Counts:
        """Everything of a job that is not final waits again. For a job that nobody is crawling."""

    # -- tasks
    def claim(
        self, job_id: int, n: int, *, per_domain: int | None = None, domains: Collection[str] | None = None
    ) -> list[TaskRow]:
        """Up to `n` waiting tasks, at most `per_domain` of each domain, which are then running."""

    def waiting(self, job_id: int) -> dict[str, int]:
        """The domains that have tasks to claim, and how many."""

    def counts(self, job_id: int) -> Counts: ...
    def seen(self, job_id: int) -> SeenSet:
        """Every URL that the job has accepted."""

    def stored(self, job_id: int) -> SeenSet:
        """Every URL that the job's table holds a success of."""

    def accepted_by_domain(self, job_id: int) -> dict[str, int]: ...
    def spent(self, job_id: int) -> int:
        """How many tasks were asked for or will be: all but those that the job's table holds a page of."""

    # -- writing
    def submit(self, batch: Batch, *, urgent: bool = False, soon: bool = False) -> Future[None]:
        """Hand over a batch; done when it is on disk. Never waits: ask `has_room` before fetching more. What is urgent
        is written at once; what is wanted soon within a moment, with what else comes in it."""

    def flush(self) -> Future[None]:
        """Done when everything handed over before is on disk."""

    @property
    def has_room(self) -> bool: ...
    def room(self) -> Future[None]:
        """Done when there is room; at once, if there is."""

    @property
    def state(self) -> StoreState: ...
    def close(self) -> None: ...

    # -- knowledge
    def load_domains(self, keys: Iterable[str] | None = None) -> list[DomainRow]: ...
    def domains_in_parts(self) -> Iterator[list[DomainRow]]:
        """All of them, some at a time: there may be millions."""

    def asked_in_parts(self, since: datetime) -> Iterator[list[DomainRow]]:
        """The domains that were asked since then, by the receipts: rows that say until when, and nothing else."""

    def load_robots(self, origins: Iterable[str] | None = None) -> list[RobotsRow]: ...
    def load_sitemap_urls(self, sitemap: str) -> list[SitemapUrlRow]: ...
    def bare_sitemap(self, sitemap: str) -> BareSitemap | None:
        """When it was last found to list nothing."""

    def sitemaps_read(self, since: datetime) -> set[str]:
        """The sitemaps that were asked for since then, and what they list is known, if it is nothing."""

    def listed(self, urls: Sequence[str]) -> dict[str, SitemapUrlRow]:
        """What a sitemap last said about these pages."""

    def known_pages(self, job_id: int, urls: Sequence[str]) -> dict[str, KnownPage]: ...
    def links_of(self, urls: Sequence[str]) -> dict[str, list[LinkRow]]: ...
