"""Verbs that crawl: start a job or take one up, show how it goes, sum it up."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from amble.cli.arguments import settings_of
from amble.cli.exits import Exit, exit_of
from amble.cli.shown import say, show_json
from amble.cli.view import Progress, summary
from amble.core.seeds import seed_url
from amble.core.urls import domain_of
from amble.errors import BadUrl, StoreError
from amble.jobs import Job, JobResult
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import UNFINISHED


def crawl(arguments: argparse.Namespace) -> Exit:
    seeds = [*arguments.seeds, *_seeds_from(arguments.seeds_file)]
    if not seeds:
        raise BadUrl("there is nothing to crawl", hint="name a URL, or a file of them with --seeds")
    settings = Settings.of(settings_of(arguments))
    into = arguments.into or f"{domain_of(seed_url(seeds[0]).url).replace(':', '_')}.duckdb"
    with DuckDBStore.open(into) as store:
        progress = Progress()
        job = Job.start(store, seeds, settings, arguments.table, listeners=[progress.event])
        return run_job(job, progress, into, arguments)


def resume(arguments: argparse.Namespace) -> Exit:
    if not Path(arguments.file).exists():
        raise StoreError(f"there is no file {arguments.file}", hint="`amble crawl URL --into FILE` makes one")
    with DuckDBStore.open(arguments.file) as store:
        unfinished = [job.id for job in store.jobs() if job.status in UNFINISHED]
        job_id = arguments.job if arguments.job is not None else max(unfinished, default=None)
        if job_id is None:
            say("every job in this file is finished")
            return Exit.DONE
        progress = Progress()
        job = Job.take_up(store, job_id, listeners=[progress.event])
        return run_job(job, progress, arguments.file, arguments)


def run_job(job: Job, progress: Progress, into: str, arguments: argparse.Namespace) -> Exit:
    say(f"job {job.row.id}: crawling into {into}")
    if job.settings.fetching.user_agent == "amble/0.1":
        say("note: no contact is given; add --user-agent 'yourbot/1.0 (+https://you.example/bot)' for larger crawls")
    result = asyncio.run(_watch(job, progress))
    if arguments.json:
        show_json({"job": result.job_id, "status": result.status, "pages": result.pages, "ends": dict(result.ends),
                   "requests": result.requests, "limited": result.limited, "seconds": result.seconds})  # fmt: skip
    else:
        say(summary(job, result, into))
    return exit_of(result.status)


async def _watch(job: Job, progress: Progress) -> JobResult:
    """Run a job; the first Ctrl-C lets what is under way end, the second stops at once. Either can be resumed."""
    loop = asyncio.get_running_loop()
    presses = 0

    def interrupted() -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            say("stopping: what is under way may end; press Ctrl-C again to stop at once")
            job.crawl.drain()
        else:
            job.crawl.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, interrupted)
    ticker = asyncio.create_task(progress.tick(job))
    try:
        return await job.run()
    finally:
        ticker.cancel()


def _seeds_from(name: str | None) -> Iterable[str]:
    """One seed per line; empty lines and comments are skipped."""
    if name is None:
        return []
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise BadUrl(f"the seeds in {name} cannot be read: {error.strerror}", hint="name a text file, or -") from None
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
