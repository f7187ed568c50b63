"""The demonstration: a small web served on loopback, crawled into a file, judged by the sites' own logs."""

from __future__ import annotations

import argparse

from amble.cli.crawl import run_job
from amble.cli.exits import Exit
from amble.cli.shown import command, say
from amble.jobs import runner
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.testing.farm import Farm, demo_web


def demo(arguments: argparse.Namespace) -> Exit:
    """A dozen sites: one that answers 429, one that goes down, one with a Crawl-delay, ... It takes about a minute."""
    settings = Settings.of({"user_agent": "amble/0.1 (demonstration)", "contact": "https://demo.test/bot"})
    with Farm(demo_web()) as farm, DuckDBStore.open(arguments.into, sealed=True) as store:
        ended = run_job(
            store,
            lambda watch: runner.start(
                store, farm.roots(), settings, policy=farm.policy, resolver=farm.resolver, listeners=[watch.event]
            ),
            arguments.into,
            as_json=arguments.json,
        )
        report = farm.judge()
    broken = sum(site.inside_retry_after + site.under_crawl_delay + site.disallowed for site in report.hosts)
    say(f"\nThe sites' own logs show {broken} broken rules. Try: {command()} audit {arguments.into}")
    if broken:
        return Exit.ERROR
    return ended if ended is Exit.INTERRUPTED else Exit.DONE  # that some pages fail is part of the demonstration
