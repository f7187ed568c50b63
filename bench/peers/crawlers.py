"""Who takes part, how each is started as a careful user would, and what it calls its version."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from amble.testing.farm import FarmProcess
from bench._scenarios import Scenario

CLIENTS = Path(__file__).parent / "clients"
PACKAGES = ("aiohttp", "crawlee[httpx,parsel]", "scrapy", "selectolax", "uvloop")
HOSTS = "/etc/hosts"


class Place(NamedTuple):
    """Where one run happens."""

    farm: FarmProcess
    scenario: Scenario
    folder: Path
    python: Path  # of the peers' environment


class Crawler(NamedTuple):
    """One contestant. `says` is how it was set."""

    name: str
    says: str
    command: Callable[[Place], Sequence[str]]
    version: Callable[[Path], str | None]  # None: it cannot run here


def _amble(place: Place) -> Sequence[str]:
    settings = json.dumps(dict(place.scenario.settings))
    return [sys.executable, "-m", "bench._crawler", str(place.folder / "pages.duckdb"), "--settings", settings]


def _script(name: str, *more: str) -> Callable[[Place], Sequence[str]]:
    return lambda place: [str(place.python), str(CLIENTS / name), *more]


def _package(name: str) -> Callable[[Path], str | None]:
    def ask(python: Path) -> str | None:
        code = f"from importlib.metadata import version; print(version({name!r}))"
        done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    return ask


def _wget2(place: Place) -> Sequence[str]:
    """wget2 asks the system for names: it gets a hosts file of its own, in a mount namespace of its own."""
    hosts, links = place.folder / "hosts", place.folder / "links"
    hosts.write_text("".join(f"127.0.0.1 {site.name}\n" for site in place.farm.sites))
    links.write_text("\n".join(place.farm.roots()))
    wget2 = (
        f"wget2 --quiet --recursive --level=inf --robots=on --max-threads=32 --tries=5 --delete-after "
        f"--directory-prefix={place.folder} --input-file={links}"
    )
    return ["unshare", "--mount", "sh", "-c", f"mount --bind {hosts} {HOSTS} && exec {wget2}"]


def _wget2_version(_: Path) -> str | None:
    if shutil.which("wget2") is None or shutil.which("unshare") is None or os.geteuid() != 0:
        return None
    said = subprocess.run(["wget2", "--version"], capture_output=True, text=True, check=False).stdout
    return said.splitlines()[0].split()[2] if said else None


CRAWLERS = (
    Crawler(
        "amble",
        "robots.txt honoured, receipts kept, every page stored in DuckDB with its body",
        _amble,
        lambda _: version("amble"),
    ),
    Crawler(
        "scrapy",
        "64 at once, 8 per domain, robots.txt obeyed, 5 retries; stores nothing",
        _script("scrapy_spider.py"),
        _package("scrapy"),
    ),
    Crawler(
        "scrapy + AutoThrottle",
        "the same with AutoThrottle, first delay 1 s, one at a time wanted; stores nothing",
        _script("scrapy_spider.py", "autothrottle"),
        _package("scrapy"),
    ),
    Crawler(
        "crawlee",
        "ParselCrawler with httpx, 64 at once, robots.txt respected, 5 retries; stores nothing",
        _script("crawlee_script.py"),
        _package("crawlee"),
    ),
    Crawler(
        "aiohttp script",
        "64 at once, selectolax, no robots.txt, 3 tries; stores nothing",
        _script("aiohttp_script.py"),
        _package("aiohttp"),
    ),
    Crawler("wget2", "32 threads, robots.txt on, 5 tries; files deleted after reading", _wget2, _wget2_version),
)


def install(home: Path) -> Path:
    """The interpreter of the peers' own environment, made if absent."""
    python = home / "bin" / "python"
    if not python.exists():
        print(f"installing {', '.join(PACKAGES)} into {home} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python
