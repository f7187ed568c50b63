"""amble beside other crawlers, on the same farm in one run: `python -m bench.peers`, or `make bench-peers`.

Peers are installed into a home of their own (`--home`): an environment for those in Python, and a folder of node's for
spider-rs. wget2 is installed if apt has it. It and spider-rs take part where names can be given to them: root on Linux.
What cannot run here is named and left out. The shop takes three minutes a crawler and runs only when asked for;
so do the laboratory's groups of short hosts (short-buckets, short-windows-told ...).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from amble.testing.farm import FarmProcess
from bench._document import RESULTS, circumstances, load_after
from bench._scenarios import POLITENESS, SHORT, THROUGHPUT
from bench.peers import report
from bench.peers.contest import Result, run
from bench.peers.crawlers import CRAWLERS
from bench.peers.install import can_name_hosts, install
from bench.peers.nameserver import NameServer
from bench.peers.plot import plot

WEBS = THROUGHPUT | POLITENESS | SHORT
USUAL = [name for name in THROUGHPUT | POLITENESS if name != "shop"]
EVERYONE = [crawler.name for crawler in CRAWLERS]


def contest(scenarios: Sequence[str], names: Sequence[str], home: Path) -> list[Result]:
    """Every crawler on every web; the farm is the same, and forgets in between."""
    results = []
    versions = {crawler.name: crawler.version(home) for crawler in CRAWLERS if crawler.name in names}
    for crawler in CRAWLERS:
        if crawler.name in versions and versions[crawler.name] is None:
            print(f"left out: {crawler.name}, which needs {crawler.without}", file=sys.stderr)
    for scenario in scenarios:
        with FarmProcess(WEBS[scenario].sites()) as farm, NameServer() if can_name_hosts() else nullcontext():
            for crawler in CRAWLERS:
                version = versions.get(crawler.name)
                if version is None or (crawler.only_polite and scenario in THROUGHPUT):
                    continue
                results.append(run(crawler, version, WEBS[scenario], farm, home))
                print(f"{scenario}: {results[-1]}", file=sys.stderr, flush=True)
    return results


def write(results: list[Result], folder: Path, when: str) -> None:
    """Tables, plots, and the numbers themselves."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.json").write_text(json.dumps([asdict(result) for result in results], indent=1))
    (folder / "peers.md").write_text(report.text(results, when) + "\n")
    (folder / "headline.md").write_text(report.headline(results, when) + "\n")
    for name, scenario in THROUGHPUT.items():
        values = [(row.crawler, row.pages_per_cpu_s) for row in results if row.scenario == name]
        if values:
            drawn = plot(f"pages per CPU-second: {scenario.says}", values)
            (folder / report.plot_name(name)).write_text(drawn)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--scenarios", nargs="+", choices=list(WEBS), default=USUAL)
    parser.add_argument("--only", nargs="+", choices=EVERYONE, default=EVERYONE)
    parser.add_argument("--home", type=Path, default=Path(".venv-peers"), help="where the peers are installed")
    parser.add_argument("--into", type=Path, default=RESULTS, help="folder for tables and plots")
    arguments = parser.parse_args(argv)
    install(arguments.home)
    when = circumstances()
    results = contest(arguments.scenarios, arguments.only, arguments.home.absolute())
    write(results, arguments.into, f"{when}, {load_after()}")
    print((arguments.into / "peers.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
