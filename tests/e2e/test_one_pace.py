"""Processes of one user share the pace of a domain: judged by the server's log, by receipts and by notes of each send.

One of them is stopped meanwhile and one is killed; a refusal that one of them meets holds for the others.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import duckdb
import pytest

from amble import Limiter
from amble.runtime_folder import VARIABLE
from amble.testing.farm import FarmProcess, Pages, Site
from tests.e2e import neighbours
from tests.e2e.neighbours import Errand

DELAY_S = 0.15
LATE_S = 0.05  # what a busy server may be late by to note an arrival
ROUNDING_S = 0.002
NAME = "shop.test"
SPACED = {"pacing": "fixed", "fixed_delay": DELAY_S, "max_rate": "unlimited"}
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([neighbours.__name__])


@pytest.fixture
def farm() -> Iterator[FarmProcess]:
    with FarmProcess([Site(name=NAME, pages=Pages(20, 2_000))]) as served:
        yield served


@contextmanager
def process(target: Callable[[Errand, Connection], None], errand: Errand) -> Iterator[BaseProcess]:
    """Running, and ready."""
    ready, theirs = SERVER.Pipe(duplex=False)
    started = SERVER.Process(target=target, args=(errand, theirs), daemon=True)
    started.start()
    theirs.close()
    try:
        assert ready.poll(60.0)
        ready.recv()
        yield started
    finally:
        assert started.pid is not None
        if started.is_alive():
            os.kill(started.pid, signal.SIGCONT)
            started.kill()
        started.join(60.0)
        ready.close()


def errand(farm: FarmProcess, folder: Path, file: str, **more: object) -> Errand:
    runtime = os.environ[VARIABLE]
    return Errand(runtime, NAME, farm.port, str(folder / file), **{"settings": SPACED, **more})  # type: ignore[arg-type]


def starts_of(file: Path) -> list[float]:
    with duckdb.connect(str(file)) as connection:
        return [start for (start,) in connection.execute("SELECT started_s FROM amble.requests").fetchall()]


def too_soon(instants: list[float], least_s: float) -> list[float]:
    return [later - earlier for earlier, later in pairwise(sorted(instants)) if later - earlier < least_s]


@pytest.mark.timeout(300)
def test_two_crawls_one_with_helpers_and_two_limiters_ask_a_domain_as_one_would(
    farm: FarmProcess, tmp_path: Path
) -> None:
    """Three of them are stopped for a second each, one crawl is killed, and one limiter forks."""
    files = ("one.duckdb", "other.duckdb", "helped.duckdb")
    one, other, helped = (errand(farm, tmp_path, file, workers=2 * (file == files[2])) for file in files)
    asking = errand(farm, tmp_path, "notes", requests=200, rest_s=0.5, settings=SPACED | {"max_rate": None})
    with (
        process(neighbours.ask, asking) as limiter,
        process(neighbours.ask_with_a_child, asking) as forking,
        process(neighbours.crawl, one) as killed,
        process(neighbours.crawl, other) as second,
        process(neighbours.crawl, helped) as third,
    ):
        time.sleep(2.0)
        for stopped in (killed, third, limiter):
            assert stopped.pid is not None
            os.kill(stopped.pid, signal.SIGSTOP)
            time.sleep(1.0)
            os.kill(stopped.pid, signal.SIGCONT)
            time.sleep(1.0)
        killed.kill()
        third.join(240.0)
        second.join(240.0)
        forking.terminate()  # it takes its child with it
        limiter.kill()
        forking.join(60.0)
    log = farm.log()
    asked = [entry for entry in log if entry.path == "/asked"]
    noted = [float(line) for line in (tmp_path / "notes").read_text().split()]
    starts = [start for file in files for start in starts_of(tmp_path / file)]
    assert (second.exitcode, third.exitcode) == (0, 0)
    assert len({entry.target.partition("-")[0] for entry in asked}) == 3, "not each limiter had a turn"
    assert len(log) - len(asked) > 42, "the crawls hardly had a turn"
    assert too_soon([entry.arrived for entry in log], DELAY_S - LATE_S) == []
    assert too_soon(starts, DELAY_S - ROUNDING_S) == []
    assert too_soon(starts + noted, DELAY_S - LATE_S) == []  # a limiter's user notes when it went on, a little later


@pytest.mark.timeout(300)
@pytest.mark.parametrize("ends", ["lives on", "is killed"])
def test_a_refusal_that_one_process_meets_holds_for_the_others(farm: FarmProcess, tmp_path: Path, ends: str) -> None:
    settings = {"pacing": "fixed", "fixed_delay": 0.0, "max_rate": None}
    began = time.monotonic()
    with process(neighbours.refuse, errand(farm, tmp_path, "", settings=settings)) as refused:
        if ends == "is killed":
            refused.kill()
        limiter = Limiter(pacing="fixed", fixed_delay=0.0, max_rate=None)
        assert limiter.try_permit(f"http://{NAME}:{farm.port}/") is None
        assert Limiter(share_pace="process").try_permit(f"http://{NAME}:{farm.port}/") is not None
        with process(neighbours.crawl, errand(farm, tmp_path, "x.duckdb", settings={"max_crawl_pages": 2})) as crawl:
            crawl.join(120.0)
    assert min(entry.arrived for entry in farm.log()) >= began + 3.0
