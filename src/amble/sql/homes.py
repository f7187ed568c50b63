"""Which database a job lies in. Each that is attached counts its own jobs, so a number alone may mean several."""

from __future__ import annotations

from typing import NamedTuple

from duckdb import DuckDBPyConnection

from amble.errors import StoreError
from amble.jobs.runner import RunningJob
from amble.sql.statements import Verb
from amble.sql.targets import writable
from amble.store.database import database_in_use, quote
from amble.store.seam import UNFINISHED


class JobHome(NamedTuple):
    """A job where it was found."""

    job_id: int
    database: str
    status: str
    elsewhere: tuple[str, ...] = ()  # other databases with an unfinished job of the same number


def find_job(connection: DuckDBPyConnection, job_id: int, verb: Verb) -> JobHome:
    """The job in the database in use, else in the only one that has it."""
    current = database_in_use(connection)
    found = {name: status for name in _with_jobs(connection) if (status := _status(connection, name, job_id))}
    if not found:
        raise StoreError(f"there is no job {job_id}", hint="SELECT id, status FROM amble.jobs")
    if current not in found and len(found) > 1:
        ways = " or ".join(in_use(name, f"{verb} CRAWL {job_id}") for name in found)
        raise StoreError(f"there is a job {job_id} in several databases: {', '.join(found)}", hint=ways)
    home = current if current in found else next(iter(found))
    elsewhere = tuple(name for name, status in found.items() if name != home and status in UNFINISHED)
    return JobHome(job_id, writable(connection, home), found[home], elsewhere)


def stopped(connection: DuckDBPyConnection, job: RunningJob) -> str:
    """What is said of a job that somebody stopped, with the statement that goes on."""
    resume, home = f"RESUME CRAWL {job.job_id}", job.job.store.database.name
    hint = resume if database_in_use(connection) == home else in_use(home, resume)
    return f"job {job.job_id} stopped; what was fetched is stored\nhint: {hint}"


def in_use(database: str, statement: str) -> str:
    """The statement, for a connection that uses another database."""
    return f"USE {quote(database)}; {statement}"


def _with_jobs(connection: DuckDBPyConnection) -> list[str]:
    rows = connection.execute(
        "SELECT database_name FROM duckdb_tables() WHERE schema_name = 'amble' AND table_name = 'jobs' UNION "
        "SELECT database_name FROM duckdb_views() WHERE schema_name = 'amble' AND view_name = 'jobs' ORDER BY 1"
    ).fetchall()
    return [name for (name,) in rows]


def _status(connection: DuckDBPyConnection, database: str, job_id: int) -> str | None:
    rows = connection.execute(f"SELECT status FROM {quote(database)}.amble.jobs WHERE id = $1", [job_id]).fetchall()
    return str(rows[0][0]) if rows else None
