"""Scalar functions in SQL: NULL-safe, usable from every cursor and thread, clear errors where the query is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duckdb
import pytest

from amble.store.functions import prepare


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        prepare(connection)
        yield connection


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("surt('https://www.example.com/B/?b=2&a=1#c')", "com,example)/b?a=1&b=2"),
        ("surt(NULL)", None),
        ("domain_of('https://EXAMPLE.com:444/x')", "example.com:444"),
        ("domain_of('no domain at all')", None),
        ("domain_of(NULL)", None),
        ("css_select('<p>a<p>b', 'p')", ["a", "b"]),
        ("css_select('<a href=x>q', 'a', '@href')", ["x"]),
        ("css_select('<p>a'::BLOB, 'p')", ["a"]),
        ("css_select(NULL, 'p')", None),
        ("css_select('<p>', NULL)", None),
        ("css_select('<p>', 'p', NULL)", None),
        ("htmlpath('<a href=x>q', 'a@href')", "x"),
        ("htmlpath(NULL, 'a')", None),
        ("htmlpath('<p>', NULL)", None),
        ("page_info('<title>x</title><a href=/y rel=nofollow>z', 'https://a.test/b').links[1].url", "https://a.test/y"),
        ("page_info('<meta name=robots content=none>', 'https://a.test/').noindex", True),
        ("page_info('<html lang=en><link rel=canonical href=/c>', 'https://a.test/').canonical", "https://a.test/c"),
        ("page_info('<p>', 'no url')", None),
        ("page_info(NULL, 'https://a.test/')", None),
        ("page_info('<p>', NULL)", None),
    ],
)
def test_what_functions_give(connection: duckdb.DuckDBPyConnection, expression: str, value: Any) -> None:
    assert connection.execute(f"SELECT {expression}").fetchall() == [(value,)]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("css_select('', '[')", "no CSS selector"),
        ("css_select('', 'p', 'href')", "@href"),
        ("css_select('')", "two or three"),
        ("htmlpath('', 'a@')", "takes nothing"),
        ("htmlpath('')", "two arguments"),
        ("page_info('')", "two arguments"),
    ],
)
def test_a_query_that_is_wrong_is_told_so(connection: duckdb.DuckDBPyConnection, expression: str, said: str) -> None:
    with pytest.raises(duckdb.InvalidInputException, match=said):
        connection.execute(f"SELECT {expression}").fetchall()


def test_registering_twice_and_from_many_threads_is_one_registration() -> None:
    with duckdb.connect() as connection, ThreadPoolExecutor(8) as pool:
        cursors = [connection.cursor() for _ in range(16)]
        list(pool.map(prepare, cursors))
        for cursor in cursors:
            assert cursor.execute("SELECT domain_of('https://a.test/')").fetchall() == [("a.test",)]
            cursor.close()


def test_queries_of_several_threads_run_at_once(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE t AS SELECT '<p>' || i AS body FROM range(20000) r(i)")

    def count(_: int) -> int:
        with connection.cursor() as cursor:
            rows = cursor.execute("SELECT count(DISTINCT htmlpath(body, 'p')) FROM t").fetchall()
        return int(rows[0][0])

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(count, range(3))) == [20_000] * 3


def test_a_program_that_ends_without_closing_says_nothing() -> None:
    program = "import duckdb; from amble.store.functions import prepare; c = duckdb.connect(); prepare(c)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
