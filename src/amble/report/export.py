"""Pages leave the file as Parquet, CSV, JSON lines or WARC 1.1: in constant memory, and whole or not at all.

with store.database.reading() as connection:
    export(connection, "pages.parquet")
    export(connection, "found.csv.gz", where="http_status = 200")
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import duckdb
import zstandard
from duckdb import DuckDBPyConnection, StatementType

from amble.core.checked import nearest_hint
from amble.errors import AmbleError, QueryRefused, StoreError, first_line
from amble.report.tabular import Formulas, Sink, write_csv, write_json_lines
from amble.report.warc import write_warc
from amble.store.database import database_in_use, quote_text
from amble.store.names import TableName

Format = Literal["parquet", "csv", "jsonl", "warc"]
Compression = Literal["gzip", "zstd"]
Target = str | os.PathLike[str] | BinaryIO

ENDINGS: dict[str, Format] = {
    ".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".warc": "warc",
}  # fmt: skip
_COMPRESSED: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}
# Row groups of the usual 122,880 pages would hold gigabytes of text before the first is written.
_PARQUET = "(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE_BYTES '16MB')"
_PARQUET_IN_ORDER = "(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 2048)"


class Exported(NamedTuple):
    """What was written."""

    rows: int
    format: Format
    path: Path | None  # None: into a stream


def format_of(name: str) -> tuple[Format, Compression | None]:
    """What a file's name says about what is in it."""
    path = Path(name)
    compression = _COMPRESSED.get(path.suffix.lower())
    ending = (path.with_suffix("") if compression else path).suffix.lower()
    if ending not in ENDINGS:
        raise AmbleError(
            f"the name {path.name} does not say in which format to write",
            hint=f"end it in {', '.join(ENDINGS)}, or name the format; .gz and .zst compress",
        )
    return ENDINGS[ending], compression


def export(
    connection: DuckDBPyConnection,
    to: Target,
    *,
    format: Format | None = None,
    table: str = "pages",
    where: str | None = None,
    query: str | None = None,
    formulas: Formulas = "escape",
    force: bool = False,
) -> Exported:
    """Write rows to a file or a stream: those of a table, of these only `where` holds, or those of a SELECT.

    The connection is used for nothing else meanwhile. A file appears under its name when it is complete, and never in
    place of another unless forced. `formulas`: see `amble.report.tabular`.
    """
    path = Path(os.fspath(to)) if isinstance(to, str | os.PathLike) else None
    said, compression = format_of(path.name) if path is not None and format is None else (format, None)
    if path is not None and format is not None:
        compression = _COMPRESSED.get(path.suffix.lower())
    if said is None:
        raise AmbleError("a stream has no name that tells the format", hint="name one: parquet, csv, jsonl or warc")
    if said not in ENDINGS.values():
        raise AmbleError(f"there is no format {said!r}", hint=nearest_hint(said, sorted(set(ENDINGS.values()))))
    if compression and (said == "parquet" or (said == "warc" and compression != "gzip")):
        raise AmbleError(f"a {said} file is compressed in its own way", hint="name it .parquet, .warc or .warc.gz")
    select = _select(connection, table, where, query)
    writer = _writer(connection, select, said, formulas, compression)
    if path is None:
        assert not isinstance(to, str | os.PathLike)
        return Exported(writer.into_stream(to), said, None)
    with _new_file(path, force) as part:
        rows = writer.copy(part)
    return Exported(rows, said, path)


# -- what is exported


def _select(connection: DuckDBPyConnection, table: str, where: str | None, query: str | None) -> str:
    """One SELECT and nothing else, whatever was asked for."""
    if query is not None and where is not None:
        raise AmbleError("both a query and a condition were given", hint="put the condition into the query")
    if query is None:
        database = database_in_use(connection)
        # A line of its own: a comment at the end of the condition must not swallow the parenthesis.
        query = f"SELECT * FROM {TableName.parse(table, database)}" + (f" WHERE ({where}\n)" if where else "")
    try:
        statements = connection.extract_statements(query)
    except duckdb.Error as refused:
        raise QueryRefused(f"this cannot be selected: {first_line(refused)}", hint="write it as in SQL") from None
    if len(statements) != 1 or statements[0].type is not StatementType.SELECT:
        raise QueryRefused("what is exported is not one SELECT", hint="write one SELECT, or a condition on the table")
    return query.strip().rstrip(";")


# -- how it is written


class _Writer(NamedTuple):
    """One way to write."""

    rows: Callable[[Sink], int] | None  # into something that takes bytes
    copy: Callable[[Path], int]  # into a file

    def into_stream(self, out: BinaryIO) -> int:
        if self.rows is not None:
            return self.rows(out)
        with tempfile.TemporaryDirectory() as folder:  # Parquet begins with what is only known at its end
            part = Path(folder, "part")
            count = self.copy(part)
            with part.open("rb") as written:
                shutil.copyfileobj(written, out)
        return count


def _writer(
    connection: DuckDBPyConnection, select: str, format: Format, formulas: Formulas, compression: Compression | None
) -> _Writer:
    if format == "parquet":
        return _Writer(None, lambda part: _copy(connection, select, part))

    def rows(out: Sink) -> int:
        try:
            result = connection.execute(select)
            if format == "csv":
                return write_csv(result, out, formulas=formulas)
            return write_json_lines(result, out) if format == "jsonl" else write_warc(result, out, compressed=zipped)
        except duckdb.Error as refused:
            raise _refused(refused) from None

    def copy(part: Path) -> int:
        with part.open("wb") as plain, _compressing(plain, None if format == "warc" else compression) as out:
            return rows(out)

    zipped = compression == "gzip"
    return _Writer(rows, copy)


def _copy(connection: DuckDBPyConnection, select: str, part: Path) -> int:
    """Parquet in groups that fit into memory; where the order of rows may not be given up, in groups of few rows."""
    target = quote_text(str(part))
    try:
        with _unordered(connection) as unordered:
            how = _PARQUET if unordered else _PARQUET_IN_ORDER
            [(rows,)] = connection.execute(f"COPY ({select}\n) TO {target} {how}").fetchall()
    except duckdb.Error as refused:
        raise _refused(refused) from None
    return int(rows)


def _refused(refused: duckdb.Error) -> QueryRefused:
    hint = "amble sql FILE -c 'SHOW ALL TABLES' lists what there is; where the file is damaged, take a copy"
    return QueryRefused(f"this cannot be exported: {first_line(refused)}", hint=hint)


@contextlib.contextmanager
def _unordered(connection: DuckDBPyConnection) -> Iterator[bool]:
    """Rows may come in any order for a while, if that is ours to say."""
    [(before,)] = connection.execute("SELECT current_setting('preserve_insertion_order')").fetchall()
    try:
        connection.execute("SET preserve_insertion_order = false")
    except duckdb.Error:  # the settings are locked
        yield False
        return
    try:
        yield True
    finally:
        connection.execute(f"SET preserve_insertion_order = {'true' if before else 'false'}")


@contextlib.contextmanager
def _compressing(out: BinaryIO, compression: Compression | None) -> Iterator[Sink]:
    if compression == "gzip":
        with gzip.GzipFile(filename="", fileobj=out, mode="wb", compresslevel=6, mtime=0) as packed:
            yield packed
    elif compression == "zstd":
        with zstandard.ZstdCompressor(level=9).stream_writer(out, closefd=False) as writer:
            yield writer
    else:
        yield out


@contextlib.contextmanager
def _new_file(path: Path, force: bool) -> Iterator[Path]:
    """A name to write to; the file gets its own when it is complete, and nothing is left of it when it is not."""
    if path.exists() and not force:
        raise _in_the_way(path)
    if not path.parent.is_dir():
        raise StoreError(f"there is no folder {path.parent}", hint="make it first")
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(descriptor)
    part = Path(name)
    try:
        yield part
        part.chmod(0o666 & ~_umask())
        if force:
            part.replace(path)
        else:
            _take_name(part, path)
    finally:
        part.unlink(missing_ok=True)


def _take_name(part: Path, path: Path) -> None:
    """Give it its name, unless somebody else took it meanwhile."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise _in_the_way(path) from None
    except OSError:  # a file system without links
        if path.exists():
            raise _in_the_way(path) from None
        part.rename(path)


def _in_the_way(path: Path) -> StoreError:
    return StoreError(f"{path} is there already", hint="choose another name, or force it")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
