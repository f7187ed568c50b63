"""One process against two workers, in the same run: `python -m bench workers`, or `-m bench.workers many --rounds 3`.

By the clock the comparison needs two cores that nobody else uses: the farm and whatever else runs take their part of
them, so what the farm used is told. The processor time of the crawl's own process and of its workers depends on that
less: a crawl goes no faster than its own process lets it, nor than it fits on two cores. That is the last column.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import NamedTuple

from amble.testing.farm import FarmProcess
from amble.testing.farm.webs import many_hosts
from bench._scenarios import FAST, THROUGHPUT, Scenario, machine
from bench.crawl_cost import Cost, crawl_once

SCENARIOS = {
    **THROUGHPUT,
    "long": Scenario("long", "200 hosts x 100 pages of 20 KB", partial(many_hosts, pages=100), FAST),
}
HEAD = """| scenario | workers | pages/s | wall | CPU crawl + workers | farm | us a page | bound by two cores |
|---|---|---|---|---|---|---|---|"""


class Round(NamedTuple):
    """One crawl, and what the farm used meanwhile."""

    cost: Cost
    farm_cpu_s: float

    @property
    def wall_s(self) -> float:
        return float(self.cost.account["crawl_wall_s"])

    @property
    def pages(self) -> int:
        return int(self.cost.account["pages"])


def crawl_with(scenario: Scenario, farm: FarmProcess, threads: int) -> Round:
    before_s = farm.cpu_s()
    cost = crawl_once(scenario._replace(settings={**scenario.settings, "threads": threads}), farm)
    if not cost.complete:
        raise SystemExit(f"{scenario.name} with {threads}: {cost.account['pages']} pages, {cost.broken} rules broken")
    return Round(cost, farm.cpu_s() - before_s)


def line(scenario: Scenario, threads: int, best: Round) -> str:
    account, pages = best.cost.account, best.pages
    workers_s = account["workers_cpu_s"]
    own_s = account["crawl_cpu_s"] - workers_s
    bound_s = max(own_s, (own_s + workers_s) / min(2, threads))
    workers = threads if threads > 1 else "none"
    return (
        f"| {scenario.says} | {workers} | **{pages / best.wall_s:,.0f}** | {best.wall_s:.1f} s | "
        f"{own_s:.1f} + {workers_s:.1f} s | {best.farm_cpu_s:.1f} s | {(own_s + workers_s) / pages * 1e6:,.0f} | "
        f"{pages / bound_s:,.0f} pages/s |"
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.workers")
    parser.add_argument("scenarios", nargs="*", choices=[[], *SCENARIOS], help="default: many, long, crowd")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args(argv)
    print(f"{machine()}\n\n{HEAD}")
    for name in arguments.scenarios or ("many", "long", "crowd"):
        scenario = SCENARIOS[name]
        best: dict[int, Round] = {}
        with FarmProcess(scenario.sites()) as farm:
            for threads in (1, 2) * arguments.rounds:  # in turn, so that both meet the same neighbours
                found = crawl_with(scenario, farm, threads)
                best[threads] = min(best.get(threads, found), found, key=lambda one: one.wall_s)
        for threads, one in best.items():
            print(line(scenario, threads, one), flush=True)
        print(f"| | | x {best[1].wall_s / best[2].wall_s:.2f} | | | | | |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
