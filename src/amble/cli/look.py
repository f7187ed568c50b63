"""Verbs that look into a file or steer what crawls into it. Whoever has the file open is asked; else it is opened."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from amble.cli.exits import Exit
from amble.cli.flags import given
from amble.cli.shown import say, show, show_json
from amble.control import ask
from amble.control.channel import Nobody
from amble.control.questions import QUESTIONS
from amble.errors import StoreError
from amble.report.words import safe, text_table
from amble.store.duckdb_store import DuckDBStore

SEEDS_SHOWN = 3


def find_out(file: str, question: str, **details: Any) -> Any:
    """The answer, while a crawl runs and when none does."""
    try:
        return ask(file, question, **details)
    except Nobody:
        pass
    must_exist(file)
    with DuckDBStore.open(file, sealed=True) as store:
        return QUESTIONS[question](store, **details)


def must_exist(file: str) -> None:
    """Opening a file that is not there would make one."""
    if not Path(file).exists():
        raise StoreError(f"there is no file {file}", hint="`amble crawl URL --into FILE` makes one")


def jobs(arguments: argparse.Namespace) -> Exit:
    found = find_out(arguments.file, "jobs")
    if arguments.json:
        show_json(found)
        return Exit.DONE
    heads = ("job", "status", "accepted", "queued", "running", "deferred", "final", "done", "failed", "skipped")
    lines = [(*(job[head] for head in heads), _seeds(job["seeds"])) for job in found]
    if lines:
        show(text_table((*heads, "seeds"), lines))
        for job in found:
            if job["error"]:
                say(f"job {job['job']}: {safe(job['error'])}")
    else:
        say("no job in this file yet")
    return Exit.DONE


def domains(arguments: argparse.Namespace) -> Exit:
    found = find_out(arguments.file, "domains")
    if arguments.json:
        show_json(found)
    elif found:
        show(text_table(list(found[0]), [list(row.values()) for row in found]))
    else:
        say("no domain was asked yet")
    return Exit.DONE


def audit(arguments: argparse.Namespace) -> Exit:
    found = find_out(arguments.file, "audit", **given(arguments, "domain"))
    text, page = found.pop("text"), found.pop("html")
    if arguments.html is not None:
        write_new(Path(arguments.html), page, force=arguments.force)
        say(f"written to {arguments.html}")
    if arguments.json:
        show_json(found)
    else:
        show(text)
    return Exit.DONE if not found["violations"] else Exit.ERROR


def write_new(path: Path, text: str, *, force: bool) -> None:
    """Never over another file, unless forced."""
    try:
        with path.open("w" if force else "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise StoreError(f"{path} is there already", hint="choose another name, or --force") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}", hint="see its folder") from None


def pause(arguments: argparse.Namespace) -> Exit:
    return _order(arguments, "waits", "`amble resume FILE` lets it go on")


def stop(arguments: argparse.Namespace) -> Exit:
    return _order(arguments, "ends when what is under way has ended", "`amble resume FILE` takes it up again")


def _order(arguments: argparse.Namespace, done: str, then: str) -> Exit:
    try:
        told = ask(arguments.file, arguments.verb, **given(arguments, "job"))
    except Nobody:
        raise StoreError(
            f"nothing crawls into {arguments.file} now", hint="`amble jobs FILE` says how its jobs stand"
        ) from None
    if arguments.json:
        show_json(told)
    else:
        say(f"job {', '.join(map(str, told['jobs']))} {done}; {then}".replace("FILE", arguments.file))
    return Exit.DONE


def _seeds(seeds: list[str]) -> str:
    return " ".join([*seeds[:SEEDS_SHOWN], *["..."][: len(seeds) - SEEDS_SHOWN]])
