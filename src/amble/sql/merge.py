"""CRAWLING MERGE: crawl, then DuckDB's own MERGE INTO with what was found, in one transaction.

The source is what was fetched: pages without an error. Of the rows that are `NOT MATCHED BY SOURCE` most are no
business of this crawl: a row is touched only if the crawl asked for its URL and the server gave an answer that lasts, a
page or the word that it is gone (404, 410). What was not reached, refused by robots.txt, left out by LIMIT or not come
to before a stop stays as it is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import duckdb
from duckdb import DuckDBPyConnection

from amble.errors import StatementError, first_line
from amble.jobs import JobResult
from amble.sql import options
from amble.sql.crawling import Place
from amble.sql.result import Table
from amble.sql.sources import rewrite, without_pages
from amble.sql.staging import limit_of, staged
from amble.sql.statements import Crawl, Merge
from amble.sql.targets import check_mergeable, path_sql
from amble.sql.tokens import Kind, tokens_of
from amble.sql.transactions import refuse_transaction
from amble.sql.unfetched import no_pages, refuse_mistakes
from amble.store.clauses import Clauses
from amble.store.database import quote

COLUMNS = (
    ("job_id", "BIGINT"), ("pages", "BIGINT"), ("errors", "BIGINT"), ("inserted", "BIGINT"), ("updated", "BIGINT"),
    ("deleted", "BIGINT"), ("seconds", "DOUBLE"),
)  # fmt: skip
_BY_SOURCE = ("WHEN", "NOT", "MATCHED", "BY", "SOURCE")
_LASTS = "(error_type IS NULL OR http_status IN (404, 410))"


def run_merge(place: Place, merge: Merge, values: Mapping[str, Any]) -> Table:
    """Everything that can be refused is refused before anything is fetched."""
    refuse_transaction(place.connection, "CRAWLING MERGE")
    check_mergeable(place.connection, merge.target)
    by_source = _by_source(merge.clauses_sql)
    key = _target_key(place.connection, merge) if by_source else None
    limit = options.whole(merge.limit, values, "LIMIT")
    _refuse_mistakes(place, merge, by_source, key)
    with _source(place, merge, values, limit) as source:
        sql = _merge_sql(merge, by_source, key, source.sql, source.asked)
        answer = _transact(place.connection, sql, source.results, returns=_returns(merge.clauses_sql))
    if source.interrupted is not None:
        raise source.interrupted  # what had been fetched is merged
    return answer


class _Source(NamedTuple):
    """What is merged: the source as SQL, a table of everything that was asked for, and the jobs that did so."""

    sql: str
    asked: str
    results: Sequence[JobResult]
    interrupted: BaseException | None = None


def _merge_sql(
    merge: Merge, by_source: list[tuple[int, int | None, int]], key: str | None, source: str, asked: str
) -> str:
    clauses = _guard(merge.clauses_sql, by_source, f"{key} IN (SELECT url FROM {asked} WHERE {_LASTS})")
    alias = quote(merge.alias) if merge.alias else "source"
    named = f" AS {quote(merge.target_alias)}" if merge.target_alias else ""
    returning = "" if _returns(merge.clauses_sql) else " RETURNING merge_action"
    target = path_sql(merge.target)
    return f"MERGE INTO {target}{named} USING ({source}) AS {alias} ON {merge.on_sql}\n{clauses}\n{returning}"


def _refuse_mistakes(place: Place, merge: Merge, by_source: list[tuple[int, int | None, int]], key: str | None) -> None:
    """A column that does not exist is told now, and not when everything has been fetched."""
    nothing = no_pages()
    if isinstance(merge.source, Crawl):
        nothing = no_pages(Clauses.of(place.connection, None, merge.source.extract).extract)
        source: str | None = f"SELECT * FROM {nothing}"
    else:
        source = without_pages(merge.source)
    if source is not None:
        refuse_mistakes(place, _merge_sql(merge, by_source, key, source, nothing), None, "CRAWLING MERGE")


@contextmanager
def _source(place: Place, merge: Merge, values: Mapping[str, Any], limit: int | None) -> Iterator[_Source]:
    """Crawled now; its tables are there while the block lasts."""
    if isinstance(merge.source, Crawl):
        with staged(place, merge.source, values, limit_of(merge.source, limit, values), "CRAWLING MERGE") as got:
            fetched = f"SELECT * FROM {got.table} WHERE error_type IS NULL"
            yield _Source(fetched, got.table, [got.result] if got.result else [], got.interrupted)
        return
    query = rewrite(place, merge.source, limit=limit)
    if not query.crawled:
        raise StatementError(
            "the source of CRAWLING MERGE crawls nothing", hint="USING (CRAWL (SELECT ...)) or USING (FROM crawl(...))"
        )
    asked = " UNION ALL ".join(f"SELECT url, http_status, error_type FROM {name}" for name in query.crawled)
    yield _Source(query.sql.rstrip().rstrip(";"), f"({asked})", query.results)


def _transact(connection: DuckDBPyConnection, sql: str, jobs: Sequence[JobResult], *, returns: bool) -> Table:
    connection.execute("BEGIN TRANSACTION")
    try:
        rows = connection.execute(sql).fetchall()
        heads = [(column[0], str(column[1])) for column in connection.description or ()]
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    if returns:
        return Table(heads, rows)
    did = Counter(action for (action,) in rows)
    return Table(
        COLUMNS,
        [(
            max((job.job_id for job in jobs), default=None),  # the last one, if there were several
            sum(job.pages for job in jobs), sum(job.failed for job in jobs),
            did["INSERT"], did["UPDATE"], did["DELETE"], round(sum(job.seconds for job in jobs), 3),
        )],
    )  # fmt: skip


# --- NOT MATCHED BY SOURCE -----------------------------------------------------------------------------------------


def _by_source(clauses_sql: str) -> list[tuple[int, int | None, int]]:
    """Of each `WHEN NOT MATCHED BY SOURCE`: its end, the beginning of its own condition if it has one, its THEN."""
    tokens = [token for token in tokens_of(clauses_sql) if token.kind is not Kind.COMMENT]
    found: list[tuple[int, int | None, int]] = []
    for i in range(len(tokens) - len(_BY_SOURCE) + 1):
        if tuple(token.word for token in tokens[i : i + len(_BY_SOURCE)]) != _BY_SOURCE:
            continue
        after = i + len(_BY_SOURCE)
        has_condition = after < len(tokens) and tokens[after].word == "AND"
        cases = depth = 0
        for token in tokens[after:]:
            depth += token.is_symbol("(") - token.is_symbol(")")
            cases += (token.word == "CASE") - (token.word == "END")
            if token.word == "THEN" and not cases and not depth:
                begin = tokens[after].end if has_condition else None
                found.append((tokens[after - 1].end, begin, token.at))
                break
    return found


def _guard(clauses_sql: str, by_source: list[tuple[int, int | None, int]], condition: str) -> str:
    """The clauses, in which rows that the crawl has no answer for are left alone."""
    for end, begin, then in reversed(by_source):
        own = f" AND ({clauses_sql[begin:then]}\n)" if begin is not None else ""
        clauses_sql = f"{clauses_sql[:end]} AND ({condition}){own} {clauses_sql[then:]}"
    return clauses_sql


def _target_key(connection: DuckDBPyConnection, merge: Merge) -> str:
    """The column of the target that ON compares with the URL of the source: it tells which rows were asked for."""
    with connection.cursor() as cursor:
        try:
            [(text,)] = cursor.execute("SELECT json_serialize_sql($1)", [f"SELECT 1 WHERE {merge.on_sql}\n"]).fetchall()
        except duckdb.Error as refused:
            raise StatementError(f"ON: {first_line(refused)}", hint="ON (target.url = s.url)") from None
    tree = json.loads(text)
    if tree.get("error"):
        raise StatementError(f"ON: {tree.get('error_message')}", hint="ON (target.url = s.url)")
    source = (merge.alias or "source").casefold()
    for left, right in _equalities(tree["statements"][0]["node"]["where_clause"]):
        for url, other in ((left, right), (right, left)):
            if [part.casefold() for part in url] == [source, "url"] and other and other[0].casefold() != source:
                return ".".join(map(quote, other))
    raise StatementError(
        "WHEN NOT MATCHED BY SOURCE needs to know the URL of each row of the target",
        hint=f"let ON compare it: ON (target.url = {merge.alias or 'source'}.url)",
    )


def _equalities(node: Any) -> Iterator[tuple[list[str], list[str]]]:
    """Columns that a condition compares, in all of its parts that must hold."""
    if not isinstance(node, dict):
        return
    if node.get("type") == "CONJUNCTION_AND":
        for child in node.get("children", ()):
            yield from _equalities(child)
    elif node.get("type") == "COMPARE_EQUAL":
        sides = [node.get(side, {}) for side in ("left", "right")]
        if all(side.get("type") == "COLUMN_REF" for side in sides):
            yield sides[0]["column_names"], sides[1]["column_names"]


def _returns(clauses_sql: str) -> bool:
    return any(token.word == "RETURNING" for token in tokens_of(clauses_sql))
