"""The embedded store: one DuckDB file behind the seam."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime

import duckdb
from duckdb import DuckDBPyConnection

from amble.clock import Clock, SystemClock
from amble.collecting import seldom
from amble.core.robots.verdict import RobotsRow
from amble.core.seen import SeenSet
from amble.errors import StoreError, first_line
from amble.store import knowledge
from amble.store.clauses import Clauses, Column, add_columns, load_clauses, show_target
from amble.store.commit import Committer, compact, no_step
from amble.store.database import MORE_MEMORY, Database
from amble.store.foreign_clauses import refuse_foreign, refuse_gone
from amble.store.judge import WhereJudge
from amble.store.migrate import migrate
from amble.store.names import TableName
from amble.store.query import ROWS_MAX, QueryResult, nobody_left, read_only_query
from amble.store.rows import Numbers
from amble.store.seam import (
    BareSitemap,
    Batch,
    Counts,
    DomainRow,
    JobChange,
    JobRow,
    JobStatus,
    KnownPage,
    LinkRow,
    Rejection,
    SitemapUrlRow,
    StoreState,
    TaskDone,
    TaskRow,
    TaskState,
)
from amble.store.tables import TargetTable
from amble.store.tasks import Tasks
from amble.store.writer import Writer, WriterLimits

# Half as much again as a crawl needs: 50 MB for the log until it is in the file, as much for a transaction. DuckDB that
# comes near its limit gives memory back to the system and takes it anew, all the time.
MEMORY_LIMIT = "144MB"
_BODY_FITS_BYTES = 40_000_000  # a longer one needs about two and a half times its length
_REOPEN_AT_ONCE = 10_000


def memory_for(body_bytes_max: int) -> str:
    """What DuckDB is given where bodies may be so long; one that finds no room is not stored."""
    return MEMORY_LIMIT if body_bytes_max <= _BODY_FITS_BYTES else f"{3 * body_bytes_max // 1_000_000 + 20}MB"


class DuckDBStore:
    """See `amble.store.seam.Store` for what each method promises."""

    def __init__(
        self,
        database: Database,
        *,
        limits: WriterLimits | None = None,
        on_state: Callable[[StoreState], None] = lambda state: None,
        clock: Clock | None = None,
        step: Callable[[str], None] = no_step,
    ) -> None:
        utc = (clock or SystemClock()).utc
        self.database = database
        self._limits = limits or WriterLimits()
        self._in_bulk: set[int] = set()  # jobs whose pages several processes bring
        with database.reading() as connection:
            migrate(connection, step=step)
            compact(connection)
            numbers = _numbers(connection)
            self._jobs = {job.id: job for job in knowledge.load_jobs(connection)}
            self._clauses = load_clauses(connection)
            # Nobody else can have the file open, so whatever ran there has stopped without saying so.
            connection.execute("UPDATE amble.jobs SET status = 'paused' WHERE status = 'running'")
        self._own_clauses: set[int] = set()  # jobs whose SQL came from whoever uses this store
        self._job_lock = threading.Lock()
        self._targets: dict[TableName, TargetTable] = {}
        self._tasks = Tasks(database)
        self.rejections: list[Rejection] = []  # rows set apart since it was opened, in their order
        self._committer = Committer(database, self._target_of, utc, step, self._extract_of, self.rejections.extend)
        self._writer = Writer(database, self._committer, numbers, self._tasks.committed, on_state, self._limits)
        atexit.register(self.close)  # a program that ends without closing loses nothing either

    @classmethod
    @seldom()
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        threads: int | None = None,
        memory_limit: str | None = MEMORY_LIMIT,
        sealed: bool = False,
        limits: WriterLimits | None = None,
        on_state: Callable[[StoreState], None] = lambda state: None,
        step: Callable[[str], None] = no_step,
    ) -> DuckDBStore:
        """Open or make a file. `sealed`: SQL from outside may be run on it, and none may reach other files."""
        database = Database.open(path, threads=threads, memory_limit=memory_limit)
        try:
            store = cls(database, limits=limits, on_state=on_state, step=step)
        except duckdb.Error as refused:
            database.close()
            raise StoreError(
                f"{path} cannot be used: {first_line(refused)}",
                hint=MORE_MEMORY
                if isinstance(refused, duckdb.OutOfMemoryException)
                else "see that the disk has room and can be written",
            ) from refused
        except BaseException:
            database.close()
            raise
        if sealed:
            database.seal()
        return store

    def store_in_batches(self, batch_size: int) -> None:
        """So many pages to a transaction from now on."""
        self._limits = self._limits._replace(batch_size=batch_size)
        self._tell_writer()

    def store_in_bulk(self, job_id: int, in_bulk: bool) -> None:
        """Whether several processes bring the pages of a job from now on."""
        if in_bulk:
            self._in_bulk.add(job_id)
        else:
            self._in_bulk.discard(job_id)
        self._tell_writer()

    @property
    def close_s_max(self) -> float:
        """How long whoever ends waits for a store that cannot be written."""
        return self._limits.close_s_max

    def hurry(self) -> None:
        """When it is closed, a store that cannot be written is given up at once."""
        self._limits = self._limits._replace(close_s_max=0.0)
        self._tell_writer()

    def _tell_writer(self) -> None:
        self._writer.limits = self._limits.in_bulk() if self._in_bulk else self._limits

    # -- jobs

    def create_job(
        self,
        target: str,
        settings: Mapping[str, object],
        seeds: Sequence[str],
        created_at: datetime,
        clauses: Clauses | None = None,
    ) -> JobRow:
        name = TableName.parse(target, self.database.name)
        with self._job_lock:
            self._open_target(name)
            number = max(self._jobs, default=0) + 1
            self._keep_clauses(number, name, clauses)
            job = JobRow(number, JobStatus.QUEUED, settings, tuple(seeds), str(name), created_at)
            self._jobs[number] = job
        self._tasks.begin(number)
        self._writer.submit(Batch(jobs=[job]), urgent=True).result()
        return job

    def _keep_clauses(self, number: int, name: TableName, clauses: Clauses | None) -> None:
        with self.database.reading() as connection:
            if clauses:
                add_columns(connection, name, clauses.extract)
                connection.execute("INSERT INTO amble.clauses VALUES ($1, $2)", [number, clauses.dump()])
                self._clauses[number] = clauses
                self._own_clauses.add(number)
            show_target(connection, name)

    def judge_of(self, job_id: int) -> WhereJudge | None:
        """Who decides which URLs a job takes, where SQL said so. To be closed by whoever uses it."""
        clauses = self._clauses.get(job_id)
        return WhereJudge(self.database, clauses) if clauses is not None and clauses.where_sql is not None else None

    def check_clauses(self, job_id: int, *, trust: bool) -> None:
        """Of a job that is taken up: whether its SQL is harmless (or trusted), and can still be run."""
        clauses = self._clauses.get(job_id)
        if clauses is None or job_id in self._own_clauses:
            return
        with self.database.reading() as connection:
            if not trust:
                refuse_foreign(connection, job_id, clauses)
            refuse_gone(connection, job_id, clauses)

    def extracts(self, job_id: int) -> bool:
        """Whether something is read from the pages of a job besides what their rows have."""
        return bool(self._extract_of(job_id))

    def _extract_of(self, job_id: int) -> Sequence[Column]:
        clauses = self._clauses.get(job_id)
        return clauses.extract if clauses is not None else ()

    def set_job_state(self, change: JobChange) -> Future[None]:
        return self._writer.submit(Batch(jobs=[change]), urgent=True)

    def jobs(self) -> list[JobRow]:
        with self.database.reading() as connection:
            return knowledge.load_jobs(connection)

    def resume(self, job_id: int) -> Counts:
        self._target_of(job_id)
        self.flush().result()
        with self.database.reading() as connection:
            deferred = connection.execute(
                "SELECT url, attempts, error_type FROM amble.tasks WHERE job_id = $1 AND state = 'deferred'", [job_id]
            )
            while rows := deferred.fetchmany(_REOPEN_AT_ONCE):
                again = [TaskDone(job_id, url, TaskState.WAITING, tries, error) for url, tries, error in rows]
                self.submit(Batch(done=again), urgent=True).result()
        self._tasks.forget(job_id)
        return self._tasks.counts(job_id)

    # -- tasks

    def claim(
        self, job_id: int, n: int, *, per_domain: int | None = None, domains: Collection[str] | None = None
    ) -> list[TaskRow]:
        return self._tasks.claim(job_id, n, per_domain, domains)

    def waiting(self, job_id: int) -> dict[str, int]:
        return self._tasks.waiting(job_id)

    def counts(self, job_id: int) -> Counts:
        return self._tasks.counts(job_id)

    def seen(self, job_id: int) -> SeenSet:
        return self._tasks.seen(job_id)

    def stored(self, job_id: int) -> SeenSet:
        with self.database.reading() as connection:
            return knowledge.stored(connection, self._target_of(job_id))

    def tried(self, job_id: int) -> SeenSet:
        with self.database.reading() as connection:
            return knowledge.stored(connection, self._target_of(job_id), failed=True)

    def accepted_by_domain(self, job_id: int) -> dict[str, int]:
        return self._tasks.accepted_by_domain(job_id)

    def spent(self, job_id: int) -> int:
        return self._tasks.spent(job_id, self._target_of(job_id))

    # -- writing

    def submit(self, batch: Batch, *, urgent: bool = False, soon: bool = False) -> Future[None]:
        return self._writer.submit(batch, urgent=urgent, soon=soon)

    def flush(self) -> Future[None]:
        return self._writer.flush()

    @property
    def has_room(self) -> bool:
        return self._writer.has_room

    def room(self) -> Future[None]:
        return self._writer.room()

    @property
    def state(self) -> StoreState:
        return self._writer.state

    def close(self) -> None:
        """Write what is held, then let go of the file. What is still to visit waits for a resumption."""
        atexit.unregister(self.close)
        self._writer.close()
        self._committer.close()
        self.database.close()

    def __enter__(self) -> DuckDBStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- knowledge

    def load_domains(self, keys: Iterable[str] | None = None) -> list[DomainRow]:
        with self.database.reading() as connection:
            return knowledge.load_domains(connection, keys)

    def domains_in_parts(self) -> Iterator[list[DomainRow]]:
        with self.database.reading() as connection:
            yield from knowledge.domains_in_parts(connection)

    def asked_in_parts(self, since: datetime) -> Iterator[list[DomainRow]]:
        with self.database.reading() as connection:
            yield from knowledge.asked_in_parts(connection, since)

    def load_robots(self, origins: Iterable[str] | None = None) -> list[RobotsRow]:
        with self.database.reading() as connection:
            return knowledge.load_robots(connection, origins)

    def load_sitemap_urls(self, sitemap: str) -> list[SitemapUrlRow]:
        with self.database.reading() as connection:
            return knowledge.load_sitemap_urls(connection, sitemap)

    def bare_sitemap(self, sitemap: str) -> BareSitemap | None:
        with self.database.reading() as connection:
            return knowledge.bare_sitemap(connection, sitemap)

    def sitemaps_read(self, since: datetime) -> set[str]:
        with self.database.reading() as connection:
            return knowledge.sitemaps_read(connection, since)

    def listed(self, urls: Sequence[str]) -> dict[str, SitemapUrlRow]:
        with self.database.reading() as connection:
            return knowledge.listed(connection, urls)

    def known_pages(self, job_id: int, urls: Sequence[str]) -> dict[str, KnownPage]:
        with self.database.reading() as connection:
            return knowledge.known_pages(connection, self._target_of(job_id), urls)

    def links_of(self, urls: Sequence[str]) -> dict[str, list[LinkRow]]:
        with self.database.reading() as connection:
            return knowledge.links_of(connection, urls)

    # -- reading by others

    def read_only_query(
        self, sql: str, timeout_s: float, rows_max: int = ROWS_MAX, is_gone: Callable[[], bool] = nobody_left
    ) -> QueryResult:
        """One SELECT of somebody we do not know; only on a sealed store."""
        return read_only_query(self.database, sql, timeout_s, rows_max, is_gone=is_gone)

    # -- inside

    def _target_of(self, job_id: int) -> TargetTable:
        job = self._jobs.get(job_id)
        if job is None:
            raise StoreError(f"there is no job {job_id}", hint="list the jobs of this file")
        return self._open_target(TableName.parse(job.target, self.database.name))

    def _open_target(self, name: TableName) -> TargetTable:
        target = self._targets.get(name)
        if target is None:
            with self.database.reading() as connection:
                target = self._targets[name] = TargetTable.open(connection, name)
        return target


def _numbers(connection: DuckDBPyConnection) -> Numbers:
    """Where counting goes on."""
    highest = connection.execute(
        "SELECT (SELECT max(bundle) FROM amble.found), (SELECT max(commit_no) FROM amble.commits), greatest("
        "(SELECT max(seq) FROM amble.settled), (SELECT max(seq) FROM amble.domain_log), "
        "(SELECT max(seq) FROM amble.robots_log), (SELECT max(seq) FROM amble.link_lines))"
    ).fetchall()[0]
    bundle, commit, seq = ((number or 0) + 1 for number in highest)
    return Numbers(bundle=bundle, commit=commit, seq=seq)
