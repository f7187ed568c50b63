"""Results put where people read them: the part of a document between two marks is replaced, the rest left as it is."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from bench._scenarios import machine


def replaced(document: str, part: str, text: str) -> str:
    """The document with the part between `<!-- part -->` and `<!-- end of part -->` replaced."""
    begin, end = f"<!-- {part} -->\n", f"<!-- end of {part} -->"
    before, found, rest = document.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"no part {part!r}: it lies between {begin.strip()} and {end}")
    return f"{before}{begin}\n{text.strip()}\n\n{end}{after}"


def put(file: Path, part: str, text: str) -> None:
    file.write_text(replaced(file.read_text(), part, text))


def circumstances() -> str:
    """Date, commit and machine, in a line; to be asked for before the work begins."""
    return f"{datetime.now(UTC).strftime('%-d %B %Y')}, {_commit()}. {machine()}"


def load_after() -> str:
    return f"{os.getloadavg()[0]:.1f} after" if hasattr(os, "getloadavg") else "unknown after"


def _commit() -> str:
    said = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return f"commit {said.stdout.strip()}" if said.returncode == 0 else "no commit"
