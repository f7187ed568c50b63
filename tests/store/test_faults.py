"""The machine's faults: full disks, locked, damaged and vanished files and tables [E11, E12]."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from amble.errors import StoreDamaged, StoreError, StoreLocked
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, StoreState
from amble.store.writer import WriterLimits
from tests.store.conftest import QUICK, SmallDisk
from tests.store.support import ask, new_job, page, visit

WAIT_S = 60.0
_random = random.Random(7)


def noise(chars: int = 6_000) -> str:
    """Text that no compression makes much smaller."""
    return _random.randbytes(chars // 2).hex()


class Watch:
    """Notes the states of a store and lets a test wait for one."""

    def __init__(self) -> None:
        self.states: list[StoreState] = []
        self._changed = threading.Condition()

    def __call__(self, state: StoreState) -> None:
        with self._changed:
            self.states.append(state)
            self._changed.notify_all()

    def wait_for(self, wanted: Callable[[list[StoreState]], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: wanted(self.states), WAIT_S)


def paused(states: list[StoreState]) -> bool:
    return bool(states) and states[-1].paused


def fill(store: DuckDBStore, job_id: int, watch: Watch, first: int, pages: int) -> int:
    """Hand over more than the disk takes; the number of the next page."""
    for number in range(first, first + pages):
        store.submit(visit(job_id, number, body=noise()))
    watch.wait_for(paused)
    return first + pages


def test_a_full_disk_pauses_and_more_room_goes_on_without_loss(small_disk: SmallDisk) -> None:
    """E11: 0 lost, 0 doubled, nothing to be done but to make room."""
    watch = Watch()
    limits = WriterLimits(
        batch_size=20, linger_s=0.01, held_pages_max=200, retry_s=0.01, retry_s_max=0.05, wal_bytes_max=10**9
    )
    with DuckDBStore.open(small_disk.folder / "site.duckdb", limits=limits, on_state=watch) as store:
        job_id = new_job(store)
        number = fill(store, job_id, watch, 0, 2_000)
        assert "No space left" in store.state.reason
        assert not store.has_room
        committed = ask(store, "SELECT count(*) FROM pages")[0][0]  # readers go on
        assert 0 < committed < number
        small_disk.remount("size=200m")
        store.flush().result(WAIT_S)
        assert ask(store, "SELECT count(*), count(DISTINCT url) FROM pages") == [(number, number)]
        assert store.counts(job_id).done == number
        assert watch.states[-1] == StoreState()


def test_a_disk_that_is_full_at_a_checkpoint_invalidates_nothing_for_us(small_disk: SmallDisk) -> None:
    """E11: DuckDB gives the database up when a checkpoint fails; it is let go, taken up again, and nothing is lost."""
    watch = Watch()
    limits = WriterLimits(  # transactions of twenty pages, so that the log still takes one when the file does not
        held_pages_max=40, linger_s=0.01, retry_s=0.01, retry_s_max=0.05, wal_bytes_max=3_000_000,
        checkpoint_retry_s=0.2,
    )  # fmt: skip
    small_disk.remount("size=24m")
    checkpoints: list[str] = []

    def step(name: str) -> None:
        if name.endswith("checkpoint") or name.startswith("checkpoint"):
            checkpoints.append(name)

    file = small_disk.folder / "site.duckdb"
    with DuckDBStore.open(file, limits=limits, on_state=watch, step=step) as store:
        job_id = new_job(store)
        for number in range(400):
            store.submit(visit(job_id, number, body=noise()))
        store.flush().result(WAIT_S)
        reader = store.database.connect()
        free = os.statvfs(small_disk.folder)
        filler = small_disk.folder / "filler"
        filler.write_bytes(bytes(free.f_bavail * free.f_frsize - 1_500_000))
        failed_before = checkpoints.count("before_checkpoint") - checkpoints.count("checkpointed")
        number = fill(store, job_id, watch, 400, 400)
        failed = checkpoints.count("before_checkpoint") - checkpoints.count("checkpointed")
        assert failed > failed_before  # the fault this test is about did happen
        filler.unlink()
        store.flush().result(WAIT_S)
        assert reader.execute("SELECT count(*), count(DISTINCT url) FROM pages").fetchall() == [(number, number)]
        reader.close()
    with DuckDBStore.open(file) as store:
        assert ask(store, "SELECT count(*), count(DISTINCT url) FROM pages") == [(number, number)]
        assert store.counts(job_id).done == number


def test_a_disk_that_becomes_read_only_cannot_be_opened_and_says_why(small_disk: SmallDisk) -> None:
    small_disk.remount("ro")
    with pytest.raises(StoreError, match="cannot be opened") as refused:
        DuckDBStore.open(small_disk.folder / "site.duckdb")
    assert "ours to write" in (refused.value.hint or "")


HOLD = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


def test_a_file_in_use_by_another_process_is_refused_with_its_number(path: Path) -> None:
    """E12"""
    DuckDBStore.open(path).close()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreLocked) as refused:
            DuckDBStore.open(path)
        holder.communicate("")
    assert str(holder.pid) in refused.value.message
    assert refused.value.hint
    DuckDBStore.open(path).close()


def test_a_file_open_in_this_process_is_refused_too(path: Path) -> None:
    with DuckDBStore.open(path), pytest.raises(StoreLocked, match="in this process"):
        DuckDBStore.open(path)


def test_a_file_is_kept_from_other_processes_while_it_is_written(path: Path) -> None:
    with DuckDBStore.open(path) as store:
        store.submit(visit(new_job(store), 1), urgent=True).result()
        store.database.wal_bytes()  # looking at the log must not drop the lock
        other = subprocess.run(
            [sys.executable, "-c", HOLD, str(path)], input="", capture_output=True, text=True, check=False
        )
        assert "Conflicting lock" in other.stderr


def garbage(file: Path) -> None:
    file.write_bytes(b"no database at all " * 1_000)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:20_000])


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    for at in range(12_288, len(data), 997):
        data[at] ^= 0x55
    file.write_bytes(data)


def header(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4_104:12_288] = b"\7" * 8_184
    file.write_bytes(data)


@pytest.mark.parametrize("damage", [garbage, cut, flipped, header])
def test_a_damaged_file_is_refused_with_advice_and_left_as_it_is(path: Path, damage: Callable[[Path], None]) -> None:
    """E12"""
    with DuckDBStore.open(path) as store:
        job_id = new_job(store)
        store.submit(Batch(pages=[page(job_id, number) for number in range(500)]), urgent=True).result()
    damage(path)
    left = path.read_bytes()
    with pytest.raises(StoreDamaged) as refused:
        DuckDBStore.open(path)
    assert refused.value.hint
    assert path.read_bytes() == left


@pytest.mark.parametrize("place", ["missing/site.duckdb", "."], ids=["a folder that is not there", "a folder"])
def test_a_place_that_cannot_hold_a_file_is_refused(tmp_path: Path, place: str) -> None:
    with pytest.raises(StoreError) as refused:
        DuckDBStore.open(tmp_path / place)
    assert refused.value.hint


def test_a_table_dropped_during_the_crawl_is_made_again(store: DuckDBStore) -> None:
    job_id = new_job(store)
    store.submit(visit(job_id, 1), urgent=True).result(WAIT_S)
    ask(store, "DROP TABLE pages")
    store.submit(visit(job_id, 1), urgent=True).result(WAIT_S)
    assert ask(store, "SELECT url FROM pages") == [("https://a.test/1",)]


def test_a_column_added_during_the_crawl_disturbs_nobody(store: DuckDBStore) -> None:
    job_id = new_job(store)
    store.submit(visit(job_id, 1), urgent=True).result(WAIT_S)
    ask(store, "ALTER TABLE pages ADD COLUMN note VARCHAR")
    ask(store, "UPDATE pages SET note = 'read'")
    store.submit(visit(job_id, 2), urgent=True).result(WAIT_S)
    assert ask(store, "SELECT url[-1:], note FROM pages ORDER BY url") == [("1", "read"), ("2", None)]


def test_a_column_dropped_during_the_crawl_pauses_it_until_it_is_back(path: Path) -> None:
    watch = Watch()
    with DuckDBStore.open(path, limits=QUICK, on_state=watch) as store:
        job_id = new_job(store)
        store.submit(visit(job_id, 1), urgent=True).result(WAIT_S)
        ask(store, "ALTER TABLE pages DROP COLUMN title")
        future = store.submit(visit(job_id, 2), urgent=True)
        watch.wait_for(paused)
        assert [state.lacks for state in watch.states] == ["the table"], watch.states
        ask(store, "ALTER TABLE pages ADD COLUMN title VARCHAR")
        future.result(WAIT_S)
        assert ask(store, "SELECT count(*) FROM pages") == [(2,)]


def test_somebody_elses_transaction_on_our_rows_is_waited_out(store: DuckDBStore) -> None:
    job_id = new_job(store)
    store.submit(visit(job_id, 1), urgent=True).result(WAIT_S)
    other = store.database.connect()
    other.begin()
    other.execute("DELETE FROM pages")
    future = store.submit(visit(job_id, 1, body="news"), urgent=True)
    other.rollback()
    other.close()
    future.result(WAIT_S)
    assert ask(store, "SELECT body FROM pages") == [("news",)]
