"""A crawl whose pages are wanted by one statement only: a job like any other, into a table that goes when it is over.

It lies in the database of the connection, because a job writes from a connection of its own; what is learned of domains
on the way, robots.txt files and receipts stay as after any crawl.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import duckdb
from duckdb import DuckDBPyConnection

from amble.jobs import JobResult
from amble.jobs.runner import start
from amble.sql import options
from amble.sql.crawling import Place, settings_here, wait
from amble.sql.seeds import most_seeds, read_seeds
from amble.sql.statements import Crawl
from amble.sql.stores import open_store
from amble.sql.targets import current_database
from amble.sql.transactions import refuse_transaction
from amble.store import tables
from amble.store.clauses import STAGING, Clauses
from amble.store.database import quote
from amble.store.names import TableName
from amble.store.seam import JobChange, JobStatus

_in_use: set[str] = set()  # tables of statements that run now


@dataclass(slots=True)
class Staged:
    """What a crawl got. `interrupted`: somebody stopped it, and is to be told when this has been used."""

    table: str  # as SQL
    result: JobResult | None = None  # None: there were no seeds
    nulls: int = 0
    interrupted: BaseException | None = None


@contextmanager
def staged(place: Place, crawl: Crawl, values: Mapping[str, Any], limit: int | None, what: str) -> Iterator[Staged]:
    """Crawl, and give the table while the block lasts."""
    refuse_transaction(place.connection, what)
    settings = settings_here(place, crawl, values, limit or None)  # LIMIT 0: somebody asks for the columns alone
    database = current_database(place.connection)
    clauses = Clauses.of(place.connection, crawl.where_sql, [(each.expr_sql, each.name) for each in crawl.extract])
    most = most_seeds(crawl, limit)
    seeds = read_seeds(place.connection, crawl.select, values, place.caller, sites=crawl.sites, most=most,
                       typed=crawl.typed)  # fmt: skip
    name = TableName.of(STAGING, f"pages_{uuid4().hex}")
    _in_use.add(name.name)
    got = Staged(f"{quote(database)}.{name}", nulls=seeds.nulls)
    with open_store(place.connection, database, place.session) as store:
        try:
            with store.database.reading() as connection:
                _drop_left(connection)
                tables.create(connection, name)
            if seeds.urls:
                ways = {**place.session.ways, "typed": seeds.typed}
                job = start(store, list(seeds.urls), settings, str(name), clauses=clauses, **ways)
                got.result = job.result
                try:
                    got.result = wait(place, job)
                except (KeyboardInterrupt, duckdb.InterruptException) as pressed:
                    got.interrupted = pressed
                    # It cannot be taken up: the statement that wanted its pages will be gone.
                    change = JobChange(job.job_id, JobStatus.CANCELLED, job.job.clock.utc())
                    store.set_job_state(change).result()
            yield got
        finally:
            _in_use.discard(name.name)
            with store.database.reading() as connection:
                _drop(connection, name)


def _drop_left(connection: DuckDBPyConnection) -> None:
    """What a process that was killed has left here. A file is open in one process only, so the others are ours."""
    rows = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND schema_name = $1",
        [STAGING],
    ).fetchall()
    for (left,) in rows:
        if left not in _in_use:
            connection.execute(f"DROP TABLE IF EXISTS {TableName.of(STAGING, left)}")


def _drop(connection: DuckDBPyConnection, name: TableName) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    with suppress(duckdb.Error):  # others have theirs there
        connection.execute(f"DROP SCHEMA IF EXISTS {quote(STAGING)}")


def limit_of(crawl: Crawl, outer: int | None, values: Mapping[str, Any]) -> int | None:
    """The smaller of two limits."""
    return least(options.whole(crawl.limit, values, "LIMIT"), outer)


def least(*numbers: int | None) -> int | None:
    """The smallest, None being no limit."""
    return min((number for number in numbers if number is not None), default=None)
