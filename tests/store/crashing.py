"""A process that crawls into a file and kills itself at a step: `python -m tests.store.crashing FILE STEP NTH WAY`.

It says on stdout what was acknowledged, a line each. Steps are those of the writer and of migrations, and `checkpoint`
for the middle of one. What it writes is `logged`, or goes `straight` into the file.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import Future

from amble.core.page.links import Link
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, JobChange, JobStatus, TaskDone, TaskRow, TaskState
from amble.store.writer import WriterLimits
from tests.store.support import BEGAN, page, page_links

PAGES = 3_000
LOGGED = WriterLimits(batch_size=10, linger_s=0.005, held_pages_max=60, wal_bytes_max=150_000)
WAYS = {"logged": LOGGED, "straight": LOGGED._replace(straight_bytes_min=1, straight_share_min=0.0)}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Crash:
    def __init__(self, step: str, nth: int) -> None:
        self._step, self._left = step, nth

    def __call__(self, step: str) -> None:
        if self._step == "checkpoint" and step == "before_checkpoint":
            self._left -= 1
            if self._left == 0:
                threading.Timer(0.002, die).start()
        elif step == self._step:
            self._left -= 1
            if self._left == 0:
                die()


def visit(job_id: int, row: TaskRow, links: int) -> Batch:
    """A page, the end of its task, the tasks and links found on it: true together or not at all."""
    found = [f"{row.url}/{k}" for k in range(links)]
    fetched = page(job_id, 0, url=row.url, body=row.url * 40, depth=row.depth)
    return Batch(
        pages=[fetched],
        done=[TaskDone(job_id, row.url, TaskState.DONE)],
        discovered=[TaskRow(job_id, url, "a.test", depth=row.depth + 1, parent_url=row.url) for url in found],
        page_links=[page_links(job_id, row.url, [Link(url, "") for url in found])],
    )


def crawl(store: DuckDBStore, job_id: int) -> None:
    """Breadth first over an endless tree, three links a page."""
    handed_over = 0
    while handed_over < PAGES:
        rows = store.claim(job_id, 20)
        futures: list[Future[None]] = []
        for row in rows:
            futures.append(store.submit(visit(job_id, row, links=3)))
            handed_over += 1
        for row, future in zip(rows, futures, strict=True):
            future.result()
            sys.stdout.write(f"{row.url}\n")
            sys.stdout.flush()


def main() -> None:
    path, step, nth, way = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    with DuckDBStore.open(path, limits=WAYS[way], step=Crash(step, nth)) as store:
        if store.jobs():
            job_id = store.jobs()[0].id
            store.resume(job_id)
        else:
            job_id = store.create_job("pages", {}, [], BEGAN).id
        if not len(store.seen(job_id)):
            seed = TaskRow(job_id, "https://a.test/seed", "a.test")
            store.submit(Batch(discovered=[seed]), urgent=True).result()
        store.set_job_state(JobChange(job_id, JobStatus.RUNNING, BEGAN)).result()
        crawl(store, job_id)


if __name__ == "__main__":
    main()
