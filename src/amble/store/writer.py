"""When batches are written: one thread, several batches to a transaction, acknowledged only after the commit.

    submitted -> gathered (enough rows, or long enough) -> committed -> acknowledged
                                  \\-> unavailable: kept, paused, tried again until it works

Nothing here waits for a caller or makes one wait: whoever fetches asks `has_room` first.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from amble.errors import StoreError
from amble.store.commit import Committer, Unavailable
from amble.store.database import Database
from amble.store.gathering import Gathering, Parcel
from amble.store.gathering import WriterLimits as WriterLimits
from amble.store.rows import Encoded, Numbers, encode
from amble.store.seam import Batch, StoreState


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
        self.state = StoreState()
        self._database = database
        self._committer = committer
        self._numbers = numbers
        self._on_commit = on_commit
        self._on_state = on_state
        self._held = Gathering(limits)
        self._in_hand: list[Parcel] = []  # the transaction under way
        self._room_wanted: list[Future[None]] = []
        self._changed = threading.Condition()
        self._closing_at: float | None = None
        self._failing_since: float | None = None  # nothing can be written
        self._no_checkpoint_before = 0.0
        self._thread = threading.Thread(target=self._run, name="amble-writer", daemon=True)
        self._thread.start()

    # -- for callers, on any thread

    @property
    def limits(self) -> WriterLimits:
        return self._held.limits

    @limits.setter
    def limits(self, limits: WriterLimits) -> None:
        with self._changed:
            self._held.limit(limits)
            self._changed.notify_all()

    def submit(self, batch: Batch, *, urgent: bool = False, soon: bool = False) -> Future[None]:
        with self._changed:
            if self._closing_at is not None:
                raise StoreError("the store is closed", hint="open it again")
            parcel, is_news = self._held.add(batch, time.monotonic(), urgent=urgent, soon=soon)
            if is_news:  # or the thread would wake for every page
                self._changed.notify_all()
        return parcel.future

    def flush(self) -> Future[None]:
        return self.submit(Batch(), urgent=True)

    @property
    def has_room(self) -> bool:
        return not self.state.paused and self._held.has_room

    def room(self) -> Future[None]:
        future: Future[None] = Future()
        with self._changed:
            if self.has_room or self._closing_at is not None:
                future.set_result(None)
            else:
                self._room_wanted.append(future)
        return future

    def close(self) -> None:
        """Write what is held, then stop. A store that could not be written for `close_s_max` is given up."""
        with self._changed:
            if self._closing_at is None:
                self._closing_at = time.monotonic()
                self._held.is_closing = True
            self._changed.notify_all()
        self._thread.join()

    # -- the thread

    def _run(self) -> None:
        try:
            self._work()
        finally:  # closed, or a fault of our own: nobody may wait for a thread that is gone
            with self._changed:
                self._closing_at = self._closing_at or time.monotonic()
                left = [parcel for parcel in (*self._in_hand, *self._held.take_rest()) if not parcel.future.done()]
            self._release(left, StoreError("the writer has stopped", hint="open the store again and resume the crawl"))

    def _work(self) -> None:
        while parcels := self._gather():
            self._store(parcels)
            parcels.clear()  # bodies that are stored should not stay in memory until more have come

    def _store(self, parcels: Sequence[Parcel]) -> None:
        batches = [batch for parcel in parcels for batch in parcel.batches]
        straight = self._goes_straight(sum(parcel.body_bytes for parcel in parcels))
        try:
            if any(batch != Batch() for batch in batches):
                encoded = encode(batches, self._numbers)
                self._write(encoded, straight)
                self._on_commit(encoded)
        except Exception as fault:
            self._release(parcels, fault)
        else:
            self._release(parcels, None)
            self._tidy(straight)

    def _goes_straight(self, body_bytes: int) -> bool:
        database = self._database
        lengths = database.wal_bytes(), database.file_bytes()
        return database.is_our_file and self.limits.goes_straight(body_bytes, *lengths)

    def _gather(self) -> list[Parcel]:
        """What goes into the next transaction, as soon as it is due; nothing when closed."""
        with self._changed:
            while (due_at := self._held.due_at()) is None or due_at > time.monotonic():
                self._changed.wait(None if due_at is None else due_at - time.monotonic())
            self._in_hand = self._held.take(time.monotonic())
            return self._in_hand

    def _write(self, encoded: Encoded, straight: bool) -> None:
        """Until it is on disk, however long the disk takes [E11-E13]. What failed is logged: should that fail as well,
        the database stays usable."""
        wait_s = self.limits.retry_s
        retried = False
        while True:
            try:
                if retried and self._committer.recover(encoded):
                    break
                self._committer.commit(encoded, straight=straight and not retried)
                break
            except Unavailable as fault:
                if retried:  # the first retry is quick and quiet: two transactions may just have met
                    self._tell(StoreState(paused=True, reason=str(fault), lacks=fault.lacks))
                self._failing_since = self._failing_since or time.monotonic()
                self._wait_or_give_up(wait_s, fault)
                wait_s = min(2 * wait_s, self.limits.retry_s_max)
                retried = True
        self._failing_since = None
        self._tell(StoreState())

    def _wait_or_give_up(self, wait_s: float, fault: Unavailable) -> None:
        assert self._failing_since is not None
        if fault.lacks == "memory" and time.monotonic() > self._failing_since + self.limits.memory_s_max:
            raise StoreError(
                f"there is too little memory to store what was fetched: {fault}",
                hint="end other programs, or raise the limits (ulimit -v, ulimit -d); then resume the crawl",
            ) from fault
        until = time.monotonic() + wait_s
        with self._changed:
            while (left_s := until - time.monotonic()) > 0:
                if self._closing_at is not None and time.monotonic() > self._failing_since + self.limits.close_s_max:
                    raise StoreError(
                        f"what was held could not be written: {fault}",
                        hint="free some disk space; the crawl can be resumed, and fetches these pages again",
                    ) from fault
                self._changed.wait(min(left_s, 0.2))

    def _release(self, parcels: Sequence[Parcel], fault: Exception | None) -> None:
        """Acknowledge, and let those go on who waited for room."""
        with self._changed:
            self._held.release(parcels)
            roomy = self.has_room or self._closing_at is not None
            wanted, self._room_wanted = (self._room_wanted, []) if roomy else ([], self._room_wanted)
        for parcel in parcels:
            if fault is None:
                parcel.future.set_result(None)
            else:
                parcel.future.set_exception(fault)
        for future in wanted:
            future.set_result(None)

    def _tidy(self, straight: bool) -> None:
        """See that neither log nor memory grows."""
        is_long = self._database.owned and self._database.wal_bytes() >= self.limits.wal_bytes_max
        if not (straight or is_long) or time.monotonic() < self._no_checkpoint_before:
            return
        try:
            if is_long:
                self._committer.checkpoint()
            self._committer.tidy()
        except Unavailable:  # the next commit meets the same fault, pauses and says so; the log has everything
            self._no_checkpoint_before = time.monotonic() + self.limits.checkpoint_retry_s

    def _tell(self, state: StoreState) -> None:
        if state != self.state:
            self.state = state
            with contextlib.suppress(Exception):  # a listener's fault is no fault of the store
                self._on_state(state)
