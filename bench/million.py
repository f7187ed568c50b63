"""Whether a page costs more when a million are stored than when ten thousand are: `python -m bench million`.

One crawl over sockets of 200 hosts, every page stored, its links followed: thirty on each, of which one is new.
Processor time is that of the crawler's process; the time of a fixed piece of work, measured beside it in a thread of
its own, tells how fast the machine was meanwhile, and the last column is corrected for that: a machine that others use
as well changes more in twenty minutes than a page does.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import uvloop

from amble.core.addresses import AddressPolicy
from amble.core.page.page import read_page
from amble.jobs import Job
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from bench._document import circumstances, keep, load_after
from bench._loopback import Loopback
from bench._scenarios import FAST
from bench._static import Static, make_page
from bench.growth import in_a_process

HOSTS = 200
PAGES = 1_000_000
PAGE_BYTES = 5_000
FROM, TO = 5_000, 15_000  # what a page costs at ten thousand is what these cost
STEP = 50_000
RISE_MAX = 0.15
HEAD = """| stored | us a page | the fixed work, us | a page, corrected | of that at 10,000 | file | RSS |
|---|---|---|---|---|---|---|"""


class Look(NamedTuple):
    """How far the crawl was, and what it had taken, at one moment."""

    pages: int
    cpu_s: float
    yardstick_s: float
    file_mb: float
    rss_mb: float


class Stretch(NamedTuple):
    """What pages cost between two looks."""

    pages: int  # stored at its end
    us: float
    yardstick_us: float
    file_mb: float
    rss_mb: float

    def corrected_us(self, base: Stretch) -> float:
        return self.us * base.yardstick_us / self.yardstick_us

    def of(self, base: Stretch) -> float:
        return self.corrected_us(base) / base.us


class Watch:
    """Looks at a crawl from a thread: often enough to be near every mark."""

    LOOK_S = 0.2

    def __init__(self, file: Path, marks: list[int]) -> None:
        self.looks: list[Look] = []
        self._file, self._marks = file, marks
        self._body = b"".join(make_page(7, 100))
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, job: Job) -> None:
        self._thread = threading.Thread(target=self._run, args=(job,), daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, job: Job) -> None:
        yardsticks: list[float] = []
        while self._marks:
            over = self._over.wait(self.LOOK_S)
            yardsticks.append(self._yardstick_s())
            if over or job.result.pages >= self._marks[0]:
                self._marks = [] if over else [mark for mark in self._marks if mark > job.result.pages]
                self.looks.append(self._look(job.result.pages, sorted(yardsticks)[len(yardsticks) // 2]))
                yardsticks.clear()

    def _yardstick_s(self) -> float:
        began = time.thread_time()
        for _ in range(4):
            read_page(self._body, "http://yardstick.test/", "text/html")
        return (time.thread_time() - began) / 4

    def _look(self, pages: int, yardstick_s: float) -> Look:
        cpu_s = time.process_time() - time.thread_time()
        with open("/proc/self/status") as lines:
            rss_mb = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
        sys.stderr.write(f"  {pages:,} pages, {cpu_s:.0f} CPU-seconds, {rss_mb:.0f} MB\n")
        return Look(pages, cpu_s, yardstick_s, self._file.stat().st_size / 1e6, rss_mb)


def crawl(file: str, seeds: list[str], marks: list[int], pipe: Connection) -> None:
    """The life of the process that is measured."""
    watch = Watch(Path(file), marks)

    async def run(store: DuckDBStore) -> int:
        policy = AddressPolicy.of(opened=["127.0.0.0/8"])
        job = Job.start(store, seeds, Settings.of(FAST), policy=policy, resolver=Loopback())
        watch.begin(job)
        return (await job.run()).pages

    with DuckDBStore.open(file) as store, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pages = runner.run(run(store))
    watch.end()
    pipe.send((pages, watch.looks))


def measured(pages: int, page_bytes: int) -> tuple[int, list[Look]]:
    marks = [FROM, TO, *range(STEP, pages, STEP), pages]
    with Static(HOSTS, pages // HOSTS, page_bytes, steady=True) as web:
        got: tuple[int, list[Look]] = in_a_process(crawl, web.roots(), marks)
    return got


def stretches(looks: list[Look]) -> list[Stretch]:
    return [
        Stretch(
            after.pages, (after.cpu_s - before.cpu_s) / (after.pages - before.pages) * 1e6, after.yardstick_s * 1e6,
            after.file_mb, after.rss_mb,
        )
        for before, after in pairwise(looks) if after.pages > before.pages
    ]  # fmt: skip


def line(stretch: Stretch, base: Stretch) -> str:
    return (
        f"| {stretch.pages:,} | {stretch.us:,.0f} | {stretch.yardstick_us:,.0f} | {stretch.corrected_us(base):,.0f} | "
        f"**{stretch.of(base):.2f}** | {stretch.file_mb:,.0f} MB | {stretch.rss_mb:.0f} MB |"
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.million")
    parser.add_argument("--pages", type=int, default=PAGES, help=f"in all, over {HOSTS} hosts (default {PAGES:,})")
    parser.add_argument("--bytes", type=int, default=PAGE_BYTES, help=f"of each page (default {PAGE_BYTES:,})")
    arguments = parser.parse_args(argv)
    wanted = arguments.pages // HOSTS * HOSTS
    if wanted <= TO:
        parser.error(f"--pages must be more than {TO:,}: the cost up to there is what the rest is held against")
    when = circumstances()
    pages, looks = measured(wanted, arguments.bytes)
    base, *later = stretches(looks)
    table = [HEAD, *(line(stretch, base) for stretch in [base, *later])]
    last = later[-4:]
    rise = sum(stretch.of(base) for stretch in last) / len(last) - 1
    told = [
        f"{when}, {load_after()}. {HOSTS} hosts x {wanted // HOSTS:,} pages of {arguments.bytes:,} bytes, 30 links on "
        f"each; {pages:,} pages stored.", "", *table, "",
        f"At the end, over {len(last)} rows, a page costs {rise:+.0%} of what it cost at {FROM:,} to {TO:,}; no more "
        f"than {RISE_MAX:+.0%} is wanted.",
    ]  # fmt: skip
    print("\n".join(told))
    keep("million.md", "\n".join(told))
    return int(pages != wanted or rise > RISE_MAX)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
