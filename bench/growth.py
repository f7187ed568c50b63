"""How memory grows: many hosts with few pages, and one host with very many. The limit is 300 MB [C10, M1].

`python -m bench growth` crawls both webs. `python -m bench.growth sitemaps` takes in what the sitemaps of one host
list, a million URLs, and ends when the last of them is stored as a task: 20,000 in a second of processor time at least.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
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
from bench._listed import ListedSite
from bench._loopback import Loopback

RSS_MAX_MB = 300.0
ENTERED_PER_CPU_S_MIN = 20_000.0
LISTED_URLS = 1_000_000
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


@dataclass(frozen=True, slots=True)
class Entered:
    """What it took until every URL that sitemaps list was stored as a task."""

    tasks: int
    requests: int
    wall_s: float
    cpu_s: float
    rss_mb: float
    longest_stall_s: float
    file_mb: float

    @property
    def per_cpu_s(self) -> float:
        return self.tasks / self.cpu_s

    def __str__(self) -> str:
        return (
            f"{self.tasks:,} tasks in {self.wall_s:.0f} s, {self.per_cpu_s:,.0f} per CPU-second, "
            f"{self.requests:,} requests, RSS {self.rss_mb:.0f} MB, file {self.file_mb:.0f} MB, "
            f"longest stall of the loop {1000 * self.longest_stall_s:.0f} ms"
        )


async def has_entered(job: Job, running: asyncio.Task[JobResult], urls: int) -> None:
    while True:
        if job.plan.frontier.accepted >= urls or running.done():
            return
        await asyncio.sleep(0.05)


def enter(file: str, seed: str, urls: int, pipe: Connection) -> None:
    """The life of a process that takes in sitemaps, and stops when it has them all."""
    stalls = Stalls()

    async def run(store: DuckDBStore) -> tuple[int, int]:
        watching = asyncio.create_task(stalls.watch())
        policy = AddressPolicy.of(opened=["127.0.0.0/8"])
        # Sitemaps come one by one anyway; what is asked for between them is few pages, and is in the numbers.
        settings = Settings.of({**SETTINGS, "fixed_delay": 0.2})
        job = Job.start(store, [seed], settings, policy=policy, resolver=Loopback())
        _job.append(job)
        running = asyncio.create_task(job.run())
        await has_entered(job, running, urls)
        job.crawl.stop()
        result = await running
        watching.cancel()
        _job.clear()
        return result.job_id, result.requests

    tell_growth(20.0)
    began, before_s = time.monotonic(), time.process_time()
    with DuckDBStore.open(file) as store, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        job_id, requests = runner.run(run(store))
        tasks = store.counts(job_id).accepted
    cpu_s, wall_s = time.process_time() - before_s, time.monotonic() - began
    file_mb = Path(file).stat().st_size / 1e6
    pipe.send(Entered(tasks, requests, wall_s, cpu_s, peak_rss_mb(), stalls.longest_s, file_mb))


def in_a_process(life: Callable[..., None], *arguments: Any) -> Any:
    """What a process says that lives so, in a file of its own; memory of others is not in its peak."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="amble-bench-") as folder:
        ours, theirs = context.Pipe()
        process = context.Process(target=life, args=(str(Path(folder) / "x.duckdb"), *arguments, theirs))
        process.start()
        theirs.close()
        said = ours.recv()
        process.join()
    return said


def measure(sites: list[Site], settings: dict[str, Any]) -> Grown:
    with FarmProcess(sites) as farm:
        seeds = [f"http://{site.name}:{farm.port}/" for site in sites]
        grown: Grown = in_a_process(crawl, seeds, settings)
    return grown


def sitemaps(urls: int) -> int:
    with ListedSite("one.test", urls) as site:
        entered: Entered = in_a_process(enter, site.url, urls)
    sys.stdout.write(f"1 host, {urls:,} URLs of sitemaps: {entered}\n")
    slow = entered.per_cpu_s < ENTERED_PER_CPU_S_MIN
    return int(slow or entered.rss_mb > RSS_MAX_MB or entered.tasks < urls)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", nargs="?", choices=["crawls", "sitemaps"], default="crawls")
    parser.add_argument("--listed", type=int, default=LISTED_URLS, help="URLs of the sitemaps (default 1,000,000)")
    parser.add_argument("--hosts", type=int, default=10_000, help="hosts of three pages each (default 10,000)")
    parser.add_argument("--urls", type=int, default=200_000, help="pages of the one host (default 200,000)")
    arguments = parser.parse_args()
    if arguments.scenario == "sitemaps":
        return sitemaps(arguments.listed)
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
