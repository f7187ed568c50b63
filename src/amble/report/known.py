"""What a file knows already of URLs and domains: which pages are stored, and how fast domains answered."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import duckdb
from duckdb import DuckDBPyConnection

from amble.store import storable
from amble.store.names import TableName

Known = dict[str, datetime | None]  # URL -> when it was stored

_READ_AT_ONCE = 10_000
LATEST = 200  # answers of a domain that say how fast it is


def stored_pages(connection: DuckDBPyConnection, table: str, database: str, urls: Iterable[str]) -> Known:
    """Which of these URLs the table holds with a success. One look through it, whatever their number."""
    name = TableName.parse(table, database)
    try:
        rows = connection.execute(
            f"SELECT url, crawl_time FROM {name} WHERE error_type IS NULL AND http_status IS NOT NULL"
        )
    except duckdb.CatalogException:
        return {}  # there is no such table yet
    wanted, found = set(urls), Known()
    while chunk := rows.fetchmany(_READ_AT_ONCE):
        found |= {url: storable.aware(time) for url, time in chunk if url in wanted}
    return found


def known_latencies(connection: DuckDBPyConnection, domains: list[str]) -> dict[str, float]:
    """The usual time in which each domain answers for a page, from its latest receipts.

    Where no page was asked for yet it is the shortest time seen: a long sitemap says nothing about pages.
    """
    rows = connection.execute(
        """
        SELECT domain, coalesce(median(elapsed_s) FILTER (is_page), min(elapsed_s)) FROM (
            SELECT
                domain, elapsed_s,
                NOT ends_with(url, '/robots.txt') AND url NOT IN (SELECT sitemap FROM amble.sitemap_urls) AS is_page
            FROM amble.requests
            WHERE status < 400 AND elapsed_s IS NOT NULL AND domain IN (SELECT unnest($1::VARCHAR[]))
            QUALIFY row_number() OVER (PARTITION BY domain ORDER BY started_at DESC) <= $2
        ) GROUP BY domain
        """,
        [domains, LATEST],
    ).fetchall()
    return dict(rows)
