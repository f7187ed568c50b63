"""Long transactions go into the file without having been in its log, and nothing is less safe for that."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from amble.errors import StoreError
from amble.store.commit import Committer, Unavailable
from amble.store.database import BLOCK_BYTES, Database
from amble.store.duckdb_store import DuckDBStore
from amble.store.rows import Encoded
from amble.store.seam import Batch, DomainRow
from amble.store.writer import WriterLimits
from tests.store.conftest import QUICK, SmallDisk
from tests.store.support import ask, new_job, task, visit
from tests.store.test_faults import Watch, fill
from tests.store.test_writer import Flaky

WAIT_S = 60.0
MB = 1_000_000
STRAIGHT = QUICK._replace(straight_bytes_min=10_000, straight_share_min=0.0)
BODY = "b" * 20_000


class Steps:
    """Those that the writer has reached."""

    def __init__(self) -> None:
        self.reached: list[str] = []

        self._changed = threading.Condition()

    def __call__(self, step: str) -> None:
        with self._changed:
            self.reached.append(step)
            self._changed.notify_all()

    def wait_until(self, holds: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(holds, WAIT_S)

    @property
    def failed(self) -> int:
        """Transactions that were begun in vain."""
        return self.reached.count("begun") - self.reached.count("committed")

    @property
    def into_the_file(self) -> int:
        return self.reached.count("checkpointed")


@pytest.mark.parametrize(
    ("story", "body_bytes", "wal_bytes", "file_bytes", "straight"),
    [
        ("a long one", 7 * MB, 0, 0, True),
        ("one not quite as long", 4 * MB, 0, 0, False),
        ("a long one, into a file thirty times as long", 7 * MB, 0, 205 * MB, True),
        ("and into a longer one, through which DuckDB would go each time", 7 * MB, 0, 220 * MB, False),
        ("twice as much, into the same", 14 * MB, 0, 220 * MB, True),
        ("the one that fills the log", 1 * MB, 33 * MB, 900 * MB, True),
        ("the one before it", 1 * MB, 32 * MB, 900 * MB, False),
        ("one without bodies, though the log is full", 0, 40 * MB, 0, False),
        ("nothing at all", 0, 0, 0, False),
    ],
)
def test_which_transactions_go_straight(
    story: str, body_bytes: int, wal_bytes: int, file_bytes: int, straight: bool
) -> None:
    assert WriterLimits().goes_straight(body_bytes, wal_bytes, file_bytes) is straight


@pytest.mark.parametrize("sealed", [False, True])
def test_a_long_transaction_leaves_nothing_in_the_log_and_a_short_one_does(path: Path, sealed: bool) -> None:
    steps = Steps()
    with DuckDBStore.open(path, limits=STRAIGHT, step=steps, sealed=sealed) as store:
        job_id = new_job(store)
        store.submit(visit(job_id, 1, body="short"), urgent=True).result(WAIT_S)
        assert (steps.into_the_file, store.database.wal_bytes() > 0) == (0, True)
        store.submit(visit(job_id, 2, body=BODY), urgent=True).result(WAIT_S)
        assert (steps.into_the_file, store.database.wal_bytes()) == (1, 0)
        store.submit(visit(job_id, 3, body="short"), urgent=True).result(WAIT_S)
        assert (steps.into_the_file, store.database.wal_bytes() > 0) == (1, True)
        assert ask(store, "SELECT url[-1:], length(body) FROM pages ORDER BY url") == [
            ("1", 5),
            ("2", 20_000),
            ("3", 5),
        ]
        assert ask(store, "SELECT current_setting('checkpoint_threshold')") == [("931.3 GiB",)]


def test_somebody_elses_transaction_is_not_in_its_way(path: Path) -> None:
    with DuckDBStore.open(path, limits=STRAIGHT) as store:
        job_id = new_job(store)
        other = store.database.connect()
        other.execute("CREATE TABLE mine (n INTEGER)")
        other.begin()
        other.execute("INSERT INTO mine VALUES (1)")
        store.submit(visit(job_id, 1, body=BODY), urgent=True).result(WAIT_S)
        other.execute("INSERT INTO mine VALUES (2)")
        other.commit()
        other.close()
        assert ask(store, "SELECT (SELECT count(*) FROM pages), (SELECT count(*) FROM mine)") == [(1, 2)]
    with DuckDBStore.open(path) as store:
        assert ask(store, "SELECT (SELECT count(*) FROM pages), (SELECT count(*) FROM mine)") == [(1, 2)]


def test_what_failed_to_go_straight_is_logged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full log fails softly: the database can be used on, and read."""
    tried: list[bool] = []
    commit = Committer.commit

    def fails_at_first(committer: Committer, encoded: Encoded, *, straight: bool = False) -> None:
        tried.append(straight)
        if straight:
            raise Unavailable("no space")
        commit(committer, encoded, straight=straight)

    with DuckDBStore.open(path, limits=STRAIGHT) as store:
        job_id = new_job(store)
        monkeypatch.setattr(Committer, "commit", fails_at_first)
        store.submit(visit(job_id, 1, body=BODY), urgent=True).result(WAIT_S)
        assert tried == [True, False]
        assert ask(store, "SELECT count(*) FROM pages") == [(1,)]


@pytest.mark.parametrize(
    ("disk", "pages", "more"), [("8m", 20, 3_000), ("30m", 1_200, 12_000)], ids=["short ones", "long ones"]
)
def test_a_disk_that_is_full_loses_and_doubles_nothing(small_disk: SmallDisk, disk: str, pages: int, more: int) -> None:
    """E11: DuckDB gives the database up where a transaction does not fit into the file; it is taken up again. And it
    remembers of commits that failed, which must not be taken for having got through."""
    watch, steps = Watch(), Steps()
    limits = STRAIGHT._replace(batch_size=pages, held_pages_max=10 * pages, pause_s=0.0, retry_s=0.01, retry_s_max=0.05)
    small_disk.remount(f"size={disk}")
    file = small_disk.folder / "site.duckdb"
    with DuckDBStore.open(file, limits=limits, on_state=watch, step=steps) as store:
        number = fill(store, job_id := new_job(store), watch, 0, more)
        steps.wait_until(lambda: steps.failed >= 6)
        assert steps.reached.count("before_checkpoint") > steps.into_the_file  # the fault this test is about did happen
        small_disk.remount("size=400m")
        store.flush().result(WAIT_S)
        assert ask(store, "SELECT count(*), count(DISTINCT url) FROM pages") == [(number, number)]
        assert store.counts(job_id).done == number
    with DuckDBStore.open(file) as store:
        assert ask(store, "SELECT count(*), count(DISTINCT url) FROM pages") == [(number, number)]


def test_a_file_that_cannot_be_taken_up_again_at_once_is_tried_for_longer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E11: a disk may be too full for that, too."""
    refusals = [True, True, True]
    attach, is_stored = Database._attach, Committer._is_stored

    def attach_at_last(database: Database) -> None:
        if refusals:
            refusals.pop()
            raise StoreError("the file cannot be opened: no space left")
        attach(database)

    def given_up(committer: Committer, encoded: Encoded) -> bool:
        if len(refusals) == 3:
            raise duckdb.IOException("the database has been invalidated")
        return is_stored(committer, encoded)

    with DuckDBStore.open(path, limits=QUICK) as store:
        job_id = new_job(store)
        Flaky(monkeypatch).before = ["no space"]
        monkeypatch.setattr(Database, "_attach", attach_at_last)
        monkeypatch.setattr(Committer, "_is_stored", given_up)
        store.submit(visit(job_id, 1), urgent=True).result(WAIT_S)
        assert not refusals
        assert ask(store, "SELECT count(*) FROM pages") == [(1,)]


def test_a_database_of_others_that_is_given_up_ends_the_crawl(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its owner can close it: to wait for that would be to wait for ever."""

    def given_up(committer: Committer, encoded: Encoded) -> bool:
        raise duckdb.IOException("the database has been invalidated")

    with duckdb.connect(str(path)) as connection, DuckDBStore(Database.over(connection), limits=QUICK) as store:
        job_id = new_job(store)
        Flaky(monkeypatch).before = ["no space"]
        monkeypatch.setattr(Committer, "_is_stored", given_up)
        with pytest.raises(StoreError, match="cannot be used any more"):
            store.submit(visit(job_id, 1), urgent=True).result(WAIT_S)


def test_a_log_that_fills_without_any_body_is_written_into_the_file_too(path: Path) -> None:
    steps = Steps()
    with DuckDBStore.open(path, limits=QUICK._replace(wal_bytes_max=100_000), step=steps) as store:
        job_id = new_job(store)
        for first in range(0, 20_000, 2_000):
            batch = Batch(discovered=[task(job_id, number) for number in range(first, first + 2_000)])
            store.submit(batch, urgent=True).result(WAIT_S)
        store.flush().result(WAIT_S)
        assert 0 < steps.into_the_file < 10
        assert store.database.wal_bytes() < 100_000
        assert store.counts(job_id).accepted == 20_000


def test_a_database_that_is_not_ours_keeps_its_own_rules(path: Path) -> None:
    steps = Steps()
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET GLOBAL checkpoint_threshold = '3MB'")
        with DuckDBStore(Database.over(connection), limits=STRAIGHT, step=steps) as store:
            store.submit(visit(new_job(store), 1, body=BODY), urgent=True).result(WAIT_S)
            assert steps.into_the_file == 0
        ((threshold,),) = connection.execute("SELECT current_setting('checkpoint_threshold')").fetchall()
        assert threshold == "2.8 MiB"


def test_a_new_file_has_short_blocks_and_one_of_another_form_is_taken_as_it_is(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.duckdb"
    duckdb.connect(str(other)).close()
    for file, block_bytes in ((path, BLOCK_BYTES), (other, 262_144)):
        with DuckDBStore.open(file, limits=STRAIGHT) as store:
            store.submit(visit(new_job(store), 1, body=BODY), urgent=True).result(WAIT_S)
        with duckdb.connect(str(file), read_only=True) as connection:
            assert connection.execute("SELECT block_size FROM pragma_database_size()").fetchall() == [(block_bytes,)]
            assert connection.execute("SELECT count(*) FROM pages").fetchall() == [(1,)]
        assert os.stat(file).st_size > 0


def test_what_was_replaced_about_domains_is_dropped_while_the_crawl_goes_on(path: Path) -> None:
    """A job that runs for weeks learns the same few domains again and again."""
    with DuckDBStore.open(path, limits=STRAIGHT) as store:
        job_id = new_job(store)
        for learned in range(50):
            rows = [DomainRow(f"d{number}.test", requests=learned) for number in range(100)]
            store.submit(Batch(domains=rows), urgent=True).result(WAIT_S)
            store.submit(visit(job_id, learned, body=BODY), urgent=True).result(WAIT_S)
        store.flush().result(WAIT_S)
        assert ask(store, "SELECT count(*) < 2500 FROM amble.domain_log") == [(True,)]
        assert ask(store, "SELECT count(*), min(requests) FROM amble.domains") == [(100, 49)]
