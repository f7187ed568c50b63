"""amble beside other crawlers, on the same farm in one run: `python -m bench.peers --into FOLDER`.

Peers are installed into an environment of their own (`--home`); wget2 takes part where it is installed and where names
can be given to it (root on Linux). What cannot run here is named and left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from amble.testing.farm import FarmProcess
from bench._scenarios import POLITENESS, THROUGHPUT, machine
from bench.peers import report
from bench.peers.contest import Result, run
from bench.peers.crawlers import CRAWLERS, install

NOT_HERE = "colly and spider-rs take part only where Go and Rust build them; this command does not install compilers."


def contest(scenarios: list[str], names: list[str], python: Path) -> list[Result]:
    """Every crawler on every web; the farm is the same, and forgets in between."""
    results = []
    versions = {crawler.name: crawler.version(python) for crawler in CRAWLERS if crawler.name in names}
    for name, version in versions.items():
        if version is None:
            print(f"left out: {name} cannot run here", file=sys.stderr)
    for scenario in scenarios:
        web = (THROUGHPUT | POLITENESS)[scenario]
        with FarmProcess(web.sites()) as farm:
            for crawler in CRAWLERS:
                if version := versions.get(crawler.name):
                    results.append(run(crawler, version, web, farm, python))
                    print(f"{scenario}: {results[-1]}", file=sys.stderr, flush=True)
    return results


def write(results: list[Result], folder: Path, began: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.json").write_text(json.dumps([asdict(result) for result in results], indent=1))
    text = [f"{began}. {machine()}.", "", *report.settings(results), *report.tables(results), "", NOT_HERE]
    (folder / "peers.md").write_text("\n".join(text) + "\n")
    for name, scenario in THROUGHPUT.items():
        values = [(row.crawler, row.pages_per_cpu_s) for row in results if row.scenario == name]
        if values:
            (folder / f"peers-{name}.svg").write_text(report.plot(f"pages per CPU-second: {scenario.says}", values))
    print("\n".join(text))


def main(argv: list[str]) -> int:
    everyone = [crawler.name for crawler in CRAWLERS]
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument(
        "--scenarios", nargs="+", choices=[*THROUGHPUT, *POLITENESS], default=[*THROUGHPUT, *POLITENESS]
    )
    parser.add_argument("--only", nargs="+", choices=everyone, default=everyone)
    parser.add_argument("--home", type=Path, default=Path(".venv-peers"), help="environment of the peers")
    parser.add_argument("--into", type=Path, default=Path("bench-results"), help="folder for tables and plots")
    arguments = parser.parse_args(argv)
    began = datetime.now(UTC).strftime("%d %B %Y")
    write(contest(arguments.scenarios, arguments.only, install(arguments.home)), arguments.into, began)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
