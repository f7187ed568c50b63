"""How a batch becomes rows of tables: numbered, packed into lines where many go together, every field storable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from amble.core.robots.verdict import RobotsRow
from amble.store import storable
from amble.store.seam import (
    Batch,
    ChainEndRow,
    DomainRow,
    JobChange,
    JobRow,
    PageConfirmed,
    PageLinks,
    PageRow,
    RedirectRow,
    Rejection,
    RequestRow,
    SitemapListing,
    TaskDone,
    TaskRow,
    TaskState,
)

BUNDLE_TASKS_MAX = 64  # longer lines would be compressed in larger pieces, and read slower
Row = tuple[Any, ...]


class Bundle(NamedTuple):
    """Tasks that were found together; `lines` of them stand in one row."""

    number: int
    job_id: int
    domain: str
    state: TaskState
    depth: int
    priority: float
    tasks: int


@dataclass(slots=True)
class Numbers:
    """The next number of everything that counts up. One writer, so they need no sequence in the database."""

    bundle: int = 1
    seq: int = 1
    commit: int = 1

    def take_seq(self) -> int:
        self.seq += 1
        return self.seq - 1


@dataclass(slots=True)
class Encoded:
    """One transaction, ready to be written and, if that fails, to be written again the same."""

    commit_no: int
    pages: dict[int, dict[str, PageRow]] = field(default_factory=dict)  # by job, then URL: the last one counts
    confirmed: list[PageConfirmed] = field(default_factory=list)
    chain_ends: list[ChainEndRow] = field(default_factory=list)  # of rows that earlier transactions wrote
    read_only: dict[int, set[str]] = field(default_factory=dict)  # by job: see `Batch`
    jobs: list[JobChange] = field(default_factory=list)
    tables: dict[str, list[Row]] = field(default_factory=dict)
    bundles: list[Bundle] = field(default_factory=list)
    done: list[TaskDone] = field(default_factory=list)
    page_count: int = 0
    rejections: list[Rejection] = field(default_factory=list)


def encode(batches: Sequence[Batch], numbers: Numbers) -> Encoded:
    """Several batches as one transaction."""
    encoded = Encoded(numbers.commit)
    numbers.commit += 1
    for batch in batches:
        for page in batch.pages:
            encoded.pages.setdefault(page.job_id, {})[page.url] = page
        encoded.page_count += len(batch.pages)
        if batch.read_only:
            encoded.read_only.setdefault(batch.pages[0].job_id, set()).update(batch.read_only)
        encoded.confirmed += batch.confirmed
        for end in batch.chain_ends:
            _end_chain(end, encoded)
        encoded.jobs += (job for job in batch.jobs if isinstance(job, JobChange))
        encoded.done += batch.done
    seq = numbers.take_seq
    for name, rows in (
        ("jobs", (job_row(job) for batch in batches for job in batch.jobs if isinstance(job, JobRow))),
        ("found", _found((task for batch in batches for task in batch.discovered), numbers, encoded.bundles)),
        ("settled", (settled_row(done, seq()) for done in encoded.done)),
        ("domain_log", (domain_row(row, seq()) for batch in batches for row in batch.domains)),
        ("robots_log", (robots_row(row, seq()) for batch in batches for row in batch.robots)),
        ("sitemap_urls", (row for batch in batches for listing in batch.listings for row in sitemap_rows(listing))),
        ("bare_sitemaps", _bare_rows(batches)),
        ("requests", (request_row(row) for batch in batches for row in batch.requests)),
        ("redirects", (redirect_row(row) for batch in batches for row in batch.redirects)),
        (
            "link_lines",
            (page_links_row(page, seq()) for batch in batches for page in batch.page_links if page.links_count),
        ),
    ):
        if listed := list(rows):
            encoded.tables.setdefault(name, []).extend(listed)
    return encoded


def _end_chain(end: ChainEndRow, encoded: Encoded) -> None:
    pages = encoded.pages.get(end.job_id, {})
    page = pages.get(end.url)
    if page is None:
        encoded.chain_ends.append(end)
    else:
        pages[end.url] = page._replace(final_url=end.final_url, redirect_count=end.redirect_count)


def redirect_row(row: RedirectRow) -> Row:
    return (
        row.job_id, storable.text(row.from_url), storable.text(row.to_url), storable.int32(row.status),
        storable.int32(row.hop), storable.utc(row.crawled_at),
    )  # fmt: skip


def _found(tasks: Iterable[TaskRow], numbers: Numbers, bundles: list[Bundle]) -> Iterator[Row]:
    groups: dict[tuple[Any, ...], list[str]] = {}
    last: tuple[Any, ...] | None = None
    lines: list[str] = []
    for task in tasks:
        key = (task.job_id, *task[2:11])  # all but the URL and its validators
        if key != last:  # the links of a page come together
            last = key
            lines = groups.setdefault(key, [])
        line = storable.line_part(task.url)
        if task.etag or task.last_modified:
            line += f"\t{storable.validator(task.etag) or ''}\t{storable.validator(task.last_modified) or ''}"
        lines.append(line)
    for key, lines in groups.items():
        job_id, domain, state, depth, attempts, parent_url, found_by, priority, run_at, error_type = key
        kept = TaskState.WAITING if state is TaskState.RUNNING else state
        for at in range(0, len(lines), BUNDLE_TASKS_MAX):
            part = lines[at : at + BUNDLE_TASKS_MAX]
            bundles.append(Bundle(numbers.bundle, job_id, domain, state, depth, priority, len(part)))
            yield (
                numbers.bundle, job_id, storable.text(domain), str(kept), storable.int32(depth),
                storable.int32(attempts), storable.text(parent_url), storable.text(found_by), priority,
                storable.utc(run_at), storable.text(error_type), len(part), "\n".join(part),
            )  # fmt: skip
            numbers.bundle += 1


def _bare_rows(batches: Sequence[Batch]) -> Iterator[Row]:
    for batch in batches:
        for listing in batch.listings:
            if not listing.entries:
                yield (
                    storable.text(listing.sitemap), storable.text(listing.failure), storable.utc(listing.fetched_at),
                    listing.job_id,
                )  # fmt: skip


def page_links_row(page: PageLinks, seq: int) -> Row:
    return seq, page.job_id, storable.text(page.from_url), page.links_count, page.lines


def job_row(row: JobRow) -> Row:
    utc = storable.utc
    return (
        row.id, str(row.status), storable.json_text(row.settings), storable.json_text(list(row.seeds)), row.target,
        utc(row.created_at), utc(row.started_at), utc(row.finished_at), storable.json_text(row.counters),
        storable.text(row.error),
    )  # fmt: skip


def settled_row(done: TaskDone, seq: int) -> Row:
    state = TaskState.WAITING if done.state is TaskState.RUNNING else done.state
    return (
        seq, done.job_id, storable.line_part(done.url), str(state), storable.int32(done.attempts),
        storable.text(done.error_type),
    )  # fmt: skip


def domain_row(row: DomainRow, seq: int) -> Row:
    utc = storable.utc
    return (
        seq, storable.text(row.domain), row.crawl_delay_seconds, row.adaptive_delay_seconds,
        row.adaptive_delay_floor_seconds, storable.int32(row.concurrency), utc(row.last_request_at),
        utc(row.last_success_at), utc(row.last_limited_at), utc(row.learned_at), row.requests, row.successes,
        row.limited, row.failures, storable.text(row.strategy), storable.json_text(row.numbers),
        utc(row.blocked_until_at), utc(row.last_reserved_at),
    )  # fmt: skip


def robots_row(row: RobotsRow, seq: int) -> Row:
    return (
        seq, storable.text(row.origin), row.status, row.body, storable.validator(row.etag),
        storable.validator(row.last_modified), storable.text(row.served_by), storable.utc(row.fetched_at),
    )  # fmt: skip


def sitemap_rows(listing: SitemapListing) -> Iterator[Row]:
    text, utc = storable.text, storable.utc
    sitemap, fetched_at = text(listing.sitemap), utc(listing.fetched_at)
    kind = "sitemap" if listing.is_index else None
    for url, lastmod, changefreq, priority in listing.entries:
        yield (text(url), sitemap, utc(lastmod), text(changefreq), priority, fetched_at, listing.job_id, kind)


def request_row(row: RequestRow) -> Row:
    return (
        row.job_id, row.session, storable.text(row.domain), storable.text(row.url), row.permit, row.reserved_s,
        row.started_s, storable.utc(row.started_at), row.required_gap_s, row.actual_gap_s, storable.text(row.rule),
        storable.int32(row.in_flight), storable.int32(row.status), storable.text(row.outcome), row.elapsed_s,
        row.retry_after_s, row.why_sent, row.at_once_max, row.ended_s,
    )  # fmt: skip
