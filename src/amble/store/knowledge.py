"""What earlier runs learned, read back: domains, robots.txt, sitemaps, pages and their links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from json import loads
from typing import Any, NamedTuple, TypeVar

from duckdb import DuckDBPyConnection

from amble.core.outcome import Failure
from amble.core.robots.verdict import RobotsRow
from amble.core.seen import SeenSet
from amble.errors import StoreDamaged
from amble.store import storable
from amble.store.seam import BareSitemap, DomainRow, JobRow, JobStatus, KnownPage, LinkRow, SitemapUrlRow
from amble.store.tables import TargetTable

_READ_AT_ONCE = 10_000
_DOMAIN = ", ".join(DomainRow._fields)
_ROBOTS = ", ".join(RobotsRow._fields)
_SITEMAP = ", ".join(SitemapUrlRow._fields)
_BARE = ", ".join(BareSitemap._fields)
_JOB = ", ".join(JobRow._fields)
Row = TypeVar("Row", bound=NamedTuple)


def load_jobs(connection: DuckDBPyConnection) -> list[JobRow]:
    return [
        _row(JobRow, row, status=JobStatus, settings=_named, seeds=_texts, counters=_named)
        for row in connection.execute(f"SELECT {_JOB} FROM amble.jobs ORDER BY id").fetchall()
    ]


def _named(text: str) -> dict[str, Any]:
    found = loads(text)
    if not isinstance(found, dict):
        raise TypeError("it is no table of names and values")
    return found


def _texts(text: str) -> tuple[str, ...]:
    found = loads(text)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise TypeError("it is no list of texts")
    return tuple(found)


def load_domains(connection: DuckDBPyConnection, keys: Iterable[str] | None) -> list[DomainRow]:
    rows = _select(connection, f"SELECT {_DOMAIN} FROM amble.domains", "domain", keys)
    return [_row(DomainRow, row, numbers=loads) for row in rows]


def domains_in_parts(connection: DuckDBPyConnection) -> Iterator[list[DomainRow]]:
    """Every domain, some thousands at a time: a million rows together would take a gigabyte."""
    rows = connection.execute(f"SELECT {_DOMAIN} FROM amble.domains")
    while part := rows.fetchmany(_READ_AT_ONCE):
        yield [_row(DomainRow, row, numbers=loads) for row in part]


def asked_in_parts(connection: DuckDBPyConnection, since: datetime) -> Iterator[list[DomainRow]]:
    """When the last answer of each domain had come: its request was sent before that, but some time after its start,
    which is when it began to connect. Receipts lie in the order of time, so older ones are not looked at."""
    rows = connection.execute(
        "SELECT domain, max(started_at + to_microseconds(CAST(coalesce(elapsed_s, 0) * 1e6 AS BIGINT))) "
        "FROM amble.requests WHERE started_at > $1 GROUP BY domain",
        [storable.utc(since)],
    )
    while part := rows.fetchmany(_READ_AT_ONCE):
        yield [DomainRow(domain, last_reserved_at=storable.aware(until)) for domain, until in part]


def load_robots(connection: DuckDBPyConnection, origins: Iterable[str] | None) -> list[RobotsRow]:
    return [
        _row(RobotsRow, row) for row in _select(connection, f"SELECT {_ROBOTS} FROM amble.robots", "origin", origins)
    ]


def load_sitemap_urls(connection: DuckDBPyConnection, sitemap: str) -> list[SitemapUrlRow]:
    """What the latest reading of a sitemap listed."""
    rows = connection.execute(
        f"SELECT {_SITEMAP} FROM amble.sitemap_urls WHERE sitemap = $1 "
        "AND fetched_at = (SELECT max(fetched_at) FROM amble.sitemap_urls WHERE sitemap = $1)",
        [sitemap],
    ).fetchall()
    return [_row(SitemapUrlRow, row) for row in rows]


def bare_sitemap(connection: DuckDBPyConnection, sitemap: str) -> BareSitemap | None:
    rows = connection.execute(
        f"SELECT {_BARE} FROM amble.bare_sitemaps WHERE sitemap = $1 ORDER BY fetched_at DESC LIMIT 1", [sitemap]
    ).fetchall()
    return _row(BareSitemap, rows[0]) if rows else None


def sitemaps_read(connection: DuckDBPyConnection, since: datetime) -> set[str]:
    rows = connection.execute(
        "SELECT sitemap FROM amble.sitemap_urls WHERE fetched_at > $1 "
        "UNION SELECT sitemap FROM amble.bare_sitemaps WHERE fetched_at > $1",
        [storable.utc(since)],
    ).fetchall()
    return {sitemap for (sitemap,) in rows}


def listed(connection: DuckDBPyConnection, urls: Sequence[str]) -> dict[str, SitemapUrlRow]:
    """What a sitemap last said about each of these pages."""
    row = ", ".join(f"{name}: {name}" for name in SitemapUrlRow._fields)
    rows = connection.execute(
        f"SELECT arg_max({{{row}}}, fetched_at) FROM amble.sitemap_urls "
        "WHERE url IN (SELECT unnest($1::VARCHAR[])) AND kind IS NULL GROUP BY url",
        [list(urls)],
    ).fetchall()
    return {said["url"]: _row(SitemapUrlRow, tuple(said.values())) for (said,) in rows}


def stored(connection: DuckDBPyConnection, target: TargetTable, *, failed: bool = False) -> SeenSet:
    """The URLs of every row without an error, or of every one with an error that it met when it was asked for."""
    seen = SeenSet()
    which = f"error_type <> '{Failure.DOMAIN_GIVEN_UP}'" if failed else "error_type IS NULL"
    rows = connection.execute(f"SELECT url FROM {target.name} WHERE url IS NOT NULL AND {which}")
    while chunk := rows.fetchmany(_READ_AT_ONCE):
        seen.add_many([url for (url,) in chunk])
    return seen


def known_pages(connection: DuckDBPyConnection, target: TargetTable, urls: Sequence[str]) -> dict[str, KnownPage]:
    time = "crawl_time AT TIME ZONE 'UTC'" if target.zoned else "crawl_time"
    columns = f"http_status, {time}, error_type, etag, last_modified, content_hash, final_url, directives"
    return {
        url: KnownPage(url, status, storable.aware(time), *rest)
        for _, url, status, time, *rest in target.locate(connection, urls, columns)
    }


def links_of(connection: DuckDBPyConnection, urls: Sequence[str]) -> dict[str, list[LinkRow]]:
    """The links of pages as they were when last read. One look through the table, so ask for many pages at once."""
    rows = connection.execute(
        "SELECT from_url, arg_max(lines, seq) FROM amble.link_lines "
        "WHERE from_url IN (SELECT unnest($1::VARCHAR[])) GROUP BY from_url",
        [list(urls)],
    ).fetchall()
    return {url: [_link(line) for line in lines.split("\n")] for url, lines in rows}


def _link(line: str) -> LinkRow:
    to_url, rel, anchor = (line + "\t\t").split("\t")[:3]
    return LinkRow(to_url, rel or None, anchor or None)


def _select(connection: DuckDBPyConnection, sql: str, column: str, keys: Iterable[str] | None) -> list[tuple[Any, ...]]:
    if keys is None:
        return connection.execute(sql).fetchall()
    return connection.execute(f"{sql} WHERE {column} IN (SELECT unnest($1::VARCHAR[]))", [list(keys)]).fetchall()


def _row(kind: Callable[..., Row], row: tuple[Any, ...], **read: Callable[[Any], Any]) -> Row:
    """A row of a table as its type: times get their zone, and fields named in `read` are read from text."""
    fields = kind._fields  # type: ignore[attr-defined]
    try:
        return kind(
            *(
                read[name](value) if name in read else storable.aware(value) if isinstance(value, datetime) else value
                for name, value in zip(fields, row, strict=True)
            )
        )
    except (ValueError, TypeError, RecursionError) as damaged:
        raise StoreDamaged(
            f"what this file says of a {kind.__name__} cannot be read: {damaged}",
            hint="keep a copy of the file, and crawl into another",
        ) from None
