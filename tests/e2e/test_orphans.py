"""kill -9 of a crawl: its workers end at once, whatever they have in hand, and ask nobody anything more [F1, G3]."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from amble.core.addresses import AddressPolicy
from amble.jobs import Job
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.testing.farm import FarmProcess, Pages, Site
from amble.testing.farm.directory import Directory, FarmResolver
from tests.jobs.test_workers import check_rows, gone, run, workers_of

SETTINGS: dict[str, Any] = {"pacing": "fixed", "fixed_delay": 0.02, "max_rate": "unlimited", "threads": 2}
PATIENCE_S = 30.0


def sites() -> list[Site]:
    return [Site(name=f"{letter}.test", pages=Pages(60)) for letter in "abcd"]


def ways() -> dict[str, Any]:
    return {"policy": AddressPolicy.of(opened=["127.0.0.0/8"]), "resolver": FarmResolver(Directory(sites()))}


def crawl(file: str, roots: list[str], told: Connection) -> None:
    """The life of the process that is killed."""

    async def tell(job: Job) -> None:
        pids = await workers_of(job, 2)
        while job.result.pages < 20:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.002)
        await asyncio.wrap_future(job.store.flush())
        told.send(pids)

    with DuckDBStore.open(file) as store:
        run(Job.start(store, roots, Settings.of(SETTINGS), **ways()), tell)


def test_workers_end_with_their_crawl_and_another_takes_it_up(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    with FarmProcess(sites()) as farm:
        told, theirs = multiprocessing.get_context("spawn").Pipe(duplex=False)
        process = multiprocessing.get_context("spawn").Process(target=crawl, args=(str(file), farm.roots(), theirs))
        process.start()
        pids: list[int] = told.recv()
        process.kill()
        process.join(PATIENCE_S)
        killed = time.monotonic()
        while not all(map(gone, pids)) and time.monotonic() < killed + PATIENCE_S:
            time.sleep(0.005)
        assert [gone(pid) for pid in pids] == [True, True]
        assert len(farm.log()) < 240, "it was through before it was killed"
        with DuckDBStore.open(file) as store:
            result = run(Job.take_up(store, 1, **ways()))
            assert result.pages < 240, "nothing had been stored"
        assert farm.judge().got == 240
        check_rows(file, farm)
