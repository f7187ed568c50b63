"""The pace of a crawl tried out on a model of a server, in virtual time: nothing is sent to anybody."""

from __future__ import annotations

import argparse
from dataclasses import replace

from amble.cli.exits import Exit
from amble.cli.flags import given, settings_of
from amble.cli.look import must_exist
from amble.cli.shown import show, show_json, warn_of_idle
from amble.core.pacing.learned import Learned
from amble.core.seeds import seed_url
from amble.core.urls import domain_of
from amble.sql.targets import file_of
from amble.store.duckdb_store import DuckDBStore
from amble.testing.rehearse import ServerModel, known_model
from amble.testing.rehearse import rehearse as play

PAGES = 1_000

# flag -> what the model calls it
_MODEL = {
    "rate": "rate", "burst": "burst", "window": "window_s", "from_first": "from_first", "queue": "queue",
    "at_once": "at_once", "penalty": "penalty_s", "change_after": "change_after_s", "change_to": "change_to",
    "down_after": "down_after_s", "down_for": "down_for_s", "up_for": "up_for_s", "retry_after": "retry_after",
    "headers": "headers", "latency": "latency_s", "crawl_delay": "crawl_delay_s",
}  # fmt: skip


def rehearse(arguments: argparse.Namespace) -> Exit:
    settings = settings_of(arguments)
    warn_of_idle(settings)
    model, learned, pages = ServerModel(), None, PAGES
    if arguments.domain is not None:
        model, learned, pages = _known(arguments)
    said = {_MODEL[flag]: value for flag, value in given(arguments, *_MODEL).items()}
    found = play(settings.pacing, arguments.pages or pages, replace(model, **said), learned=learned)
    if arguments.json:
        show_json(found.as_dict())
    else:
        show(found.as_text())
    return Exit.DONE


def _known(arguments: argparse.Namespace) -> tuple[ServerModel, Learned | None, int]:
    domain = domain_of(seed_url(arguments.domain).url)  # as it is typed, or pasted
    file = arguments.file or file_of(domain)
    must_exist(file)
    with DuckDBStore.open(file) as store, store.database.reading() as connection:
        model, learned, pages = known_model(connection, domain)
    return model, learned, max(1, pages)
