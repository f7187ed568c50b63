"""The store of a user's own database: opened for the first crawl into it, shared by those that run at once.

A database has one writer, so crawls from several cursors, or from several connections to one file, must share it. When
the last of them is over it is closed, so that nothing of ours keeps the file open or the database busy.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from duckdb import DuckDBPyConnection

from amble.store.database import Database
from amble.store.duckdb_store import DuckDBStore
from amble.store.writer import WriterLimits

Key = tuple[object, str]


@dataclass(slots=True)
class _Shared:
    store: DuckDBStore
    users: int = 0


_lock = threading.Lock()
_shared: dict[Key, _Shared] = {}


@contextmanager
def open_store(
    connection: DuckDBPyConnection, name: str, home: object, limits: WriterLimits | None = None
) -> Iterator[DuckDBStore]:
    """The store in a database of this connection's instance. `home` tells one instance without a file from another.

    Whoever is first says in what portions rows are written."""
    database = Database.over(connection, name)
    key = _key(database.path, home, name)
    with _lock:
        shared = _shared.get(key)
        if shared is None:
            try:
                shared = _shared[key] = _Shared(DuckDBStore(database, limits=limits))
            except BaseException:
                database.close()
                raise
        else:
            database.close()
        shared.users += 1
    try:
        yield shared.store
    finally:
        with _lock:
            shared.users -= 1
            if shared.users == 0:
                del _shared[key]
                shared.store.close()


def in_use(connection: DuckDBPyConnection, name: str, home: object) -> bool:
    """Whether a crawl into this database is under way."""
    database = Database.over(connection, name)
    path = database.path
    database.close()
    with _lock:
        return _key(path, home, name) in _shared


def _key(path: Path | None, home: object, name: str) -> Key:
    return (path.absolute(), "") if path is not None else (home, name)
