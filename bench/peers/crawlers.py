"""Who takes part, how each is started as a careful user would, and what it calls its version."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from amble.testing.farm import FarmProcess
from bench._scenarios import Scenario
from bench.peers import nameserver
from bench.peers.install import can_name_hosts, node_modules_of, package_version, python_of

CLIENTS = Path(__file__).parent / "clients"
RESOLVER = "/etc/resolv.conf"


class Place(NamedTuple):
    """Where one run happens."""

    farm: FarmProcess
    scenario: Scenario
    folder: Path
    home: Path  # of the peers


class Crawler(NamedTuple):
    """One contestant. `says` is how it was set."""

    name: str
    says: str
    command: Callable[[Place], Sequence[str]]
    version: Callable[[Path], str | None]  # None: it cannot run here
    without: str  # what is missing then
    only_polite: bool = False  # its setting is about manners: no part in the webs that have no limits


def _amble(place: Place) -> Sequence[str]:
    settings = json.dumps(dict(place.scenario.settings))
    return [sys.executable, "-m", "bench._crawler", str(place.folder / "pages.duckdb"), "--settings", settings]


def _script(name: str, *more: str) -> Callable[[Place], Sequence[str]]:
    return lambda place: [str(python_of(place.home)), str(CLIENTS / name), *more]


def _with_names(place: Place, program: str) -> Sequence[str]:
    """For who asks the system for names: our server of names, in a mount namespace of its own."""
    resolver = place.folder / "resolv.conf"
    resolver.write_text(f"nameserver {nameserver.ADDRESS}\n")
    return ["unshare", "--mount", "sh", "-c", f"mount --bind {resolver} {RESOLVER} && exec {program}"]


def _wget2(place: Place) -> Sequence[str]:
    links = place.folder / "links"
    links.write_text("\n".join(place.farm.roots()))
    return _with_names(
        place,
        f"wget2 --quiet --recursive --level=inf --robots=on --max-threads=32 --tries=5 --delete-after "
        f"--directory-prefix={place.folder} --input-file={links}",
    )


def _wget2_version(_: Path) -> str | None:
    if shutil.which("wget2") is None or not can_name_hosts():
        return None
    said = subprocess.run(["wget2", "--version"], capture_output=True, text=True, check=False).stdout
    return said.splitlines()[0].split()[2] if said else None


def _spider_rs(place: Place) -> Sequence[str]:
    return _with_names(place, f"node --expose-gc {CLIENTS / 'spider_rs.mjs'} {node_modules_of(place.home)}")


def _spider_rs_version(home: Path) -> str | None:
    package = node_modules_of(home) / "@spider-rs" / "spider-rs" / "package.json"
    if shutil.which("node") is None or not package.exists() or not can_name_hosts():
        return None
    return str(json.loads(package.read_text())["version"])


CRAWLERS = (
    Crawler(
        "amble",
        "robots.txt honoured, receipts kept, every page stored in DuckDB with its body",
        _amble,
        lambda _: version("amble"),
        "nothing",
    ),
    Crawler(
        "scrapy",
        "64 at once, 8 per domain, robots.txt obeyed, 5 retries; stores nothing",
        _script("scrapy_spider.py"),
        partial(package_version, "scrapy"),
        "the package",
    ),
    Crawler(
        "scrapy + AutoThrottle",
        "the same with AutoThrottle, first delay 1 s, one at a time wanted; stores nothing",
        _script("scrapy_spider.py", "autothrottle"),
        partial(package_version, "scrapy"),
        "the package",
        only_polite=True,
    ),
    Crawler(
        "crawlee",
        "ParselCrawler with httpx, 64 at once, robots.txt respected, 5 retries; stores nothing",
        _script("crawlee_script.py"),
        partial(package_version, "crawlee"),
        "the package",
    ),
    Crawler(
        "aiohttp script",
        "64 at once, selectolax, no robots.txt, 3 tries; stores nothing",
        _script("aiohttp_script.py"),
        partial(package_version, "aiohttp"),
        "the package",
    ),
    Crawler(
        "spider-rs",
        "through its binding for node, 32 websites at once, robots.txt respected, else as it comes; stores nothing",
        _spider_rs,
        _spider_rs_version,
        "node and npm, unshare and root, to give it names",
    ),
    Crawler(
        "wget2",
        "32 threads, robots.txt on, 5 tries; files deleted after reading",
        _wget2,
        _wget2_version,
        "wget2, unshare and root, to give it names",
    ),
)
