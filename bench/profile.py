"""Where the processor time of a crawl goes, stage by stage: `python -m bench profile`, or `-m bench.profile many`.

Stages are timed by the clock of their thread and count only what is their own, so they add up to the whole. The timers
themselves cost a few percent. `--calls` shows what cProfile sees instead, function by function.
"""

from __future__ import annotations

import argparse
import pstats
import sys
import tempfile
from pathlib import Path

from amble.testing.farm import FarmProcess
from bench._scenarios import THROUGHPUT, machine
from bench.crawl_cost import crawl_once


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.profile")
    parser.add_argument("scenario", nargs="?", choices=list(THROUGHPUT), default="one")
    parser.add_argument("--calls", type=int, metavar="N", help="the N functions that take most time by themselves")
    arguments = parser.parse_args(argv)
    scenario = THROUGHPUT[arguments.scenario]
    print(f"{machine()}\n{scenario.says}\n")
    with FarmProcess(scenario.sites()) as farm, tempfile.TemporaryDirectory(prefix="amble-bench-") as folder:
        if arguments.calls:
            seen = Path(folder) / "calls"
            crawl_once(scenario, farm, "--profile", str(seen))
            pstats.Stats(str(seen)).sort_stats("tottime").print_stats(arguments.calls)
            return 0
        cost = crawl_once(scenario, farm, "--stages")
    pages, cpu_s = cost.account["pages"], cost.account["crawl_cpu_s"]
    for stage, used_s in sorted(cost.account["stages"].items(), key=lambda item: -item[1]):
        print(f"{stage:26} {used_s / pages * 1e6:8.1f} us a page {used_s / cpu_s:6.1%}")
    print(f"{'all':26} {cpu_s / pages * 1e6:8.1f} us a page, {pages / cpu_s:,.0f} pages per CPU-second")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
