"""One process against two workers, in turn: `python -m bench workers`, or `-m bench.workers small --rounds 5`.

One process uses more than one core where it can: the store's writer is a thread beside the crawl's. So there are two
ratios: against one process as it is, and against one that is kept on one core, which is what the second core is worth.

By the clock this needs two cores that nobody else uses. What is crawled is cheap to serve, but is served on the same
two cores: what that took is told, and the second ratio leaves it out (half of it is in the way where both are in use;
with one process it has the other core).

The bounds are what two free cores could give by processor time alone: what is done in turn on one of them, or all
of it over both, whichever is more. Done in turn is what the crawl's own thread does, and as much of what the store's
writer does as keeps that thread waiting: nothing at the first bound, all of it at the second.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench._document import circumstances, keep, load_after
from bench._scenarios import FAST, rows_in, run_measured
from bench._static import Static

WEBS = {  # hosts, pages of 20 KB at each
    "small": (200, 25),
    "long": (200, 300),
    "one": (1, 5_000),
    "crowd": (10_000, 3),
}
HEAD = """| web | workers | pages/s | wall | CPU: loop, rest of the process, workers | web | us a page |
|---|---|---|---|---|---|---|"""


class Way(NamedTuple):
    """How to crawl."""

    name: str
    threads: int
    cores: int | None


ONE_CORE, ONE, TWO = Way("none, one core", 1, 1), Way("none", 1, None), Way("2", 2, None)


class Round(NamedTuple):
    """One crawl."""

    pages: int
    wall_s: float
    loop_s: float  # processor time of the thread that decides,
    own_s: float  # of its process with the store's writer,
    workers_s: float  # of the processes beside it,
    web_s: float  # and of who was crawled

    @property
    def all_s(self) -> float:
        return self.own_s + self.workers_s


def crawl(web: Static, way: Way) -> Round:
    before_s = web.cpu_s()
    settings = json.dumps({**FAST, "threads": way.threads})
    with tempfile.TemporaryDirectory(prefix="amble-bench-") as folder:
        file = Path(folder) / "pages.duckdb"
        command = [sys.executable, "-m", "bench._crawler", str(file), "--settings", settings]
        command += ["--cores", str(way.cores)] if way.cores else []
        used = run_measured(command, given="\n".join(web.roots()))
        if used.status:
            raise SystemExit(f"the crawl ended with {used.status}")
        rows = rows_in(file)
    web_s = web.cpu_s() - before_s
    account = json.loads(used.output)
    if not account["pages"] == rows == web.count:
        raise SystemExit(f"{way.name}: {account['pages']} pages, {rows} rows of {web.count}")
    workers_s = account["workers_cpu_s"]
    return Round(
        web.count, account["crawl_wall_s"], account["loop_cpu_s"], account["crawl_cpu_s"] - workers_s, workers_s, web_s
    )


def line(name: str, way: Way, one: Round) -> str:
    hosts, pages = WEBS[name]
    return (
        f"| {hosts:,} x {pages:,} | {way.name} | **{one.pages / one.wall_s:,.0f}** | "
        f"{one.wall_s:.1f} s | {one.loop_s:.1f}, {one.own_s - one.loop_s:.1f}, {one.workers_s:.1f} s | "
        f"{one.web_s:.1f} s | {one.all_s / one.pages * 1e6:,.0f} |"
    )


def ratios(rounds: dict[Way, list[Round]]) -> str:
    """How much faster two workers were than whoever crawled just before, and what processor time would allow: medians
    of all rounds, so that no good or bad minute of the machine decides."""

    def median(of: Callable[[Round, Round, Round], float]) -> str:
        return f"x {statistics.median(map(of, rounds[ONE_CORE], rounds[ONE], rounds[TWO])):.2f}"

    def beside_s(two: Round) -> float:
        return two.wall_s - two.web_s / 2

    return (
        f"{median(lambda _, one, two: one.wall_s / two.wall_s)} by the clock, "
        f"{median(lambda _, one, two: one.wall_s / beside_s(two))} without what the web took; against one core "
        f"{median(lambda core, _, two: core.wall_s / two.wall_s)} and "
        f"{median(lambda core, _, two: core.wall_s / beside_s(two))}; "
        f"{median(lambda _, one, two: max(one.loop_s, one.all_s / 2) / max(two.loop_s, two.all_s / 2))} to "
        f"{median(lambda _, one, two: one.all_s / max(two.own_s, two.all_s / 2))} by processor time; "
        f"two workers took {median(lambda _, one, two: two.all_s / one.all_s)} as much"
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.workers")
    parser.add_argument("webs", nargs="*", choices=[[], *WEBS], help="default: small and long")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args(argv)
    when = circumstances()
    print(f"{when}\n\n{HEAD}", flush=True)
    lines, told = [HEAD], []
    for name in arguments.webs or ("small", "long"):
        rounds: dict[Way, list[Round]] = {ONE_CORE: [], ONE: [], TWO: []}
        with Static(*WEBS[name]) as web:
            for way in list(rounds) * arguments.rounds:  # in turn, so that all meet the same neighbours
                rounds[way].append(crawl(web, way))
                lines.append(line(name, way, rounds[way][-1]))
                print(lines[-1], flush=True)
        told.append(f"- {name}: {ratios(rounds)}")
    print("", *told, sep="\n")
    keep("workers.md", "\n".join([f"{when}, {load_after()}.", "", *lines, "", *told]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
