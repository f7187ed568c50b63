"""What storing costs, path by path in one run: `python -m bench.store_rows [pages] [stored]`.

`pages` (5,000; 0: none) go through each way of writing; then `stored` (1,000,000) are written through the store, to
see whether a page costs the same at the end as at the beginning. Processor time is the whole process's: the store's
thread and DuckDB's own are in it. Bodies are 16 KB of made-up but page-like HTML; in the long run they are 1 KB, to
fit a disk.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from amble.core.page.lines import link_lines
from amble.core.page.links import Link
from amble.core.seen import SeenSet
from amble.store.database import Database
from amble.store.duckdb_store import DuckDBStore
from amble.store.names import TableName
from amble.store.seam import Batch, DomainRow, PageLinks, PageRow, RequestRow, TaskDone, TaskRow, TaskState
from amble.store.tables import COLUMNS, TargetTable

BATCH = 100
_SMALL = 10_000  # pages of the store that a large one is compared with
BEGAN = datetime(2025, 1, 1, tzinfo=UTC)
_random = random.Random(1)
_words = ["".join(_random.choices("etaoinshrdlu", k=_random.randint(2, 9))) for _ in range(4_000)]
_weights = [1 / (i + 1) for i in range(len(_words))]


def prose(words: int) -> str:
    return " ".join(_random.choices(_words, _weights, k=words))


_HEAD = (
    "<html><head><script>"
    + prose(300)
    + "</script></head><body>"
    + "".join(f'<li class="nav__item"><a class="nav__link" href="/{word}/">{word}</a></li>' for word in _words[:60])
)
_BODIES = [
    _HEAD
    + "".join(f'<div class="teaser"><a href="/p/{i}{k}">{prose(4)}</a><p>{prose(14)}</p></div>\n' for i in range(70))
    for k in range(200)
]


def page(i: int, job_id: int, body: str) -> PageRow:
    url = f"https://www.site{i % 50}.example/section/{i % 7}/article-{i}.html"
    return PageRow(
        url, f"example,site{i % 50},www)/section/{i % 7}/article-{i}.html", 200, body, "text/html; charset=utf-8",
        BEGAN + timedelta(milliseconds=i), None, None, f'"{i:x}"', "Mon, 01 Jan 2024 00:00:00 GMT", f"{i * 7919:064x}",
        url, 0, f"site{i % 50}.example", 12.5, 3, "https://www.example/", "link", f"Title of {i}",
        f"What page {i} is about", url, None, 1, job_id,
    )  # fmt: skip


def pages(count: int, job_id: int, at: int = 0, body_chars: int | None = None) -> list[PageRow]:
    return [
        page(i, job_id, (_BODIES[i % len(_BODIES)] + str(i))[-(body_chars or 10**9) :]) for i in range(at, at + count)
    ]


class Meter:
    """Processor and wall time of what is between `start` and `stop`."""

    def __init__(self) -> None:
        self.cpu_s = self.wall_s = 0.0

    def start(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def stop(self) -> None:
        self.cpu_s += time.process_time() - self._cpu
        self.wall_s += time.perf_counter() - self._wall

    def say(self, what: str, rows: int) -> None:
        print(
            f"{what:58} {rows / self.wall_s:9,.0f} rows/s {self.cpu_s / rows * 1e6:8.1f} us of processor each",
            flush=True,
        )


def raw_paths(folder: Path, count: int) -> None:
    """The ways DuckDB offers, on the target table alone."""
    names, types = list(COLUMNS), [kinds[0] for kinds in COLUMNS.values()]
    unnested = ", ".join(f"unnest(${i}::{kind}[])" for i, kind in enumerate(types, 1))
    marks = ", ".join("?" for _ in names)
    for path in ("appender", "unnest", "executemany"):
        database = Database.open(folder / f"{path}.duckdb", threads=1)
        connection = database.connect()
        target = TargetTable.open(connection, TableName.of("main", "pages"))
        appender = connection.appender("pages")
        meter, many = Meter(), count if path != "executemany" else count // 10
        for at in range(0, many, BATCH):
            rows = [target.encode(row) for row in pages(BATCH, 1, at)]
            meter.start()
            connection.begin()
            if path == "appender":
                appender.append_rows(rows)
                appender.flush()
            elif path == "unnest":
                connection.execute(
                    f"INSERT INTO pages SELECT {unnested}", [list(column) for column in zip(*rows, strict=True)]
                )
            else:
                connection.executemany(f"INSERT INTO pages VALUES ({marks})", rows)
            connection.commit()
            if database.wal_bytes() > 32 * 1024 * 1024:
                connection.execute("CHECKPOINT")
            meter.stop()
        del appender
        connection.close()
        meter.start()
        database.close()
        meter.stop()
        meter.say(f"DuckDB alone, {path}, {BATCH} pages a transaction", many)


def visits(store: DuckDBStore, job_id: int, rows: list[PageRow], new_links: int, all_links: int) -> Iterator[Batch]:
    """What a crawl hands over: a batch per page."""
    for row in rows:
        base = row.url[:-5]
        found = [f"{base}/{k}" for k in range(new_links)]
        yield Batch(
            pages=[row],
            done=[TaskDone(job_id, row.url, TaskState.DONE)],
            discovered=[
                TaskRow(job_id, url, row.domain or "", depth=4, parent_url=row.url, discovered_by="link")
                for url in found
            ],
            requests=[
                RequestRow(
                    job_id,
                    1,
                    row.domain or "",
                    row.url,
                    7,
                    1.5,
                    1.6,
                    BEGAN,
                    1.0,
                    1.1,
                    "crawl_delay",
                    1,
                    200,
                    "success",
                    0.1,
                )
            ],
            page_links=[
                PageLinks(
                    job_id,
                    row.url,
                    *link_lines([Link(f"{base}/{k}", "an anchor") for k in range(all_links)], None, None),
                )
            ],
            domains=[DomainRow(row.domain or "", 1.0, 2.0, 1.0, numbers={"rate": 0.5})]
            if hash(row.url) % 20 == 0
            else (),
        )


def run_through(store: DuckDBStore, batches: Iterator[Batch], meter: Meter) -> None:
    made = list(batches)
    meter.start()
    for batch in made:
        store.submit(batch)
        if not store.has_room:
            store.room().result()
    store.flush().result()
    meter.stop()


def whole_store(folder: Path, count: int) -> None:
    for new_links, all_links, what in (
        (0, 0, "page, done, receipt"),
        (20, 0, "and 20 new tasks"),
        (20, 100, "and 100 links"),
    ):
        store = DuckDBStore.open(folder / f"store{new_links}{all_links}.duckdb", threads=1)
        job = store.create_job("pages", {}, [], BEGAN)
        meter = Meter()
        for at in range(0, count, 500):
            run_through(store, visits(store, job.id, pages(500, job.id, at), new_links, all_links), meter)
        meter.start()
        store.close()
        meter.stop()
        meter.say(f"the store: {what}", count)
    print(f"{'most memory so far':58} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:9,.0f} MB")


def claims(folder: Path) -> None:
    store = DuckDBStore.open(folder / "claims.duckdb", threads=1)
    one, many = (store.create_job(f"pages_{name}", {}, [], BEGAN) for name in ("one", "many"))
    for at in range(0, 1_000_000, 10_000):
        tasks = [
            TaskRow(one.id, f"https://a.example/section/{i}/page.html", "a.example") for i in range(at, at + 10_000)
        ]
        store.submit(Batch(discovered=tasks)).result()
    for at in range(0, 200_000, 1_000):
        tasks = [
            TaskRow(many.id, f"https://d{i % 5_000}.example/p/{i}", f"d{i % 5_000}.example")
            for i in range(at, at + 1_000)
        ]
        store.submit(Batch(discovered=tasks)).result()
    store.flush().result()
    for job, what, ask in (
        (one, "one host with 1,000,000 waiting", {"n": 500}),
        (
            many,
            "5,000 hosts, 20 of each of 50",
            {"n": 1_000, "domains": [f"d{i}.example" for i in range(50)], "per_domain": 20},
        ),
        (many, "5,000 hosts, 4 of each", {"n": 20_000, "per_domain": 4}),
    ):
        meter, count = Meter(), 0
        for _ in range(10 if job is one else 1):
            meter.start()
            count += len(store.claim(job.id, **ask))
            meter.stop()
        meter.say(f"claim: {what}", count)
    meter = Meter()
    meter.start()
    counts = store.resume(one.id)
    meter.stop()
    meter.say("read the ledger of 1,000,000 tasks back", counts.accepted)
    store.close()


def small_store_us(folder: Path) -> float:
    """The least of three rounds: other work on the machine can only add."""
    costs = []
    for number in range(3):
        store = DuckDBStore.open(folder / f"small{number}.duckdb", threads=1)
        job = store.create_job("pages", {}, [], BEGAN)
        meter = Meter()
        for part in range(0, _SMALL, 1_000):
            run_through(store, visits(store, job.id, pages(1_000, job.id, part, 1_024), 2, 0), meter)
        meter.start()
        store.close()
        meter.stop()
        costs.append(meter.cpu_s / _SMALL * 1e6)
    return min(costs)


def growth(folder: Path, stored: int) -> None:
    """Cost of a page in a small store, at the beginning and at the end of a large one, and of replacing pages there."""
    small = small_store_us(folder)
    print(f"{_SMALL:12,} alone:  {small:7.1f} us of processor a page, from opening to closing", flush=True)
    store = DuckDBStore.open(folder / "growth.duckdb", threads=1)
    job = store.create_job("pages", {}, [], BEGAN)
    step = max(10_000, min(50_000, stored // 20))  # several checkpoints are in it
    for at in range(0, stored, step):
        meter = Meter()
        for part in range(at, at + step, 1_000):
            run_through(store, visits(store, job.id, pages(1_000, job.id, part, 1_024), 2, 0), meter)
        each_us = meter.cpu_s / step * 1e6
        print(
            f"{at + step:12,} stored: {each_us:7.1f} us of processor a page, {each_us / small:5.2f} of the small one, "
            f"{os.path.getsize(folder / 'growth.duckdb') / 1e6:7,.0f} MB, "
            f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:5,.0f} MB of memory, "
            f"load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    again = store.create_job("pages", {}, [], BEGAN)
    meter = Meter()
    for part in range(0, 10_000, 1_000):
        rows = [
            row._replace(crawl_time=BEGAN + timedelta(days=9, milliseconds=part))
            for row in pages(1_000, again.id, part, 1_024)
        ]
        run_through(store, visits(store, again.id, rows, 0, 0), meter)
    meter.say(f"replace pages of an earlier crawl among {stored:,}", 10_000)
    store.close()


def seen_set() -> None:
    urls = [f"https://www.site{i % 5_000}.example/section/{i}/article.html" for i in range(1_000_000)]
    seen = SeenSet()
    for what in ("new", "known"):
        meter = Meter()
        meter.start()
        for at in range(0, len(urls), BATCH):
            seen.add_many(urls[at : at + BATCH])
        meter.stop()
        meter.say(f"seen-set: {what} URLs, {BATCH} at a time", len(urls))
    print(f"{'seen-set: memory':58} {seen.nbytes / len(seen):9.1f} bytes a URL")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    stored = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    folder = Path(tempfile.mkdtemp(prefix="amble-bench-"))
    parts: list[Callable[[], None]] = [lambda: growth(folder, stored)]
    if count:
        ways = [seen_set, lambda: raw_paths(folder, count), lambda: whole_store(folder, count), lambda: claims(folder)]
        parts = [*ways, *parts]
    try:
        for part in parts:
            part()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
