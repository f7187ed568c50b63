"""Which table of which database INTO means, as DuckDB resolves names; whether a crawl can write it [E1]."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import duckdb
from duckdb import DuckDBPyConnection

from amble.core.seen import SeenSet
from amble.errors import StoreError, first_line
from amble.sql.statements import TablePath
from amble.store import knowledge, tables
from amble.store.database import Database, database_in_use, quote
from amble.store.names import TableName


def file_of(domain: str) -> str:
    """The file of a crawl that was not told another: named after its first domain, in the working folder."""
    return f"{domain.replace(':', '_')}.duckdb"


def refuse_hidden(path: str | os.PathLike[str]) -> None:
    """DuckDB names a database after its file, and `amble.jobs` in a database amble means a table of its schema main."""
    if Path(path).stem.casefold() == "amble":
        raise StoreError(
            f"in a file named {Path(path).name} nobody could ask for amble.jobs or amble.requests: the name of the file"
            " would hide the schema amble",
            hint="give the file another name, such as crawl.duckdb",
        )


class Target(NamedTuple):
    database: str
    table: TableName


def resolve_target(connection: DuckDBPyConnection, path: TablePath) -> Target:
    """A table that exists is found as a query would find it; one that does not will be made in the current schema."""
    row = connection.execute("SELECT current_database(), current_schema()").fetchall()[0]
    database, schema = str(row[0]), str(row[1])
    name = path[-1]
    if len(path) == 3:
        database, schema = path[0], path[1]
    elif len(path) == 2:
        database, schema = _qualified(connection, path[0], database)
    else:
        schema = _holding(connection, name, database) or schema
    return Target(writable(connection, database), TableName.of(schema, name))


def check_target(connection: DuckDBPyConnection, target: Target) -> None:
    """What is there already must take our rows. Looked at before anything is made."""
    database = Database.over(connection, target.database)
    try:
        with database.reading() as reading:
            if tables.exists(reading, target.table):
                tables.check(reading, target.table)
    finally:
        database.close()


def held_in(connection: DuckDBPyConnection, target: Target) -> SeenSet:
    """What a crawl into this table need not ask for."""
    database = Database.over(connection, target.database)
    try:
        with database.reading() as reading:
            if not tables.exists(reading, target.table):
                return SeenSet()
            return knowledge.stored(reading, tables.TargetTable(target.table, tables.check(reading, target.table)))
    finally:
        database.close()


def current_database(connection: DuckDBPyConnection) -> str:
    """The database in use, which a crawl can write."""
    return writable(connection, database_in_use(connection))


def _qualified(connection: DuckDBPyConnection, first: str, database: str) -> tuple[str, str]:
    """`first.table`: a schema of the current database, else the main schema of a database of that name."""
    is_schema, is_database = connection.execute(
        "SELECT (SELECT count(*) > 0 FROM duckdb_schemas() WHERE lower(schema_name) = lower($1) "
        "AND database_name = $2), (SELECT count(*) > 0 FROM duckdb_databases() WHERE lower(database_name) = lower($1))",
        [first, database],
    ).fetchall()[0]
    if is_schema and is_database and first.casefold() != database.casefold():
        raise StoreError(
            f"{first} is both a schema and a database", hint=f"write {database}.{first}.table or {first}.main.table"
        )
    return (first, "main") if is_database and not is_schema else (database, first)


def _holding(connection: DuckDBPyConnection, name: str, database: str) -> str | None:
    """The schema of the search path in which a table of this name is."""
    rows = connection.execute(
        "SELECT t.database_name, t.schema_name, t.temporary FROM (SELECT database_name, schema_name, table_name, "
        "temporary FROM duckdb_tables() UNION ALL SELECT database_name, schema_name, view_name, temporary "
        "FROM duckdb_views() WHERE NOT internal) t WHERE lower(t.table_name) = lower($1)",
        [name],
    ).fetchall()
    if any(temporary for _, _, temporary in rows):
        raise StoreError(
            f"{name} is temporary, and seen by this connection alone",
            hint="a crawl writes from a connection of its own",
        )
    path = [row[0] for row in connection.execute("SELECT unnest(current_schemas(false))").fetchall()]
    held = {schema for owner, schema, _ in rows if owner == database}
    return next((schema for schema in path if schema in held), None)


def writable(connection: DuckDBPyConnection, database: str) -> str:
    """The database by its own name, if it is one that can be written."""
    rows = connection.execute(
        "SELECT database_name, readonly, type, internal FROM duckdb_databases() WHERE lower(database_name) = lower($1)",
        [database],
    ).fetchall()
    if not rows:
        raise StoreError(f"there is no database {database}", hint="ATTACH it first, or name a schema and a table")
    name, readonly, kind, internal = rows[0]
    if internal:
        raise StoreError(f"the database {name} is DuckDB's own", hint="crawl into a database of yours")
    if kind != "duckdb":
        raise StoreError(f"the database {name} is of the type {kind}", hint="crawl into DuckDB, then copy the table")
    if readonly:
        raise StoreError(
            f"the database {name} is read-only", hint="open it without read_only, or crawl into another database"
        )
    return str(name)


def path_sql(path: TablePath) -> str:
    """A table as SQL, as it was named."""
    return ".".join(quote(part) for part in path)


def check_mergeable(connection: DuckDBPyConnection, path: TablePath) -> None:
    """A table that does not exist is told before anything is fetched."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {path_sql(path)} LIMIT 0").fetchall()
    except duckdb.Error as refused:
        raise StoreError(
            f"nothing can be merged into {'.'.join(path)}: {first_line(refused)}", hint="CREATE TABLE it first"
        ) from None
