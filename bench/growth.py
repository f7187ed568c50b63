"""How memory grows: many hosts with few pages, and one host with very many. The limit is 300 MB [C10, M1]."""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvloop

from amble.core.addresses import AddressPolicy
from amble.jobs import Job, JobResult
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Counts
from amble.testing.farm import FarmProcess, Pages, Site, Sitemap
from bench._loopback import Loopback

RSS_MAX_MB = 300.0
SETTINGS: dict[str, Any] = {
    "pacing": "fixed", "fixed_delay": 0.0, "max_rate": "unlimited", "max_parallel_per_domain": 8,
    "max_total_connections": 64, "threads": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Grown:
    """What one crawl took."""

    status: str
    counts: Counts
    requests: int
    wall_s: float
    cpu_s: float
    rss_mb: float
    longest_stall_s: float

    def __str__(self) -> str:
        return (
            f"{self.status}, {self.counts.done:,} pages of {self.counts.accepted:,}, {self.requests:,} requests, "
            f"{self.wall_s:.0f} s, {self.counts.done / self.cpu_s:.0f} pages per CPU-second, RSS {self.rss_mb:.0f} MB, "
            f"longest stall of the loop {1000 * self.longest_stall_s:.0f} ms"
        )


class Stalls:
    """How long the event loop was held up."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            self.longest_s = max(self.longest_s, time.monotonic() - began - 0.01)


def peak_rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def tell_growth(every_s: float) -> None:
    """A line now and then, for whoever watches."""
    began = time.monotonic()

    def tell() -> None:
        while True:
            time.sleep(every_s)
            sys.stderr.write(f"  {time.monotonic() - began:5.0f} s {peak_rss_mb():6.0f} MB {progress()}\n")

    threading.Thread(target=tell, daemon=True).start()


_job: list[Job] = []


def progress() -> str:
    if not _job:
        return ""
    frontier = _job[0].plan.frontier
    return (
        f"{frontier.final:,} of {frontier.accepted:,}, {frontier.backlog.total:,} in the store, "
        f"{len(frontier.lanes):,} lanes, {len(frontier.recalls):,} recalls"
    )


def crawl(file: str, seeds: list[str], settings: dict[str, Any], pipe: Connection) -> None:
    """The life of the process that is measured."""
    stalls = Stalls()

    async def run(store: DuckDBStore) -> JobResult:
        watching = asyncio.create_task(stalls.watch())
        policy = AddressPolicy.of(opened=["127.0.0.0/8"])
        job = Job.start(store, seeds, Settings.of(settings), policy=policy, resolver=Loopback())
        _job.append(job)
        result = await job.run()
        watching.cancel()
        _job.clear()
        return result

    tell_growth(20.0)
    began = time.monotonic()
    with DuckDBStore.open(file) as store, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(run(store))
        counts = store.counts(result.job_id)
    used = resource.getrusage(resource.RUSAGE_SELF)
    pipe.send(
        Grown(
            str(result.status), counts, result.requests, time.monotonic() - began, used.ru_utime + used.ru_stime,
            peak_rss_mb(), stalls.longest_s,
        )
    )  # fmt: skip


def measure(sites: list[Site], settings: dict[str, Any]) -> Grown:
    context = multiprocessing.get_context("spawn")
    with FarmProcess(sites) as farm, tempfile.TemporaryDirectory() as folder:
        seeds = [f"http://{site.name}:{farm.port}/" for site in sites]
        ours, theirs = context.Pipe()
        process = context.Process(target=crawl, args=(str(Path(folder) / "x.duckdb"), seeds, settings, theirs))
        process.start()
        theirs.close()
        grown: Grown = ours.recv()
        process.join()
    return grown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000, help="hosts of three pages each (default 10,000)")
    parser.add_argument("--urls", type=int, default=200_000, help="pages of the one host (default 200,000)")
    arguments = parser.parse_args()
    webs = []
    if arguments.hosts:
        many = [Site(name=f"h{n}.test", pages=Pages(3, 1_500, related=0)) for n in range(arguments.hosts)]
        webs.append((f"{arguments.hosts:,} hosts x 3 pages", many, {"discover": False, "follow_links": True}, 3))
    if arguments.urls:
        one = [
            Site(
                name="one.test",
                pages=Pages(arguments.urls, 1_500, related=0),
                sitemap=Sitemap(kind="index", per_file=50_000),
            )
        ]
        webs.append((f"1 host x {arguments.urls:,} URLs of sitemaps", one, {}, arguments.urls))
    failed = False
    for name, sites, more, pages in webs:
        grown = measure(sites, {**SETTINGS, **more})
        sys.stdout.write(f"{name}: {grown}\n")
        failed |= grown.rss_mb > RSS_MAX_MB or grown.counts.done < pages * len(sites) or grown.status != "completed"
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
