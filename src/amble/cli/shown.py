"""Where data and talk go, harmless on a terminal [E7]; rows as aligned columns, JSON, or CSV without formulas."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from amble.report.tabular import harmless
from amble.report.words import safe, safe_lines, text_table

if TYPE_CHECKING:
    from amble.settings import Settings


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


CELL_CHARS_MAX = 60  # a page's text would fill the screen
ROWS_SHOWN = 200


def show_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], how: str) -> None:
    """`how` is table, json or csv. Rows may come one by one, and never end up in memory together but as a table."""
    if how == "json":
        _show_json(columns, rows)
    elif how == "csv":
        _show_csv(columns, rows)
    else:
        _show_table(columns, rows)


def _show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    shown: list[list[Any]] = []
    more = 0
    for row in rows:
        if len(shown) < ROWS_SHOWN:
            shown.append([_short(value) for value in row])
        else:
            more += 1
    show(text_table([safe(name) for name in columns], shown))
    if more:
        show(f"({more} more rows; --json and --csv show all)")


def _show_json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    first = True
    for row in rows:
        text = json.dumps(dict(zip(columns, row, strict=True)), default=_plain)
        show(("[\n" if first else ",\n") + text, end="")
        first = False
    show("[]" if first else "\n]")


def _show_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    for row in (
        [*columns],
        *([harmless(value.hex() if isinstance(value, bytes) else value) for value in row] for row in rows),
    ):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(row)
        show(line.getvalue(), is_data=True)


def _short(value: Any) -> Any:
    if not isinstance(value, str | bytes | list | dict):
        return value
    text = safe(value if isinstance(value, str) else str(_plain(value)))
    return text if len(text) <= CELL_CHARS_MAX else f"{text[: CELL_CHARS_MAX - 3]}..."


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value if isinstance(value, list | dict) else str(value)
