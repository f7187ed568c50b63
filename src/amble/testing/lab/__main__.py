"""The laboratory on the command line: play the campaign, print the tables, exit with 1 if gauge falls short."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from amble.testing.lab.campaign import Job, Report, all_rows, all_rules, do, jobs, report
from amble.testing.lab.controllers import STRATEGIES
from amble.testing.lab.peers import PEERS
from amble.testing.lab.scenarios import Row
from amble.testing.lab.short.groups import GROUPS, ShortJob, do_short, seeds_of, short_line
from amble.testing.lab.short.score import ShortScore
from amble.testing.lab.short.table import short_comparison, short_table
from amble.testing.lab.table import comparison_table, verdict_table

JUDGED = "gauge"
COMPARED_SEEDS = 1  # the other rules are there for comparison only
COMPARED_RANDOMS = 30
COMPARED_HOSTS = 20

Work = TypeVar("Work")
Result = TypeVar("Result")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m amble.testing.lab", description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="runs of each scenario (default 4)")
    parser.add_argument("--seeds-of", metavar="COMMIT", help="draw the seeds from the id of a commit")
    parser.add_argument("--random", type=int, default=300, help="servers from the random generator (default 300)")
    parser.add_argument("--hosts", type=int, default=60, help="hosts of each short group, for each seed (default 60)")
    parser.add_argument("--strategy", action="append", choices=sorted(STRATEGIES), help="only this one; repeatable")
    parser.add_argument("--peer", action="append", choices=sorted(PEERS), help="only this one; repeatable")
    groups = [*sorted({row.group for row in all_rows()}), "random", *GROUPS]
    parser.add_argument(
        "--group", "--groups", nargs="+", action="extend", choices=groups, help="only these groups of servers"
    )
    parser.add_argument(
        "--guesses-first",
        action="store_true",
        help="pages of short hosts wait for guesses at a sitemap, as they once did",
    )
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


def chosen_seeds(args: argparse.Namespace) -> list[int]:
    return seeds_of(args.seeds_of, args.seeds) if args.seeds_of else list(range(args.seeds))


def is_judged_whole(args: argparse.Namespace, rule: str) -> bool:
    """The judged strategy, or a chosen few, with every seed; the rest on a reduced grid."""
    return rule == JUDGED or bool(args.strategy or args.peer)


def planned(args: argparse.Namespace, rules: Sequence[str], rows: Sequence[Row]) -> Iterator[Job]:
    randoms = args.random if not args.group or "random" in args.group else 0
    seeds = chosen_seeds(args)
    for rule in rules:
        if is_judged_whole(args, rule):
            yield from jobs([rule], rows, seeds, randoms)
        else:
            yield from jobs([rule], rows, seeds[:COMPARED_SEEDS], min(randoms, COMPARED_RANDOMS))


def planned_short(args: argparse.Namespace, rules: Sequence[str]) -> Iterator[ShortJob]:
    seeds = chosen_seeds(args)
    for rule in rules:
        whole = is_judged_whole(args, rule)
        hosts = args.hosts if whole else min(args.hosts, COMPARED_HOSTS)
        for group in GROUPS:
            if not args.group or group in args.group:
                for seed in seeds if whole else seeds[:COMPARED_SEEDS]:
                    yield from (ShortJob(rule, group, number, seed, args.guesses_first) for number in range(hosts))


def perform(do_one: Callable[[Work], Result], work: Sequence[Work], processes: int) -> list[Result]:
    if processes < 2 or not work:
        return [do_one(job) for job in work]
    with multiprocessing.Pool(processes) as pool:
        return list(pool.imap_unordered(do_one, work, chunksize=4))


def say(lines: Iterable[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n\n")


def main(argv: Sequence[str]) -> int:
    args = parse(argv)
    rules, rows = chosen_rules(args), chosen_rows(args)
    began = time.monotonic()
    results = perform(do, list(planned(args, rules, rows)), args.processes)
    reports = [report(rule, rows, results) for rule in rules]
    short = sorted(perform(do_short, list(planned_short(args, rules)), args.processes))
    if args.json:
        sys.stdout.write(json.dumps(as_json(reports, short), indent=1) + "\n")
    else:
        show(reports, rows, detailed=bool(args.strategy or args.peer))
        show_short(rules, short, detailed=bool(args.strategy or args.peer))
    if args.plot:
        from amble.testing.lab.plot import draw  # matplotlib is an extra

        draw(reports, args.plot)
    sys.stderr.write(f"{len(results) + len(short)} runs in {time.monotonic() - began:.0f} s\n")
    return 1 if any(one.missed for one in reports if one.rule == JUDGED) or short_missed(short) else 0


def as_json(reports: Sequence[Report], short: Sequence[tuple[ShortJob, ShortScore]]) -> object:
    """All that was found, rule by rule."""
    found = []
    for one in reports:
        scores = [{**job._asdict(), **score._asdict()} for job, score in short if job.rule == one.rule]
        found.append({**asdict(one), "short": scores})
    return found


def show(reports: Sequence[Report], rows: Sequence[Row], *, detailed: bool) -> None:
    reports = [one for one in reports if one.lines or one.randoms]
    for one in reports:
        if detailed or one.rule == JUDGED:
            say(verdict_table(one, rows))
    if len(reports) > 1:
        say(comparison_table(reports, rows))


def show_short(rules: Sequence[str], short: Sequence[tuple[ShortJob, ShortScore]], *, detailed: bool) -> None:
    if not short:
        return
    for rule in rules:
        if detailed or rule == JUDGED:
            say(short_table(rule, short))
    if len(rules) > 1:
        say(short_comparison(rules, short))


def short_missed(short: Sequence[tuple[ShortJob, ShortScore]]) -> bool:
    """Whether gauge falls short in any short group."""
    judged = {name: [score for job, score in short if (job.rule, job.group) == (JUDGED, name)] for name in GROUPS}
    return any(short_line(GROUPS[name], scores).missed for name, scores in judged.items() if scores)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
