"""The peers' own home: an environment for those in Python, beside it a folder for the one that comes with node.

wget2 is a package of the system; where it can take part and be had from there, it is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = ("aiohttp", "crawlee[httpx,parsel]", "scrapy", "selectolax", "uvloop")
# The last release that has a binary for each platform in the registry; the one after it came without.
SPIDER_RS = "@spider-rs/spider-rs@0.0.157"


def python_of(home: Path) -> Path:
    return home / "bin" / "python"


def node_modules_of(home: Path) -> Path:
    return home / "node" / "node_modules"


def install(home: Path) -> None:
    """Whatever is not there yet. What cannot be had is left out, and said so by whoever needs it."""
    home = home.absolute()
    if not python_of(home).exists():
        print(f"installing {', '.join(PACKAGES)} into {home} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python_of(home)), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    if not node_modules_of(home).exists() and shutil.which("npm"):
        print(f"installing {SPIDER_RS} into {home} ...", file=sys.stderr)
        npm = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(home / "node")]
        subprocess.run([*npm, SPIDER_RS], check=False, stdout=sys.stderr)
    if shutil.which("wget2") is None and can_name_hosts() and shutil.which("apt-get"):
        print("installing wget2 ...", file=sys.stderr)
        for command in (["update", "-qq"], ["install", "-qq", "--yes", "--no-install-recommends", "wget2"]):
            subprocess.run(["apt-get", *command], check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def package_version(name: str, home: Path) -> str | None:
    """What a Python package of the peers calls its version."""
    code = f"from importlib.metadata import version; print(version({name!r}))"
    done = subprocess.run([str(python_of(home)), "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def can_name_hosts() -> bool:
    """Whether a program that asks the system for names can be given those of a farm (see `with_names`)."""
    return shutil.which("unshare") is not None and hasattr(os, "geteuid") and os.geteuid() == 0
