"""The process that is measured: one crawl of a farm that runs elsewhere, its own account on standard output as JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import time
from typing import Any

import uvloop

from amble.core.addresses import AddressPolicy
from amble.jobs import Job, JobResult
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.workers.demand import AT_ONCE
from bench._loopback import Loopback


def cpu_s() -> float:
    return _cpu_s(resource.RUSAGE_SELF) + _cpu_s(resource.RUSAGE_CHILDREN)


def _cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


async def _run(store: DuckDBStore, seeds: list[str], settings: Settings) -> JobResult:
    policy = AddressPolicy.of(opened=["127.0.0.0/8"])
    return await Job.start(store, seeds, settings, policy=policy, resolver=Loopback(), sharing=AT_ONCE).run()


def crawl(file: str, seeds: list[str], named: dict[str, Any]) -> dict[str, Any]:
    """Crawl into a file, close it, and say what it took from the first line to the last."""
    began, before_s, loop_s = time.monotonic(), cpu_s(), time.thread_time()
    settings = Settings.of(named)
    with DuckDBStore.open(file) as store, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(_run(store, seeds, settings))
    crawl_cpu_s, crawl_wall_s = cpu_s() - before_s, time.monotonic() - began
    return {
        "pages": result.pages,
        "requests": result.requests,
        "ends": dict(result.ends),
        "status": str(result.status),
        "crawl_cpu_s": crawl_cpu_s,
        "crawl_wall_s": crawl_wall_s,
        "loop_cpu_s": time.thread_time() - loop_s,
        "workers_cpu_s": _cpu_s(resource.RUSAGE_CHILDREN),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--settings", default="{}")
    parser.add_argument("--cores", type=int, help="use no more than so many of the processor's")
    parser.add_argument("--profile", help="write what cProfile saw here")
    parser.add_argument("--stages", action="store_true", help="count the processor time of each stage")
    arguments = parser.parse_args()
    seeds = sys.stdin.read().split()
    if arguments.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])
    stages = None
    if arguments.stages:
        from bench._stages import Stages  # not loaded where nobody asks: that would count as well

        stages = Stages()
        stages.install()
    if arguments.profile:
        import cProfile

        profile = cProfile.Profile()
        account = profile.runcall(crawl, arguments.file, seeds, json.loads(arguments.settings))
        profile.dump_stats(arguments.profile)
    else:
        account = crawl(arguments.file, seeds, json.loads(arguments.settings))
    if stages is not None:
        account["stages"] = stages.account(account["crawl_cpu_s"])
    print(json.dumps(account))


if __name__ == "__main__":
    main()
