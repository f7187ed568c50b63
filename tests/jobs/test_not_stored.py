"""What the store gives up on ends the crawl at once: nothing is fetched in vain, and a later run gets it all."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amble.errors import StoreError
from amble.jobs import Job
from amble.jobs.runner import engine
from amble.settings import Settings
from amble.store.commit import Committer, Unavailable
from amble.store.duckdb_store import DuckDBStore
from amble.store.rows import Encoded
from amble.store.seam import JobStatus
from amble.store.writer import WriterLimits
from amble.testing.farm import Farm, Pages, Site

SETTINGS = {"pacing": "fixed", "fixed_delay": 0.01, "max_rate": "unlimited", "follow_links": True, "threads": 1}
PAGES = 400


def test_what_cannot_be_stored_ends_the_crawl_and_is_fetched_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, refused = Committer.commit, list[int]()

    def once_broken(self: Committer, encoded: Encoded, *, straight: bool = False) -> None:
        if encoded.page_count and not refused:
            refused.append(encoded.page_count)
            raise StoreError("the database cannot be used any more")
        commit(self, encoded, straight=straight)

    monkeypatch.setattr(Committer, "commit", once_broken)
    with Farm([Site(name="a.test", pages=Pages(PAGES))]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        job = Job.start(store, farm.roots(), Settings.of(SETTINGS), **ways)
        with pytest.raises(StoreError, match="cannot be used any more"):
            asyncio.run(job.run())
        assert refused
        assert job.result.requests < PAGES / 2, "it went on fetching"
        assert store.jobs()[0].status is not JobStatus.COMPLETED

        asyncio.run(Job.take_up(store, job.row.id, **ways).run())
        with store.database.reading() as connection:
            assert connection.execute("SELECT count(*), count(body) FROM pages").fetchall() == [(PAGES, PAGES)]


@pytest.mark.parametrize("told", ["while it crawls", "when all is fetched"])
@pytest.mark.parametrize("how", ["once", "twice"])
def test_a_job_that_is_told_to_end_waits_no_longer_than_that_for_a_disk_that_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, how: str
) -> None:
    """The second word is not even waited for that long."""
    full, commit = threading.Event(), Committer.commit

    def refusing(self: Committer, encoded: Encoded, *, straight: bool = False) -> None:
        if full.is_set():
            raise Unavailable("no space left")
        commit(self, encoded, straight=straight)

    monkeypatch.setattr(Committer, "commit", refusing)
    wait_s = 0.3 if how == "once" else 3_600.0
    limits = WriterLimits(batch_size=10, held_pages_max=100, close_s_max=wait_s)
    pages = 400 if told == "while it crawls" else 20
    with Farm([Site(name="a.test", pages=Pages(pages))]) as farm:
        store = DuckDBStore.open(tmp_path / "x.duckdb", limits=limits)
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        job = Job.start(store, farm.roots(), Settings.of(SETTINGS), **ways)
        running = engine().run(job)
        _wait_for(lambda: job.result.pages >= 10)
        full.set()
        _wait_for(lambda: store.state.paused)
        if told == "when all is fetched":
            _wait_for(lambda: job.plan.frontier.under_way == 0 and not job.plan.frontier.queued)
        running.stop()
        if how == "twice":
            with pytest.raises(TimeoutError):
                running.wait(0.3)
            running.stop(now=True)
        with pytest.raises(StoreError, match="could not be written: no space left"):
            running.wait(60)
        store.close()
        full.clear()
        with DuckDBStore.open(tmp_path / "x.duckdb") as store:
            asyncio.run(Job.take_up(store, job.row.id, **ways).run())
            with store.database.reading() as connection:
                assert connection.execute("SELECT count(*), count(body) FROM pages").fetchall() == [(pages, pages)]


def test_a_job_waits_for_a_full_disk_as_long_as_nobody_wants_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, commit = threading.Event(), Committer.commit

    def refusing(self: Committer, encoded: Encoded, *, straight: bool = False) -> None:
        if full.is_set():
            raise Unavailable("no space left")
        commit(self, encoded, straight=straight)

    monkeypatch.setattr(Committer, "commit", refusing)
    limits = WriterLimits(batch_size=10, close_s_max=0.0, retry_s_max=0.05)
    with (
        Farm([Site(name="a.test", pages=Pages(20))]) as farm,
        DuckDBStore.open(tmp_path / "x.duckdb", limits=limits) as store,
    ):
        job = Job.start(store, farm.roots(), Settings.of(SETTINGS), policy=farm.policy, resolver=farm.resolver)
        full.set()
        running = engine().run(job)
        _wait_for(lambda: store.state.paused)
        with pytest.raises(TimeoutError):
            running.wait(0.5)
        full.clear()
        assert running.wait(60).pages == 20


def _wait_for(happened: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60.0
    while not happened() and time.monotonic() < give_up:
        time.sleep(0.01)
    assert happened()
