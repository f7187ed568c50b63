"""The laboratory on the command line: play the campaign, print the tables, exit with 1 if gauge falls short."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from amble.testing.lab.campaign import Job, Report, all_rows, all_rules, do, jobs, report
from amble.testing.lab.controllers import STRATEGIES
from amble.testing.lab.peers import PEERS
from amble.testing.lab.scenarios import Row
from amble.testing.lab.score import Score
from amble.testing.lab.table import comparison_table, verdict_table

JUDGED = "gauge"
COMPARED_SEEDS = 1  # the other rules are there for comparison only
COMPARED_RANDOMS = 30


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m amble.testing.lab", description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="runs of each scenario (default 4)")
    parser.add_argument("--random", type=int, default=300, help="servers from the random generator (default 300)")
    parser.add_argument("--strategy", action="append", choices=sorted(STRATEGIES), help="only this one; repeatable")
    parser.add_argument("--peer", action="append", choices=sorted(PEERS), help="only this one; repeatable")
    groups = sorted({row.group for row in all_rows()} | {"random"})
    parser.add_argument("--group", action="append", choices=groups, help="only this group of servers; repeatable")
    parser.add_argument("--processes", type=int, default=2, help="processes to share the work (default 2)")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the comparison into a .png or .svg file")
    return parser.parse_args(argv)


def chosen_rules(args: argparse.Namespace) -> list[str]:
    if args.strategy or args.peer:
        return [*(args.strategy or ()), *(args.peer or ())]
    return list(all_rules())


def chosen_rows(args: argparse.Namespace) -> tuple[Row, ...]:
    return tuple(row for row in all_rows() if not args.group or row.group in args.group)


def planned(args: argparse.Namespace, rules: Sequence[str], rows: Sequence[Row]) -> Iterator[Job]:
    """The judged strategy (or a chosen few) with every seed, the rest on a reduced grid."""
    randoms = args.random if not args.group or "random" in args.group else 0
    for rule in rules:
        full = rule == JUDGED or bool(args.strategy or args.peer)
        seeds = args.seeds if full else min(args.seeds, COMPARED_SEEDS)
        yield from jobs([rule], rows, seeds, randoms if full else min(randoms, COMPARED_RANDOMS))


def perform(work: Sequence[Job], processes: int) -> list[tuple[Job, Score]]:
    if processes < 2:
        return [do(job) for job in work]
    with multiprocessing.Pool(processes) as pool:
        return list(pool.imap_unordered(do, work, chunksize=4))


def say(lines: Iterable[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n\n")


def main(argv: Sequence[str]) -> int:
    args = parse(argv)
    rules, rows = chosen_rules(args), chosen_rows(args)
    began = time.monotonic()
    results = perform(list(planned(args, rules, rows)), args.processes)
    reports = [report(rule, rows, results) for rule in rules]
    if args.json:
        sys.stdout.write(json.dumps([asdict(one) for one in reports], indent=1) + "\n")
    else:
        show(reports, rows, detailed=bool(args.strategy or args.peer))
    if args.plot:
        from amble.testing.lab.plot import draw  # matplotlib is an extra

        draw(reports, args.plot)
    sys.stderr.write(f"{len(results)} runs in {time.monotonic() - began:.0f} s\n")
    return 1 if any(one.missed for one in reports if one.rule == JUDGED) else 0


def show(reports: Sequence[Report], rows: Sequence[Row], *, detailed: bool) -> None:
    for one in reports:
        if detailed or one.rule == JUDGED:
            say(verdict_table(one, rows))
    if len(reports) > 1:
        say(comparison_table(reports, rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
