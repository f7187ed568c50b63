"""Run as a program: fetches the URLs on its command line one after another and tells what each cost, as JSON lines.

Memory is the peak over the resident size before the first of them. Lag is the most that was computed in one go before
the loop could turn to anything else: processor time, so that a busy machine does not count.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import sys
import time
from pathlib import Path

import brotli
import uvloop
import zstandard

from amble.fetcher import FetchRequest
from amble.fetcher.body import Body, decoders_for
from tests.fetcher.helpers import fetcher

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")


def memory_kib(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found[1])


def warm_up() -> None:
    """Load every library before the first measurement."""
    for coding, encoded in (
        ("gzip", gzip.compress(b"x")),
        ("br", brotli.compress(b"x")),
        ("zstd", zstandard.compress(b"x")),
    ):
        body = Body(decoders_for([coding]), 100)
        body.write(encoded)
        assert body.finish() == b"x"


async def watch_lag(worst: list[float]) -> None:
    while True:
        before = time.thread_time()
        await asyncio.sleep(0.001)
        worst[0] = max(worst[0], time.thread_time() - before)


def forget_peak() -> None:
    CLEAR_REFS.write_text("5")


async def main(warm: str, urls: list[str]) -> None:
    worst = [0.0]
    watcher = asyncio.create_task(watch_lag(worst))
    async with fetcher(http_timeout=4.0) as f:
        await f.fetch(FetchRequest(warm))
        baseline = memory_kib("VmRSS")
        for url in urls:
            forget_peak()
            worst[0] = 0.0
            cpu = time.process_time()
            result = await f.fetch(FetchRequest(url))
            await asyncio.sleep(0.003)
            told = {
                "path": url.rpartition("/")[2],
                "failure": result.failure,
                "body": result.body is not None,
                "grown_mib": (memory_kib("VmHWM") - baseline) / 1024,
                "lag_s": worst[0],
                "cpu_s": time.process_time() - cpu,
                "took_s": result.elapsed_s,
            }
            sys.stdout.write(json.dumps(told) + "\n")
    watcher.cancel()


if __name__ == "__main__":
    warm_up()
    uvloop.run(main(sys.argv[1], sys.argv[2:]))
