"""Crawls over a network with latency, loss, dead names, black holes and TLS: `python -m bench.network SCENARIO...`.

Needs root on Linux, and nginx, which is installed where apt has it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.network import crawlers, nginx, report
from bench.network.namespaces import why_not
from bench.network.scenarios import SCENARIOS
from bench.network.trial import crawl


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.network", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="default: all")
    parser.add_argument("--list", action="store_true", help="name the scenarios and end")
    parser.add_argument("--hosts", type=int, help="so many hosts in all, in the scenario's proportions")
    parser.add_argument("--bound", type=float, metavar="SECONDS", help="a crawl is cut off then")
    parser.add_argument("--against", metavar="COMMIT", help="amble at another commit in turn")
    parser.add_argument("--pairs", type=int, default=1, help="how often each runs, in turn")
    parser.add_argument("--peers", action="store_true", help="Scrapy and an aiohttp script beside amble")
    parser.add_argument("--set", action="append", default=[], metavar="--FLAG=VALUE", help="a setting for amble")
    parser.add_argument("--keep", type=Path, help="leave database and output of the last crawl in this folder")
    parser.add_argument("--home", type=Path, default=Path(".venv-network"), help="where the peers are installed")
    arguments = parser.parse_args(argv)
    if arguments.list:
        for name, scenario in SCENARIOS.items():
            print(f"{name:<14} {scenario.says}, {sum(scenario.kinds.values()):,} hosts x {scenario.pages}")
        return 0
    unknown = [name for name in arguments.scenarios if name not in SCENARIOS]
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)}; there are: {', '.join(SCENARIOS)}")
    reason = why_not() or (None if nginx.can_be_had() else "nginx is not installed")
    if reason is not None:
        print(f"left out: {reason}")
        return 0
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="amble-sources-") as folder:
        taking_part = [crawlers.amble(settings=arguments.set)]
        if arguments.against:
            taking_part.append(crawlers.amble_at(arguments.against, Path(folder)))
        if arguments.peers:
            taking_part += crawlers.peers(arguments.home)
        for name in arguments.scenarios or SCENARIOS:
            scenario = SCENARIOS[name]
            whole = arguments.hosts is None and not arguments.set  # what may stand in the document
            if arguments.hosts is not None:
                scenario = scenario.of_size(arguments.hosts)
            if arguments.bound is not None:
                scenario = replace(scenario, bound_s=arguments.bound)
            for _ in range(arguments.pairs):
                for crawler in taking_part:
                    result = crawl(scenario, crawler, arguments.keep)
                    print(report.lines(result), flush=True)
                    if whole:
                        report.remember(result)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was built is taken down on the way out
    sys.exit(main(sys.argv[1:]))
