"""Which version of the schema a file has, and what brings it to today's: numbered SQL files, each a transaction."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from typing import NamedTuple

from duckdb import DuckDBPyConnection

from amble.errors import StoreError


class Migration(NamedTuple):
    version: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    """The files `NNNN_name.sql`, in order."""
    folder = resources.files("amble.store") / "migrations"
    files = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [Migration(int(name[:4]), name[5:-4], (folder / name).read_text("utf-8")) for name in files]


def migrate(
    connection: DuckDBPyConnection,
    known: list[Migration] | None = None,
    step: Callable[[str], None] = lambda name: None,
) -> int:
    """Apply what is missing; returns the version reached."""
    known = migrations() if known is None else known
    version = schema_version(connection)
    newest = known[-1].version
    if version > newest:
        raise StoreError(
            f"this file has schema version {version}, and this amble knows {newest}", hint="upgrade amble to open it"
        )
    for migration in known:
        if migration.version > version:
            _apply(connection, migration, step)
    return newest


def schema_version(connection: DuckDBPyConnection) -> int:
    """0 for a file that amble has not used yet."""
    here = "WHERE database_name = current_database() AND schema_name = 'amble'"
    # The list of tables takes ten times as long as that of schemas in a new process.
    for listed in (f"duckdb_schemas() {here}", f"duckdb_tables() {here} AND table_name = 'schema_version'"):
        if connection.execute(f"SELECT count(*) FROM {listed}").fetchall() == [(0,)]:
            return 0
    return int(connection.execute("SELECT coalesce(max(version), 0) FROM amble.schema_version").fetchall()[0][0])


def _apply(connection: DuckDBPyConnection, migration: Migration, step: Callable[[str], None]) -> None:
    connection.begin()
    try:
        connection.execute("CREATE SCHEMA IF NOT EXISTS amble")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS amble.schema_version (version INTEGER, name VARCHAR, applied_at TIMESTAMP)"
        )
        for statement in connection.extract_statements(migration.sql):
            connection.execute(statement)
            step("migrating")
        connection.execute(
            "INSERT INTO amble.schema_version VALUES ($1, $2, now() AT TIME ZONE 'UTC')",
            [migration.version, migration.name],
        )
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    step("migrated")
