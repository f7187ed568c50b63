"""Text for a terminal: nothing that a site wrote can move the cursor, colour the screen or fake a line [E7]."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amble.settings import Settings

_UNSAFE = {code: f"\\x{code:02x}" for code in [*range(0x20), *range(0x7F, 0xA0)]}
# Changes of direction, invisible characters and line ends of Unicode; halves of characters, which no terminal can take.
_HIDDEN = (0xAD, 0x61C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
_UNSAFE |= {code: f"\\u{code:04x}" for code in (*_HIDDEN, *range(0xD800, 0xE000))}
_UNSAFE |= {code: f"\\U{code:08x}" for code in range(0xE0000, 0xE0080)}


def safe(text: str) -> str:
    """Control characters and changes of writing direction, spelled out."""
    return text.translate(_UNSAFE)


def safe_lines(text: str) -> str:
    """The same for text of several lines, whose line ends are its own."""
    return "\n".join(map(safe, text.split("\n")))


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
    sys.stderr.write(safe_lines(text) + "\n")
    sys.stderr.flush()


def warn_of_idle(settings: Settings) -> None:
    """What was set and does nothing. A job says it itself."""
    for sentence in settings.idle():
        say(f"warning: {sentence}")


def show(text: str, end: str = "\n", *, is_data: bool = False) -> None:
    """Of data for another program every byte counts; a terminal gets it like any other text."""
    plain = text if is_data and not sys.stdout.isatty() else safe_lines(text)
    sys.stdout.write(plain + end)


def show_json(value: Any) -> None:
    show(json.dumps(value, default=str, indent=2))


def command() -> str:
    """How this program is called here: `make crawl` sets it up in an environment that no shell knows of."""
    beside = os.path.join(os.path.dirname(sys.executable), "amble")
    found = shutil.which("amble")
    if found is not None or not os.path.exists(beside):
        return "amble"
    try:
        near = os.path.relpath(beside)
    except OSError:  # the folder we are in is gone
        return beside
    return beside if near.startswith(os.pardir) else near


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else safe(str(value))


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).replace("-", "", 1).isdigit()
