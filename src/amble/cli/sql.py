"""`amble sql FILE`: SQL and CRAWL on a file, from a command, a script, a pipe or a prompt.

While another process crawls into the file, its SELECTs are answered by that process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from amble.cli.exits import Exit
from amble.cli.prompt import Prompt
from amble.cli.shown import say, show_rows
from amble.cli.told import News
from amble.control import ask
from amble.control.channel import Nobody
from amble.errors import AmbleError, StoreError
from amble.sql.calls import pieces_of
from amble.sql.connection import Connection, open_connection
from amble.sql.tokens import Kind, tokens_of
from amble.store.database import explain, refuse_odd_file

_FETCH = 1_000

# A statement in; the columns and rows that it gives, if it gives any.
Run = Callable[[str], tuple[Sequence[str], Iterable[Sequence[Any]]] | None]


def sql(arguments: argparse.Namespace) -> Exit:
    how = "json" if arguments.json else "csv" if arguments.csv else "table"
    run, close = _open(arguments.file)
    try:
        if arguments.command is not None:
            _run_script(arguments.command, run, how)
        elif arguments.script is not None:
            _run_script(_read(arguments.script), run, how)
        elif not sys.stdin.isatty():
            _run_script(sys.stdin.read(), run, how)
        else:
            _converse(Prompt(arguments.file, lambda: _names(run)), run, how)
    except duckdb.Error as refused:
        raise StoreError(
            str(refused),
            hint="SHOW ALL TABLES lists what there is; of a file that is damaged, take a copy that is whole",
        ) from None
    finally:
        close()
    return Exit.DONE


def is_complete(text: str) -> bool:
    """Whether what was typed ends with a semicolon that is one."""
    tokens = [token for token in tokens_of(text) if token.kind is not Kind.COMMENT]
    return not tokens or tokens[-1].is_symbol(";")


def _open(file: str) -> tuple[Run, Callable[[], None]]:
    """The file itself, or whoever has it open."""
    refuse_odd_file(Path(file))
    try:
        connection = open_connection(file, {}, {"listeners": [News().event]})
    except duckdb.Error as refused:
        told = explain(refused, Path(file))
        try:
            status = ask(file, "status")
        except Nobody:
            raise told from None
        say(f"process {status['pid']} crawls into {file} and answers: one SELECT at a time, nothing is changed")
        return lambda statement: _ask(file, statement), lambda: None
    return lambda statement: _execute(connection, statement), connection.close


def _execute(connection: Connection, statement: str) -> tuple[Sequence[str], Iterable[Sequence[Any]]] | None:
    connection.execute(statement)
    description = connection.description
    if not description:
        return None

    def rows() -> Iterator[Sequence[Any]]:
        while got := connection.fetchmany(_FETCH):
            yield from got

    return [column[0] for column in description], rows()


def _ask(file: str, statement: str) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
    try:
        found = ask(file, "sql", query=statement)
    except Nobody:
        raise StoreError(f"the crawl into {file} has ended", hint="ask again: the file is free now") from None
    if found["truncated"]:
        say(f"only the first {len(found['rows'])} rows")
    return found["columns"], found["rows"]


def _run_script(script: str, run: Run, how: str) -> None:
    for statement in pieces_of(script):
        found = run(statement)
        if found is not None:
            show_rows(*found, how)


def _converse(prompt: Prompt, run: Run, how: str) -> None:
    """Until Ctrl-D. A mistake is told, and the next line asked for; Ctrl-C forgets what was typed."""
    for text in prompt.texts(is_complete):
        try:
            _run_script(text, run, how)
        except AmbleError as error:
            say(str(error))
        except duckdb.Error as error:
            say(str(error))
        except KeyboardInterrupt as interrupted:
            say(str(interrupted) or "interrupted")


def _names(run: Run) -> list[str]:
    """Tables and columns, to be completed."""
    found = run("SELECT DISTINCT unnest([table_name, column_name]) FROM information_schema.columns LIMIT 2000")
    return [str(row[0]) for row in found[1]] if found else []


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"the script {name} cannot be read: {error}", hint="name a text file, or -") from None
