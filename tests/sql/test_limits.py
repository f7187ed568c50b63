"""LIMIT stops the fetching where a query takes the rows as they come, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amble.sql.connection import Connection
from amble.testing.farm import Farm, Pages, Site
from tests.sql.web import QUICK, paths_asked, web

ALL = 9

TAKES_THREE = [
    "SELECT * FROM CRAWL LIMIT 3",
    "FROM CRAWL LIMIT 3",
    "SELECT url FROM CRAWL AS c LIMIT 2 OFFSET 1;",
    "SELECT url FROM CRAWL c OFFSET 1 LIMIT 2",
    "SELECT lower(title), length(body), css_select(body, 'a')[1], CAST(http_status AS VARCHAR) FROM CRAWL LIMIT 3",
    "SELECT title.upper(), http_status IN (200, 404), CASE WHEN (depth > 0) THEN 1 END FROM CRAWL LIMIT 3",
    "SELECT * EXCLUDE (body) FROM CRAWL LIMIT 3",
    "SELECT url FROM CRAWL LIMIT $three",
    "WITH c AS (FROM CRAWL LIMIT 3) SELECT * FROM c",
    "WITH t AS (SELECT count(*) FROM range(5)) SELECT url FROM CRAWL LIMIT 3",
    "SELECT url FROM (SELECT url FROM CRAWL LIMIT 3)",
    "CREATE TABLE t AS SELECT url, length(body) AS n FROM CRAWL LIMIT 3; FROM t",
]
WANTS_ALL = {
    "SELECT count(*) FROM CRAWL LIMIT 3": 1,
    "SELECT http_status, max(length(body)) FROM CRAWL GROUP BY 1 LIMIT 3": 1,
    "SELECT url FROM CRAWL WHERE depth > 0 LIMIT 3": 3,
    "SELECT url FROM CRAWL ORDER BY url DESC LIMIT 3": 3,
    "SELECT DISTINCT http_status FROM CRAWL LIMIT 3": 1,
    "SELECT row_number() OVER (ORDER BY url DESC) FROM CRAWL LIMIT 3": 3,
    "SELECT unnest(css_select(body, 'nothing')) FROM CRAWL LIMIT 3": 0,
    "SELECT wavg(depth, 1) FROM CRAWL LIMIT 3": 1,
    "SELECT url FROM CRAWL LIMIT 30%": 2,
    "SELECT url FROM CRAWL LIMIT 3 + 0": 3,
    "SELECT 'x' UNION ALL SELECT url FROM CRAWL LIMIT 3": 3,
    "SELECT c.url FROM CRAWL c JOIN range(2) ON true LIMIT 3": 3,
    "SELECT c.url FROM range(2), CRAWL c LIMIT 3": 3,
    "WITH c AS (FROM CRAWL) SELECT url FROM c LIMIT 3": 3,
    "SELECT (SELECT count(*) FROM CRAWL) LIMIT 3": 1,
}


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[Farm, Connection]]:
    with web(Site(name="a.test", pages=Pages(ALL, size_bytes=500))) as (farm, con):
        yield farm, con


def asked(site: tuple[Farm, Connection], query: str, parameters: Any = None) -> tuple[int, int]:
    """How many rows the query gives, and how many pages were asked for."""
    farm, con = site
    farm.clear()
    con.execute("DROP TABLE IF EXISTS t")
    call = f"crawl('{farm.url('a.test')}', follow_links := true, {QUICK.replace('=', ':=')})"
    rows = con.execute(query.replace("CRAWL", call), parameters).fetchall()
    return len(rows), len(paths_asked(farm))


@pytest.mark.parametrize("query", TAKES_THREE)
def test_no_more_pages_are_asked_for_than_the_query_takes(site: tuple[Farm, Connection], query: str) -> None:
    parameters = {"three": 3} if "$three" in query else None
    assert asked(site, query, parameters) == (2 if "OFFSET" in query else 3, 3)


@pytest.mark.parametrize(("query", "rows"), WANTS_ALL.items())
def test_a_query_that_looks_at_every_row_gets_every_page(site: tuple[Farm, Connection], query: str, rows: int) -> None:
    assert asked(site, query) == (rows, ALL)


def test_what_is_copied_is_limited_too(site: tuple[Farm, Connection], tmp_path: Path) -> None:
    query = f"COPY (SELECT url FROM CRAWL LIMIT 3) TO '{tmp_path / 'three.csv'}'"
    assert asked(site, query) == (1, 3)
    assert len((tmp_path / "three.csv").read_text().splitlines()) == 4


def test_limit_0_asks_for_the_columns_alone(site: tuple[Farm, Connection]) -> None:
    assert asked(site, "FROM CRAWL LIMIT 0") == (0, 0)
    assert [column[0] for column in site[1].description or ()][:3] == ["url", "surt_key", "http_status"]


def test_a_limit_that_is_no_number_is_refused_by_duckdb(site: tuple[Farm, Connection]) -> None:
    with pytest.raises(Exception, match=r"(?i)limit|cast|convert"):
        asked(site, "SELECT url FROM CRAWL LIMIT $three", {"three": "many"})
