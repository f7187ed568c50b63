"""A crawl in the hands of a Python program: watched, steered, and asked in SQL, while it runs and after."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from duckdb import DuckDBPyRelation

from amble.control.progress import JobProgress, domain_now, look
from amble.core.urls import domain_of
from amble.errors import StoreError
from amble.jobs import JobResult
from amble.jobs.runner import RunningJob
from amble.report.why import Why, why
from amble.report.words import duration, html_table, marked
from amble.sql.connection import Connection
from amble.sql.progress import NoBar, wait_or_stop
from amble.store.seam import JobStatus

if TYPE_CHECKING:
    import pandas
    import pyarrow


class Hold:
    """A connection that is closed, and its cursors with it, when both the job and whoever holds it are done."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._lock = threading.Lock()
        self._users = 2

    def let_go(self) -> None:
        with self._lock:
            self._users -= 1
            last = self._users == 0
        if last:
            self.connection.close()


def _held(job: CrawlJob) -> None:
    """Nobody asks it any more."""


class CrawlJob:
    """One job and the database it fills. Every method may be called from any thread; `await job` waits for its end.

    The database is let go by `close`, at the end of a `with` block, or when nobody holds the job any more.
    """

    def __init__(self, hold: Hold, running: RunningJob, keeper: threading.Thread) -> None:
        self._connection = hold.connection
        self._running = running
        self._keeper = keeper  # has the store open until the job is over
        self._began = running.job.clock.monotonic()
        self._cursors = threading.local()
        self._closed = False
        self._release = weakref.finalize(self, hold.let_go)
        self.job_id = running.job_id
        self.into = str(running.job.store.database.path or ":memory:")
        self.table = running.job.row.target

    # -- how it goes

    @property
    def status(self) -> JobStatus:
        return self._running.status

    @property
    def done(self) -> bool:
        return self._running.done

    @property
    def result(self) -> JobResult:
        """The counts so far; when it is done, the result."""
        return self._running.result

    @property
    def counts(self) -> dict[str, int]:
        """URLs by what became of them, and requests."""
        result, frontier = self.result, self._running.job.plan.frontier
        return {
            "pages": result.pages,
            "failed": result.failed,
            "skipped": result.skipped,
            "waiting": frontier.accepted - frontier.final,
            "requests": result.requests,
            "limited": result.limited,
        }

    def progress(self, domains: int = 5) -> JobProgress:
        """Where it stands now, with the domains that take longest; once it is over, where it ended."""
        return standing(self._running, self._began, domains)

    # -- asking

    def sql(self, query: str, **named: Any) -> DuckDBPyRelation:
        """A query on the database of this job, or a script; what is stored so far is seen. See `duckdb` for `named`."""
        relation = self._cursor().sql(query, **named)
        if relation is not None:  # it is read later, when nobody may hold the job: `amble.crawl(...).sql(...).df()`
            weakref.finalize(relation, _held, self).atexit = False
        return relation

    @property
    def pages(self) -> DuckDBPyRelation:
        """The table that is filled."""
        return self.sql(f"FROM {self.table}")

    def df(self, query: str | None = None) -> pandas.DataFrame:
        """The pages, or the answer to a query, for pandas."""
        return (self.pages if query is None else self.sql(query)).df()

    def arrow(self, query: str | None = None) -> pyarrow.Table:
        """The pages, or the answer to a query, for Arrow."""
        return (self.pages if query is None else self.sql(query)).to_arrow_table()

    def why(self, domain: str) -> Why:
        """What the time of a domain was spent on, and what binds it now."""
        snapshot = None if self.done else domain_now(self._running, domain_of(domain))
        return why(self._cursor()._duck, domain, job_id=self.job_id, snapshot=snapshot)

    def _cursor(self) -> Connection:
        """One for each thread, so that none waits for another's query."""
        if self._closed:
            raise StoreError(
                f"the database of job {self.job_id} is closed", hint=f"open it: amble.connect({self.into!r})"
            )
        cursor: Connection | None = getattr(self._cursors, "open", None)
        if cursor is None:
            cursor = self._cursors.open = self._connection.cursor()
        return cursor

    # -- steering

    def pause(self) -> None:
        """Send nothing more for now."""
        self._running.pause()

    def resume(self) -> None:
        """Go on after a pause. (A job that was stopped is taken up by `amble.resume`.)"""
        self._running.resume()

    def stop(self, now: bool = False) -> None:
        """End it, to be taken up later: what is under way may end first, or (`now`) is handed back as well."""
        self._running.stop(now)

    def wait(self, timeout_s: float | None = None) -> Self:
        """Until it is over. Raises `TimeoutError` after so long, or what made the job break off."""
        self._running.wait(timeout_s)
        self._keeper.join()
        return self

    def wait_or_stop(self, bar: NoBar | None = None) -> Self:
        """The same with a bar; the first Ctrl-C lets what is under way end, the second stops at once [F2]."""
        bar = bar or NoBar()
        try:
            wait_or_stop(self._running, bar)
        except KeyboardInterrupt:
            stopped = f"job {self.job_id} stopped; what was fetched is stored"
            raise KeyboardInterrupt(f"{stopped}\nhint: amble.resume({self.into!r}, {self.job_id})") from None
        finally:
            if self.done:
                self._keeper.join()
            bar.show(self._running)
            bar.close()
        return self

    def __await__(self) -> Generator[Any, None, CrawlJob]:
        return self._wait_async().__await__()

    async def _wait_async(self) -> CrawlJob:
        await self._running
        await asyncio.to_thread(self._keeper.join)
        return self

    # -- the end

    def close(self) -> None:
        """Let go of the database. A job that still runs is stopped first, to be taken up later."""
        if self._closed:
            return
        if not self.done:
            self.stop()
            self._running.wait()
        self._keeper.join()
        self._closed = True
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items() if count) or "nothing yet"
        return f"<CrawlJob {self.job_id} {self.status.value} into {os.path.basename(self.into)}: {counts}>"

    def _repr_html_(self) -> str:
        return job_html(self.progress(), self.into)


_HEADS = ("domain", "delay", "set by", "in flight", "queued", "left")


def standing(running: RunningJob, began: float, domains: int) -> JobProgress:
    """Where a job stands. Once it is over its clock stands still, and there is no phase but how it ended."""
    progress = look(running, began, domains)
    if not running.done:
        return progress
    return replace(progress, phase=progress.status, seconds=running.result.seconds, held="", eta_s=None)


def job_html(progress: JobProgress, into: str) -> str:
    """Numbers of the job, and the domains that take longest."""
    share = progress.final / progress.accepted if progress.accepted else 0.0
    doing = progress.held or progress.phase
    return (
        f"<div><progress value='{share:.3f}' max='1' style='width:16em'></progress>"
        f" <strong>job {progress.job_id} {marked(progress.status)}</strong> into {marked(into)}"
        f"{'' if doing == progress.status else f' <small>({marked(doing)})</small>'}"
        f"<br>{marked(_counts(progress))}{_domains(progress)}</div>"
    )


def _counts(progress: JobProgress) -> str:
    rate = progress.pages / progress.seconds if progress.seconds > 0 else 0.0
    said = [
        f"{progress.final} of {progress.accepted} URLs", f"{progress.pages} pages ({rate:.1f}/s)",
        f"{progress.failed} failed", f"{progress.limited} x 429", f"{progress.body_bytes / 1e6:.1f} MB",
        duration(progress.seconds),
    ]  # fmt: skip
    return ", ".join(said) + ("" if progress.eta_s is None else f", about {duration(progress.eta_s)} left")


def _domains(progress: JobProgress) -> str:
    return html_table(_HEADS, [_cells(each) for each in progress.domains]) if progress.domains else ""


def _cells(each: Any) -> tuple[object, ...]:
    pace = each.pace
    return pace.domain, f"{pace.delay_s:.2f} s", pace.source, pace.in_flight, each.queued, duration(each.eta_s)
