"""Rows as text: CSV that no spreadsheet takes for formulas [E6], and JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection  # the command shows text without it

Formulas = Literal["escape", "keep"]

ROWS_AT_ONCE = 100  # pages; as bodies these are a few MB
# What makes a spreadsheet compute a cell, with the wide forms that some of them take as well.
_BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class Sink(Protocol):
    """Something that takes bytes."""

    def write(self, data: bytes, /) -> object: ...


def write_csv(result: DuckDBPyConnection, out: Sink, *, formulas: Formulas = "escape") -> int:
    """RFC 4180 in UTF-8, with a head. `escape`: text that would be a formula gets an apostrophe before it."""
    clean: Callable[[Any], Any] = (lambda value: harmless(_value(value))) if formulas == "escape" else _value
    out.write(_lines([[clean(name) for name in _names(result)]]))
    count = 0
    for rows in _chunks(result):
        out.write(_lines([clean(value) for value in row] for row in rows))
        count += len(rows)
    return count


def _lines(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)  # CRLF; quotes where they are needed
    return text.getvalue().encode()


def write_json_lines(result: DuckDBPyConnection, out: Sink) -> int:
    """One object a line. Everything beyond ASCII is escaped, so that no text can move a cursor or end a line [E7]."""
    names, count = _names(result), 0
    for rows in _chunks(result):
        lines = (json.dumps(dict(zip(names, map(_value, row), strict=True)), default=str) for row in rows)
        out.write("".join(f"{line}\n" for line in lines).encode())
        count += len(rows)
    return count


def _names(result: DuckDBPyConnection) -> list[str]:
    return [column[0] for column in result.description or ()]


def _chunks(result: DuckDBPyConnection) -> Iterator[list[tuple[Any, ...]]]:
    while rows := result.fetchmany(ROWS_AT_ONCE):
        yield rows


def harmless(value: Any) -> Any:
    """Text that a spreadsheet does not compute [E6]. Numbers are numbers, also below zero; nested values are written as
    text and so begin with a bracket."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_BEGINS_FORMULA) else value


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return _time(value) if isinstance(value, date) else value


def _time(value: date) -> str:
    """Times in the tables are UTC; told to readers who do not know."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return f"{value.isoformat()}Z"
    return value.isoformat()
