"""Which version of the schema a file has, and what brings it to today's: numbered SQL files, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from duckdb import DuckDBPyConnection

from amble.errors import StoreError

_FOLDER = Path(__file__).parent / "migrations"


class Migration(NamedTuple):
    version: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    """The files `NNNN_name.sql`, in order."""
    files = sorted(_FOLDER.glob("*.sql"))
    return [Migration(int(file.name[:4]), file.stem[5:], file.read_text("utf-8")) for file in files]


def migrate(
    connection: DuckDBPyConnection,
    known: list[Migration] | None = None,
    step: Callable[[str], None] = lambda name: None,
) -> int:
    """Apply what is missing, all of it or nothing; returns the version reached."""
    known = migrations() if known is None else known
    version = schema_version(connection)
    newest = known[-1].version
    if version > newest:
        raise StoreError(
            f"this file has schema version {version}, and this amble knows {newest}", hint="upgrade amble to open it"
        )
    missing = [migration for migration in known if migration.version > version]
    if missing:
        _apply(connection, missing, step)
    return newest


def schema_version(connection: DuckDBPyConnection) -> int:
    """0 for a file that amble has not used yet."""
    here = "WHERE database_name = current_database() AND schema_name = 'amble'"
    # The list of tables takes ten times as long as that of schemas in a new process.
    for listed in (f"duckdb_schemas() {here}", f"duckdb_tables() {here} AND table_name = 'schema_version'"):
        if connection.execute(f"SELECT count(*) FROM {listed}").fetchall() == [(0,)]:
            return 0
    return int(connection.execute("SELECT coalesce(max(version), 0) FROM amble.schema_version").fetchall()[0][0])


def _apply(connection: DuckDBPyConnection, missing: Sequence[Migration], step: Callable[[str], None]) -> None:
    connection.begin()
    try:
        connection.execute("CREATE SCHEMA IF NOT EXISTS amble")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS amble.schema_version (version INTEGER, name VARCHAR, applied_at TIMESTAMP)"
        )
        for migration in missing:
            for statement in connection.extract_statements(migration.sql):
                connection.execute(statement)
                step("migrating")
        connection.execute(
            "INSERT INTO amble.schema_version "
            "SELECT unnest($1::INTEGER[]), unnest($2::VARCHAR[]), now() AT TIME ZONE 'UTC'",
            [[migration.version for migration in missing], [migration.name for migration in missing]],
        )
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    step("migrated")
