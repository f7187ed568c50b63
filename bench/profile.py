"""Where the processor time of a crawl goes, stage by stage: `python -m bench profile`, or `-m bench.profile many`.

Stages are timed by the clock of their thread and count only what is their own, so they add up to the whole. The timers
themselves cost a few percent. Beside each stands what the part at its heart costs alone, on the same pages in the same
run, and how many times that the stage takes. `--calls N` shows what cProfile sees instead, function by function;
`--spy FOLDER` what py-spy sees from outside, with a flame graph.
"""

from __future__ import annotations

import argparse
import json
import pstats
import sys
import tempfile
from pathlib import Path

from amble.testing.farm import FarmProcess
from bench._crawl_once import Cost, crawl_once
from bench._document import circumstances, keep, load_after
from bench._scenarios import THROUGHPUT, Scenario, machine, run_measured
from bench._spy import py_spy, record, top_functions

PAGES_MAX = 6_000  # through each part alone
FUNCTIONS = 40
HEAD = """| stage | us a page | share | its part alone | factor | what that is |
|---|---|---|---|---|---|"""

ALIKE = {"page: plain": "page: tree"}  # another way to the same
Parts = dict[str, tuple[float, str]]  # seconds a page, and what it is, by stage


def parts_alone(farm: FarmProcess) -> Parts:
    used = run_measured([sys.executable, "-m", "bench._parts"], given="\n".join(farm.urls()[:PAGES_MAX]))
    if used.status:
        raise SystemExit(f"measuring the parts ended with {used.status}")
    return {stage: (float(cpu_s), str(says)) for stage, (cpu_s, says) in json.loads(used.output).items()}


def table(cost: Cost, parts: Parts) -> list[str]:
    pages, cpu_s = cost.account["pages"], cost.account["crawl_cpu_s"]
    lines, counted = [HEAD], set()
    for stage, used_s in sorted(cost.account["stages"].items(), key=lambda item: -float(item[1])):
        part = ALIKE.get(stage, stage)
        alone_s, says = parts.get(part, (0.0, ""))
        beside = f"{alone_s * 1e6:.0f} | {used_s / pages / alone_s:.1f} | {says}" if alone_s else "| |"
        lines.append(f"| {stage} | {used_s / pages * 1e6:.0f} | {used_s / cpu_s:.0%} | {beside} |")
        counted.add(part)
    parts_s = sum(alone_s for part, (alone_s, _) in parts.items() if part in counted)
    lines.append(f"| all | {cpu_s / pages * 1e6:.0f} | | {parts_s * 1e6:.0f} | {cpu_s / pages / parts_s:.1f} | |")
    return lines


def by_stage(scenario: Scenario, farm: FarmProcess, rounds: int) -> None:
    """The cheapest of a few crawls, since other work can only add."""
    when = circumstances()
    costs = [crawl_once(scenario, farm, "--stages") for _ in range(rounds)]
    least = min(costs, key=lambda cost: float(cost.account["crawl_cpu_s"]))
    lines = table(least, parts_alone(farm))
    print("\n".join(lines))
    told = f"{when}, {load_after()}. {scenario.says}; least of {rounds}, with timers."
    keep("stages.md" if scenario.name == "one" else f"stages-{scenario.name}.md", "\n".join([told, "", *lines]))


def by_calls(scenario: Scenario, farm: FarmProcess, count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="amble-bench-") as folder:
        seen = Path(folder) / "calls"
        crawl_once(scenario, farm, "--profile", str(seen))
        pstats.Stats(str(seen)).sort_stats("tottime").print_stats(count)


def by_spy(scenario: Scenario, farm: FarmProcess, folder: Path) -> None:
    program = py_spy()
    if program is None:
        raise SystemExit("py-spy is not installed\nhint: pip install py-spy, or the extra: pip install -e '.[bench]'")
    folder.mkdir(parents=True, exist_ok=True)
    graph, stacks = folder / f"flame-{scenario.name}.svg", folder / f"stacks-{scenario.name}.txt"
    record(program, scenario, farm, "flamegraph", graph)
    record(program, scenario, farm, "raw", stacks)
    for name, share in top_functions(stacks.read_text().splitlines(), FUNCTIONS):
        print(f"{share:6.1%}  {name}")
    print(f"\nwritten: {graph}, {stacks}")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.profile")
    parser.add_argument("scenario", nargs="?", choices=list(THROUGHPUT), default="one")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--calls", type=int, metavar="N", help="the N functions that take most time by themselves")
    parser.add_argument("--spy", type=Path, metavar="FOLDER", help="a flame graph by py-spy into this folder")
    arguments = parser.parse_args(argv)
    scenario = THROUGHPUT[arguments.scenario]
    print(f"{machine()}\n{scenario.says}\n", flush=True)
    with FarmProcess(scenario.sites()) as farm:
        if arguments.calls:
            by_calls(scenario, farm, arguments.calls)
        elif arguments.spy:
            by_spy(scenario, farm, arguments.spy)
        else:
            by_stage(scenario, farm, arguments.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
