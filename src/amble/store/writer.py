"""When batches are written: one thread, several batches to a transaction, acknowledged only after the commit.

    submitted -> gathered (enough rows, or long enough) -> committed -> acknowledged
                                  \\-> unavailable: kept, paused, tried again until it works

Nothing here waits for a caller or makes one wait: whoever fetches asks `has_room` first.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from amble.errors import StoreError
from amble.store.commit import Committer, Unavailable
from amble.store.database import Database
from amble.store.rows import Encoded, Numbers, encode
from amble.store.seam import Batch, StoreState

_SMALL_ROWS_PER_PAGE = 100  # links and the like weigh less than a page


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """How much is gathered, held and retried."""

    batch_size: int = 100  # pages to a transaction, as the setting of that name; three hundred cost a sixth less each
    batch_bytes_max: int = 8 * 1024 * 1024  # of bodies in a transaction, unless one page has more
    linger_s: float = 1.0  # longest that a batch waits for company
    held_pages_max: int = 1_000  # beyond either, there is no room
    held_bytes_max: int = 64 * 1024 * 1024
    retry_s: float = 0.05  # after a fault; doubles up to ...
    retry_s_max: float = 5.0
    # Log length at which it is written into the file. About twice as much is held in memory; a longer log costs no
    # less, and a shorter one makes more, smaller row groups.
    wal_bytes_max: int = 32 * 1024 * 1024
    checkpoint_retry_s: float = 30.0
    close_s_max: float = 30.0  # how long `close` waits for a store that cannot be written


class _Item(NamedTuple):
    batch: Batch
    future: Future[None]
    pages: float
    body_bytes: int
    urgent: bool
    submitted_at: float


class Writer:
    def __init__(
        self,
        database: Database,
        committer: Committer,
        numbers: Numbers,
        on_commit: Callable[[Encoded], None],
        on_state: Callable[[StoreState], None],
        limits: WriterLimits,
    ) -> None:
        self.limits = limits
        self.state = StoreState()
        self._database = database
        self._committer = committer
        self._numbers = numbers
        self._on_commit = on_commit
        self._on_state = on_state
        self._items: deque[_Item] = deque()
        self._in_hand: list[_Item] = []  # the transaction under way
        self._held_pages = 0.0
        self._held_bytes = 0
        self._urgent = 0  # items in the queue that should not wait for company
        self._room_wanted: list[Future[None]] = []
        self._changed = threading.Condition()
        self._closing_at: float | None = None
        self._no_checkpoint_before = 0.0
        self._thread = threading.Thread(target=self._run, name="amble-writer", daemon=True)
        self._thread.start()

    # -- for callers, on any thread

    def submit(self, batch: Batch, *, urgent: bool = False) -> Future[None]:
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()  # once handed over, a batch cannot be taken back
        body_bytes = sum(len(page.body or "") for page in batch.pages)
        item = _Item(batch, future, _weight(batch), body_bytes, urgent, time.monotonic())
        with self._changed:
            if self._closing_at is not None:
                raise StoreError("the store is closed", hint="open it again")
            self._items.append(item)
            self._held_pages += item.pages
            self._held_bytes += item.body_bytes
            self._urgent += urgent
            if len(self._items) == 1 or self._enough():  # or the thread would wake for every page
                self._changed.notify_all()
        return future

    def flush(self) -> Future[None]:
        return self.submit(Batch(), urgent=True)

    @property
    def has_room(self) -> bool:
        return (
            not self.state.paused
            and self._held_pages < self.limits.held_pages_max
            and self._held_bytes < self.limits.held_bytes_max
        )

    def room(self) -> Future[None]:
        future: Future[None] = Future()
        with self._changed:
            if self.has_room or self._closing_at is not None:
                future.set_result(None)
            else:
                self._room_wanted.append(future)
        return future

    def close(self) -> None:
        """Write what is held, then stop. A store that cannot be written is given up after `close_s_max`."""
        with self._changed:
            if self._closing_at is None:
                self._closing_at = time.monotonic()
            self._changed.notify_all()
        self._thread.join()

    # -- the thread

    def _run(self) -> None:
        try:
            self._work()
        finally:  # closed, or a fault of our own: nobody may wait for a thread that is gone
            with self._changed:
                self._closing_at = self._closing_at or time.monotonic()
                left = [item for item in (*self._in_hand, *self._items) if not item.future.done()]
                self._items.clear()
            self._release(left, StoreError("the writer has stopped", hint="open the store again and resume the crawl"))

    def _work(self) -> None:
        while items := self._gather():
            batches = [item.batch for item in items]
            try:
                if any(batch != Batch() for batch in batches):
                    encoded = encode(batches, self._numbers)
                    self._write(encoded)
                    self._on_commit(encoded)
            except Exception as fault:
                self._release(items, fault)
            else:
                self._release(items, None)
                self._checkpoint_if_due()

    def _gather(self) -> Sequence[_Item]:
        """The batches of the next transaction, as soon as they are enough or old enough; none when closed."""
        with self._changed:
            while not self._items and self._closing_at is None:
                self._changed.wait()
            while not self._enough():
                left_s = self._items[0].submitted_at + self.limits.linger_s - time.monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            items: list[_Item] = []
            pages, body_bytes = 0.0, 0
            while self._items and pages < self.limits.batch_size and body_bytes < self.limits.batch_bytes_max:
                item = self._items.popleft()
                items.append(item)
                pages += item.pages
                body_bytes += item.body_bytes
                self._urgent -= item.urgent
            self._in_hand = items
            return items

    def _enough(self) -> bool:
        return (
            self._closing_at is not None
            or self._held_pages >= self.limits.batch_size
            or self._held_bytes >= self.limits.batch_bytes_max
            or self._urgent > 0
        )

    def _write(self, encoded: Encoded) -> None:
        """Until it is on disk, however long the disk takes [E11-E13]."""
        wait_s = self.limits.retry_s
        retried = False
        while True:
            try:
                if retried and self._committer.recover(encoded):
                    break
                self._committer.commit(encoded)
                break
            except Unavailable as fault:
                if retried:  # the first retry is quick and quiet: two transactions may just have met
                    self._tell(StoreState(paused=True, reason=str(fault)))
                self._wait_or_give_up(wait_s, fault)
                wait_s = min(2 * wait_s, self.limits.retry_s_max)
                retried = True
        self._tell(StoreState())

    def _wait_or_give_up(self, wait_s: float, fault: Unavailable) -> None:
        until = time.monotonic() + wait_s
        with self._changed:
            while (left_s := until - time.monotonic()) > 0:
                if self._closing_at is not None and time.monotonic() > self._closing_at + self.limits.close_s_max:
                    raise StoreError(
                        f"what was held could not be written: {fault}",
                        hint="free some disk space; the crawl can be resumed, and fetches these pages again",
                    ) from fault
                self._changed.wait(min(left_s, 0.2))

    def _release(self, items: Sequence[_Item], fault: Exception | None) -> None:
        """Acknowledge, and let those go on who waited for room."""
        with self._changed:
            self._held_pages -= sum(item.pages for item in items)
            self._held_bytes -= sum(item.body_bytes for item in items)
            roomy = self.has_room or self._closing_at is not None
            wanted, self._room_wanted = (self._room_wanted, []) if roomy else ([], self._room_wanted)
        for item in items:
            if fault is None:
                item.future.set_result(None)
            else:
                item.future.set_exception(fault)
        for future in wanted:
            future.set_result(None)

    def _checkpoint_if_due(self) -> None:
        if not self._database.owned or self._database.wal_bytes() < self.limits.wal_bytes_max:
            return
        if time.monotonic() < self._no_checkpoint_before:
            return
        try:
            self._committer.checkpoint()
        except Unavailable:  # the next commit meets the same fault, pauses and says so; the log has everything
            self._no_checkpoint_before = time.monotonic() + self.limits.checkpoint_retry_s

    def _tell(self, state: StoreState) -> None:
        if state != self.state:
            self.state = state
            with contextlib.suppress(Exception):  # a listener's fault is no fault of the store
                self._on_state(state)


def _weight(batch: Batch) -> float:
    """How much of a transaction a batch fills, in pages."""
    small = len(batch.discovered) + len(batch.links) + len(batch.sitemap_urls) + len(batch.requests)
    small += sum(len(page.links) for page in batch.page_links) + sum(len(each.entries) for each in batch.listings)
    return max(len(batch.pages), len(batch.done), len(batch.domains)) + small / _SMALL_ROWS_PER_PAGE
