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

from amble.control import Desk
from amble.errors import StoreError
from amble.sql.session import Session
from amble.store.database import Database
from amble.store.duckdb_store import DuckDBStore

Key = tuple[object, str]


@dataclass(slots=True)
class _Shared:
    base: DuckDBPyConnection  # closing a connection closes its cursors, so this is nobody's cursor but the store's
    store: DuckDBStore
    desk: Desk | None  # where other processes ask how it goes, and say `amble pause FILE`
    users: int = 0


_lock = threading.Lock()
_shared: dict[Key, _Shared] = {}


@contextmanager
def open_store(connection: DuckDBPyConnection, name: str, session: Session) -> Iterator[DuckDBStore]:
    """The store in a database of this connection's instance. Whoever is first says how large its batches are."""
    key = _key(connection, name, session)
    with _lock:
        shared = _shared.get(key)
        if shared is None:
            shared = _shared[key] = _open(name, session)
        shared.users += 1
    try:
        yield shared.store
    finally:
        with _lock:
            shared.users -= 1
            if shared.users == 0:
                del _shared[key]
                if shared.desk is not None:
                    shared.desk.close()
                shared.store.close()
                shared.base.close()


def store_in_use(connection: DuckDBPyConnection, name: str, session: Session) -> DuckDBStore | None:
    """The store of this database, while a crawl into it is under way."""
    key = _key(connection, name, session)
    with _lock:
        shared = _shared.get(key)
        return shared.store if shared is not None else None


def _open(name: str, session: Session) -> _Shared:
    base = session.base()
    try:
        store = DuckDBStore(Database.over(base, name))
    except BaseException:
        base.close()
        raise
    return _Shared(base, store, _desk(store))


def _desk(store: DuckDBStore) -> Desk | None:
    try:
        return Desk(store)
    except StoreError:  # no place to listen: a crawl is worth more than being asked about it
        return None


def _key(connection: DuckDBPyConnection, name: str, session: Session) -> Key:
    row = connection.execute("SELECT path FROM duckdb_databases() WHERE database_name = $1", [name]).fetchall()[0]
    return (Path(row[0]).absolute(), "") if row[0] else (session.home, name)
