"""A crawl in a process of its own, to be killed: starts a job in a file, or takes up the one that is there.

It notes every row whose storing was acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from amble.core.addresses import AddressPolicy
from amble.jobs import Job
from amble.settings import Settings
from amble.store import seam
from amble.store.database import Database
from amble.store.duckdb_store import DuckDBStore
from amble.store.writer import WriterLimits
from amble.testing.farm import Site
from amble.testing.farm.directory import Directory, FarmResolver


@dataclass(frozen=True, slots=True)
class Orders:
    """What the process is to do."""

    file: str
    acked: str  # a file that gets the URL of every acknowledged row
    port: int
    names: tuple[str, ...]
    settings: dict[str, Any]
    crash_at: str | None = None  # the step of the store at which it kills itself ...
    crash_after: int = 0  # ... when it has reached it more often than this
    linger_s: float = 0.1
    wal_bytes_max: int = 100_000  # short, so that there are checkpoints to be killed at


def killer(orders: Orders) -> Callable[[str], None]:
    """The crash point: the process is gone in the middle of a step, as if the power had failed."""
    reached = 0

    def step(name: str) -> None:
        nonlocal reached
        reached += name == orders.crash_at
        if name == orders.crash_at and reached > orders.crash_after:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


class NotingStore(DuckDBStore):
    """Notes what was acknowledged. The note is with the kernel before anything else happens, and outlives us."""

    notes = -1

    def submit(self, batch: seam.Batch, *, urgent: bool = False, soon: bool = False) -> Future[None]:
        future = super().submit(batch, urgent=urgent, soon=soon)
        text = "".join(f"{page.url} {page.content_hash}\n" for page in batch.pages).encode()
        if text:
            future.add_done_callback(lambda done: None if done.exception() else _write(self.notes, text))
        return future


def _write(descriptor: int, text: bytes) -> None:
    os.write(descriptor, text)


async def run(orders: Orders, ready: Connection) -> bool:
    limits = WriterLimits(linger_s=orders.linger_s, wal_bytes_max=orders.wal_bytes_max)
    ways: dict[str, Any] = {
        "policy": AddressPolicy.of(opened=["127.0.0.0/8"]),
        "resolver": FarmResolver(Directory(Site(name=name) for name in orders.names)),
    }
    store = NotingStore(Database.open(orders.file), limits=limits, step=killer(orders))
    with store:
        store.notes = os.open(orders.acked, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        jobs = store.jobs()
        if jobs:
            job = Job.take_up(store, jobs[-1].id, **ways)
        else:
            roots = [f"http://{name}:{orders.port}/" for name in orders.names]
            job = Job.start(store, roots, Settings.of(orders.settings), **ways)
        ready.send(None)
        result = await job.run()
    return result.status is seam.JobStatus.COMPLETED


def main(orders: Orders, ready: Connection) -> None:
    """The life of the process. It ends with 0 only if the job is complete."""
    sys.exit(not asyncio.run(run(orders, ready)))
