"""Run as a program: 168 MB of pages go to a store on the slowest disk; tells how much memory that took, as JSON.

In a process of its own, because what other tests left behind in a process decides how its memory grows. A transaction
gets through only when whoever submits is stuck, so what is held stands at its limit all the time.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
from concurrent.futures import wait
from pathlib import Path

from amble.store.duckdb_store import DuckDBStore
from amble.store.writer import WriterLimits
from tests.store.support import ask, new_job, visit

WAIT_S = 30.0
LIMITS = WriterLimits(batch_size=20, linger_s=0.01, held_bytes_max=4_000_000, wal_bytes_max=4_000_000)
DATABASE_MEMORY = "30MB"  # soon full: the database keeps what it wrote until then, which is its own affair
WARM, PAGES = 1_000, 4_000


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def main(path: Path) -> None:
    began, stuck, over = threading.Event(), threading.Event(), threading.Event()

    def step(name: str) -> None:
        if name == "before_commit" and began.is_set() and not over.is_set():
            assert stuck.wait(WAIT_S)
            stuck.clear()

    with DuckDBStore.open(path, limits=LIMITS, step=step, memory_limit=DATABASE_MEMORY) as store:
        job_id = new_job(store)
        began.set()
        warm_mb = peak_mb = 0.0
        for number in range(PAGES):
            store.submit(visit(job_id, number, body=f"{number:06} " * 6_000))
            while not store.has_room:
                room = store.room()
                while not room.done():
                    stuck.set()
                    wait([room], timeout=0.01)
            peak_mb = max(peak_mb, resident_mb())
            warm_mb = peak_mb if number < WARM else warm_mb
        over.set()
        stuck.set()
        store.flush().result(WAIT_S)
        [(stored,)] = ask(store, "SELECT count(*) FROM pages")
    sys.stdout.write(json.dumps({"warm_mb": warm_mb, "peak_mb": peak_mb, "stored": stored}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
