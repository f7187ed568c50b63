"""What is held for the writer, in parcels, and when a transaction of it is due. Told the time; not safe for threads.

A transaction costs some milliseconds whatever it holds. So `batch_size` pages ask for one, but not again within
`pause_s`: a fast crawl stores what half a second brings, and a slow one the same hundred pages as ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from math import inf
from typing import NamedTuple

from amble.store.seam import Batch

_SMALL_ROWS_PER_PAGE = 25  # tasks and the like weigh less than a page
_LINKS_PER_PAGE = 250  # those of one page come packed
_PARCELS = 4  # to a full transaction; a parcel is never divided
_NEVER = float("-inf")


class WriterLimits(NamedTuple):
    """How much is gathered, held and retried."""

    batch_size: int = 100  # pages that ask for a transaction, as the setting of that name
    # Of bodies in a transaction, unless one page has more. With the rest of their rows they fill 8 MB of the log, which
    # DuckDB makes in memory that it doubles, copying all of it each time.
    batch_bytes_max: int = 7 * 1024 * 1024
    pause_s: float = 0.5  # from one transaction to the next that only `batch_size` asks for
    linger_s: float = 1.0  # longest that a batch waits for company
    soon_s: float = 0.05  # the same for what the next run must know, should this one end at any moment
    held_pages_max: int = 2_000  # beyond either, there is no room; a quarter of them asks for a transaction at once
    held_bytes_max: int = 64 * 1024 * 1024
    retry_s: float = 0.05  # after a fault; doubles up to ...
    retry_s_max: float = 5.0
    # Log length at which it is written into the file. About twice as much is held in memory; a longer log costs no
    # less, and a shorter one makes more, smaller row groups.
    wal_bytes_max: int = 32 * 1024 * 1024
    # Bodies that go into the file at once, and what share of it they have to be: DuckDB goes through all of it then.
    straight_bytes_min: int = 5 * 1024 * 1024
    straight_share_min: float = 1 / 30
    checkpoint_retry_s: float = 30.0
    memory_s_max: float = 60.0  # how long a want of memory is waited for: nobody frees it, as somebody may a disk
    close_s_max: float = 30.0  # how long `close` waits for a store that cannot be written

    def in_bulk(self) -> WriterLimits:
        """Where pages come from several processes: twice as much in half as many transactions, for some 30 MB more."""
        return self._replace(batch_bytes_max=2 * self.batch_bytes_max, held_pages_max=2 * self.held_pages_max)

    def goes_straight(self, body_bytes: int, wal_bytes: int, file_bytes: int) -> bool:
        """Whether a transaction need not be logged: it is long enough, or with it the log would be."""
        worth_bytes = max(self.straight_bytes_min, self.straight_share_min * file_bytes)
        return body_bytes >= worth_bytes or 0 < body_bytes >= self.wal_bytes_max - wal_bytes


class Parcel:
    """Batches that go into the same transaction, and one promise to all who handed them over."""

    __slots__ = ("batches", "body_bytes", "due_by", "future", "is_urgent", "pages", "since")

    def __init__(self, since: float) -> None:
        self.batches: list[Batch] = []
        self.pages = 0.0
        self.body_bytes = 0
        self.is_urgent = False
        self.due_by = inf
        self.since = since
        self.future: Future[None] = Future()
        self.future.set_running_or_notify_cancel()  # once handed over, a batch cannot be taken back


class Gathering:
    """What has been handed over and is not stored yet."""

    def __init__(self, limits: WriterLimits) -> None:
        self.limit(limits)
        self.is_closing = False
        self._parcels: deque[Parcel] = deque()
        self._pages = self._taken_pages = 0.0
        self._bytes = self._taken_bytes = 0
        self._is_urgent = False
        self._due_by = inf  # of what is wanted soon
        self._last_at = _NEVER  # when a transaction was last begun

    def limit(self, limits: WriterLimits) -> None:
        """From now on so much is gathered and held."""
        self.limits = limits
        # In a transaction, and waiting for one: as many again, twice over, may come while it is written.
        self._pages_most = limits.held_pages_max / 4
        self._parcel_pages = min(limits.batch_size, self._pages_most / _PARCELS)
        self._parcel_bytes = limits.batch_bytes_max / _PARCELS

    def add(self, batch: Batch, now: float, *, urgent: bool = False, soon: bool = False) -> tuple[Parcel, bool]:
        """The parcel that takes a batch, and whether the writer should look again when it is due."""
        parcel = self._parcels[-1] if self._parcels else None
        is_news = parcel is None
        if parcel is None or parcel.pages >= self._parcel_pages or parcel.body_bytes >= self._parcel_bytes:
            parcel = Parcel(now)
            self._parcels.append(parcel)
        pages, body_bytes = _weight(batch)
        had_enough = self._pages >= self.limits.batch_size
        parcel.batches.append(batch)
        parcel.pages += pages
        parcel.body_bytes += body_bytes
        self._pages += pages
        self._bytes += body_bytes
        if urgent:
            parcel.is_urgent = self._is_urgent = True
        if soon and now + self.limits.soon_s < self._due_by:
            self._due_by = parcel.due_by = now + self.limits.soon_s
            is_news = True
        has_enough = not had_enough and self._pages >= self.limits.batch_size
        return parcel, is_news or has_enough or self._is_pressing()

    def due_at(self) -> float | None:
        """When the next transaction is to begin, on the clock of `add`; None: not before something is handed over."""
        if self._is_pressing():
            return _NEVER
        if not self._parcels:
            return None
        due_at = min(self._parcels[0].since + self.limits.linger_s, self._due_by)
        return min(due_at, self._last_at + self.limits.pause_s) if self._pages >= self.limits.batch_size else due_at

    def take(self, now: float) -> list[Parcel]:
        """Those of the next transaction. They stay held until they are released."""
        limits, taken = self.limits, list[Parcel]()
        pages, body_bytes = 0.0, 0
        while self._parcels and pages < self._pages_most and body_bytes < limits.batch_bytes_max:
            parcel = self._parcels.popleft()
            taken.append(parcel)
            pages += parcel.pages
            body_bytes += parcel.body_bytes
        self._pages -= pages
        self._bytes -= body_bytes
        self._taken_pages += pages
        self._taken_bytes += body_bytes
        self._is_urgent = any(parcel.is_urgent for parcel in self._parcels)
        self._due_by = min((parcel.due_by for parcel in self._parcels), default=inf)
        self._last_at = now
        return taken

    def take_rest(self) -> list[Parcel]:
        """Everything, when there will be no further transaction."""
        taken = list(self._parcels)
        self._parcels.clear()
        self._taken_pages, self._taken_bytes = self._taken_pages + self._pages, self._taken_bytes + self._bytes
        self._pages, self._bytes = 0.0, 0
        return taken

    def release(self, parcels: Iterable[Parcel]) -> None:
        """These are stored, or given up."""
        for parcel in parcels:
            self._taken_pages -= parcel.pages
            self._taken_bytes -= parcel.body_bytes

    @property
    def has_room(self) -> bool:
        return (
            self._pages + self._taken_pages < self.limits.held_pages_max
            and self._bytes + self._taken_bytes < self.limits.held_bytes_max
        )

    def _is_pressing(self) -> bool:
        return (
            self._is_urgent
            or self.is_closing
            or self._pages >= self._pages_most
            or self._bytes >= self.limits.batch_bytes_max
        )


def _weight(batch: Batch) -> tuple[float, int]:
    """How much of a transaction a batch fills: in pages, and in bytes of bodies. Loops, as each has a round or none."""
    pages, done, discovered, domains, _, requests, page_links, listings, *_ = batch
    small = len(discovered) + len(requests)
    packed = body_bytes = 0
    for listing in listings:
        small += len(listing.entries)
    for page_link in page_links:
        packed += page_link.links_count
    for page in pages:
        if page.body:
            body_bytes += len(page.body)
    weight = max(len(pages), len(done), len(domains)) + small / _SMALL_ROWS_PER_PAGE + packed / _LINKS_PER_PAGE
    return weight, body_bytes
