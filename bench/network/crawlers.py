"""Who crawls: amble as it is here, amble as it was at another commit, and peers in an environment of their own."""

from __future__ import annotations

import compileall
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_CLIENTS = Path(__file__).parent / "clients"
PEERS_PACKAGES = ("aiodns", "aiohttp", "scrapy", "selectolax", "uvloop")


@dataclass(frozen=True, slots=True)
class Crawler:
    """How one is started. `{seeds}`, `{into}` and `{ca}` stand for files in its command."""

    name: str
    says: str
    template: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    stores: bool = False  # pages and failures, as rows in DuckDB

    def command(self, seeds: Path, into: Path, ca_file: Path) -> list[str]:
        return [part.format(seeds=seeds, into=into, ca=ca_file) for part in self.template]

    def surroundings(self) -> dict[str, str]:
        return {**os.environ, **self.environment}


def amble(name: str = "amble", source: Path = _ROOT / "src", settings: Sequence[str] = ()) -> Crawler:
    """With default settings: what is given besides is where it reads, where it writes, and whom it trusts."""
    compileall.compile_dir(source, quiet=2)
    template = [sys.executable, "-m", "amble", "crawl", "--seeds", "{seeds}", "--into", "{into}", "--ca-file", "{ca}"]
    says = "default settings" + (f" and {' '.join(settings)}" if settings else "")
    return Crawler(name, says, [*template, *settings], {"PYTHONPATH": str(source)}, stores=True)


def amble_at(commit: str, folder: Path) -> Crawler:
    """The sources of another commit, unpacked into the folder; its dependencies are those that are here."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=_ROOT, capture_output=True, check=True).stdout
    source = folder / commit
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(source, filter="data")
    return amble(f"amble at {commit}", source / "src")


def peers(home: Path) -> list[Crawler]:
    """Those that are compared with, as a careful user would start them; installed where they are not there yet."""
    home = home.absolute()
    python = home / "bin" / "python"
    if not python.exists():
        print(f"installing {', '.join(PEERS_PACKAGES)} into {home} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PEERS_PACKAGES], check=True)
    return [
        Crawler(
            "scrapy",
            "256 at once, robots.txt obeyed, 2 retries, as its documentation has it for broad crawls; stores nothing",
            [str(python), str(_CLIENTS / "scrapy_spider.py"), "{seeds}"],
        ),
        Crawler(
            "aiohttp script",
            "256 at once, names by aiodns, no robots.txt, 3 tries; stores nothing",
            [str(python), str(_CLIENTS / "aiohttp_script.py"), "{seeds}", "{ca}"],
        ),
    ]
