"""What is left of a file whose log was damaged, as by a power cut: each transaction before the first that is broken.

DuckDB refuses a log with one bad entry as a whole, and takes one that simply ends too soon. So the longest beginning of
the log that it takes is looked for, on a copy: the damaged file is only read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import duckdb

from amble.errors import StoreDamaged, StoreError
from amble.store.database import explain, ours_alone, quote_text, refuse_odd_file

_OURS = ("pages", "amble.jobs", "amble.requests")


class Salvaged(NamedTuple):
    """What was kept: bytes of the log, of how many, and rows of the tables that a crawl fills, where they are there."""

    kept_bytes: int
    log_bytes: int
    rows: dict[str, int]


def check_whole(file: Path) -> None:
    """Raise StoreError if a file cannot be opened. Nothing is written, not even its log into it."""
    refuse_odd_file(file)
    with duckdb.connect(":memory:") as connection:
        try:
            connection.execute(f"ATTACH {quote_text(str(file))} AS looked_at (READ_ONLY)")
        except duckdb.Error as refused:
            raise explain(refused, file) from None


def salvage(file: Path, to: Path) -> Salvaged | None:
    """Write what can be read of `file` to a new file; None where it is whole. Raises StoreError where nothing can."""
    for taken in (to, _log_of(to)):
        if os.path.lexists(taken):
            raise StoreError(f"{taken} is there already", hint="name a file that is not there yet")
    try:
        check_whole(file)
    except StoreDamaged:
        return _salvage(file, to)
    return None


def _salvage(file: Path, to: Path) -> Salvaged:
    log = _log_of(file)
    log_bytes = log.stat().st_size if log.is_file() else 0
    with tempfile.TemporaryDirectory(dir=to.absolute().parent, prefix=".salvage-") as folder:
        copy = Path(folder, "copy.duckdb")
        with ours_alone(copy):
            shutil.copyfile(file, copy)
            kept_bytes = _longest(copy, log, log_bytes)
        if kept_bytes is None:
            raise StoreDamaged(
                f"{file} is damaged itself, not only its log", hint="restore a backup, or crawl into a new file"
            )
        _cut_log(copy, log, kept_bytes)
        rows = _write_in(copy)
        os.rename(copy, to)
    return Salvaged(kept_bytes, log_bytes, rows)


def _longest(copy: Path, log: Path, log_bytes: int) -> int | None:
    """How much of the log DuckDB takes; what is longer than that it refuses. None: not even the file without it."""

    def is_taken(length: int) -> bool:
        _cut_log(copy, log, length)
        try:
            check_whole(copy)
        except StoreError:
            return False
        return True

    if not is_taken(0):
        return None
    good, bad = 0, log_bytes + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if is_taken(middle) else (good, middle)
    return good


def _cut_log(copy: Path, log: Path, length: int) -> None:
    """Give the copy the beginning of the log."""
    place = _log_of(copy)
    place.unlink(missing_ok=True)
    if length:
        shutil.copyfile(log, place)
        os.truncate(place, length)


def _write_in(copy: Path) -> dict[str, int]:
    """Write the log into the file. How many rows there are."""
    rows = {}
    try:
        with duckdb.connect(str(copy)) as connection:
            for table in _OURS:
                try:
                    rows[table] = int(connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])
                except duckdb.CatalogException:
                    continue
            connection.execute("CHECKPOINT")
    except duckdb.Error as refused:
        raise explain(refused, copy) from None
    return rows


def _log_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.wal")
