"""The seeds of a CRAWL: one SELECT, run in a transaction that cannot write, read as it comes [E3]."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection, StatementType

from amble.core.seeds import seed_url
from amble.core.urls import origin_of, shown
from amble.errors import BadUrl, StatementError
from amble.sql.caller import Caller
from amble.sql.literals import literals_of
from amble.sql.statements import Crawl

SEEDS_MAX = 5_000_000  # each is held in memory until the crawl is over
NAMED_MAX = 5  # values that are no URL, in the error
_AT_ONCE = 10_000


@dataclass(slots=True)
class Seeds:
    """What a query gave to start from."""

    urls: dict[str, None] = field(default_factory=dict)  # in their order, each once
    typed: tuple[str, ...] = ()  # of these, what stands in the statement itself: it may be private
    nulls: int = 0
    bad: list[str] = field(default_factory=list)
    held: Container[str] = ()  # what the table holds: no page to be asked for, and yet its links may lead to some
    new: int = 0

    def take(self, values: Iterable[Any], *, sites: bool) -> None:
        for value in values:
            if value is None:
                self.nulls += 1
                continue
            if not isinstance(value, str):
                raise StatementError(
                    f"the first column of the SELECT holds {type(value).__name__}, and seeds are text",
                    hint="put the column with the URLs first, as VARCHAR",
                )
            try:
                url = seed_url(value).url
            except BadUrl:
                self.bad.append(value)
                if len(self.bad) == NAMED_MAX:
                    return
            else:
                self._add(origin_of(url) + "/" if sites else url)

    def _add(self, url: str) -> None:
        if url not in self.urls:
            self.urls[url] = None
            self.new += url not in self.held


def read_seeds(
    connection: DuckDBPyConnection,
    select: str,
    values: Mapping[str, Any],
    caller: Caller,
    *,
    sites: bool = False,
    most: int | None = None,
    held: Container[str] = (),
    typed: bool = False,
) -> Seeds:
    """Run the SELECT and read its first column. No more than `most` that are not `held` are of any use. `typed`:
    its literals are seeds that somebody wrote as such."""
    statement = one_select(connection, select)
    missing = sorted(name for name in statement.named_parameters if name not in values)
    if missing:
        raise StatementError(
            f"there is no value for the parameter ${missing[0]}", hint="give it to execute(sql, parameters)"
        )
    bound = {name: values[name] for name in statement.named_parameters}
    seeds = Seeds(held=held)
    connection.execute("BEGIN TRANSACTION READ ONLY")
    try:
        caller.call(connection.execute, select, bound or None)
        while len(seeds.bad) < NAMED_MAX and (most is None or seeds.new < most):
            rows = connection.fetchmany(_AT_ONCE)
            if not rows:
                break
            seeds.take((row[0] for row in rows), sites=sites)
            if len(seeds.urls) > SEEDS_MAX:
                raise StatementError(
                    f"the SELECT gives more than {SEEDS_MAX:,} seeds", hint="crawl them in parts: LIMIT in the SELECT"
                )
    finally:
        connection.execute("ROLLBACK")
    _refuse_bad(seeds)
    if typed:
        seeds.typed = _typed(connection, select, sites=sites)
    return seeds


def most_seeds(crawl: Crawl, limit: int | None) -> int | None:
    """How many seeds a crawl of `limit` pages can use. What its WHERE will take nobody knows before it is judged."""
    return limit if crawl.where_sql is None else None


def one_select(connection: DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """The statement, which must be a single SELECT."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type is not StatementType.SELECT:
        kinds = ", ".join(statement.type.name for statement in statements) or "nothing"
        raise StatementError(
            f"between the parentheses stands {kinds}, where one SELECT is expected",
            hint="CRAWL (SELECT url FROM seeds) INTO pages",
        )
    return statements[0]


def _typed(connection: DuckDBPyConnection, select: str, *, sites: bool) -> tuple[str, ...]:
    """The seeds that are literals of the statement. What comes from a table, a function, a parameter is not."""
    found = Seeds()
    found.take(literals_of(connection, select), sites=sites)
    return tuple(found.urls)


def _refuse_bad(seeds: Seeds) -> None:
    if seeds.bad:
        more = " (and perhaps more)" if len(seeds.bad) == NAMED_MAX else ""
        raise BadUrl(
            f"no URL: {', '.join(shown(text) for text in seeds.bad)}{more}; nothing was fetched",
            hint="a seed is a host (example.com), a host with a path (example.com/news) or an http(s) URL",
        )
