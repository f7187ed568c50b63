"""Verbs that crawl: start a job or take one up, show how it goes, sum it up."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from amble.cli.exits import Exit, exit_of
from amble.cli.flags import given, given_settings, settings_of
from amble.cli.look import must_exist
from amble.cli.screen import Screen
from amble.cli.shown import command, say, show_json
from amble.cli.summary import result_of, summary
from amble.cli.watch import Watch
from amble.control import Desk, ask
from amble.control.channel import Nobody
from amble.core.seeds import seed_url
from amble.core.urls import domain_of
from amble.errors import AddressRefused, AmbleError, BadUrl, SettingsError
from amble.jobs import runner
from amble.jobs.runner import RunningJob
from amble.report.words import safe
from amble.settings import OWN, Settings
from amble.settings_sources import resolve
from amble.settings_text import setting_text
from amble.sql.targets import file_of, refuse_hidden
from amble.store.duckdb_store import DuckDBStore, memory_for
from amble.store.seam import UNFINISHED


def crawl(arguments: argparse.Namespace) -> Exit:
    settings = settings_of(arguments)
    seeds = seeds_of(arguments)
    into = arguments.into or default_file(seeds)
    if into == ":memory:":
        raise SettingsError("what is crawled into memory is gone with the command", hint="--into FILE, or leave it out")
    refuse_hidden(into)
    memory = memory_for(settings.fetching.max_response_bytes)
    with DuckDBStore.open(into, sealed=True, memory_limit=memory) as store:
        return run_job(
            store,
            lambda watch: runner.start(
                store, seeds, settings, arguments.table, typed=typed_seeds(arguments), listeners=[watch.event]
            ),
            into,
            as_json=arguments.json,
        )


def resume(arguments: argparse.Namespace) -> Exit:
    """A running job that is paused goes on where it runs; otherwise the job is taken up here."""
    try:
        told = ask(arguments.file, "resume", **given(arguments, "job"))
    except Nobody:
        return _take_up(arguments)
    say(f"job {', '.join(map(str, told['jobs']))} goes on in process {told['pid']}")
    if arguments.json:
        show_json(told)
    return Exit.DONE


def run_job(store: DuckDBStore, begin: Callable[[Watch], RunningJob], into: str, *, as_json: bool) -> Exit:
    """From the first request to the summary."""
    screen = Screen()
    watch = Watch(screen, into)
    with Desk(store):
        running = begin(watch)
        screen.line(f"job {running.job_id}: crawling into {into}")
        result = watch.until_done(running)
    if as_json:
        show_json(result_of(running.job, result))
    else:
        screen.line(summary(running.job, result, into))
    return exit_of(result)


def seeds_of(arguments: argparse.Namespace) -> list[str]:
    """What is to be crawled, typed or in a file. A bad one is refused before there is a file."""
    seeds = [*arguments.seeds, *_seeds_from(arguments.seeds_file)]
    if not seeds:
        raise BadUrl("there is nothing to crawl", hint="name a URL, or a file of them with --seeds")
    return [seed_url(seed).url for seed in seeds]


def typed_seeds(arguments: argparse.Namespace) -> list[str]:
    """Those among the words of the command: they alone may be private. What a file holds, nobody typed."""
    return [seed_url(seed).url for seed in arguments.seeds]


def default_file(seeds: list[str]) -> str:
    """Named after the first host, in the working folder."""
    return file_of(domain_of(seed_url(seeds[0]).url))


def _take_up(arguments: argparse.Namespace) -> Exit:
    must_exist(arguments.file)
    said = given_settings(arguments)
    own = {name: value for name, value in said.items() if name in OWN}
    here = resolve(own, said_by="the command line").settings
    repairs = {name: value for name, value in said.items() if name not in OWN}
    with DuckDBStore.open(arguments.file, sealed=True) as store:
        jobs = {job.id: job.status for job in store.jobs()}
        unfinished = [job for job, status in jobs.items() if status in UNFINISHED]
        job_id = arguments.job if arguments.job is not None else max(unfinished, default=None)
        if job_id is None or (job_id in jobs and job_id not in unfinished):
            say("every job in this file is finished" if job_id is None else f"job {job_id} is {jobs[job_id].value}")
            if arguments.json:
                show_json(None)
            return Exit.DONE
        _tell_settings(store, job_id, here, repairs)
        try:
            return run_job(
                store,
                lambda watch: runner.take_up(
                    store,
                    job_id,
                    here=here,
                    repairs=repairs,
                    trust_clauses=arguments.trust_clauses,
                    listeners=[watch.event],
                ),
                arguments.file,
                as_json=arguments.json,
            )
        except AddressRefused as refused:
            again = f"{command()} resume {quote(arguments.file)} {job_id} --allow-private {','.join(refused.places)}"
            raise AmbleError(refused.message, hint=f"where you mean it: {again} (none: without them)") from None


def _tell_settings(store: DuckDBStore, job_id: int, here: Settings, repairs: Mapping[str, Any]) -> None:
    """A job keeps the settings it was begun with, and the file may be somebody else's."""
    row = next((job for job in store.jobs() if job.id == job_id), None)
    if row is None:
        return
    differing = Settings.taken_up(row.settings, here, repairs).differences(here)
    if differing:
        told = ", ".join(
            f"{name} = {setting_text(value)} (here {setting_text(theirs)})" for name, value, theirs in differing
        )
        say(f"job {job_id} keeps the settings it was begun with: {safe(told)}")


def _seeds_from(name: str | None) -> Iterable[str]:
    """One seed per line; empty lines and comments are skipped."""
    if name is None:
        return []
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise AmbleError(
            f"the seeds in {name} cannot be read: {error.strerror}", hint="name a text file, or -"
        ) from None
    except UnicodeDecodeError:
        raise AmbleError(f"the seeds in {name} are no UTF-8 text", hint="one URL per line") from None
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
