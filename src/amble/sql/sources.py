"""Table functions and live tables in ordinary queries: what they give is put into a temporary table, and the query
reads that instead.

    FROM crawl('https://example.com/', option := value, ...)     pages, as CRAWL stores them
    FROM sitemap('https://example.com/')                         what the sitemaps of a site list
    FROM read_html('https://example.com/table', 'table.prices')  a table or a list of a page as rows
    FROM links('pages')                                          links, with what became of their targets
    FROM amble.frontier, amble.domains, amble.jobs               what running jobs are doing and about to do
    FROM amble.settings, duckdb_settings()                       what the next crawl would have

Whatever is fetched goes through robots.txt, pace and guard like every crawl. A query that ends in LIMIT n and takes the
rows as they come has no more than n pages fetched.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from amble.core.page.grid import read_grid
from amble.errors import StatementError, first_line
from amble.jobs import JobResult
from amble.sql.calls import LIVE, NAMES, Call, LiveTable, find, is_table_name, pieces_of, refuse_arguments
from amble.sql.crawling import Place
from amble.sql.listed import duckdb_settings_sql, settings_now
from amble.sql.live import columns_of, domains_now, domains_sql, frontier_now, jobs_now, jobs_sql
from amble.sql.options import Values, values_of
from amble.sql.parameters import bound, named_in, numbered, refuse_mismatch
from amble.sql.result import Table
from amble.sql.sitemaps import ENTRIES, entries_of
from amble.sql.staging import least, staged
from amble.sql.statements import Crawl, Option, Parameter
from amble.sql.stores import store_in_use
from amble.sql.transactions import refuse_transaction
from amble.sql.unfetched import no_pages, no_rows, refuse_mistakes
from amble.store.database import quote_text

_MENTIONS = re.compile(
    rf"\b(?:{'|'.join(NAMES)}|duckdb_settings)\s*\(|\bamble\s*\.\s*\"?(?:{'|'.join(LIVE)})\b", re.IGNORECASE
)

_NOTHING = {"crawl": no_pages(), "sitemap": no_rows(ENTRIES)}  # what has the same columns whatever is fetched


@dataclass(slots=True)
class Rewritten:
    """A query that DuckDB can run, the parameters that are left to it, and which crawled tables it reads."""

    sql: str
    parameters: Any = None
    crawled: list[str] = field(default_factory=list)
    results: list[JobResult] = field(default_factory=list)


def mentions(sql: str) -> bool:
    """A quick look: whether a text may hold anything of this."""
    return _MENTIONS.search(sql) is not None


def pieces(sql: str) -> list[str]:
    """Statement by statement, because what a later one crawls may depend on what an earlier one does."""
    return pieces_of(sql) or [sql]


def rewrite(place: Place, sql: str, parameters: Any = None, *, limit: int | None = None) -> Rewritten:
    """Run what the query calls, and let it read that. One statement at a time."""
    rewritten = Rewritten(sql, parameters)
    own = _own_functions(place.connection) if (found := find(sql)) else frozenset()
    if all(isinstance(item, Call) and item.name in own for item in found):
        return rewritten
    values = values_of(parameters)
    rewritten.sql = sql = numbered(sql)
    refuse_mismatch(values, named_in(sql))
    items = [item for item in find(sql) if not (isinstance(item, Call) and item.name in own)]
    if (bare := _without_pages(sql, items)) is not None:
        refuse_mistakes(place, bare, bound(bare, values), "crawl()")
    for item in reversed(items):
        text = _call(place, item, values, limit, rewritten) if isinstance(item, Call) else _live(place, item)
        rewritten.sql = _replaced(rewritten.sql, item, text)
    rewritten.parameters = bound(rewritten.sql, values)
    return rewritten


def without_pages(sql: str) -> str | None:
    """The query as it would be if there were no pages; None where nobody knows the columns of what it reads."""
    return _without_pages(sql, find(sql))


def _without_pages(sql: str, items: Sequence[Call | LiveTable]) -> str | None:
    if not items or any(item.name not in _NOTHING for item in items):
        return None
    for item in reversed(items):
        sql = _replaced(sql, item, _NOTHING[item.name])
    return sql


def _replaced(sql: str, item: Call | LiveTable, text: str) -> str:
    alias = "" if item.has_alias else f" AS {item.name}"
    return f"{sql[: item.at]}{text}{alias}{sql[item.end :]}"


def _own_functions(connection: DuckDBPyConnection) -> frozenset[str]:
    """Names that somebody has given to table functions of their own: theirs come first."""
    with connection.cursor() as cursor:
        rows = cursor.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('table', 'table_macro') "
            "AND schema_name <> 'amble' AND function_name IN (SELECT unnest($1::VARCHAR[]))",
            [list(NAMES)],
        ).fetchall()
    return frozenset(name for (name,) in rows)


# --- functions -----------------------------------------------------------------------------------------------------


def _call(place: Place, call: Call, values: Values, limit: int | None, rewritten: Rewritten) -> str:
    if call.name == "links":
        return _links(place.connection, call, values)
    if call.name == "sitemap":
        return _sitemap(place, call, values)
    if call.name == "read_html":
        return _read_html(place, call, values)
    refuse_arguments(call, 1, 1, "crawl('https://example.com/', max_crawl_pages := 10), or a list of URLs")
    most = least(limit, _rows_max(place.connection, call, values))
    crawl = Crawl(_select(place, call, values), options=call.options, typed=False)
    with staged(place, crawl, values, most, "crawl()") as got:
        name = place.tables.keep(place.connection, f"SELECT * FROM {got.table}")
        if got.interrupted is not None:
            raise got.interrupted
    rewritten.crawled.append(name)
    rewritten.results += [got.result] if got.result is not None else []
    return name


def _rows_max(connection: DuckDBPyConnection, call: Call, values: Values) -> int | None:
    """How many pages are enough; None where the query may want to see all of them."""
    if call.taken is None or not _are_scalar(connection, call.taken.functions):
        return None
    numbers = [values.get(each.name) if isinstance(each, Parameter) else each for each in call.taken.numbers]
    whole = [number for number in numbers if isinstance(number, int) and number >= 0]
    return sum(whole) if len(whole) == len(numbers) else None  # what is no number DuckDB will refuse


def _are_scalar(connection: DuckDBPyConnection, functions: Collection[str]) -> bool:
    """Whether all of these give one value for each row. A macro may be an aggregate in disguise."""
    with connection.cursor() as cursor:
        rows = cursor.execute(
            "SELECT function_name FROM duckdb_functions() WHERE function_name IN (SELECT unnest($1::VARCHAR[])) "
            "GROUP BY ALL HAVING bool_and(function_type = 'scalar')",
            [list(functions)],
        ).fetchall()
    return len(rows) == len(functions)


def _select(place: Place, call: Call, values: Values) -> str:
    """The seeds that an argument means: a text, or a list of them; of temporary tables and Python variables too."""
    expression = call.arguments[0]
    refuse_transaction(place.connection, f"{call.name}()")  # which an error would spoil
    try:
        one = f"SELECT typeof(({expression}\n))"
        kind = place.caller.call(place.connection.execute, one, bound(one, values)).fetchall()[0][0]
    except duckdb.Error as refused:
        raise StatementError(
            f"the argument of {call.name} cannot be read: {first_line(refused)}",
            hint=f"it is a text or a list, and knows no other table: {call.name}((SELECT list(url) FROM seeds))",
        ) from None
    return f"SELECT unnest(({expression}\n))" if kind.endswith("]") else f"SELECT ({expression}\n)"


def _text(connection: DuckDBPyConnection, call: Call, place: int, values: Values) -> str:
    """An argument that is one text."""
    with connection.cursor() as cursor:
        one = f"SELECT ({call.arguments[place]}\n)"
        value = cursor.execute(one, bound(one, values)).fetchall()[0][0]
    if not isinstance(value, str):
        raise StatementError(f"{call.name} takes a text, not {value!r}", hint="put it in single quotes")
    return value


def _read_html(place: Place, call: Call, values: Values) -> str:
    refuse_arguments(call, 1, 2, "read_html('https://example.com/page', 'table')")
    url = _text(place.connection, call, 0, values)
    selector = _text(place.connection, call, 1, values) if len(call.arguments) == 2 else "table"
    given = {option.name for option in call.options}
    alone = [Option(name, False, 0) for name in ("follow_links", "discover") if name not in given]
    crawl = Crawl(f"SELECT {quote_text(url)}", options=(*call.options, *alone), typed=False)
    with staged(place, crawl, values, 1, "read_html()") as got:
        if got.interrupted is not None:
            raise got.interrupted
        rows = place.connection.execute(
            f"SELECT body, error, http_status, directives FROM {got.table} "
            "ORDER BY http_status BETWEEN 300 AND 399 AND error IS NULL, redirect_count LIMIT 1"
        ).fetchall()
    body, error, status, directives = rows[0] if rows else (None, "it is no seed", None, None)
    if error is not None or body is None:
        asks_not_to = error is None and {"noindex", "none"} & set((directives or "").split(", "))
        said = "the page asks not to be indexed (noindex)" if asks_not_to else error or f"status {status}, no text"
        hint = "noindex := 'keep' reads it all the same" if asks_not_to else "see amble.requests"
        raise StatementError(f"{url} could not be read: {said}", hint=hint)
    grid = read_grid(body, selector)
    if grid is None or not grid.columns:
        raise StatementError(f"{selector!r} finds no table or list at {url}", hint="name another selector")
    return place.tables.keep_rows(place.connection, Table([(name, "VARCHAR") for name in grid.columns], grid.rows))


def _sitemap(place: Place, call: Call, values: Values) -> str:
    refuse_arguments(call, 1, 1, "sitemap('https://example.com/'), or the URL of a sitemap, or a list of either")
    select = _select(place, call, values)
    return place.tables.keep_rows(place.connection, Table(ENTRIES, entries_of(place, select, call.options, values)))


def _links(connection: DuckDBPyConnection, call: Call, values: Values) -> str:
    refuse_arguments(call, 0, 1, "links('pages')")
    if call.options:
        raise StatementError("links() has no options", hint="links('pages')")
    table = "pages"
    if call.arguments:
        table = call.arguments[0] if is_table_name(call.arguments[0]) else _text(connection, call, 0, values)
    return f"amble.page_links({quote_text(table)})"


# --- live tables ---------------------------------------------------------------------------------------------------


def _live(place: Place, item: LiveTable) -> str:
    if item.name == "settings":
        return place.tables.keep_rows(place.connection, settings_now(place))
    if item.name == "duckdb_settings":
        return duckdb_settings_sql(place.tables.keep_rows(place.connection, settings_now(place)))
    with place.connection.cursor() as cursor:
        database, crawled = cursor.execute(
            "SELECT current_database(), count(*) > 0 FROM duckdb_tables() "
            "WHERE database_name = current_database() AND schema_name = 'amble'"
        ).fetchall()[0]
    if not crawled and item.name != "frontier":
        return no_rows(columns_of(item.name))
    if item.name not in ("frontier", "jobs", "domains"):
        return f"amble.{item.name}"
    store = store_in_use(place.connection, database, place.session)
    if item.name == "frontier":
        return place.tables.keep_rows(place.connection, frontier_now(store))
    if item.name == "jobs":
        return jobs_sql(place.tables.keep_rows(place.connection, jobs_now(store)))
    return domains_sql(place.tables.keep_rows(place.connection, domains_now(store)))
