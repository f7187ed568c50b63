"""Results put where people read them: `make bench-publish` after the benchmarks, or `python -m bench._document cost`.

Benchmarks write what they found into the folder `bench-results`. From there each goes into the part of a document that
lies between two marks; the rest is left as it is, and so is a part of which nothing new was found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from bench._scenarios import machine

RESULTS = Path("bench-results")
PARTS = {  # document, and file in the folder of results, by the name of the part
    "peers": ("docs/benchmarks.md", "peers.md"),
    "cost": ("docs/benchmarks.md", "cost.md"),
    "stages": ("docs/benchmarks.md", "stages.md"),
    "workers": ("docs/benchmarks.md", "workers.md"),
    "million": ("docs/benchmarks.md", "million.md"),
    "network": ("docs/benchmarks.md", "network.md"),
    "headline": ("README.md", "headline.md"),
}


def replaced(document: str, part: str, text: str) -> str:
    """The document with the part between `<!-- part -->` and `<!-- end of part -->` replaced."""
    begin, end = f"<!-- {part} -->\n", f"<!-- end of {part} -->"
    before, found, rest = document.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"no part {part!r}: it lies between {begin.strip()} and {end}")
    return f"{before}{begin}\n{text.strip()}\n\n{end}{after}"


def keep(name: str, text: str) -> None:
    """Leave what was found in the folder of results."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / name).write_text(f"{text}\n")


def publish(root: Path, results: Path, wanted: Collection[str] = tuple(PARTS)) -> list[str]:
    """Put every wanted result that is there into its document; which parts that were."""
    found = [part for part, (_, file) in PARTS.items() if part in wanted and (results / file).exists()]
    for part in found:
        document, file = PARTS[part]
        text = (root / document).read_text()
        (root / document).write_text(replaced(text, part, (results / file).read_text()))
    for drawn in results.glob("bench-*.svg") if "peers" in found else ():
        shutil.copy(drawn, root / "docs" / drawn.name)
    return found


def circumstances() -> str:
    """Date, commit and machine, in a line; to be asked for before the work begins."""
    return f"{datetime.now(UTC).strftime('%-d %B %Y')}, {_commit()}. {machine()}"


def load_after() -> str:
    return f"{os.getloadavg()[0]:.1f} after" if hasattr(os, "getloadavg") else "unknown after"


def _commit() -> str:
    said = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return f"commit {said.stdout.strip()}" if said.returncode == 0 else "no commit"


if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - set(PARTS)
    if unknown:
        sys.exit(f"no part {', '.join(sorted(unknown))}; there are: {', '.join(PARTS)}")
    print("put into the documents:", ", ".join(publish(Path.cwd(), RESULTS, sys.argv[1:] or PARTS)) or "nothing")
