"""The farm on the command line: serve a web for people to play with, or measure how fast the farm is."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence

from amble.testing.farm.bench import bench
from amble.testing.farm.farm import Farm
from amble.testing.farm.webs import WEBS

SITES_SHOWN = 40


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m amble.testing.farm", description=__doc__)
    parser.add_argument("--web", choices=list(WEBS), default="demo", help="which sites to serve (default demo)")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any that is free)")
    parser.add_argument("--bench", action="store_true", help="measure how fast the farm itself is, and end")
    return parser.parse_args(argv)


def say(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def sites_table(farm: Farm) -> Iterator[str]:
    """What is served, and how to ask for it where the names lead nowhere."""
    sites = farm.sites
    for site in sites[:SITES_SHOWN]:
        yield f"{farm.url(site.name):<44}{sum(1 for _ in site.paths()):>6} pages  {site.note}"
    if len(sites) > SITES_SHOWN:
        yield f"... and {len(sites) - SITES_SHOWN} more"
    url = farm.url(sites[0].name)
    yield f"\ntry: curl --resolve '*:{farm.port}:127.0.0.1' {url}\nCtrl-C ends it and judges what was asked\n"


def serve(farm: Farm) -> None:
    """Serve until Ctrl-C, whenever it comes, then say what happened."""
    with farm:
        try:
            say(sites_table(farm))
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            report = farm.judge()
    say(report.table() if report.requests else ("\nnobody asked for anything",))


def main(argv: Sequence[str]) -> int:
    args = parse(argv)
    if args.bench:
        say(bench())
    else:
        serve(Farm(WEBS[args.web](), port=args.port))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
