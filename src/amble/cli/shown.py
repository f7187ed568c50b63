"""Text for a terminal: nothing that a site wrote can move the cursor, colour the screen or fake a line [E7]."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

_UNSAFE = {code: f"\\x{code:02x}" for code in [*range(0x20), *range(0x7F, 0xA0)]}
_UNSAFE |= {code: f"\\u{code:04x}" for code in (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def safe(text: str) -> str:
    """Control characters and changes of writing direction, spelled out."""
    return text.translate(_UNSAFE)


def table(heads: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    cells = [list(heads), *([_cell(value) for value in line] for line in lines)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    numeric = [all(_is_number(line[column]) for line in cells[1:]) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in cells
    )


def say(text: str) -> None:
    """Talk goes to standard error, so that data can be piped."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def show(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)


def show_json(value: Any) -> None:
    show(json.dumps(value, default=str, indent=2))


def command() -> str:
    """How this program is called here: `make crawl` sets it up in an environment that no shell knows of."""
    beside = os.path.join(os.path.dirname(sys.executable), "amble")
    found = shutil.which("amble")
    if found is not None or not os.path.exists(beside):
        return "amble"
    near = os.path.relpath(beside)
    return beside if near.startswith(os.pardir) else near


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else safe(str(value))


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).replace("-", "", 1).isdigit()
