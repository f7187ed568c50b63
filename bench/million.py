"""Whether a page costs more when a million are stored than when ten thousand are: `python -m bench million`.

One crawl over sockets of 200 hosts, every page stored, its links followed: thirty on each, of which one is new.
Processor time is that of the crawler's process. A machine that others use as well changes more in twenty minutes than a
page does, so the crawl is stopped now and then (as by Ctrl-Z) and another one begun of the same web, as far as to its
fifteen thousandth page: what a page costs there, before a stretch and after it, is what the stretch is held against.
Up to nine tenths the stretches are long, and tell little more than how memory and file grow. The last tenth is ten
short ones, which take turns with new crawls every few seconds: these are what is judged.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import uvloop

from amble.core.addresses import AddressPolicy
from amble.jobs import Job
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from bench._document import circumstances, keep, load_after
from bench._loopback import Loopback
from bench._scenarios import FAST
from bench._static import Static

HOSTS = 200
PAGES = 1_000_000
PAGE_BYTES = 5_000
FROM, TO = 5_000, 15_000  # what a page costs at ten thousand is what these cost
STEP = 50_000
LAST = 10  # short stretches at the end
RISE_MAX = 0.15
HEAD = """| stored | us a page, of it the loop | in a new crawl at 10,000, before and after | ratio | file | RSS |
|---|---|---|---|---|---|"""


class Look(NamedTuple):
    """How far a crawl was, and what it had taken, at one moment."""

    pages: int
    cpu_s: float
    loop_s: float  # of it, the thread's that decides
    file_mb: float
    rss_mb: float


class Stretch(NamedTuple):
    """What a page cost between two looks, and what it cost in the new crawls before and after."""

    end: Look
    us: float
    loop_us: float  # of it
    before_us: float
    after_us: float

    @property
    def ratio(self) -> float:
        return 2 * self.us / (self.before_us + self.after_us)


def us_a_page(before: Look, after: Look) -> tuple[float, float]:
    """All of it, and the loop's."""
    each = (after.pages - before.pages) / 1e6
    return (after.cpu_s - before.cpu_s) / each, (after.loop_s - before.loop_s) / each


class Watch:
    """Looks at a crawl from a thread, near every mark, and tells what it sees."""

    LOOK_S = 0.02

    def __init__(self, file: Path, marks: list[int], pipe: Connection) -> None:
        self._file, self._marks, self._pipe = file, marks, pipe

    def begin(self, job: Job) -> None:
        self._loop_clock = time.pthread_getcpuclockid(threading.get_ident())
        threading.Thread(target=self._run, args=(job,), daemon=True).start()

    def _run(self, job: Job) -> None:
        for mark in self._marks:
            while job.result.pages < mark:
                time.sleep(self.LOOK_S)
            self._pipe.send(self._look(job.result.pages))

    def _look(self, pages: int) -> Look:
        cpu_s = time.process_time() - time.thread_time()
        with open("/proc/self/status") as lines:
            rss_mb = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
        return Look(pages, cpu_s, time.clock_gettime(self._loop_clock), self._file.stat().st_size / 1e6, rss_mb)


def crawl(file: str, seeds: list[str], pages_max: int, marks: list[int], pipe: Connection) -> None:
    """The life of a process that is measured."""

    async def run(store: DuckDBStore) -> int:
        settings = Settings.of({**FAST, "max_crawl_pages": pages_max})
        policy = AddressPolicy.of(opened=["127.0.0.0/8"])
        job = Job.start(store, seeds, settings, policy=policy, resolver=Loopback())
        Watch(Path(file), marks, pipe).begin(job)
        return (await job.run()).pages

    with DuckDBStore.open(file) as store, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pages = runner.run(run(store))
    pipe.send(pages)


class Crawl:
    """A crawl in a process and a file of its own."""

    def __init__(self, seeds: list[str], pages: int, marks: list[int], file: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._told, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=crawl, args=(file, seeds, pages, marks, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def look(self) -> Look:
        """At the next mark."""
        look: Look = self._told.recv()
        return look

    def end(self) -> int:
        """How many pages it got."""
        pages: int = self._told.recv()
        self._process.join()
        return pages

    def stop(self) -> None:
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        self._send(signal.SIGKILL)
        self._process.join()

    def _send(self, number: signal.Signals) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)


@contextmanager
def crawling(seeds: list[str], pages: int, marks: list[int]) -> Iterator[Crawl]:
    with tempfile.TemporaryDirectory(prefix="amble-bench-") as folder:
        yield Crawl(seeds, pages, marks, str(Path(folder) / "x.duckdb"))


def new_crawl_us(seeds: list[str], pages: int) -> float:
    """What a page costs at ten thousand in a crawl that begins now. It may go as far as the large one, and is not let:
    one that is allowed fifteen thousand takes in no more links once so many are queued, and costs a twentieth less."""
    with crawling(seeds, pages, [FROM, TO]) as small:
        us, _ = us_a_page(small.look(), small.look())
        small.kill()
    return us


def marks_of(pages: int) -> list[int]:
    short = pages // 10 // LAST
    return [FROM, *range(STEP, pages - LAST * short, STEP), *range(pages - LAST * short, pages, short), pages - HOSTS]


def measured(pages: int, page_bytes: int) -> tuple[int, list[Stretch]]:
    marks = marks_of(pages)
    with Static(HOSTS, pages // HOSTS, page_bytes, steady=True) as web:
        seeds = web.roots()
        looks, new_us = list[Look](), list[float]()
        with crawling(seeds, pages, marks) as large:
            for _ in marks:
                looks.append(large.look())
                large.stop()
                new_us.append(new_crawl_us(seeds, pages))
                sys.stderr.write(
                    f"  {looks[-1].pages:,} pages, {looks[-1].cpu_s:.0f} CPU-seconds; {new_us[-1]:.0f} us\n"
                )
                large.go_on()
            got = large.end()
    looked = zip(pairwise(looks), pairwise(new_us), strict=True)
    return got, [Stretch(after, *us_a_page(before, after), *beside) for (before, after), beside in looked]


def line(stretch: Stretch) -> str:
    return (
        f"| {stretch.end.pages:,} | {stretch.us:,.0f}, {stretch.loop_us:,.0f} | "
        f"{stretch.before_us:,.0f}, {stretch.after_us:,.0f} | "
        f"**{stretch.ratio:.2f}** | {stretch.end.file_mb:,.0f} MB | {stretch.end.rss_mb:.0f} MB |"
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.million")
    parser.add_argument("--pages", type=int, default=PAGES, help=f"in all, over {HOSTS} hosts (default {PAGES:,})")
    parser.add_argument("--bytes", type=int, default=PAGE_BYTES, help=f"of each page (default {PAGE_BYTES:,})")
    arguments = parser.parse_args(argv)
    wanted = arguments.pages // HOSTS * HOSTS
    if wanted < 2 * STEP:
        parser.error(
            f"--pages must be {2 * STEP:,} at least: what a page costs at {TO:,} is what the rest is held against"
        )
    when = circumstances()
    pages, stretches = measured(wanted, arguments.bytes)
    last = stretches[-LAST:]
    rise = sum(stretch.us for stretch in last) / sum((each.before_us + each.after_us) / 2 for each in last) - 1
    told = [
        f"{when}, {load_after()}. {HOSTS} hosts x {wanted // HOSTS:,} pages of {arguments.bytes:,} bytes, 30 links on "
        f"each; {pages:,} pages stored.", "", HEAD, *(line(stretch) for stretch in stretches), "",
        f"At the end, over {len(last)} rows, a page costs {rise:+.0%} of what it costs in new crawls at {FROM:,} to "
        f"{TO:,}; no more than {RISE_MAX:+.0%} is wanted.",
    ]  # fmt: skip
    print("\n".join(told))
    keep("million.md", "\n".join(told))
    return int(pages != wanted or rise > RISE_MAX)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
