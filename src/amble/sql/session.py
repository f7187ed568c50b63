"""What a connection and its cursors share: settings that `SET` gave us, and how their jobs reach the network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from duckdb import DuckDBPyConnection

from amble.settings import SYNONYMS
from amble.sql import options
from amble.sql.statements import ResetSetting, SetSetting
from amble.store.database import quote_text

BAR = "enable_progress_bar"  # DuckDB's own setting, which our bar honours as well


@dataclass(slots=True)
class Session:
    """One database instance as `connect` opened it."""

    home: object  # tells instances without a file apart
    base: Callable[[], DuckDBPyConnection]  # a connection that lives on when this one is closed, if that can be
    threads_at_first: int | None  # None: `config` chose
    bar_at_first: bool
    ways: dict[str, Any] = field(default_factory=dict)  # of `Job`: the simulator's clock, the farm's resolver
    kept: dict[str, Any] = field(default_factory=dict)  # by SET
    bar: bool | None = None  # what SET said of it
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def over(
        cls,
        connection: DuckDBPyConnection,
        home: object,
        ways: dict[str, Any],
        base: Callable[[], DuckDBPyConnection] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> Session:
        threads = options.threads_at_first(connection, config or {})
        return cls(home, base or connection.cursor, threads, _bar(connection), ways)

    def names(self, connection: DuckDBPyConnection) -> frozenset[str]:
        """The names that SET hands to us: those of a crawl that DuckDB itself does not have, and the bar's."""
        with connection.cursor() as cursor:  # what the connection itself has to be fetched stays
            theirs = cursor.execute("SELECT name FROM duckdb_settings()").fetchall()
        return options.names() - {name for (name,) in theirs} | {BAR}

    def change(self, connection: DuckDBPyConnection, statement: SetSetting | ResetSetting) -> None:
        name = statement.name
        value = statement.value if isinstance(statement, SetSetting) else None
        if name == BAR:
            if isinstance(statement, SetSetting):
                connection.execute(f"SET {BAR} = {quote_text(str(value))}")
                self.bar = _bar(connection)
            else:
                connection.execute(f"RESET {BAR}")
                self.bar, self.bar_at_first = None, _bar(connection)  # DuckDB's default need not be what it began with
            return
        with self.lock:
            if isinstance(statement, SetSetting):
                self.kept = {**self.kept, **options.check_one(name, options.bound(value, {}))}
            else:
                own = SYNONYMS.get(name, name)
                self.kept = {kept: given for kept, given in self.kept.items() if kept != own}

    def shows_bar(self, connection: DuckDBPyConnection) -> bool:
        """Unless somebody switched it off. In scripts DuckDB's is off from the start, which says nothing of ours."""
        if self.bar is not None:
            return self.bar
        return _bar(connection) or not self.bar_at_first


def _bar(connection: DuckDBPyConnection) -> bool:
    return bool(connection.execute(f"SELECT current_setting('{BAR}')").fetchall()[0][0])
