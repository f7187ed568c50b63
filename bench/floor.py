"""What the parts cost by themselves: `python -m bench floor`, or `-m bench.floor one`.

A bare loop of the parts that amble is made of (libcurl, Lexbor, ada-url, a set; then also DuckDB's appender, 200 rows
to a transaction) on the webs of `crawl_cost`, in a process of its own that is measured as amble's is. It asks for no
robots.txt and no sitemap, keeps no pace, writes no receipts: nobody could crawl so, but with these parts nothing simple
is faster. `crawl_cost` runs it beside amble.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from amble.testing.farm import FarmProcess
from bench._scenarios import THROUGHPUT, Scenario, Used, machine, run_measured


class Bare(NamedTuple):
    """One run of the bare loop."""

    pages: int
    crawl_cpu_s: float
    used: Used
    file_mb: float

    @property
    def pages_per_cpu_s(self) -> float:
        return self.pages / self.crawl_cpu_s


class Floors(NamedTuple):
    """The loop that stores nothing, and the one that stores every page."""

    bare: Bare
    storing: Bare

    def better(self, other: Floors) -> Floors:
        """The least of both rounds: other work on the machine can only add."""
        pairs = zip(self, other, strict=True)
        return Floors(*(min(pair, key=lambda one: one.crawl_cpu_s) for pair in pairs))


def floors_once(farm: FarmProcess) -> Floors:
    return Floors(_once(farm, store=False), _once(farm, store=True))


def _once(farm: FarmProcess, *, store: bool) -> Bare:
    farm.clear()
    with tempfile.TemporaryDirectory(prefix="amble-bench-") as folder:
        file = Path(folder) / "pages.duckdb"
        command = [sys.executable, "-m", "bench._bare", *([str(file)] if store else [])]
        used = run_measured(command, given="\n".join(farm.roots()))
        account = json.loads(used.output or "{}")
        report = farm.judge()
        if used.status or account["pages"] != report.got or report.got != report.pages:
            raise SystemExit(f"the bare loop got {report.got} of {report.pages} pages and ended with {used.status}")
        return Bare(account["pages"], account["crawl_cpu_s"], used, file.stat().st_size / 1e6 if store else 0.0)


HEAD = """| web | loop that stores nothing | that stores | us a page | storing | RSS | storing |
|---|---|---|---|---|---|---|"""


def line(scenario: Scenario, floors: Floors) -> str:
    bare, storing = floors
    return (
        f"| {scenario.says} | **{bare.pages_per_cpu_s:,.0f}** | **{storing.pages_per_cpu_s:,.0f}** | "
        f"{1e6 / bare.pages_per_cpu_s:,.0f} | {1e6 / storing.pages_per_cpu_s:,.0f} | "
        f"{bare.used.rss_mb:.0f} MB | {storing.used.rss_mb:.0f} MB |"
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.floor")
    parser.add_argument("scenarios", nargs="*", choices=[[], *THROUGHPUT], help="default: all")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args(argv)
    print(f"{machine()}\n\npages per CPU-second of a bare loop\n\n{HEAD}")
    for name in arguments.scenarios or THROUGHPUT:
        scenario = THROUGHPUT[name]
        with FarmProcess(scenario.sites()) as farm:
            floors = floors_once(farm)
            for _ in range(arguments.rounds - 1):
                floors = floors.better(floors_once(farm))
        print(line(scenario, floors), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
