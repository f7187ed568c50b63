"""What goes wrong beside the pages is said to whoever runs the job: rows set apart, workers that die."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from amble.cli.summary import result_of, summary
from amble.cli.told import Told
from amble.core.frontier.backlog import Window
from amble.core.pacing.events import Event, Warned
from amble.jobs import Job
from amble.settings import Settings
from amble.store.commit import Committer
from amble.store.duckdb_store import DuckDBStore
from amble.store.rows import Row
from amble.testing.farm import Farm, Pages, Site
from tests.jobs.test_workers import QUICK, crawl, gone, sites, workers_of
from tests.store.support import ask
from tests.store.test_tables import definition

ALONE: dict[str, Any] = {
    "pacing": "fixed", "fixed_delay": 0, "max_rate": "unlimited", "discover": False, "follow_links": True,
    "threads": 1,
}  # fmt: skip
REFUSES_404 = definition(http_status="INTEGER CHECK (http_status < 400)")


@pytest.mark.parametrize("listens", [True, False], ids=["to a listener", "to the log"])
def test_rows_set_apart_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture, listens: bool) -> None:
    events: list[Event] = []
    with Farm([Site(name="a.test", pages=Pages(3))]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ask(store, f"CREATE TABLE pages ({REFUSES_404})")
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        seeds = [*farm.roots(), farm.url("a.test", "/gone/1"), farm.url("a.test", "/gone/2")]
        job = Job.start(store, seeds, Settings.of(ALONE), listeners=[events.append] if listens else (), **ways)
        with caplog.at_level(logging.WARNING):
            result = asyncio.run(job.run())
        assert ask(store, "SELECT count(*) FROM amble.rejected") == [(2,)]
        assert result.set_apart == {'"main"."pages"': 2}
        assert 'could not be stored: 2 of "main"."pages"' in summary(job, result, "x.duckdb")
        assert result_of(job, result)["set_apart"] == {'"main"."pages"': 2}
    told = [event.reason for event in events if isinstance(event, Warned)]
    logged = [record.getMessage() for record in caplog.records]
    said, unsaid = (told, logged) if listens else (logged, told)
    assert unsaid == []
    assert all("could not be stored, see amble.rejected" in line and "CHECK" in line for line in said)
    assert said


def test_a_crawl_that_loses_no_row_says_nothing(tmp_path: Path) -> None:
    events: list[Event] = []
    with Farm([Site(name="a.test", pages=Pages(3))]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver, "listeners": [events.append]}
        job = Job.start(store, farm.roots(), Settings.of(ALONE), **ways)
        result = asyncio.run(job.run())
        assert "could not be stored" not in summary(job, result, "x.duckdb")
    assert not any(isinstance(event, Warned) for event in events)
    assert not result.set_apart


def test_tasks_that_the_store_has_set_apart_are_left_out_and_the_counts_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are never claimed, and the crawl ends without them."""
    append = Committer._append

    def refusing(self: Committer, table: str, rows: Sequence[Row], columns: list[str] | None = None) -> None:
        if table == "amble.found" and any(row[3] == "waiting" and "7" in row[12].rpartition("/")[2] for row in rows):
            raise duckdb.ConversionException("poison")
        append(self, table, rows, columns)

    monkeypatch.setattr(Committer, "_append", refusing)
    monkeypatch.setattr("amble.store.rows.BUNDLE_TASKS_MAX", 1)
    with Farm([Site(name="a.test", pages=Pages(40))]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver, "window": Window(1, 1, 1)}
        job = Job.start(store, farm.roots(), Settings.of(ALONE), **ways)
        result = asyncio.run(job.run())
        counts = store.counts(job.row.id)
        [(lost,)] = ask(store, "SELECT count(*) FROM amble.rejected WHERE table_name = 'amble.found'")
    assert lost > 0
    assert result.left_out["not_stored"] == result.set_apart["amble.found"] == lost
    assert (counts.accepted, counts.waiting, counts.running) == (counts.final, 0, 0)
    assert counts.done == result.pages


def test_a_worker_that_dies_is_reported(tmp_path: Path) -> None:
    events: list[Event] = []
    killed: list[int] = []

    async def kill(job: Job) -> None:
        job._listeners.append(events.append)
        [pid, *_] = await workers_of(job)
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    with Farm(sites()) as farm:
        crawl(farm, tmp_path / "x.duckdb", kill, **QUICK)
    [event] = [event for event in events if isinstance(event, Warned)]
    assert event.domain == "workers"
    assert f"process {killed[0]}, which fetched and read pages, was killed by SIGKILL" in event.reason
    assert Told().line(event) == event.reason
