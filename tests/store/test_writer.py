"""The writer: batches gathered, acknowledged after the commit and in order, held back when the disk is slow [E13]."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from amble.core.page.links import Link
from amble.errors import StoreError
from amble.store.commit import Committer, Unavailable
from amble.store.duckdb_store import DuckDBStore
from amble.store.rows import Encoded
from amble.store.seam import Batch, Counts, JobChange, JobStatus, StoreState, TaskDone, TaskState
from amble.store.writer import Writer, WriterLimits
from tests.store import measured_flood
from tests.store.support import BEGAN, ask, new_job, page, page_links, task, visit

WAIT_S = 30.0


class Gate:
    """Stops the writer at a step until it is let on."""

    def __init__(self, at: str) -> None:
        self.at = at
        self.closed = False
        self.reached = threading.Event()
        self._open = threading.Event()

    def __call__(self, step: str) -> None:
        if self.closed and step == self.at:
            self.reached.set()
            assert self._open.wait(WAIT_S)

    def shut(self) -> None:
        self.closed = True

    def lift(self) -> None:
        self.closed = False
        self._open.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate("before_commit")
    yield made
    made.lift()


def commits(store: DuckDBStore) -> list[int]:
    """Pages in each transaction so far, the job's own left out."""
    return [row[0] for row in ask(store, "SELECT pages FROM amble.commits WHERE pages > 0 ORDER BY commit_no")]


def test_what_gathers_while_a_transaction_is_written_goes_together(path: Path, gate: Gate) -> None:
    with DuckDBStore.open(path, limits=WriterLimits(batch_size=10, linger_s=0.05), step=gate) as store:
        job_id = new_job(store)
        gate.shut()
        store.submit(visit(job_id, 0))
        assert gate.reached.wait(WAIT_S)  # the first is on its way alone; the others gather behind it
        for number in range(1, 26):
            store.submit(visit(job_id, number))
        gate.lift()
        store.flush().result(WAIT_S)
        assert commits(store) == [1, 25]


def test_a_batch_does_not_wait_for_company_for_ever(path: Path) -> None:
    with DuckDBStore.open(path, limits=WriterLimits(linger_s=0.02)) as store:
        store.submit(visit(new_job(store), 1)).result(WAIT_S)
        assert commits(store) == [1]


def test_an_urgent_batch_takes_everything_before_it_along_at_once(path: Path) -> None:
    with DuckDBStore.open(path, limits=WriterLimits(linger_s=1e6)) as store:
        job_id = new_job(store)
        calm = [store.submit(visit(job_id, number)) for number in range(3)]
        assert not any(future.done() for future in calm)
        store.submit(visit(job_id, 3), urgent=True).result(WAIT_S)
        assert all(future.done() for future in calm)
        assert commits(store) == [4]


def test_nothing_is_acknowledged_before_it_is_committed(path: Path, gate: Gate) -> None:
    """The mutant that acknowledges first dies here."""
    with DuckDBStore.open(path, limits=WriterLimits(linger_s=0.01), step=gate) as store:
        job_id = new_job(store)
        gate.shut()
        future = store.submit(visit(job_id, 1))
        assert gate.reached.wait(WAIT_S)
        assert not future.done()
        assert ask(store, "SELECT count(*) FROM pages") == [(0,)]
        gate.lift()
        future.result(WAIT_S)
        assert ask(store, "SELECT count(*) FROM pages") == [(1,)]


def test_closing_writes_what_is_held(path: Path) -> None:
    store = DuckDBStore.open(path, limits=WriterLimits(linger_s=1e6))
    job_id = new_job(store)
    futures = [store.submit(visit(job_id, number)) for number in range(250)]
    store.close()
    assert all(future.result(0) is None for future in futures)
    with DuckDBStore.open(path) as store:
        assert ask(store, "SELECT count(*) FROM pages") == [(250,)]


@pytest.mark.parametrize(
    ("in_bulk", "each"),
    [
        ([], [4, 4, 4, 4]),
        ([(1, True)], [8, 8]),
        ([(1, True), (1, False)], [4, 4, 4, 4]),
        ([(1, True), (2, False)], [8, 8]),
    ],
    ids=["by one process", "by several", "by one again", "by several, while another job ends"],
)
def test_what_several_processes_bring_is_stored_in_half_as_many_transactions(
    path: Path, gate: Gate, in_bulk: list[tuple[int, bool]], each: list[int]
) -> None:
    limits = WriterLimits(batch_size=1_000, linger_s=1e6, batch_bytes_max=4_000)
    with DuckDBStore.open(path, limits=limits, step=gate) as store:
        job_id = new_job(store)
        for brought in in_bulk:
            store.store_in_bulk(*brought)
        gate.shut()
        store.submit(visit(job_id, 0), urgent=True)
        assert gate.reached.wait(WAIT_S)
        for number in range(1, 17):
            store.submit(visit(job_id, number, body="b" * 1_000))
        gate.lift()
        store.flush().result(WAIT_S)
        assert commits(store) == [1, *each]


def test_the_size_of_batches_stays_what_was_asked_for_when_workers_come_and_go(path: Path) -> None:
    with DuckDBStore.open(path, limits=WriterLimits(batch_size=1_000, linger_s=1e6)) as store:
        job_id = new_job(store)
        store.store_in_batches(2)
        store.store_in_bulk(job_id, True)
        for future in [store.submit(visit(job_id, number)) for number in range(2)]:
            future.result(WAIT_S)
        store.store_in_bulk(job_id, False)
        for future in [store.submit(visit(job_id, number)) for number in range(2, 4)]:
            future.result(WAIT_S)


def test_small_rows_fill_a_transaction_too(path: Path, gate: Gate) -> None:
    with DuckDBStore.open(path, limits=WriterLimits(batch_size=10, linger_s=1e6), step=gate) as store:
        new_job(store)
        found = [task(1, number) for number in range(1_000)]
        store.submit(Batch(discovered=found)).result(WAIT_S)  # a thousand tasks are worth ten pages


@pytest.mark.parametrize(
    ("limits", "fields"),
    [
        (WriterLimits(batch_size=10, linger_s=0.01, held_pages_max=40), {}),
        (WriterLimits(batch_size=10, linger_s=0.01, held_bytes_max=400_000), {"body": "b" * 10_000}),
    ],
    ids=["too many pages", "too many bytes"],
)
def test_a_slow_disk_holds_back_whoever_asks_for_room(
    path: Path, gate: Gate, limits: WriterLimits, fields: dict[str, Any]
) -> None:
    """E13: what is held is bounded by the limit and what one asker hands over at a time."""
    with DuckDBStore.open(path, limits=limits, step=gate) as store:
        job_id = new_job(store)
        gate.shut()
        number, futures = 0, list[Future[None]]()
        while store.has_room:
            assert store.room().done()
            futures.append(store.submit(visit(job_id, number, **fields)))
            number += 1
            assert number <= 41
        room = store.room()
        assert not room.done()
        gate.lift()
        room.result(WAIT_S)
        for future in futures:
            future.result(WAIT_S)
        assert ask(store, "SELECT count(*) FROM pages") == [(number,)]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc to read the memory in use from")
def test_memory_stays_flat_while_a_fast_crawl_meets_the_slowest_disk(path: Path) -> None:
    """E13: 168 MB go through 4 MB of held pages; if they were all held, the last 126 MB would show."""
    program = [sys.executable, "-m", measured_flood.__name__, str(path)]
    told = json.loads(subprocess.run(program, capture_output=True, text=True, check=True).stdout)
    assert told["stored"] == measured_flood.PAGES
    assert told["peak_mb"] - told["warm_mb"] < 60


class Flaky:
    """A committer that fails as told: before the commit, or after it without saying that it got through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before: list[str] = []
        self.after: list[str] = []
        commit = Committer.commit

        def flaky(committer: Committer, encoded: Encoded, *, straight: bool = False) -> None:
            if self.before:
                raise Unavailable(self.before.pop(0))
            commit(committer, encoded, straight=straight)
            if self.after:
                raise Unavailable(self.after.pop(0))

        monkeypatch.setattr(Committer, "commit", flaky)


RETRIES = WriterLimits(linger_s=0.01, retry_s=0.001, retry_s_max=0.002, close_s_max=0.05)


def test_a_fault_pauses_keeps_the_batch_and_goes_on_by_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E11"""
    states: list[StoreState] = []
    with DuckDBStore.open(path, limits=RETRIES, on_state=states.append) as store:
        job_id = new_job(store)
        Flaky(monkeypatch).before = ["no space"] * 5
        futures = [store.submit(visit(job_id, number)) for number in range(5)]
        for future in futures:
            future.result(WAIT_S)
        assert ask(store, "SELECT count(*), count(DISTINCT url) FROM pages") == [(5, 5)]
        assert states == [StoreState(paused=True, reason="no space"), StoreState()]
        assert not store.state.paused


def test_a_want_of_memory_is_called_so_and_not_waited_for_without_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody frees it for a process that is not allowed more."""
    states: list[StoreState] = []
    with DuckDBStore.open(path, limits=RETRIES._replace(memory_s_max=0.05), on_state=states.append) as store:
        job_id = new_job(store)
        Flaky(monkeypatch).before = ["Failed to commit: Failed to allocate block of 8 bytes (bad allocation)"] * 10**6
        with pytest.raises(StoreError, match="too little memory") as refused:
            store.submit(visit(job_id, 1), urgent=True).result(WAIT_S)
        assert "ulimit" in str(refused.value.hint)
        assert [state.lacks for state in states] == ["memory"]


def test_while_paused_there_is_no_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paused = threading.Event()
    limits = WriterLimits(linger_s=0.01, retry_s=0.001, retry_s_max=0.002)
    with DuckDBStore.open(path, limits=limits, on_state=lambda state: paused.set()) as store:
        job_id = new_job(store)
        flaky = Flaky(monkeypatch)
        flaky.before = ["no space"] * 10**6
        future = store.submit(visit(job_id, 1))
        assert paused.wait(WAIT_S)
        assert store.state == StoreState(paused=True, reason="no space")
        room = store.room()
        assert not store.has_room
        assert not room.done()
        flaky.before.clear()
        room.result(WAIT_S)
        future.result(WAIT_S)


def test_a_single_passing_fault_is_nobodys_news(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[StoreState] = []
    with DuckDBStore.open(path, limits=RETRIES, on_state=states.append) as store:
        job_id = new_job(store)
        Flaky(monkeypatch).before = ["two transactions met"]
        store.submit(visit(job_id, 1)).result(WAIT_S)
        assert states == []


def test_a_commit_that_got_through_without_saying_so_is_not_repeated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G4, F1: the number of the transaction in the file tells."""
    with DuckDBStore.open(path, limits=RETRIES) as store:
        job_id = new_job(store)
        Flaky(monkeypatch).after = ["the answer was lost"]
        batch = Batch(
            discovered=[task(job_id, 5)],
            page_links=[page_links(job_id, "https://a.test/", [Link("https://a.test/x", "")])],
        )
        store.submit(batch, urgent=True).result(WAIT_S)
        assert ask(store, "SELECT count(*) FROM amble.links") == [(1,)]
        assert store.counts(job_id).accepted == 1


def test_a_store_that_cannot_be_written_is_given_up_when_it_is_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DuckDBStore.open(path, limits=RETRIES)
    job_id = new_job(store)
    store.submit(visit(job_id, 1), urgent=True).result(WAIT_S)
    Flaky(monkeypatch).before = ["no space"] * 10**6
    future = store.submit(visit(job_id, 2))
    store.close()
    with pytest.raises(StoreError, match="no space"):
        future.result(0)
    with DuckDBStore.open(path) as store:
        assert ask(store, "SELECT count(*) FROM pages") == [(1,)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_writer_that_has_died(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of our own ends the thread; everything that was handed over, or is later, says so."""
    store = DuckDBStore.open(path, limits=WriterLimits(linger_s=0.01))
    job_id = new_job(store)

    def broken(self: Writer, items: object, fault: object) -> None:
        monkeypatch.undo()
        raise RuntimeError("a bug")

    monkeypatch.setattr(Writer, "_release", broken)
    store.submit(visit(job_id, 1))
    later = store.submit(visit(job_id, 2))
    with pytest.raises(StoreError, match="stopped"):
        later.result(WAIT_S)
    with pytest.raises(StoreError, match="closed"):
        store.submit(visit(job_id, 3))
    store.close()


def test_a_listener_that_fails_stops_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def listener(state: StoreState) -> None:
        raise RuntimeError("mine alone")

    with DuckDBStore.open(path, limits=RETRIES, on_state=listener) as store:
        job_id = new_job(store)
        Flaky(monkeypatch).before = ["no space"] * 3
        store.submit(visit(job_id, 1)).result(WAIT_S)


def test_many_threads_may_submit_and_read_at_once(path: Path) -> None:
    faults: list[BaseException] = []

    def run(work: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except BaseException as fault:
                faults.append(fault)

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread

    with DuckDBStore.open(path, limits=WriterLimits(batch_size=20, linger_s=0.01)) as store:
        job_id = new_job(store)

        def write(at: int) -> None:
            for number in range(at, at + 100):
                store.submit(visit(job_id, number, links=3))

        def claim() -> None:
            for _ in range(30):
                rows = store.claim(job_id, 20)
                store.submit(Batch(done=[TaskDone(job_id, row.url, TaskState.DONE) for row in rows]))
                assert min(store.counts(job_id)) >= 0

        threads = [run(lambda at=at: write(at)) for at in range(0, 400, 100)]  # type: ignore[misc]
        threads += [run(claim) for _ in range(3)]
        for thread in threads:
            thread.join(WAIT_S)
        store.flush().result(WAIT_S)
        assert faults == []
        assert ask(store, "SELECT count(*), count(DISTINCT url) FROM pages") == [(400, 400)]
        rest = [row.url for row in store.claim(job_id, 10_000)]
        finished = [row[0] for row in ask(store, "SELECT url FROM amble.settled WHERE url LIKE '%/%/%/%/%'")]
        assert store.counts(job_id) == Counts(done=400 + len(finished), running=len(rest))
        assert sorted(rest + finished) == sorted(f"https://a.test/{n}/{k}" for n in range(400) for k in range(3))


def test_a_job_ends_after_its_last_page(path: Path, gate: Gate) -> None:
    """Rows and the news that a job is done travel in one queue."""
    with DuckDBStore.open(path, limits=WriterLimits(linger_s=1e6), step=gate) as store:
        job_id = new_job(store)
        store.submit(Batch(pages=[page(job_id, number) for number in range(500)]))
        store.set_job_state(JobChange(job_id, JobStatus.COMPLETED, BEGAN)).result(WAIT_S)
        assert ask(store, "SELECT count(*) FROM pages") == [(500,)]
        assert store.jobs()[0].status is JobStatus.COMPLETED
