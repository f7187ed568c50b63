"""Verbs that explain and hand on: what a crawl would do, why a domain takes its time, pages for other programs."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from amble.cli.crawl import default_file, seeds_of, typed_seeds
from amble.cli.exits import Exit
from amble.cli.flags import given, settings_of
from amble.cli.look import find_out, must_exist
from amble.cli.shown import say, show, show_json, warn_of_idle
from amble.core.seeds import seed_url
from amble.core.urls import domain_of
from amble.errors import StoreError, StoreLocked
from amble.report.export import export as write_pages
from amble.report.plan import explain
from amble.sql.targets import file_of
from amble.store.duckdb_store import DuckDBStore


def plan(arguments: argparse.Namespace) -> Exit:
    """Asks for robots.txt and sitemaps only. What is in the file already, and was learned, counts; none is made."""
    settings = settings_of(arguments)
    warn_of_idle(settings)
    seeds, typed = seeds_of(arguments), typed_seeds(arguments)
    into = arguments.into or default_file(seeds)
    with _planning(into) as store:
        found = asyncio.run(explain(store, seeds, settings, table=arguments.table, typed=typed))
    if arguments.json:
        show_json(found.as_dict())
    else:
        show(found.as_text())
    return Exit.DONE


def _planning(into: str) -> DuckDBStore:
    """The file, where there is one and it can be had; while a crawl has it, the plan is of a first crawl."""
    known = "without a file yet"
    if Path(into).exists():
        try:
            store = DuckDBStore.open(into)
        except StoreLocked:
            known = "it is being crawled into: without what it knows"
        else:
            say(f"asking for robots.txt and sitemaps ({into}: with what it knows)")
            return store
    say(f"asking for robots.txt and sitemaps ({into}: {known})")
    return DuckDBStore.open(":memory:")


def why(arguments: argparse.Namespace) -> Exit:
    domain = domain_of(seed_url(arguments.domain).url)  # as it is typed, or pasted
    file = arguments.file or file_of(domain)
    if arguments.file is None and not Path(file).exists():
        raise StoreError(f"there is no file {file} here", hint=f"name the file: amble why {domain} FILE")
    found = find_out(file, "why", domain=domain, **given(arguments, "job"))
    text = found.pop("text")
    if arguments.json:
        show_json(found)
    else:
        show(text)
    return Exit.DONE


def export(arguments: argparse.Namespace) -> Exit:
    must_exist(arguments.file)
    to_stdout = arguments.to == "-"
    if to_stdout and arguments.json:
        raise StoreError("the pages and the result cannot both go to standard output", hint="leave out --json")
    with DuckDBStore.open(arguments.file) as store, store.database.reading() as connection:
        done = write_pages(
            connection,
            sys.stdout.buffer if to_stdout else arguments.to,
            format=arguments.format,
            table=arguments.table,
            where=arguments.where,
            query=arguments.query,
            formulas=arguments.formulas,
            force=arguments.force,
        )
    if arguments.json:
        show_json({"rows": done.rows, "format": done.format, "path": str(done.path)})
    else:
        say(f"{done.rows} rows as {done.format} in {'standard output' if to_stdout else arguments.to}")
    return Exit.DONE
