"""When the network is back, names that had no address are looked up anew: by the crawl, and by its workers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from amble.core.pacing.events import NetworkBack, NetworkDown
from amble.fetcher import Resolution
from amble.jobs import Job
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.workers.frames import pieces
from amble.workers.process import Worker
from amble.workers.wire import FORGET_FAILURES


class Forgetful:
    """A resolver, or who has one, that counts how often it was told to forget."""

    def __init__(self) -> None:
        self.forgot = 0

    def forget_failures(self) -> None:
        self.forgot += 1

    async def resolve(self, host: str) -> Resolution:
        return Resolution(("127.0.0.1",))

    resolve_anew = resolve

    def close(self) -> None:
        pass


@pytest.mark.parametrize("threads", [1, 2])
def test_the_crawl_and_each_worker_are_told(threads: int, tmp_path: Path) -> None:
    here, there = Forgetful(), Forgetful()

    async def tell(store: DuckDBStore) -> None:
        job = Job.start(store, ["http://a.test/"], Settings.of({"threads": threads}), resolver=here)
        if job.workers is not None:
            job.workers._ready.append(there)  # type: ignore[arg-type]
        job._tell([NetworkDown("network", "it is down", "")])
        assert (here.forgot, there.forgot) == (0, 0)
        job._tell([NetworkBack("network", 1.0)])
        assert (here.forgot, there.forgot) == (1, int(job.workers is not None))

    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        asyncio.run(tell(store))


def test_a_worker_that_is_told_forgets() -> None:
    async def tell() -> int:
        worker: Any = Worker()
        worker._errands, worker._fetcher = object(), Forgetful()
        said = b"".join(map(bytes, pieces([(FORGET_FAILURES,)])))
        worker.get_buffer(len(said))[: len(said)] = said
        worker.buffer_updated(len(said))
        return int(worker._fetcher.forgot)

    assert asyncio.run(tell()) == 1
