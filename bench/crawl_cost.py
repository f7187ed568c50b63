"""What a whole crawl costs per page, stored with its body: `python -m bench crawl_cost`, or `-m bench.crawl_cost one`.

The farm runs in a process of its own. Links are followed, robots.txt is honoured, every request has its receipt and
every page its row in DuckDB. Counted is the processor time of the crawler's process, its threads and children, from
opening the file to closing it (`crawl`), and from the first instruction of the interpreter (`process`). Beside it, in
turn, runs a bare loop of the same parts (`bench.floor`): the share of what that reaches says more than a number that
depends on the machine. Each web is crawled a few times; the least is shown, since other work can only add.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from amble.testing.farm import FarmProcess
from bench._document import circumstances, keep, load_after
from bench._scenarios import THROUGHPUT, Scenario, Used, rows_in, run_measured
from bench.floor import Floors, floors_once


class Cost(NamedTuple):
    """One run."""

    account: dict[str, Any]
    used: Used
    rows: int
    file_mb: float
    got: int
    pages: int
    broken: int

    @property
    def complete(self) -> bool:
        """Whether every page was got, stored as one row, and no rule was broken on the way."""
        return self.got == self.pages == self.rows == self.account["pages"] and not self.broken


def crawler(scenario: Scenario, file: Path) -> list[str]:
    """The command that crawls into a file what is named on its standard input."""
    settings = json.dumps(dict(scenario.settings))
    return [sys.executable, "-m", "bench._crawler", str(file), "--settings", settings]


def crawl_once(scenario: Scenario, farm: FarmProcess, *more: str) -> Cost:
    """Crawl a farm in a new process, into a new file."""
    farm.clear()
    with tempfile.TemporaryDirectory(prefix="amble-bench-") as folder:
        file = Path(folder) / "pages.duckdb"
        used = run_measured([*crawler(scenario, file), *more], given="\n".join(farm.roots()))
        if used.status:
            raise SystemExit(f"the crawl ended with {used.status}")
        report = farm.judge()
        account = json.loads(used.output)
        return Cost(
            account, used, rows_in(file), file.stat().st_size / 1e6, report.got, report.pages, report.violations
        )


COST_HEAD = """| web | pages | requests | pages per CPU-second (crawl) | (process) | wall | RSS | file |
|---|---|---|---|---|---|---|---|"""
SHARE_HEAD = """| web | amble | loop that stores | loop that does not | share of the first | of the second | wanted |
|---|---|---|---|---|---|---|"""


def cost_line(scenario: Scenario, cost: Cost) -> str:
    account, pages = cost.account, cost.account["pages"]
    whole = "" if cost.complete else f" of {cost.pages}, {cost.broken} rules broken"
    return (
        f"| {scenario.says} | {pages:,}{whole} | {account['requests']:,} | **{pages / account['crawl_cpu_s']:,.0f}** | "
        f"{pages / cost.used.cpu_s:,.0f} | {cost.used.wall_s:.1f} s | {cost.used.rss_mb:.0f} MB | "
        f"{cost.file_mb:.1f} MB |"
    )


def share_line(scenario: Scenario, cost: Cost, floors: Floors) -> str:
    reached = cost.account["pages"] / cost.account["crawl_cpu_s"]
    bare, storing = floors.bare.pages_per_cpu_s, floors.storing.pages_per_cpu_s
    return (
        f"| {scenario.says} | {reached:,.0f} | {storing:,.0f} | {bare:,.0f} | **{reached / storing:.2f}** | "
        f"{reached / bare:.2f} | {_wanted(scenario)} |"
    )


def _wanted(scenario: Scenario) -> str:
    """The number to reach, and the shares that it is where it was set."""
    if scenario.wanted is None or scenario.floors is None:
        return "-"
    bare, storing = (scenario.wanted / floor for floor in scenario.floors)
    return f"{scenario.wanted:,}: {storing:.2f} and {bare:.2f}"


def measure(scenario: Scenario, rounds: int) -> tuple[list[Cost], Floors]:
    """amble and the bare loops in turn, so that all meet the same neighbours."""
    with FarmProcess(scenario.sites()) as farm:
        costs, floors = [crawl_once(scenario, farm)], floors_once(farm)
        for _ in range(rounds - 1):
            costs.append(crawl_once(scenario, farm))
            floors = floors.better(floors_once(farm))
    return costs, floors


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.crawl_cost")
    parser.add_argument("scenarios", nargs="*", choices=[[], *THROUGHPUT], help="default: all")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args(argv)
    when = circumstances()
    print(f"{when}\n\n{COST_HEAD}")
    costs_shown, shares, complete = [COST_HEAD], [SHARE_HEAD], True
    for name in arguments.scenarios or THROUGHPUT:
        scenario = THROUGHPUT[name]
        costs, floors = measure(scenario, arguments.rounds)
        complete &= all(cost.complete for cost in costs)
        least = min(costs, key=lambda cost: float(cost.account["crawl_cpu_s"]))
        costs_shown.append(cost_line(scenario, least))
        shares.append(share_line(scenario, least, floors))
        print(costs_shown[-1], flush=True)
    print("\n".join(["", *shares]))
    told = f"{when}, {load_after()}; least of {arguments.rounds}."
    keep("cost.md", "\n".join([told, "", *costs_shown, "", *shares]))
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
