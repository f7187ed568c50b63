"""The engine thread: its jobs are watched and steered from any thread and any loop, and end with the process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amble.errors import AmbleError, StoreError
from amble.jobs import runner
from amble.jobs.runner import RunningJob
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import JobStatus
from amble.testing.farm import Farm, Pages, Robots, Site

QUICK = {"pacing": "fixed", "fixed_delay": 0, "max_rate": "unlimited", "follow_links": True}
SLOW = {**QUICK, "fixed_delay": 0.05, "max_parallel_per_domain": 1}


@pytest.fixture
def farm() -> Iterator[Farm]:
    with Farm([Site(name="a.test", pages=Pages(20))]) as farm:
        yield farm


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        yield store


def begin(farm: Farm, store: DuckDBStore, settings: dict[str, Any] = QUICK, **ways: Any) -> RunningJob:
    ways = {"policy": farm.policy, "resolver": farm.resolver, **ways}
    return runner.start(store, farm.roots(), Settings.of(settings), **ways)


class Watched:
    """Says when so many requests have reached the farm."""

    def __init__(self, farm: Farm) -> None:
        self.farm = farm

    def until(self, requests: int) -> None:
        done = threading.Event()
        while len(self.farm.log()) < requests:
            done.wait(0.005)


def test_a_job_runs_to_its_end_while_the_caller_does_something_else(farm: Farm, store: DuckDBStore) -> None:
    job = begin(farm, store)
    assert runner.running(store) == {job.job_id: job}
    result = job.wait(30)
    assert (result.status, result.pages, job.done, job.status) == (JobStatus.COMPLETED, 20, True, JobStatus.COMPLETED)
    assert runner.running(store) == {}


def test_running_jobs_are_found_by_the_path_of_their_file(farm: Farm, store: DuckDBStore, tmp_path: Path) -> None:
    job = begin(farm, store, SLOW)
    assert set(runner.running(tmp_path / "x.duckdb")) == {job.job_id}
    assert runner.running(tmp_path / "y.duckdb") == {}
    job.stop(now=True)
    job.wait(30)


def test_a_job_can_be_awaited_from_any_loop_and_giving_up_leaves_it_running(farm: Farm, store: DuckDBStore) -> None:
    async def impatient() -> int:
        job = begin(farm, store, SLOW)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(job, 0.1)
        assert not job.done
        return (await job).pages

    assert asyncio.run(impatient()) == 20


def test_waiting_has_a_time_limit(farm: Farm, store: DuckDBStore) -> None:
    job = begin(farm, store, SLOW)
    with pytest.raises(TimeoutError):
        job.wait(0.01)
    assert job.wait(30).pages == 20


def test_paused_it_sends_nothing_and_resumed_it_goes_on(farm: Farm, store: DuckDBStore) -> None:
    job = begin(farm, store, SLOW)
    Watched(farm).until(5)
    job.pause()
    job.pause()
    synced()
    assert job.status is JobStatus.PAUSED
    synced(lambda: job.job.plan.frontier.under_way == 0)
    sent = len(farm.log())
    with pytest.raises(TimeoutError):
        job.wait(0.3)  # six delays
    assert len(farm.log()) == sent
    assert [row.status for row in store.jobs()] == [JobStatus.PAUSED]
    job.resume()
    assert job.wait(30).status is JobStatus.COMPLETED
    assert [site.missing for site in farm.judge().hosts] == [()]


def test_the_store_that_finds_room_does_not_lift_the_pause_of_the_user(farm: Farm, store: DuckDBStore) -> None:
    job = begin(farm, store, SLOW)
    Watched(farm).until(3)
    job.pause()
    runner.engine().call(lambda: job.job.crawl.pause("store"))
    runner.engine().call(lambda: job.job.crawl.resume("store"))
    synced(lambda: job.job.plan.frontier.under_way == 0)
    sent = len(farm.log())
    with pytest.raises(TimeoutError):
        job.wait(0.2)
    assert len(farm.log()) == sent
    job.stop()
    job.wait(30)


@pytest.mark.parametrize("now", [False, True])
def test_stopped_it_can_be_taken_up_again(now: bool, farm: Farm, store: DuckDBStore) -> None:
    job = begin(farm, store, SLOW)
    Watched(farm).until(5)
    job.stop(now)
    assert job.wait(30).status is JobStatus.PAUSED
    assert 0 < job.result.pages < 20
    ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
    again = runner.take_up(store, job.job_id, **ways)
    assert runner.take_up(store, job.job_id, **ways) is again, "one that runs is not taken up twice"
    assert again.wait(30).status is JobStatus.COMPLETED
    assert [site.missing for site in farm.judge().hosts] == [()]


def test_taken_up_while_it_still_stops_it_goes_on_to_its_end(farm: Farm, store: DuckDBStore) -> None:
    first = begin(farm, store, SLOW)
    Watched(farm).until(4)
    first.stop()
    again = runner.take_up(store, first.job_id, policy=farm.policy, resolver=farm.resolver)
    assert again is not first
    assert again.wait(30).status is JobStatus.COMPLETED
    assert first.wait(30).status is JobStatus.PAUSED


def test_a_job_stopped_before_it_began_ends_and_can_be_taken_up(farm: Farm, store: DuckDBStore) -> None:
    held, go = threading.Event(), threading.Event()

    def be_busy() -> None:
        held.set()
        go.wait(30)

    runner.engine().call(be_busy)
    held.wait(30)
    job = begin(farm, store)
    job.stop()
    go.set()
    assert job.wait(30).status is JobStatus.PAUSED
    assert farm.log() == []
    again = runner.take_up(store, job.job_id, policy=farm.policy, resolver=farm.resolver)
    assert again.wait(30).pages == 20


def test_whoever_waits_on_the_engines_own_thread_is_told_that_it_would_never_end(
    farm: Farm, store: DuckDBStore
) -> None:
    refused: list[str] = []

    def listener(_: object) -> None:
        try:
            job.wait()
        except AmbleError as error:
            refused.append(error.message)

    job = begin(farm, store)
    runner.engine().call(lambda: listener(None))
    assert job.wait(30).pages == 20
    assert "cannot wait for a job" in refused[0]


def test_what_breaks_a_job_is_raised_where_it_is_waited_for_and_the_engine_goes_on(
    farm: Farm, store: DuckDBStore
) -> None:
    def breaks(_: object) -> None:
        raise ZeroDivisionError("in a listener")

    site = Site(name="a.test", pages=Pages(20), robots=Robots(crawl_delay_s=0.01))
    farm.replace(site)
    broken = begin(farm, store)
    runner.engine().call(lambda: setattr(broken.job.plan, "settle", breaks))
    with pytest.raises(TypeError):
        broken.wait(30)
    assert broken.done
    assert begin(farm, store).wait(30).pages == 20


def test_a_job_that_is_not_there_is_refused(store: DuckDBStore) -> None:
    with pytest.raises(StoreError, match="there is no job 7"):
        runner.take_up(store, 7)


def synced(what: Callable[[], bool] = lambda: True) -> None:
    """Until the engine has done all that it was asked to, and this is so."""
    holds = threading.Event()
    while not holds.is_set():
        turned = threading.Event()

        def look(turned: threading.Event = turned) -> None:
            if what():
                holds.set()
            turned.set()

        runner.engine().call(look)
        turned.wait(30)


# -- with the process


def script(farm: Farm, file: Path, *, wait: str) -> subprocess.CompletedProcess[str]:
    """A program that starts a crawl of the farm and ends."""
    code = f"""
    import os, sys, threading
    from amble.jobs import runner
    from amble.settings import Settings
    from amble.store.duckdb_store import DuckDBStore
    from amble.core.addresses import AddressPolicy

    def begin(file):
        store = DuckDBStore.open(file)
        here = "http://127.0.0.1:{farm.port}/"
        return runner.start(store, [here], Settings.of({SLOW!r}), typed=[here])

    {wait}
    """
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code).replace("FILE", repr(str(file)))],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def by_address() -> Iterator[Farm]:
    with Farm([Site(name="127.0.0.1", pages=Pages(40))]) as farm:
        yield farm


def test_a_program_that_ends_drains_its_jobs_and_loses_nothing(by_address: Farm, tmp_path: Path) -> None:
    """F2: the end of the program is a polite stop, also where a store was opened after the engine was."""
    waits = """
    first = begin(FILE)
    second = begin(FILE + ".second")
    while len(first.result.ends) == 0 or first.result.pages < 4 or second.result.pages < 1:
        threading.Event().wait(0.01)
    """
    done = script(by_address, tmp_path / "x.duckdb", wait=waits)
    assert (done.returncode, done.stderr) == (0, "")
    answered = sum(entry.status == 200 and entry.target != "/robots.txt" for entry in by_address.log())
    rows = 0
    for name in ("x.duckdb", "x.duckdb.second"):
        with DuckDBStore.open(tmp_path / name) as store:
            assert [job.status for job in store.jobs()] == [JobStatus.PAUSED]
            rows += store.counts(1).done
    assert rows == answered


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_child_of_a_fork_gets_an_engine_of_its_own(by_address: Farm, tmp_path: Path) -> None:
    forks = """
    job = begin(FILE)
    child = os.fork()
    if child == 0:
        try:
            job.wait(5)
        except Exception as refused:
            said = "in the process that started it" in str(refused)
        print(said, runner.running(FILE), flush=True)
        print(begin(FILE + ".child").wait(30).status, flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print(job.wait(30).status)
    """
    done = script(by_address, tmp_path / "x.duckdb", wait=forks)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n")[:3] == ["True {}", "completed", "completed"]
