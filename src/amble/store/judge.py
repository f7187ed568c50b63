"""Which URLs the WHERE of a job takes: judged by DuckDB, many at once, each once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

from amble.core.frontier.visit import Visit
from amble.core.urls import domain_of, parse
from amble.errors import StoreError, first_line
from amble.store.clauses import Clauses, where_query
from amble.store.database import Database

_AT_ONCE = 1_000
_REMEMBERED_MAX = 50_000  # the links that every page of a site has


class WhereJudge:
    """Used by one thread at a time. What it has said about a URL at a depth it says again, without asking."""

    def __init__(self, database: Database, clauses: Clauses) -> None:
        assert clauses.where_sql is not None
        self._database = database
        self._connection = database.connect()
        self._query = self._connection.extract_statements(where_query(clauses.where_sql, tries=clauses.where_tries))[0]
        self._said: dict[tuple[str, int], bool] = {}

    def __call__(self, visits: Sequence[Visit]) -> list[bool]:
        """Whether each is taken."""
        parts = (visits[first : first + _AT_ONCE] for first in range(0, len(visits), _AT_ONCE))
        return [taken for part in parts for taken in self._judge(part)]

    def _judge(self, visits: Sequence[Visit]) -> list[bool]:
        keys = [(visit.task, visit.depth) for visit in visits]
        fresh = {key: visit for key, visit in zip(keys, visits, strict=True) if key not in self._said}
        if fresh:
            if len(self._said) + len(fresh) > _REMEMBERED_MAX:
                self._said.clear()
                fresh = dict(zip(keys, visits, strict=True))
            self._said.update(zip(fresh, self._ask(list(fresh.values())), strict=True))
        return [self._said[key] for key in keys]

    def _ask(self, visits: list[Visit]) -> list[bool]:
        try:
            with self._database.in_use():
                rows = self._connection.execute(self._query, _lists(visits)).fetchall()
        except duckdb.Error as fault:
            if len(visits) > 1:
                return [taken for visit in visits for taken in self._ask([visit])]
            if isinstance(fault, duckdb.OutOfMemoryException):  # says nothing about the URL
                raise StoreError(
                    f"WHERE cannot be judged: {first_line(fault)}",
                    hint="resume the job; should it end so again, crawl with a WHERE that needs less memory",
                ) from fault
            return [False]  # an error that could not be caught in the query: it is not taken
        places = {place for (place,) in rows}
        return [place in places for place in range(1, len(visits) + 1)]

    def close(self) -> None:
        self._connection.close()


def _lists(visits: Sequence[Visit]) -> list[list[Any]]:
    return [list(column) for column in zip(*map(_parts, visits), strict=True)]


def _parts(visit: Visit) -> tuple[Any, ...]:
    url = parse(visit.task)
    assert url is not None
    port = int(url.port) if url.port else 443 if url.protocol == "https:" else 80
    return (
        visit.task, url.protocol[:-1], url.hostname, port, url.pathname, url.search[1:] or None, domain_of(visit.task),
        visit.depth, visit.found_by.value, visit.parent,
    )  # fmt: skip
