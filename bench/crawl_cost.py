"""What a whole crawl costs per page, stored with its body: `python -m bench crawl_cost`, or `-m bench.crawl_cost one`.

The farm runs in a process of its own. Links are followed, robots.txt is honoured, every request has its receipt and
every page its row in DuckDB. Counted is the processor time of the crawler's process, its threads and children, from
opening the file to closing it (`crawl`), and from the first instruction of the interpreter (`process`). Beside it, in
turn, runs a bare loop of the same parts (`bench.floor`): the share of what that reaches says more than a number that
depends on the machine. Each web is crawled a few times; the least is shown, since other work can only add.

`--against COMMIT` compares instead: that commit and the sources as they lie here (or `--of COMMIT`) crawl in turn, and
what is told is the median of the ratios of nine pairs. `one many --pairs 3 --share .2` asks less.
"""

from __future__ import annotations

import argparse
import signal
import sys
from functools import partial

from amble.testing.farm import FarmProcess
from bench._against import compare
from bench._checkout import checked_out
from bench._crawl_once import Cost, crawl_once
from bench._document import circumstances, keep, load_after
from bench._scenarios import THROUGHPUT, Scenario
from bench.floor import Floors, floors_once

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
    parser.add_argument("--against", metavar="COMMIT", help="compare with this commit, in turn")
    parser.add_argument("--of", metavar="COMMIT", help="compare this commit, not the sources as they lie here")
    parser.add_argument("--pairs", type=int, default=9, help="to compare on each web (default 9)")
    parser.add_argument("--share", type=float, default=1.0, help="how much of each web to compare on (default 1)")
    parser.add_argument("--minutes", type=float, default=40.0, help="begin no pair after so many (default 40)")
    arguments = parser.parse_args(argv)
    if arguments.against is not None:
        return _compare(arguments)
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


def _compare(arguments: argparse.Namespace) -> int:
    with checked_out(arguments.against) as old, checked_out(arguments.of) as new:
        for checkout in (old, new):
            checkout.check()
        complete = compare(
            arguments.scenarios or list(THROUGHPUT), old, new, pairs=arguments.pairs, share=arguments.share,
            minutes=arguments.minutes, say=partial(print, flush=True),
        )  # fmt: skip
    return 0 if complete else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left lying about
    sys.exit(main(sys.argv[1:]))
