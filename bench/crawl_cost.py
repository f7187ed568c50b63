"""What a whole crawl costs per page, stored with its body: `python -m bench crawl_cost`, or `-m bench.crawl_cost one`.

The farm runs in a process of its own. Links are followed, robots.txt is honoured, every request has its receipt and
every page its row in DuckDB. Counted is the processor time of the crawler's process, its threads and children, from
opening the file to closing it (`crawl`), and from the first instruction of the interpreter (`process`). Each scenario
runs a few times; the least is shown, since other work on the machine can only add.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from amble.testing.farm import FarmProcess
from bench._scenarios import THROUGHPUT, Scenario, Used, machine, run_measured


class Cost(NamedTuple):
    """One run."""

    account: dict[str, Any]
    used: Used
    file_mb: float
    got: int
    pages: int
    broken: int

    @property
    def complete(self) -> bool:
        """Whether every page was got, stored as one row, and no rule was broken on the way."""
        return self.got == self.pages == self.account["rows"] == self.account["pages"] and not self.broken


def crawl_once(scenario: Scenario, farm: FarmProcess, *more: str) -> Cost:
    """Crawl a farm in a new process, into a new file."""
    farm.clear()
    with tempfile.TemporaryDirectory(prefix="amble-bench-") as folder:
        file = Path(folder) / "pages.duckdb"
        command = [sys.executable, "-m", "bench._crawler", str(file), "--settings", json.dumps(dict(scenario.settings))]
        used = run_measured([*command, *more], given="\n".join(farm.roots()))
        if used.status:
            raise SystemExit(f"the crawl ended with {used.status}")
        report = farm.judge()
        account = json.loads(used.output)
        return Cost(account, used, file.stat().st_size / 1e6, report.got, report.pages, report.violations)


HEAD = """| scenario | pages | requests | pages per CPU-second (crawl) | (process) | wanted, aim | wall | RSS | file |
|---|---|---|---|---|---|---|---|---|"""


def line(scenario: Scenario, cost: Cost) -> str:
    account, pages = cost.account, cost.account["pages"]
    whole = "" if cost.complete else f" of {cost.pages}, {cost.broken} rules broken"
    return (
        f"| {scenario.says} | {pages:,}{whole} | {account['requests']:,} | **{pages / account['crawl_cpu_s']:,.0f}** | "
        f"{pages / cost.used.cpu_s:,.0f} | {scenario.wanted:,}, {scenario.aim:,} | {cost.used.wall_s:.1f} s | "
        f"{cost.used.rss_mb:.0f} MB | {cost.file_mb:.1f} MB |"
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.crawl_cost")
    parser.add_argument("scenarios", nargs="*", choices=[[], *THROUGHPUT], help="default: all")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args(argv)
    print(f"{machine()}\n\n{HEAD}")
    complete = True
    for name in arguments.scenarios or THROUGHPUT:
        scenario = THROUGHPUT[name]
        with FarmProcess(scenario.sites()) as farm:
            costs = [crawl_once(scenario, farm) for _ in range(arguments.rounds)]
        complete &= all(cost.complete for cost in costs)
        print(line(scenario, min(costs, key=lambda cost: cost.account["crawl_cpu_s"])), flush=True)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
