"""The simulation on the command line: one line for each seed that fails, with the command that repeats it."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Sequence

from amble.testing.simulation.simulate import Trace, simulate

PROGRAM = "python -m amble.testing.simulation"
CHUNK = 25


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="S", help="the first of them (default 0)")
    parser.add_argument("--seed", type=int, help="only this one, with its whole history")
    parser.add_argument("--hits", action="store_true", help="count the faults and rare branches that were met")
    parser.add_argument("--until-failure", action="store_true", help="stop at the first seed that fails")
    parser.add_argument("--processes", type=int, default=1, help="processes to share the work (default 1)")
    return parser.parse_args(argv)


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def failure_line(trace: Trace) -> str:
    first = trace.violations[0].partition("\n")[0]
    more = f" (and {len(trace.violations) - 1} more)" if len(trace.violations) > 1 else ""
    return f"{first}{more}  repro: {PROGRAM} --seed {trace.seed}"


def show(seed: int) -> int:
    trace = simulate(seed)
    for line in (*trace.lines, *trace.violations):
        tell(line)
    tell(f"seed {seed}: {trace.requests} requests in {trace.virtual_s:.0f} s, {len(trace.violations)} violations")
    return 1 if trace.violations else 0


def _play(seed: int) -> Trace:
    trace = simulate(seed)
    trace.lines.clear()
    return trace


def main(argv: Sequence[str] | None = None) -> int:
    args = parse(sys.argv[1:] if argv is None else argv)
    if args.seed is not None:
        return show(args.seed)
    began, failed, requests, hits = time.perf_counter(), 0, 0, Counter[str]()
    seeds = range(args.first, args.first + args.seeds)
    with multiprocessing.Pool(args.processes) if args.processes > 1 else _Here() as pool:
        for trace in pool.imap(_play, seeds, CHUNK):
            requests += trace.requests
            hits += trace.hits
            if trace.violations:
                failed += 1
                tell(failure_line(trace))
                if args.until_failure:
                    break
    if args.hits:
        for name, count in sorted(hits.items()):
            tell(f"{count:8} {name}")
    took_s = time.perf_counter() - began
    sys.stderr.write(f"{args.seeds} seeds, {requests} requests, {failed} failed, {took_s:.1f} s\n")
    return 1 if failed else 0


class _Here:
    """No pool: one after another, in this process."""

    imap = staticmethod(lambda play, seeds, chunk: map(play, seeds))

    def __enter__(self) -> _Here:
        return self

    def __exit__(self, *ended: object) -> None:
        return None


if __name__ == "__main__":
    sys.exit(main())
