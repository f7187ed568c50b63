"""How the file is opened: attached to an instance of our own, so that it can be let go and taken up again.

A failed checkpoint (a full disk) invalidates a DuckDB database until it is detached and attached anew. The connection
that holds the instance therefore never uses the file itself; every other connection finds it again under its name.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote as shell_quote

import duckdb
from duckdb import DuckDBPyConnection

from amble.errors import QueryRefused, StoreDamaged, StoreError, StoreLocked, first_line
from amble.store.guests import Guests

# Read by DuckDB 1.5 too, and new enough to compress long text with ZSTD.
STORAGE_VERSION = "v1.5.0"
# A quarter of what is usual: each table begins a new block whenever the log is written into the file, and half of it is
# never filled.
BLOCK_BYTES = 64 * 1024

# A crawl writes rows by the hundred and asks for few: a second thread wakes often, finds little to do, and makes a
# page cost a tenth more processor time.
THREADS = 1

# The log is written into the file when the writer says so, never by the way: `straight`, or a checkpoint of its own.
_NEVER, _AT_ONCE = "1TB", "1KB"
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "checkpoint_threshold": _NEVER,
    # Merging small row groups at a checkpoint reads and compresses the same pages again and again: 2 to 3 times the
    # processor time per page, pauses of seconds and hundreds of MB. Without it the cost of a page does not grow.
    "max_vacuum_tasks": "0",
    "python_enable_replacements": False,  # a name in SQL is a table, never a Python variable
}
_SPILLED_MAX = "1GB"  # by queries from outside: they must not fill the disk that the crawl writes to
_READERS_END_S = 5.0  # how long a file that is let go of waits for those who were interrupted
_READERS_LOOK_S = 0.02
_LENT_BYTES = 256_000_000  # that DuckDB has for them: what it counts of theirs is not to be missing to the crawl
# How much of the tables on disk may be in memory, and what is left of it when the rest is let go: enough for the blocks
# that are asked for again.
_CACHE_BYTES_MAX = 24_000_000
_CACHE_LEFT = "16MB"
# A database with the name of a schema would make `amble.jobs` or `main.pages` ambiguous.
_OTHERS = 0o077  # the rights of everybody else
_AMBIGUOUS = frozenset({"", "amble", "information_schema", "main", "memory", "pg_catalog", "system", "temp"})
MORE_MEMORY = "end other programs, or raise the limits of memory (ulimit -v, ulimit -d)"
_HOLDER = re.compile(r"held in (?P<program>.+?) \(PID (?P<pid>\d+)\)")


def quote(identifier: str) -> str:
    """An identifier as SQL, whatever it holds."""
    return '"' + identifier.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def database_in_use(connection: DuckDBPyConnection) -> str:
    return str(connection.execute("SELECT current_database()").fetchall()[0][0])


_umask_lock = threading.Lock()  # the mask is one for the whole process


@contextlib.contextmanager
def ours_alone(path: str | os.PathLike[str]) -> Iterator[None]:
    """A file that is made meanwhile is for nobody but its maker: pages behind a login are in it. One that is there
    keeps its mode."""
    if os.path.exists(path):
        yield
        return
    with _umask_lock:
        before = os.umask(_OTHERS)
        try:
            yield
        finally:
            os.umask(before)


# Of databases with a query that nothing interrupts. To let go of one while it is used would end in a crash.
_left: list[DuckDBPyConnection] = []


def has_readers_left() -> bool:
    """Whether a query still runs in a database that was closed. Then this process must not be ended as usual: the
    interpreter would be gone when the query comes back to it."""
    return bool(_left)


class Database:
    """One DuckDB database, to be read by many connections and written by one."""

    def __init__(
        self, root: DuckDBPyConnection, name: str, path: Path | None, *, owned: bool, memory_limit: str | None = None
    ) -> None:
        self._root = root
        self.name = name
        self.path = path
        self.owned = owned  # we opened it, so we may let go of it and take it up again
        self.sealed = False
        self._memory_limit = memory_limit
        self.guests = Guests()
        self._uses = 0  # queries under way, other than the writer's
        self._guests = 0  # of them, those from outside
        self._use_lock = threading.Lock()
        self._readers: set[DuckDBPyConnection] = set()
        self._is_closing = False

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, threads: int | None = None, memory_limit: str | None = None
    ) -> Database:
        """Open or make a file; `:memory:` for none. `threads`: how many DuckDB may use; None: `THREADS`."""
        settings = dict(_SETTINGS)
        settings["threads"] = threads or THREADS
        if memory_limit is not None:
            settings["memory_limit"] = memory_limit
        root = duckdb.connect(":memory:", config=settings)
        if str(path) == ":memory:":
            return cls(root, "memory", None, owned=True, memory_limit=memory_limit)
        file = Path(path).absolute()
        name = file.stem if file.stem.casefold() not in _AMBIGUOUS else "store"
        database = cls(root, name, file, owned=True, memory_limit=memory_limit)
        try:
            database._attach()
        except StoreError:
            root.close()
            raise
        return database

    @classmethod
    def over(cls, connection: DuckDBPyConnection, name: str | None = None) -> Database:
        """The database that somebody else's connection uses, or one attached to it. Their settings stay as they are."""
        row = connection.execute(
            "SELECT database_name, path FROM duckdb_databases() WHERE database_name = coalesce($1, current_database())",
            [name],
        ).fetchall()[0]
        if row[0].casefold() == "amble":
            raise StoreError(
                "a database named amble hides the schema amble in it",
                hint="give the file another name, or attach it under one: ATTACH 'amble.duckdb' AS crawl",
            )
        return cls(connection.cursor(), row[0], Path(row[1]) if row[1] else None, owned=False)

    def connect(self) -> DuckDBPyConnection:
        """A connection of one's own: one per thread, closed when done with. Queries over it are told by `in_use`."""
        connection = self._root.cursor()
        connection.execute(f"USE {quote(self.name)}")
        return connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[DuckDBPyConnection]:
        """A connection for as long as somebody reads. Whoever lets go of the file interrupts what runs on it."""
        with self.in_use():
            with self._use_lock:
                if self._is_closing:
                    raise StoreError(f"{self.name} is being closed", hint="open it again")
                connection = self.connect()
                self._readers.add(connection)
            try:
                yield connection
            finally:
                with self._use_lock:
                    self._readers.discard(connection)
                connection.close()

    def end_readers(self, patience_s: float = _READERS_END_S) -> bool:
        """Nobody begins to read any more, and who does is interrupted; whether all have gone within so long."""
        until = time.monotonic() + patience_s
        while True:
            with self._use_lock:
                self._is_closing = True
                for connection in self._readers:
                    connection.interrupt()
                if not self._readers:
                    return True
            if time.monotonic() > until:
                return False
            time.sleep(_READERS_LOOK_S)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """While this lasts, there is all the memory that was promised."""
        with self._use_lock:
            self._uses += 1
        try:
            yield
        finally:
            with self._use_lock:
                self._uses -= 1

    @contextlib.contextmanager
    def lending(self) -> Iterator[DuckDBPyConnection]:
        """A connection for a query from outside. While there is one, DuckDB has more memory."""
        with self._use_lock:
            self._guests += 1
            if self._guests == 1:
                self._limit_memory(_LENT_BYTES)
        try:
            with self.reading() as connection:
                yield connection
        finally:
            with self._use_lock:
                self._guests -= 1
                if not self._guests:
                    self._limit_memory(0)

    def _limit_memory(self, more: int) -> None:
        if self._memory_limit is None:
            return
        with contextlib.closing(self.connect()) as own, contextlib.suppress(duckdb.OutOfMemoryException):
            # What does not come down now does when the cache is emptied.
            bytes_max = own.execute("SELECT parse_formatted_bytes($1) + $2", [self._memory_limit, more]).fetchall()
            own.execute(f"SET GLOBAL memory_limit = '{bytes_max[0][0]}B'")

    def empty_cache(self, connection: DuckDBPyConnection) -> None:
        """Let go of what is in memory of tables that are on disk, once it is much, unless somebody reads them.

        Else DuckDB keeps it until its memory is full. From then on it makes room block by block, gives that room back
        to the system each time, and takes it anew: up to half as much again for storing a page. Letting go
        has the same price, so it is done seldom.
        """
        if self._memory_limit is None or _cached_bytes(connection) < _CACHE_BYTES_MAX:
            return
        with self._use_lock:
            if self._uses:
                return
            try:
                with contextlib.suppress(duckdb.OutOfMemoryException):  # more is needed just now; what was not is gone
                    connection.execute(f"SET GLOBAL memory_limit = '{_CACHE_LEFT}'")
            finally:
                connection.execute(f"SET GLOBAL memory_limit = {quote_text(self._memory_limit)}")

    @contextlib.contextmanager
    def straight(self) -> Iterator[None]:
        """What is committed meanwhile goes into the file at once, with what is in the log, mostly without having been
        there. Where that fails, the database is unusable until `reattach`; that shows whether the commit failed."""
        self._root.execute(f"SET GLOBAL checkpoint_threshold = '{_AT_ONCE}'")
        try:
            yield
        finally:
            self._root.execute(f"SET GLOBAL checkpoint_threshold = '{_NEVER}'")

    @property
    def is_our_file(self) -> bool:
        """Whether there is a file that we opened: it can be let go and taken up again, and has our rules."""
        return self.owned and self.path is not None

    def reattach(self) -> None:
        """Let go of the file and take it up again; what was committed is read back from its log."""
        if not self.is_our_file:
            raise StoreError(
                f"the database {self.name} cannot be used any more",
                hint="close every connection to it, free some disk space and open it again; nothing committed is lost",
            )
        if self._is_attached():
            self._root.execute(f"DETACH {quote(self.name)}")
        self._attach()

    # Nobody opens a file to see how long it is: closing it would drop the lock that DuckDB holds.

    def file_bytes(self) -> int:
        return _length(self.path) if self.path is not None else 0

    def wal_bytes(self) -> int:
        """Length of the write-ahead log."""
        return _length(f"{self.path}.wal") if self.path is not None else 0

    def close_log_to_others(self) -> None:
        """DuckDB makes its log anew after each checkpoint, as readable as the process makes files. It holds what the
        file holds, so whoever may not read that may not read it."""
        if self.path is None or os.name != "posix":
            return
        with contextlib.suppress(OSError):  # no log just now, or not our file
            log = f"{self.path}.wal"
            mode, wanted = os.stat(log).st_mode & 0o777, os.stat(self.path).st_mode & 0o777
            if mode & ~wanted:
                os.chmod(log, mode & wanted)

    def seal(self) -> None:
        """From now on no SQL on this database touches other files, the network or the settings. Cannot be undone."""
        self._root.execute("SET GLOBAL enable_external_access = false")
        self._root.execute(f"SET GLOBAL max_temp_directory_size = '{_SPILLED_MAX}'")
        # To be set by us; nobody else's SQL may be a SET.
        ours = "['checkpoint_threshold', 'memory_limit', 'operator_memory_limit']"
        self._root.execute(f"SET GLOBAL allowed_configs = {ours}")
        self._root.execute("SET GLOBAL lock_configuration = true")
        self.sealed = True

    def require_sealed(self) -> None:
        if not self.sealed:
            raise QueryRefused(
                "SQL from outside may only run on a sealed store", hint="open the store with sealed=True to serve SQL"
            )

    def close(self) -> None:
        """The last connection to go writes the log into the file. Of a query that nothing interrupts nobody is rid: it
        keeps what it has until the process ends, and the log keeps what is in it."""
        if self.owned and not self.end_readers():
            _left.append(self._root)
            return
        if self.is_our_file and self._is_attached():
            with contextlib.suppress(duckdb.Error):  # invalidated, or the disk is full: the log keeps everything
                self._root.execute(f"DETACH {quote(self.name)}")
        self._root.close()

    def _is_attached(self) -> bool:
        found = self._root.execute(
            "SELECT count(*) FROM duckdb_databases() WHERE database_name = $1", [self.name]
        ).fetchall()
        return bool(found[0][0])

    def _attach(self) -> None:
        assert self.path is not None
        refuse_odd_file(self.path)
        _refuse_unwritable_name(self.path)
        is_new = not self.path.exists()
        form = f"(STORAGE_VERSION '{STORAGE_VERSION}', BLOCK_SIZE {BLOCK_BYTES})" if is_new else ""
        try:
            with ours_alone(self.path):
                self._root.execute(f"ATTACH {quote_text(str(self.path))} AS {quote(self.name)} {form}")
        except duckdb.Error as refused:
            raise explain(refused, self.path) from None
        if not is_new:
            self._refuse_disguises()

    def _refuse_disguises(self) -> None:
        """A macro of the file with the name of a function of DuckDB's would be called by our own queries."""
        # Asked on a connection that does not use the file, so its macros are not met by this query.
        rows = self._root.execute(
            "SELECT function_name FROM duckdb_functions() WHERE function_type IN ('macro', 'table_macro') AND "
            "database_name = $1 AND lower(function_name) IN (SELECT lower(function_name) FROM duckdb_functions() "
            "WHERE internal) LIMIT 1",
            [self.name],
        ).fetchall()
        if rows:
            self._root.execute(f"DETACH {quote(self.name)}")
            raise StoreError(
                f"{self.path} has a macro {rows[0][0]} in place of the function of DuckDB",
                hint="if you know whose file it is: DROP MACRO, or rename it; else do not use the file",
            )


def refuse_odd_file(path: Path) -> None:
    """A pipe would be waited for, and a folder or a device is no database."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as refused:
        why = getattr(refused, "strerror", None) or refused
        raise StoreError(f"{path} cannot be used: {why}", hint="give the file another name") from None
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "no ordinary file"
        raise StoreError(f"{path} is {what}", hint="name a DuckDB file, or one that is not there yet")
    _refuse_unwritable_name(path)


def _refuse_unwritable_name(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise StoreError(f"the name of {path} is not UTF-8", hint="rename the file or its folder") from None


def _length(path: str | Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _cached_bytes(connection: DuckDBPyConnection) -> int:
    held = connection.execute("SELECT memory_usage_bytes FROM duckdb_memory() WHERE tag = 'BASE_TABLE'").fetchall()
    return sum(row[0] for row in held)


def explain(refused: duckdb.Error, path: Path) -> StoreError:
    """Why a file cannot be opened, and what to do."""
    text = str(refused)
    if "Could not set lock" in text:
        holder = _HOLDER.search(text)
        who = f"process {holder['pid']} ({holder['program']})" if holder else "another process"
        return StoreLocked(
            f"{path} is in use by {who}",
            hint="wait for it; a crawl ends by `amble stop FILE`, and answers `amble sql`, `jobs`, `why`, `audit` now",
        )
    if isinstance(refused, duckdb.ResourceInUseException):
        return StoreLocked(f"{path} is already open in this process", hint="use the connection that has it open")
    if "not a valid DuckDB database file" in text:
        return StoreDamaged(f"{path} is not a DuckDB file", hint="give the crawl another file to write to")
    if any(sign in text for sign in ("orrupt", "checksum", "Could not read enough bytes", "WAL")):
        keep = "keep a copy of it and of its .wal file; "
        whole = f"amble doctor {shell_quote(str(path))} --salvage NEW_FILE keeps what can be read before that"
        return StoreDamaged(
            f"{path} is damaged: {first_line(refused)}",
            hint=keep + (whole if "WAL" in text else "restore a backup, or crawl into a new file"),
        )
    if isinstance(refused, duckdb.OutOfMemoryException):
        return StoreError(f"{path} cannot be opened: {text.splitlines()[0]}", hint=MORE_MEMORY)
    if "ersion number" in text or "newer version" in text:
        return StoreError(f"{path} was written by another version of DuckDB", hint="upgrade the duckdb package")
    return StoreError(
        f"{path} cannot be opened: {first_line(refused)}", hint="see that its folder exists and is ours to write"
    )
