"""Rows for a person or a pipe: aligned columns, JSON, or CSV that no spreadsheet takes for formulas."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from amble.cli.shown import show
from amble.report.tabular import harmless
from amble.report.words import safe, text_table

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
