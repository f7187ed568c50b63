"""How one transaction is written: all tables or none; rows that cannot be stored are set apart; faults are told apart.

Rows go through appenders, which convert straight from Python values: measured beside `INSERT ... SELECT unnest` they
cost a tenth less for pages and half for short rows, take part in the transaction like any statement, and an error in
one row surfaces before the commit.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import duckdb
from duckdb import Appender, DuckDBPyConnection

from amble.core.outcome import Failure
from amble.errors import StoreError, first_line
from amble.store import storable
from amble.store.clauses import Column, insert_extracted
from amble.store.database import Database
from amble.store.learning import Learning
from amble.store.poison import isolate
from amble.store.rows import Encoded, Row
from amble.store.seam import UNFINISHED, JobChange, JobStatus, PageConfirmed, PageRow, Rejection, TaskState
from amble.store.tables import COLUMNS, TargetTable

_REASON_CHARS_MAX = 300
_ROW_CHARS_MAX = 2_000
_DOMAIN_ROWS_SPARE = 1_000
_ROWS_AT_ONCE = 1_000  # given to an appender, which lets nobody else use Python meanwhile
_STARVED_MAX = 8  # times that memory was short for the same transaction before what is largest in it is set apart
_NO_MEMORY = ("Out of Memory", "bad allocation", "bad_alloc", "MemoryError")  # how DuckDB and Python say it
_HEX = re.compile(r"[0-9a-fA-F]{16}")

# What is wrong with a statement, whatever it is run on: something it names is not there, or not as it was.
_SQL_FAULTS = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.SyntaxException)

# What a row can be refused for. Everything else a database says is about the machine, and passes.
_ROW_FAULTS = (
    duckdb.ConversionException,
    duckdb.ConstraintException,
    duckdb.InvalidInputException,
    duckdb.InvalidTypeException,
    duckdb.OutOfRangeException,
    duckdb.TypeMismatchException,
    OverflowError,
    TypeError,
    ValueError,
)


class Unavailable(Exception):
    """The database cannot be written now; the same transaction may be tried again."""

    def __init__(self, reason: str, lacks: str = "the disk") -> None:
        super().__init__(reason)
        self.lacks = "memory" if any(sign in reason for sign in _NO_MEMORY) else lacks  # what is waited for

    @classmethod
    def because(cls, fault: Exception) -> Unavailable:
        """The table of pages may be somebody's who changes it, and back."""
        if isinstance(fault, cls):
            return fault
        is_changed = isinstance(fault, (*_SQL_FAULTS, duckdb.InvalidInputException))
        return cls(_first_line(fault), "the table" if is_changed else "the disk")


def no_step(name: str) -> None:
    """Where tests stop, slow or kill a writer: called with the name of each step it has reached."""


class Committer:
    """The one that writes. Used by one thread."""

    def __init__(
        self,
        database: Database,
        targets: Callable[[int], TargetTable],
        utc: Callable[[], datetime],
        step: Callable[[str], None] = no_step,
        extract_of: Callable[[int], Sequence[Column]] = lambda job_id: (),
        on_rejected: Callable[[Sequence[Rejection]], None] = lambda rejections: None,
    ) -> None:
        self._database = database
        self._connection = database.connect()
        self._targets = targets
        self._extract_of = extract_of
        self._on_rejected = on_rejected
        self._utc = utc
        self._step = step
        self._appenders: dict[str, Appender] = {}
        self._learning = Learning()
        self._starved = 0
        self._read_only: dict[int, set[str]] = {}  # of the transaction that is written
        self._domain_rows = 0  # written since it was last looked whether they can be fewer

    def commit(self, encoded: Encoded, *, straight: bool = False) -> None:
        """Write a transaction, `straight` into the file or into its log. Raises `Unavailable`, after which `recover`
        says whether it got through."""
        self._read_only = encoded.read_only
        for repair in (self._mend, self._set_apart, None):
            try:
                self._transact(encoded, straight)
                break
            except _ROW_FAULTS as fault:
                self._roll_back()
                if repair is None:
                    raise self._unavailable(fault) from fault
                repair(encoded)
            except duckdb.OutOfMemoryException as fault:  # others may need it just now; or a body is simply too long
                self._starved += not self._database.guests.send_away("the crawl needs its memory")
                if self._starved < _STARVED_MAX or repair is None:
                    raise self._unavailable(fault) from fault
                self._roll_back()
                self._set_apart(encoded)
            except StoreError:  # time will not mend it
                self._roll_back()
                raise
            except Exception as fault:
                raise self._unavailable(fault) from fault
        self._starved = 0
        self._database.close_log_to_others()
        self._note(encoded)

    def recover(self, encoded: Encoded) -> bool:
        """Make the database usable again if it can be; whether the transaction had got through after all. Raises
        `Unavailable` where it may be later, `StoreError` where it will not."""
        try:
            is_stored = self._is_stored(encoded)
        except duckdb.Error:
            try:
                self._database.reattach()
                is_stored = self._is_stored(encoded)
            except (duckdb.Error, StoreError) as fault:
                if isinstance(fault, StoreError) and not self._database.is_our_file:
                    raise  # nobody can take it up again
                raise self._unavailable(fault) from fault
        with contextlib.suppress(duckdb.Error):
            for job_id in encoded.pages:
                self._targets(job_id).refresh(self._connection)
        return is_stored

    def checkpoint(self) -> None:
        """Write the log into the file. Where that fails, the database is unusable until `recover`."""
        self._step("before_checkpoint")
        try:
            self._connection.execute("CHECKPOINT")
        except duckdb.Error as fault:
            raise self._unavailable(fault) from fault
        self._step("checkpointed")

    def tidy(self) -> None:
        """Let go of what was replaced and of what is on disk, once it is much."""
        try:
            if self._domain_rows >= _DOMAIN_ROWS_SPARE:
                compact(self._connection)
                self._domain_rows = 0
            self._database.empty_cache(self._connection)
        except duckdb.Error as fault:
            raise self._unavailable(fault) from fault

    def close(self) -> None:
        self._drop_appenders()
        self._connection.close()

    # -- one transaction

    def _transact(self, encoded: Encoded, straight: bool) -> None:
        self._connection.begin()
        self._step("begun")
        for target, pages in self._by_target(encoded).items():
            self._write_pages(target, list(pages.values()))
        self._step("pages_written")
        for job_id in {row.job_id for row in encoded.confirmed}:
            self._confirm(self._targets(job_id), [row for row in encoded.confirmed if row.job_id == job_id])
        for job_id in {row.job_id for row in encoded.chain_ends}:
            ends = [row for row in encoded.chain_ends if row.job_id == job_id]
            self._targets(job_id).end_chains(self._connection, ends)
        if domains := encoded.tables.get("domain_log"):
            encoded.tables["domain_log"] = self._learning.carry_over(self._connection, domains)
        for table, rows in encoded.tables.items():
            self._append(f"amble.{table}", rows)
        self._append("amble.history", history_of(encoded))
        for change in encoded.jobs:
            self._change_job(change)
        now = storable.utc(self._utc())
        self._append("amble.commits", [(encoded.commit_no, now, encoded.page_count)])
        self._step("before_commit")
        if straight:
            self._step("before_checkpoint")
            with self._database.straight():
                self._connection.commit()
            self._step("checkpointed")
        else:
            self._connection.commit()
        self._step("committed")

    def _note(self, encoded: Encoded) -> None:
        """Remember what the tables hold now, and tell what they do not."""
        if encoded.rejections:
            self._on_rejected(encoded.rejections)
        self._domain_rows += len(encoded.tables.get("domain_log", ()))
        for target, pages in self._by_target(encoded).items():
            target.note((page.url, page.crawl_time) for page in pages.values())
        for row in encoded.confirmed:
            self._targets(row.job_id).note([(row.url, row.crawl_time)])

    def _by_target(self, encoded: Encoded) -> dict[TargetTable, dict[str, PageRow]]:
        found: dict[TargetTable, dict[str, PageRow]] = {}
        for job_id, pages in encoded.pages.items():
            found.setdefault(self._targets(job_id), {}).update(pages)
        return found

    def _write_pages(self, target: TargetTable, pages: Sequence[PageRow]) -> None:
        """A URL that the table holds already is replaced: its row goes in the transaction that brings the new one."""
        old = target.locate(self._connection, [page.url for page in pages])
        if old:
            self._connection.execute(
                f"DELETE FROM {target.name} WHERE rowid IN (SELECT unnest($1::BIGINT[]))", [[row[0] for row in old]]
            )
        plain = [page for page in pages if not self._extract_of(page.job_id)]
        if plain:
            self._append(str(target.name), [target.encode(page) for page in plain], list(COLUMNS))
        if len(plain) < len(pages):
            self._extract(target, [page for page in pages if self._extract_of(page.job_id)])

    def _extract(self, target: TargetTable, pages: Sequence[PageRow]) -> None:
        """Pages of jobs that say what is to be read from them."""
        types = "BLOB" if target.binary else "VARCHAR", "TIMESTAMPTZ" if target.zoned else "TIMESTAMP"
        for job_id in dict.fromkeys(page.job_id for page in pages):
            rows = [target.encode(page) for page in pages if page.job_id == job_id]
            try:
                insert_extracted(
                    self._connection,
                    target.name,
                    types,
                    self._extract_of(job_id),
                    rows,
                    self._read_only.get(job_id, ()),
                )
            except _SQL_FAULTS as fault:  # it is not the disk: a function, a macro or a column is gone or another
                raise StoreError(
                    f"the EXTRACT of job {job_id} cannot be run any more: {_first_line(fault)}",
                    hint="make what is missing anew and resume the job; what was not stored is fetched again",
                ) from fault

    def _confirm(self, target: TargetTable, rows: Sequence[PageConfirmed]) -> None:
        places = {url: rowid for rowid, url in target.locate(self._connection, [row.url for row in rows])}
        rows = [row for row in rows if row.url in places]
        if not rows:
            return
        time = "TIMESTAMPTZ" if target.zoned else "TIMESTAMP"
        self._connection.execute(
            f"UPDATE {target.name} AS old SET crawl_time = news.crawl_time, etag = coalesce(news.etag, old.etag), "
            "last_modified = coalesce(news.last_modified, old.last_modified), elapsed_ms = news.elapsed_ms, "
            "attempts = news.attempts, job_id = news.job_id FROM (SELECT unnest($1::BIGINT[]) AS place, "
            f"unnest($2::{time}[]) AS crawl_time, unnest($3::VARCHAR[]) AS etag, "
            "unnest($4::VARCHAR[]) AS last_modified, "
            "unnest($5::DOUBLE[]) AS elapsed_ms, unnest($6::INTEGER[]) AS attempts, unnest($7::BIGINT[]) AS job_id"
            ") AS news WHERE old.rowid = news.place",
            [
                [places[row.url] for row in rows],
                [row.crawl_time if target.zoned else storable.utc(row.crawl_time) for row in rows],
                [storable.validator(row.etag) for row in rows],
                [storable.validator(row.last_modified) for row in rows],
                [row.elapsed_ms for row in rows],
                [storable.int32(row.attempts) for row in rows],
                [row.job_id for row in rows],
            ],
        )

    def _change_job(self, change: JobChange) -> None:
        at = storable.utc(change.at)
        self._connection.execute(
            "UPDATE amble.jobs SET status = $2, started_at = coalesce(started_at, $3), finished_at = $4, "
            "error = nullif(coalesce($5, error), ''), counters = coalesce($6, counters), "
            "settings = coalesce($7, settings) WHERE id = $1",
            [
                change.job_id,
                str(change.status),
                at if change.status is JobStatus.RUNNING else None,
                None if change.status in UNFINISHED else at,
                storable.text(change.error),
                *(None if named is None else storable.json_text(named) for named in (change.counters, change.settings)),
            ],
        )

    def _append(self, table: str, rows: Sequence[Row], columns: list[str] | None = None) -> None:
        appender = self._appenders.get(table)
        if appender is None:
            try:
                appender = self._appenders[table] = self._connection.appender(table, columns=columns)
            except duckdb.Error as fault:  # the table is gone or changed: no fault of any row
                raise Unavailable.because(fault) from fault
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            appender.append_rows(rows[first : first + _ROWS_AT_ONCE])
        appender.flush()

    # -- rows that cannot be stored

    def _mend(self, encoded: Encoded) -> None:
        """The thorough check of all text; the cheap one has let something through."""
        for pages in encoded.pages.values():
            for url, page in pages.items():
                pages[url] = page._replace(body=storable.mend(page.body) if page.body is not None else None)
        for table, rows in encoded.tables.items():
            encoded.tables[table] = [
                tuple(storable.mend(value) if isinstance(value, str) else value for value in row) for row in rows
            ]

    def _set_apart(self, encoded: Encoded) -> None:
        """Find the rows that are refused. A page is kept without its text and with the reason; others are noted."""
        rejected = encoded.tables.pop("rejected", [])  # perhaps some were before
        for job_id, pages in encoded.pages.items():
            target = self._targets(job_id)
            good, bad = isolate(list(pages.values()), partial(self._refusal_of_pages, target, ()))
            bare = [_bare(page, reason) for page, reason in bad]
            kept, lost = isolate(bare, partial(self._refusal_of_pages, target, good))
            encoded.pages[job_id] = {page.url: page for page in [*good, *kept]}
            rejected += [self._rejection(str(target.name), job_id, page, reason) for page, reason in lost]
        for table, rows in encoded.tables.items():
            fine, refused = isolate(rows, partial(self._refusal_of_rows, table))
            encoded.tables[table] = fine
            rejected += [self._rejection(f"amble.{table}", None, row, reason) for row, reason in refused]
            if table == "found" and refused:  # what the store was to hold and does not is nobody's to claim
                lost_bundles = {row[0] for row, _ in refused}
                encoded.bundles = [
                    bundle for bundle in encoded.bundles
                    if bundle.number not in lost_bundles or bundle.state is not TaskState.WAITING
                ]  # fmt: skip
        if rejected:
            encoded.tables["rejected"] = rejected
            encoded.rejections = [Rejection(table, job_id, reason) for table, job_id, _, reason, _ in rejected]

    def _refusal_of_pages(self, target: TargetTable, stored: Sequence[PageRow], pages: Sequence[PageRow]) -> str | None:
        return self._refusal(lambda: self._write_pages(target, [*stored, *pages]))

    def _refusal_of_rows(self, table: str, rows: Sequence[Row]) -> str | None:
        return self._refusal(lambda: self._append(f"amble.{table}", rows))

    def _refusal(self, write: Callable[[], None]) -> str | None:
        """Try a write and take it back; why it was refused."""
        self._connection.begin()
        try:
            write()
        except (*_ROW_FAULTS, duckdb.OutOfMemoryException) as fault:
            return _first_line(fault)
        except Exception as fault:
            raise self._unavailable(fault) from fault
        finally:
            self._roll_back()
        return None

    def _rejection(self, table: str, job_id: int | None, row: object, reason: str) -> Row:
        shown = storable.text(repr(row), _ROW_CHARS_MAX)
        return table, job_id, shown, storable.text(reason), storable.utc(self._utc())

    # -- faults

    def _is_stored(self, encoded: Encoded) -> bool:
        """Whether its row is there. DuckDB answers `max` from statistics, and commits that failed stay in them."""
        sql = "SELECT commit_no FROM amble.commits WHERE commit_no = $1"
        return bool(self._connection.execute(sql, [encoded.commit_no]).fetchall())

    def _roll_back(self) -> None:
        self._drop_appenders()
        with contextlib.suppress(duckdb.Error):  # a commit that failed has already been rolled back
            self._connection.rollback()

    def _drop_appenders(self) -> None:
        for appender in self._appenders.values():
            with contextlib.suppress(duckdb.Error):
                appender.clear()  # or what is in it would be written when it goes
        self._appenders.clear()

    def _unavailable(self, fault: Exception) -> Unavailable:
        self._roll_back()
        return Unavailable.because(fault)


def compact(connection: DuckDBPyConnection) -> None:
    """Drop what is known of domains and was replaced since, where it is most of the table."""
    rows, kept = connection.execute("SELECT count(*), count(DISTINCT domain) FROM amble.domain_log").fetchall()[0]
    if rows > 2 * kept + _DOMAIN_ROWS_SPARE:
        connection.execute(
            "DELETE FROM amble.domain_log WHERE seq NOT IN (SELECT max(seq) FROM amble.domain_log GROUP BY domain)"
        )


def history_of(encoded: Encoded) -> list[Row]:
    """What each job got for each URL, in the little that tells whether it changed."""
    rows: list[Row] = [
        (job_id, storable.text(page.url), storable.int32(page.http_status), storable.text(page.error_type),
         _key(page.content_hash))
        for job_id, pages in encoded.pages.items() for page in pages.values()
    ]  # fmt: skip
    rows += [(row.job_id, storable.text(row.url), 304, None, None) for row in encoded.confirmed]
    return rows


def _key(content_hash: str | None) -> int | None:
    return int(content_hash[:16], 16) if content_hash and _HEX.match(content_hash) else None


def _bare(page: PageRow, reason: str) -> PageRow:
    """What can always be said about a page: that it was fetched, when, and why its content is not here."""
    return PageRow(
        page.url, page.surt_key, page.http_status, crawl_time=page.crawl_time, domain=page.domain, depth=page.depth,
        parent_url=page.parent_url, discovered_by=page.discovered_by, attempts=page.attempts, job_id=page.job_id,
        error=f"could not be stored: {reason}", error_type=page.error_type or Failure.CONTENT_DECODE_ERROR,
    )  # fmt: skip


def _first_line(fault: Exception) -> str:
    return first_line(fault)[:_REASON_CHARS_MAX]
