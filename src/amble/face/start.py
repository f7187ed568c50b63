"""`amble.crawl` and `amble.resume`: from arguments to a job that runs, in scripts, notebooks and coroutines."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from amble.control.progress import DOMAINS_SHOWN
from amble.core.seeds import seed_url
from amble.core.urls import domain_of
from amble.errors import AmbleError, BadUrl, StoreError
from amble.face.job import CrawlJob, Hold, job_html
from amble.jobs import runner
from amble.jobs.identity import warn_if_anonymous
from amble.jobs.runner import RunningJob
from amble.settings import OWN
from amble.settings_sources import resolve
from amble.sql.connection import connect
from amble.sql.progress import NoBar, NotebookBar, make_bar
from amble.sql.stores import open_store
from amble.sql.targets import current_database, file_of, refuse_hidden
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import UNFINISHED

Path = str | os.PathLike[str]
_AGAIN = "crawl its seeds again to look for changes"


def crawl(
    seeds: str | Iterable[str], into: Path | None = None, *, table: str = "pages", wait: bool = True, **settings: Any
) -> CrawlJob:
    """Crawl sites or pages into a DuckDB file, and return the job.

    A host or a root URL means the site, a longer URL the page. `into` is a file, `":memory:"`, or by default a file
    named after the first host. `settings` are those of docs/settings.md; the environment and amble.toml come after.
    With `wait=False` the job runs on while you do something else.
    """
    if wait:
        _refuse_in_coroutine("crawl")
    return _finish(_begin_crawl(seeds, into, table, settings), wait=wait)


async def crawl_async(
    seeds: str | Iterable[str], into: Path | None = None, *, table: str = "pages", **settings: Any
) -> CrawlJob:
    """The same for coroutines: waits for the end without holding up the loop. Cancelled, it stops the job politely."""
    return await _finish_async(lambda: _begin_crawl(seeds, into, table, settings))


def resume(
    into: Path, job_id: int | None = None, *, wait: bool = True, trust_clauses: bool = False, **own: Any
) -> CrawlJob:
    """Go on with a job that did not finish; by default with the last such.

    `own` is what is never taken from the file: a proxy, `ca_file`, `allow_private`; and what is to hold in place of
    settings of the job that are refused today. With `trust_clauses` its WHERE and EXTRACT are run whatever they hold.
    """
    if wait:
        _refuse_in_coroutine("resume")
    return _finish(_begin_resume(into, job_id, trust_clauses, own), wait=wait)


async def resume_async(into: Path, job_id: int | None = None, *, trust_clauses: bool = False, **own: Any) -> CrawlJob:
    """The same for coroutines."""
    return await _finish_async(lambda: _begin_resume(into, job_id, trust_clauses, own))


# -- beginning


def _begin_crawl(seeds: str | Iterable[str], into: Path | None, table: str, named: dict[str, Any]) -> CrawlJob:
    """Everything that can be refused is refused before a file is made."""
    texts = [seeds] if isinstance(seeds, str | bytes) else list(seeds)  # bytes are refused as a whole
    urls = [seed_url(text).url for text in texts]
    typed = urls if isinstance(seeds, str | list | tuple | set | frozenset) else []  # a file's lines nobody typed
    if not urls:
        raise BadUrl("there is nothing to crawl", hint="give a URL, or a list of them")
    settings = resolve(named).settings
    path = file_of(domain_of(urls[0])) if into is None else into
    refuse_hidden(path)
    return _begin(path, lambda store: runner.start(store, texts, settings, table, typed=typed))


def _begin_resume(into: Path, job_id: int | None, trust_clauses: bool, own: dict[str, Any]) -> CrawlJob:
    here = resolve({name: value for name, value in own.items() if name in OWN}).settings
    repairs = {name: value for name, value in own.items() if name not in OWN}
    if not os.path.exists(into):
        raise StoreError(f"there is no file {os.fspath(into)}", hint="amble.crawl(seeds, into=file) makes one")

    def take_up(store: DuckDBStore) -> RunningJob:
        status = {job.id: job.status for job in store.jobs()}
        unfinished = [job for job in status if status[job] in UNFINISHED]
        chosen = max(unfinished, default=None) if job_id is None else job_id
        if chosen is None:
            raise StoreError("every job in this file is finished", hint=_AGAIN)
        if chosen in status and chosen not in unfinished:
            raise StoreError(f"job {chosen} is over: {status[chosen]}", hint=_AGAIN)
        return runner.take_up(store, chosen, here=here, repairs=repairs, trust_clauses=trust_clauses)

    return _begin(into, take_up)


def _begin(path: Path, start: Callable[[DuckDBStore], RunningJob]) -> CrawlJob:
    """Open the database and start; a thread of the job's own then keeps the store open until the job is over.

    That thread is waited for when the program ends, after the engine has let its jobs drain: nothing is lost.
    """
    hold = Hold(connect(os.fspath(path)))
    begun: Future[RunningJob] = Future()
    keeper = threading.Thread(target=_keep, args=(hold, start, begun), name="amble-job")
    keeper.start()
    try:
        return CrawlJob(hold, begun.result(), keeper)
    except BaseException:
        hold.let_go()
        raise


def _keep(hold: Hold, start: Callable[[DuckDBStore], RunningJob], begun: Future[RunningJob]) -> None:
    connection = hold.connection
    cursor = connection._duck.cursor()
    try:
        with open_store(cursor, current_database(cursor), connection._session) as store:
            running = start(store)
            begun.set_result(running)
            with suppress(BaseException):  # whoever waits for the job is told
                running.wait()
            warn_if_anonymous(running)
    except BaseException as error:
        if not begun.done():
            begun.set_exception(error)
    finally:
        cursor.close()
        hold.let_go()


# -- waiting


def _finish(job: CrawlJob, *, wait: bool) -> CrawlJob:
    return job.wait_or_stop(_bar_for(job)) if wait else job


def _bar_for(job: CrawlJob) -> NoBar:
    """A table in a notebook, a line on a terminal, nothing where nobody looks."""
    bar = make_bar()
    return NotebookBar(lambda: job_html(job.progress(DOMAINS_SHOWN), job.into)) if isinstance(bar, NotebookBar) else bar


async def _finish_async(begin: Callable[[], CrawlJob]) -> CrawlJob:
    job = await asyncio.to_thread(begin)
    try:
        return await job
    except asyncio.CancelledError:
        job.stop()
        raise


def _refuse_in_coroutine(verb: str) -> None:
    """Waiting would hold up everything else on the loop. A notebook's cell may wait: nothing else runs there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if not isinstance(make_bar(), NotebookBar):
        raise AmbleError(
            f"amble.{verb} waits, and would hold up the event loop that runs here",
            hint=f"write `await amble.{verb}_async(...)`, or pass wait=False and await the job later",
        )
