"""A job whose pages are fetched by workers is looked at, paused, resumed and interrupted like any other [F2]."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from amble.cli import main
from amble.cli.live import block, one_line
from amble.control import Desk
from amble.control.progress import look
from amble.jobs.runner import RunningJob, start, take_up
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import JobStatus
from amble.testing.farm import Farm, Pages, Site
from amble.testing.farm.outages import Outage
from amble.workers.demand import AT_ONCE
from tests.jobs.test_workers import check_rows, gone

SETTINGS = {
    "pacing": "fixed", "fixed_delay": 0.02, "max_rate": "unlimited", "follow_links": True, "discover": False,
    "threads": 2, "http_timeout": 3_600, "header_timeout_s": 3_600, "retry_backoff": "exponential",
    "retry_base_delay": 0.01,
}  # fmt: skip
PAGES = 150
PATIENCE_S = 60.0


def sites(*outages: Outage) -> list[Site]:
    return [Site(name=f"{name}.test", pages=Pages(PAGES, 4_000), outages=outages) for name in "ab"]


def ways(farm: Farm) -> dict[str, Any]:
    return {"policy": farm.policy, "resolver": farm.resolver}


def begin(store: DuckDBStore, farm: Farm) -> tuple[RunningJob, list[int]]:
    """A job, as soon as its workers have brought something; and their process ids."""
    job = start(store, farm.roots(), Settings.of(SETTINGS), sharing=AT_ONCE, **ways(farm))
    wait_for(lambda: job.result.pages > 0)  # they were sent for before the first visit
    job.pause()  # on a busy machine all would be fetched before they are there
    wait_for(lambda: len(pids_of(job)) == 2)
    job.resume()
    began_with = job.result.pages
    wait_for(lambda: job.result.pages >= began_with + 10)
    return job, pids_of(job)


def pids_of(job: RunningJob) -> list[int]:
    assert job.job.workers is not None
    return job.job.workers.pids


def wait_for(happened: Callable[[], bool]) -> None:
    give_up = monotonic() + PATIENCE_S
    while not happened() and monotonic() < give_up:
        sleep(0.005)
    assert happened()


def answer(*words: str) -> Any:
    with redirect_stdout(StringIO()) as out:
        assert main([*words, "--json"]) == 0
    return json.loads(out.getvalue())


def under_way(job: RunningJob) -> int:
    return look(job, 0.0).under_way


def test_it_says_how_many_there_are_waits_while_paused_and_goes_on_though_one_is_killed_f1(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    with Farm(sites()) as farm, DuckDBStore.open(file, sealed=True) as store, Desk(store):
        job, pids = begin(store, farm)
        progress = look(job, 0.0)
        assert "2 workers" in one_line(progress)
        assert any("2 workers" in text for text, _ in block(progress, "x.duckdb", 120, 24))
        assert [each["workers"] for each in answer("jobs", str(file))] == [2]
        assert answer("why", farm.url("a.test"), str(file))["workers"] == 2
        for pid in pids:  # the crawl comes first on a core, and Ctrl-C is for it alone
            assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, os.getpid())
            assert os.getpgid(pid) == pid
            assert os.getsid(pid) == os.getsid(0)

        job.pause()
        wait_for(lambda: under_way(job) == 0)
        asked = len(farm.log())
        os.kill(pids[0], signal.SIGKILL)
        wait_for(lambda: len(set(pids_of(job)) - {pids[0]}) == 2)  # another has taken its place
        assert len(farm.log()) == asked, "something was sent during the pause"
        assert not job.done

        job.resume()
        assert job.wait(PATIENCE_S).status is JobStatus.COMPLETED
        assert [each["workers"] for each in answer("jobs", str(file))] == [0]
    check_rows(file, farm)


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_interrupted_it_hands_back_what_is_left_and_its_workers_end(tmp_path: Path, times: int) -> None:
    """`stop` is what a Ctrl-C comes to; see `wait_or_stop`."""
    file = tmp_path / "x.duckdb"
    with Farm(sites()) as farm, DuckDBStore.open(file) as store:
        job, pids = begin(store, farm)
        for pid in pids:
            os.kill(pid, signal.SIGINT)  # should it reach them, too, it is none of their business
        pages = job.result.pages
        wait_for(lambda: job.result.pages >= pages + 20)
        assert pids_of(job) == pids
        if times == 2:
            farm.replace(*sites(Outage(0.0, 3_600.0, "hang")))  # nothing ends by itself any more
            wait_for(lambda: under_way(job) >= 4)
        job.stop()
        if times == 2:
            wait_for(lambda: look(job, 0.0).phase == "stopping")
            job.stop(now=True)
        assert job.wait(PATIENCE_S).status is JobStatus.PAUSED
        assert [gone(pid) for pid in pids] == [True, True]
        if times == 1:
            assert all(entry.complete for entry in farm.log()), "what was under way was cut off"
        counts = store.counts(1)
        assert 0 < counts.final < counts.accepted
        assert counts.running == 0, "nobody holds it any more"
        farm.replace(*sites())
        assert take_up(store, 1, **ways(farm)).wait(PATIENCE_S).status is JobStatus.COMPLETED
    check_rows(file, farm)
