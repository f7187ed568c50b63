"""Processes of one user that ask the same domain: crawls with workers and without, and a limiter on its own."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from amble import Limiter
from amble.core.addresses import AddressPolicy
from amble.jobs import Job
from amble.runtime_folder import VARIABLE
from amble.settings import Settings
from amble.store.database import Database
from amble.store.duckdb_store import DuckDBStore
from amble.testing.farm import Site
from amble.testing.farm.directory import Directory, FarmResolver
from amble.workers.demand import AT_ONCE, Sharing


@dataclass(frozen=True, slots=True)
class Errand:
    """What a process is to do, and where it meets the others."""

    runtime: str
    name: str
    port: int
    file: str = ""
    workers: int = 0
    requests: int = 0
    rest_s: float = 0.0  # after each of them
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def root(self) -> str:
        return f"http://{self.name}:{self.port}/"


def crawl(errand: Errand, ready: Connection) -> None:
    os.environ[VARIABLE] = errand.runtime
    asyncio.run(_crawl(errand, ready))


async def _crawl(errand: Errand, ready: Connection) -> None:
    resolver = FarmResolver(Directory([Site(name=errand.name)]))
    sharing: Sharing = AT_ONCE if errand.workers else Sharing()
    settings = Settings.of({**errand.settings, "threads": max(1, errand.workers)})
    with DuckDBStore(Database.open(errand.file)) as store:
        job = Job.start(
            store, [errand.root], settings, policy=AddressPolicy.of(opened=["127.0.0.0/8"]), resolver=resolver,
            sharing=sharing,
        )  # fmt: skip
        if errand.workers:
            assert job.workers is not None
            job.workers.start()
            while len(job.workers.pids) < errand.workers:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        ready.send(None)
        await job.run()


def ask(errand: Errand, ready: Connection) -> None:
    """Through a limiter."""
    os.environ[VARIABLE] = errand.runtime
    _ask(errand, Limiter(**errand.settings), ready)


def ask_with_a_child(errand: Errand, ready: Connection) -> None:
    """The same, and a child that was forked off asks through the same limiter."""
    os.environ[VARIABLE] = errand.runtime
    limiter = Limiter(**errand.settings)
    limiter.permit_sync(errand.root).cancel()
    child = os.fork()
    if not child:
        _ask(errand, limiter, None)
        os._exit(0)

    def end(number: int, frame: object) -> None:
        os.kill(child, signal.SIGKILL)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    _ask(errand, limiter, ready)


def _ask(errand: Errand, limiter: Limiter, ready: Connection | None) -> None:
    """Over one connection; each instant of a send is noted."""
    connection = http.client.HTTPConnection("127.0.0.1", errand.port)
    connection.connect()
    if ready is not None:
        ready.send(None)
    with Path(errand.file).open("a") as notes:
        for number in range(errand.requests):
            with limiter.permit_sync(errand.root) as permit:
                target = f"/asked?{os.getpid()}-{number}"
                connection.request("GET", target, headers={"Host": f"{errand.name}:{errand.port}"})
                permit.sent()
                notes.write(f"{time.monotonic()}\n")
                notes.flush()
                response = connection.getresponse()
                response.read()
                permit.settle(status=response.status, headers=dict(response.headers))
            time.sleep(errand.rest_s)


def refuse(errand: Errand, ready: Connection) -> None:
    """Meet a refusal, say so, and stay."""
    os.environ[VARIABLE] = errand.runtime
    limiter = Limiter(**errand.settings)
    with limiter.permit_sync(errand.root) as permit:
        permit.settle(status=429, headers={"Retry-After": "3"})
    ready.send(time.monotonic())
    time.sleep(60)
