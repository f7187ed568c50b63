"""Verbs that look into a file: its jobs, its domains, its receipts."""

from __future__ import annotations

import argparse

from amble.cli.exits import Exit
from amble.cli.shown import say, show, show_json, table
from amble.report.audit import audit as check
from amble.store.duckdb_store import DuckDBStore


def jobs(arguments: argparse.Namespace) -> Exit:
    with DuckDBStore.open(arguments.file) as store:
        found = [(job, store.counts(job.id)) for job in store.jobs()]
    heads = (
        "job",
        "status",
        "accepted",
        "queued",
        "running",
        "deferred",
        "final",
        "done",
        "failed",
        "skipped",
        "seeds",
    )
    lines = [
        (
            job.id, job.status.value, counts.accepted, counts.waiting, counts.running, counts.deferred, counts.final,
            counts.done, counts.failed, counts.skipped, " ".join([*job.seeds[:3], *["..."][: len(job.seeds) - 3]]),
        )
        for job, counts in found
    ]  # fmt: skip
    if arguments.json:
        show_json([dict(zip(heads, line, strict=True)) for line in lines])
    else:
        show(table(heads, lines))
    return Exit.DONE


def domains(arguments: argparse.Namespace) -> Exit:
    with DuckDBStore.open(arguments.file) as store:
        found = sorted(store.load_domains(), key=lambda row: -row.requests)
    heads = ("domain", "delay_s", "floor_s", "crawl_delay_s", "at_once", "requests", "limited", "failures", "strategy")
    lines = [
        (
            row.domain, row.adaptive_delay_seconds, row.adaptive_delay_floor_seconds, row.crawl_delay_seconds,
            row.concurrency, row.requests, row.limited, row.failures, row.strategy,
        )
        for row in found
    ]  # fmt: skip
    if arguments.json:
        show_json([dict(zip(heads, line, strict=True)) for line in lines])
    elif lines:
        show(table(heads, lines))
    else:
        say("no domain was asked yet")
    return Exit.DONE


def audit(arguments: argparse.Namespace) -> Exit:
    with DuckDBStore.open(arguments.file) as store:
        found = check(store.cursor())
    if arguments.json:
        show_json(found.as_dict())
    else:
        show(found.as_text())
    return Exit.DONE if not found.violations else Exit.ERROR
