"""Migrations: in order, once each, all of one or nothing of it."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from duckdb import DuckDBPyConnection

from amble.errors import StoreError
from amble.store.database import Database
from amble.store.migrate import Migration, migrate, migrations, schema_version

ONE = Migration(1, "one", "CREATE TABLE amble.a (n INTEGER); INSERT INTO amble.a VALUES (1)")
TWO = Migration(2, "two", "ALTER TABLE amble.a ADD COLUMN m INTEGER; UPDATE amble.a SET m = n + 1")
BROKEN = Migration(2, "broken", "INSERT INTO amble.a VALUES (9); CREATE TABLE amble.a (n INTEGER)")


@pytest.fixture
def connection() -> Iterator[DuckDBPyConnection]:
    database = Database.open(":memory:")
    with database.reading() as opened:
        yield opened
    database.close()


def test_the_shipped_files_are_numbered_without_gaps() -> None:
    assert [migration.version for migration in migrations()] == list(range(1, len(migrations()) + 1))


def test_a_new_file_gets_everything_and_a_second_run_does_nothing(connection: DuckDBPyConnection) -> None:
    assert schema_version(connection) == 0
    assert migrate(connection) == migrate(connection) == schema_version(connection) == len(migrations())
    views = {row[0] for row in connection.execute("SHOW TABLES FROM amble").fetchall()}
    assert {"jobs", "tasks", "domains", "robots", "sitemap_urls", "requests", "links", "schema_version"} <= views


def test_a_schema_of_the_same_name_that_somebody_else_made_is_no_version(connection: DuckDBPyConnection) -> None:
    connection.execute("CREATE SCHEMA amble; CREATE TABLE amble.theirs (n INTEGER)")
    assert schema_version(connection) == 0
    assert migrate(connection, [ONE]) == 1


def test_an_older_file_is_brought_up_step_by_step(connection: DuckDBPyConnection) -> None:
    assert migrate(connection, [ONE]) == 1
    assert migrate(connection, [ONE, TWO]) == 2
    assert connection.execute("FROM amble.a").fetchall() == [(1, 2)]
    versions = connection.execute("SELECT version, name FROM amble.schema_version ORDER BY version").fetchall()
    assert versions == [(1, "one"), (2, "two")]


def test_a_migration_that_fails_leaves_nothing_behind(connection: DuckDBPyConnection) -> None:
    migrate(connection, [ONE])
    with pytest.raises(duckdb.CatalogException):
        migrate(connection, [ONE, BROKEN])
    assert connection.execute("FROM amble.a").fetchall() == [(1,)]
    assert schema_version(connection) == 1


def test_a_file_of_a_newer_amble_is_refused(connection: DuckDBPyConnection) -> None:
    migrate(connection, [ONE, TWO])
    with pytest.raises(StoreError, match="schema version 2") as refused:
        migrate(connection, [ONE])
    assert refused.value.hint == "upgrade amble to open it"
