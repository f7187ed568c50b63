"""The tasks of all jobs: claimed in bundles, counted at any time, read back after a restart."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from duckdb import DuckDBPyConnection

from amble.core.seen import SeenSet
from amble.store import storable
from amble.store.database import Database
from amble.store.ledger import Ledger, Run, Taken, rank_of
from amble.store.rows import Encoded
from amble.store.seam import Counts, TaskRow, TaskState
from amble.store.tables import TargetTable

_READ_AT_ONCE = 2_000
_DENSE = 4  # bundles that lie this close are read as one stretch

# What still waits, a row per bundle: the places of its tasks and, for those tried before, how often.
_WAITING = """
    WITH line AS (
        SELECT bundle, domain, depth, priority, attempts,
            unnest(string_split(lines, chr(10))) AS line,
            generate_subscripts(string_split(lines, chr(10)), 1) - 1 AS place
        FROM amble.found WHERE job_id = $1 AND state = 'waiting'
    ), latest AS (
        SELECT url, arg_max({state: state, attempts: attempts}, seq) AS last
        FROM amble.settled WHERE job_id = $1 GROUP BY url
    )
    SELECT bundle, any_value(domain), any_value(depth), any_value(priority),
        list(place ORDER BY place), list(last.attempts ORDER BY place)
    FROM line LEFT JOIN latest ON latest.url = split_part(line, chr(9), 1)
    WHERE last IS NULL OR last.state = 'waiting'
    GROUP BY bundle ORDER BY bundle
"""
_ENDED = "SELECT state, count(*) FROM amble.tasks WHERE job_id = $1 AND state <> 'waiting' GROUP BY state"
# A task that ended as skipped for no failure was held by the table already; one that waits may be so.
_SPENT = """
    SELECT count(*) FROM amble.tasks AS task
    WHERE job_id = $1 AND url NOT IN (SELECT from_url FROM amble.redirects WHERE job_id = $1) AND CASE
        WHEN state IN ('done', 'failed', 'skipped') THEN state <> 'skipped' OR error_type IS NOT NULL
        ELSE url NOT IN (SELECT url FROM {pages} WHERE url IS NOT NULL AND error_type IS NULL)
    END
"""
# Redirects are no pages.
_BY_DOMAIN = """
    SELECT domain, sum(tasks) FROM (
        SELECT domain, tasks FROM amble.found WHERE job_id = $1
        UNION ALL
        SELECT task.domain, -1 FROM amble.tasks AS task
        WHERE job_id = $1 AND url IN (SELECT from_url FROM amble.redirects WHERE job_id = $1)
    ) GROUP BY domain
"""
_BUNDLES = """
    SELECT bundle, job_id, domain, depth, attempts, parent_url, discovered_by, priority, run_at, error_type, lines
    FROM amble.found
"""


class Tasks:
    """Safe for threads: the writer tells it what was committed while others claim."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._ledgers: dict[int, Ledger] = {}

    def begin(self, job_id: int) -> None:
        """A new job: nothing to read."""
        with self._lock:
            self._ledgers[job_id] = Ledger()

    def forget(self, job_id: int) -> None:
        """Let the next question read the tables again: whatever was held waits."""
        with self._lock:
            self._ledgers.pop(job_id, None)

    def committed(self, encoded: Encoded) -> None:
        with self._lock:
            # A ledger read from the tables a moment ago may know this transaction already.
            ledgers = {id_: ledger for id_, ledger in self._ledgers.items() if ledger.as_of < encoded.commit_no}
            for bundle in encoded.bundles:
                if bundle.job_id in ledgers:
                    ledgers[bundle.job_id].found(bundle)
            for done in encoded.done:
                if done.job_id in ledgers:
                    ledgers[done.job_id].settled(done)

    def claim(self, job_id: int, n: int, per_domain: int | None, domains: Collection[str] | None) -> list[TaskRow]:
        with self._lock:
            taken = self._ledger(job_id).take(n, per_domain, domains)
        if not taken:
            return []
        try:
            with self._database.reading() as connection:
                return list(_rows(taken, _fetch(connection, {one.run.bundle for one in taken})))
        except BaseException:
            with self._lock:
                for one in taken:
                    self._ledger(job_id).put(*one)
            raise

    def waiting(self, job_id: int) -> dict[str, int]:
        with self._lock:
            return self._ledger(job_id).waiting

    def counts(self, job_id: int) -> Counts:
        with self._lock:
            return self._ledger(job_id).counts()

    def seen(self, job_id: int) -> SeenSet:
        seen = SeenSet()
        with self._database.reading() as connection:
            rows = connection.execute("SELECT lines FROM amble.found WHERE job_id = $1", [job_id])
            while chunk := rows.fetchmany(_READ_AT_ONCE):
                for (lines,) in chunk:
                    seen.add_many([line.partition("\t")[0] for line in lines.split("\n")])
        return seen

    def accepted_by_domain(self, job_id: int) -> dict[str, int]:
        with self._database.reading() as connection:
            rows = connection.execute(_BY_DOMAIN, [job_id]).fetchall()
        return {domain: int(tasks) for domain, tasks in rows}

    def spent(self, job_id: int, target: TargetTable) -> int:
        with self._database.reading() as connection:
            ((tasks,),) = connection.execute(_SPENT.format(pages=target.name), [job_id]).fetchall()
        return int(tasks)

    def _ledger(self, job_id: int) -> Ledger:
        ledger = self._ledgers.get(job_id)
        if ledger is None:
            ledger = self._ledgers[job_id] = self._read(job_id)
        return ledger

    def _read(self, job_id: int) -> Ledger:
        with self._database.reading() as connection:
            connection.begin()  # one moment for all that is read
            ledger = Ledger(
                connection.execute("SELECT coalesce(max(commit_no), 0) FROM amble.commits").fetchall()[0][0]
            )
            ended = connection.execute(_ENDED, [job_id]).fetchall()
            ledger.restore({TaskState(state): count for state, count in ended})
            rows = connection.execute(_WAITING, [job_id])
            while chunk := rows.fetchmany(_READ_AT_ONCE):
                for bundle, domain, depth, priority, places, attempts in chunk:
                    for start, stop, tried in _stretches(places, attempts):
                        ledger.accept(domain, rank_of(depth, priority), Run(bundle, start, stop, tried))
        return ledger


def _stretches(places: list[int], attempts: list[int | None]) -> Iterator[tuple[int, int, int | None]]:
    """Places that follow one another and were tried equally often, as (start, stop, attempts)."""
    start = 0
    for i in range(1, len(places) + 1):
        if i == len(places) or places[i] != places[i - 1] + 1 or attempts[i] != attempts[start]:
            yield places[start], places[i - 1] + 1, attempts[start]
            start = i


def _fetch(connection: DuckDBPyConnection, bundles: set[int]) -> dict[int, tuple[Any, ...]]:
    """The rows of these bundles. They are numbered in the order in which they lie, so a stretch is read at once."""
    first, last = min(bundles), max(bundles)
    if last - first < _DENSE * len(bundles):
        rows = connection.execute(f"{_BUNDLES} WHERE bundle BETWEEN $1 AND $2", [first, last]).fetchall()
    else:
        rows = connection.execute(
            f"{_BUNDLES} WHERE bundle BETWEEN $1 AND $2 AND bundle IN (SELECT unnest($3::BIGINT[]))",
            [first, last, sorted(bundles)],
        ).fetchall()
    return {row[0]: row for row in rows if row[0] in bundles}


def _rows(taken: Iterable[Taken], bundles: dict[int, tuple[Any, ...]]) -> Iterator[TaskRow]:
    lines: dict[int, list[str]] = {}
    for _, _, run in taken:
        _, job_id, domain, depth, attempts, parent_url, found_by, priority, run_at, error_type, text = bundles[
            run.bundle
        ]
        if run.bundle not in lines:
            lines[run.bundle] = text.split("\n")
        tried = attempts if run.attempts is None else run.attempts
        for line in lines[run.bundle][run.start : run.stop]:
            url, _, validators = line.partition("\t")
            etag, _, last_modified = validators.partition("\t")
            yield TaskRow(
                job_id, url, domain, TaskState.RUNNING, depth, tried, parent_url, found_by, priority,
                storable.aware(run_at), error_type, etag or None, last_modified or None,
            )  # fmt: skip
