"""Table functions and live tables in queries: found by the lexer, fetched like every crawl, gone from the text."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from amble.errors import StatementError
from amble.fetcher import Fetcher
from amble.report.exploration import Exploration
from amble.sql.calls import Call, find, pieces_of
from amble.testing.farm import Pages, Robots, Site, Sitemap
from amble.testing.farm.exchange import html
from tests.sql.web import FAST, Paths, paths_asked, run_until_stopped, web

QUICK = "pacing := 'fixed', fixed_delay := 0"
SMALL = Pages(5, size_bytes=2_000)


# --- where they stand ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT * FROM crawl('a')", [("crawl", ("'a'",), False)]),
        ("SELECT url FROM crawl('é') AS c LIMIT 3 OFFSET 2;", [("crawl", ("'é'",), True)]),
        (
            "FROM crawl(['a', 'b']) c JOIN sitemap('b') ON true",
            [("crawl", ("['a', 'b']",), True), ("sitemap", ("'b'",), False)],
        ),
        ("SELECT a, links(x) FROM t, links('pages') l", [("links", ("'pages'",), True)]),
        ("SELECT * FROM t WHERE u IN (SELECT url FROM crawl('a'))", [("crawl", ("'a'",), False)]),
        ("DELETE FROM t USING crawl('a') c WHERE c.url = t.url", [("crawl", ("'a'",), True)]),
        ("MERGE INTO t USING crawl('a') AS s ON (s.url = t.url)", [("crawl", ("'a'",), True)]),
        ("ALTER TABLE t ALTER c TYPE INT USING links(c)", []),
        ("CREATE TABLE t AS FROM crawl('a')", [("crawl", ("'a'",), False)]),
        ("SELECT crawl('a')", []),
        ("DELETE FROM amble.jobs", []),
        ("SELECT 'FROM crawl(1)', $$ FROM crawl(2) $$ -- FROM crawl(3)\n/* FROM crawl(4) */", []),
        ('FROM "crawl"(1)', []),
        ("SELECT crawl FROM t", []),
    ],
)
def test_calls_are_found_where_tables_stand(query: str, found: list[Any]) -> None:
    items = find(query)
    calls = [item for item in items if isinstance(item, Call)]
    assert len(calls) == len(items)
    assert [(call.name, call.arguments, call.has_alias) for call in calls] == found


def test_options_are_written_in_three_ways() -> None:
    (call,) = find("FROM crawl('a', follow_links := true, user_agent => 'x', max_crawl_pages = 5)")
    assert isinstance(call, Call)
    assert {option.name: option.value for option in call.options} == {
        "follow_links": True, "user_agent": "x", "max_crawl_pages": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    "query",
    [
        "EXPLAIN SELECT * FROM crawl('a')",
        "CREATE VIEW v AS FROM crawl('a')",
        "CREATE OR REPLACE TEMP VIEW v AS FROM crawl('a')",
        "CREATE MACRO m(t) AS TABLE FROM links(t)",
        "PREPARE p AS FROM links(?)",
        "FROM crawl('a', max_crawl_pages := 1 + 1)",
        "FROM crawl('a', max_crawl_pages := )",
        "FROM crawl(max_crawl_pages := 1, 'a')",
        "FROM crawl('a'",
    ],
)
def test_what_cannot_be_run_is_refused_where_it_stands(query: str) -> None:
    with pytest.raises(StatementError, match="line 1, column"):
        find(query)


def test_a_script_falls_apart_at_semicolons_outside_of_strings() -> None:
    assert pieces_of("SELECT ';' ; -- ;\nSELECT 2; /* ; */ ") == ["SELECT ';' ;", " -- ;\nSELECT 2;"]


# --- crawl ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        ("SELECT http_status, $1 FROM crawl($2, max_crawl_pages := $3) WHERE http_status < $4", ["x", "URL", 1, 300]),
        ("SELECT http_status, ? FROM crawl(?, max_crawl_pages := ?) WHERE http_status < ?", ["x", "URL", 1, 300]),
        (
            "SELECT http_status, $word FROM crawl($seeds, max_crawl_pages := 1) WHERE http_status < $most",
            {"word": "x", "seeds": ["URL"], "most": 300},
        ),
        ("SELECT http_status, 'x' FROM crawl(?, max_crawl_pages := 1)", ["URL"]),
        ("SELECT http_status, ? FROM crawl('URL', max_crawl_pages := 1)", ["x"]),
    ],
)
def test_parameters_stand_in_calls_and_beside_them(query: str, parameters: Any) -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        url = farm.url("a.test", "/a-page")
        filled = {"URL": url}
        given = (
            {name: [url] if value == ["URL"] else value for name, value in parameters.items()}
            if isinstance(parameters, dict)
            else [filled.get(value, value) for value in parameters]
        )
        query = query.replace("'URL'", f"'{url}'").replace("< ?", "<> ?").replace("< $", "<> $")
        assert con.execute(query, given).fetchall() == [(404, "x")]
        assert con.sql(query, params=given).fetchall() == [(404, "x")]


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        ("FROM crawl(?)", []),
        ("FROM crawl(?)", ["a.test", "b.test"]),
        ("SELECT $2 FROM crawl($1)", ["a.test"]),
        ("FROM crawl('a.test', max_crawl_pages := ?)", None),
    ],
)
def test_a_parameter_without_a_value_and_a_value_without_a_place_are_refused(query: str, parameters: Any) -> None:
    refused = pytest.raises((StatementError, duckdb.InvalidInputException), match="parameter")
    with web(Site(name="a.test", pages=SMALL)) as (farm, con), refused:
        con.execute(query.replace("a.test", farm.url("a.test")), parameters)


def test_a_query_over_a_crawl() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        url = farm.url("a.test")
        rows = con.execute(
            "SELECT count(*), count(title), bool_and(http_status = 200) "
            f"FROM crawl('{url}', follow_links := true, {QUICK})"
        ).fetchall()
        assert rows == [(5, 5, True)]
        assert sorted(paths_asked(farm)) == sorted(SMALL.paths())
        assert con.execute("SELECT count(*) FROM duckdb_schemas() WHERE schema_name = 'amble_staging'").fetchall() == [
            (0,)
        ]
        assert con.execute("SELECT status FROM amble.jobs").fetchall() == [("completed",)]


def test_in_a_file_what_a_killed_process_left_is_cleared_away(tmp_path: Path) -> None:
    with web(Site(name="a.test", pages=SMALL), path=tmp_path / "f.duckdb") as (farm, con):
        con.execute("CREATE SCHEMA amble_staging; CREATE TABLE amble_staging.pages_left (x INTEGER)")
        query = f"SELECT count(*) FROM crawl('{farm.url('a.test')}', follow_links := true, {QUICK})"
        assert con.execute(query).fetchall() == [(5,)]
        assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'amble_staging'").fetchone() == (
            0,
        )


def test_seeds_come_from_lists_and_subqueries_and_earlier_statements() -> None:
    with web(Site(name="a.test", pages=SMALL), Site(name="b.test", pages=SMALL)) as (farm, con):
        a, b = farm.url("a.test"), farm.url("b.test")
        only = f"follow_links := false, discover := false, {QUICK}"
        assert con.sql(f"SELECT count(*) FROM crawl(['{a}', '{b}'], {only}) AS c").fetchall() == [(2,)]
        script = f"""
            CREATE TABLE seeds AS SELECT unnest(['{a}', '{b}', NULL]) AS u;
            CREATE TABLE got AS FROM crawl((SELECT list(u) FROM seeds), {only});
            SELECT count(*), count(DISTINCT crawl.domain) FROM got AS crawl"""
        assert con.execute(script).fetchall() == [(2, 2)]


@pytest.mark.parametrize(
    "query",
    [
        "FROM crawl('not a url at all', pacing := 'fixed')",
        "FROM crawl('http://a.test/', no_such_option := 1)",
        "FROM crawl()",
        "FROM t, crawl(t.url)",
        "FROM read_html(7)",
        "FROM sitemap('http://a.test/', 'x')",
        "FROM links('pages', a := 1)",
    ],
)
def test_what_is_wrong_is_told_before_anything_is_fetched(query: str) -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        con.execute("CREATE TABLE t AS SELECT 'http://a.test/' AS url")
        with pytest.raises(ValueError, match="hint"):
            con.execute(query)
        assert farm.log() == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT titel FROM crawl('URL')",
        "SELECT lowercase(title) FROM crawl('URL')",
        "SELECT title FROM crawl('URL') c JOIN absent USING (url)",
        "SELECT title FROM crawl('URL') GROUP BY url",
        "/* why */ CREATE TABLE known AS FROM crawl('URL')",
        "INSERT INTO known SELECT title, url FROM crawl('URL')",
        "SELECT c.url FROM sitemap('URL') s JOIN crawl('URL') c ON c.url = s.loc",
        "WITH c AS (FROM crawl('URL')) SELECT * FROM c WHERE http_status = $status AND nothing",
    ],
)
def test_a_mistake_in_the_query_costs_no_request(query: str) -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        con.execute("CREATE TABLE known (url VARCHAR)")
        parameters = {"status": 200} if "$status" in query else None
        with pytest.raises((duckdb.BinderException, duckdb.CatalogException)):
            con.execute(query.replace("URL", farm.url("a.test")), parameters)
        assert farm.log() == []


def test_a_crawl_in_a_transaction_is_refused_and_the_transaction_goes_on() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        con.execute("BEGIN; CREATE TABLE t AS SELECT 1 AS x")
        with pytest.raises(StatementError, match="transaction"):
            con.execute(f"FROM crawl('{farm.url('a.test')}')")
        con.execute("COMMIT")
        assert con.execute("FROM t").fetchall() == [(1,)]


def test_somebody_elses_function_of_that_name_comes_first() -> None:
    with web() as (_, con):
        con.execute("CREATE MACRO links(n) AS TABLE SELECT n AS x")
        assert con.execute("FROM links(7)").fetchall() == [(7,)]


def test_seeds_come_from_python_variables_and_temporary_tables() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        wanted = {"url": np.array([farm.url("a.test")])}
        con.execute("CREATE TEMP TABLE mine AS SELECT url FROM wanted")
        for seeds in ("wanted", "mine"):
            query = f"SELECT count(*) FROM crawl((SELECT list(url) FROM {seeds}), {QUICK}) JOIN {seeds} USING (url)"
            assert con.execute(query).fetchall() == [(1,)]
            assert con.sql(query).fetchall() == [(1,)]
        assert wanted


def test_what_a_query_read_is_gone_with_the_next_statement_and_lasts_as_long_as_a_relation() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        query = f"FROM crawl('{farm.url('a.test')}', {QUICK})"
        con.execute(query)
        assert len(con.fetchmany(2)) + len(con.fetchall()) == SMALL.count
        assert con.execute("SHOW TABLES").fetchall() == []
        relation = con.sql(query)
        derived = relation.filter("http_status = 200").aggregate("count(*)")
        del relation
        gc.collect()
        assert len(con.execute("SHOW TABLES").fetchall()) == 1
        assert derived.fetchall() == [(SMALL.count,)]
        del derived
        gc.collect()
        con.execute("BEGIN; SELECT * FROM amble.frontier")
        assert len(con.execute("SHOW TABLES").fetchall()) > 0  # nothing is dropped in somebody's transaction
        con.execute("ROLLBACK")
        assert con.execute("SHOW TABLES").fetchall() == []


def test_before_the_first_crawl_the_tables_of_amble_are_there_and_empty() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        heads: dict[str, list[str]] = {}
        for table in ("jobs", "requests", "domains", "frontier", "changes", "history"):
            assert con.execute(f"FROM amble.{table} AS t WHERE true").fetchall() == []
            heads[table] = [column[0] for column in con.description or ()]
        assert con.execute("SELECT count(*) FROM duckdb_schemas() WHERE schema_name = 'amble'").fetchall() == [(0,)]
        con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages {FAST}")
        for table, names in heads.items():
            con.execute(f"FROM amble.{table}")
            assert [column[0] for column in con.description or ()] == names


# --- the others ----------------------------------------------------------------------------------------------------


def test_a_table_of_a_page_is_rows() -> None:
    page = html("<table class=p><tr><th>Name<th>Price<tr><td>Mug<td>9<tr><td>Cup<td>7</table><ul><li>x</ul>")
    with web(Site(name="a.test", features=(Paths({"/prices": page}),))) as (farm, con):
        url = farm.url("a.test", "/prices")
        rows = con.execute(f"SELECT Name, Price::INT + 1 FROM read_html('{url}', 'table.p', {QUICK})").fetchall()
        assert rows == [("Mug", 10), ("Cup", 8)]
        assert con.execute(f"SELECT text FROM read_html('{url}', 'ul', {QUICK})").fetchall() == [("x",)]
        with pytest.raises(StatementError, match="finds no table"):
            con.execute(f"FROM read_html('{url}', 'dl', {QUICK})")
        with pytest.raises(StatementError, match="could not be read"):
            con.execute(f"FROM read_html('{farm.url('a.test', '/nowhere')}', 'table', {QUICK})")


def test_read_html_heeds_robots_txt() -> None:
    site = Site(name="a.test", pages=SMALL, robots=Robots(disallow=("/",)))
    with web(site) as (farm, con):
        with pytest.raises(StatementError, match="could not be read"):
            con.execute(f"FROM read_html('{farm.url('a.test')}', 'table')")
        assert paths_asked(farm) == []


@pytest.mark.parametrize("kind", ["urlset", "index"])
def test_what_sitemaps_list(kind: Any) -> None:
    site = Site(name="a.test", pages=SMALL, sitemap=Sitemap(kind=kind, per_file=2))
    with web(site) as (farm, con):
        url = farm.url("a.test")
        rows = con.execute(f"SELECT url, lastmod FROM sitemap('{url}', {QUICK}) ORDER BY url").fetchall()
        assert [row[0] for row in rows] == sorted(farm.url("a.test", path) for path in SMALL.paths())
        assert all(row[1] is not None for row in rows)
        assert paths_asked(farm) == []  # no page is asked for
        own = farm.url("a.test", "/sitemap.xml" if kind == "urlset" else "/sitemap-1.xml")
        count = con.execute(f"SELECT count(*) FROM sitemap('{own}', {QUICK})").fetchall()
        assert count == [(5 if kind == "urlset" else 2,)]


def test_sitemaps_are_read_to_their_end_however_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An analyst never gets part of the rows: a plan may lose its patience, a query may not."""
    run, given = Exploration.run, []

    async def spy(self: Exploration, fetcher: Fetcher, patience_s: float | None) -> None:
        given.append(patience_s)
        await run(self, fetcher, patience_s)

    monkeypatch.setattr(Exploration, "run", spy)
    with web(Site(name="a.test", pages=SMALL, sitemap=Sitemap())) as (farm, con):
        assert con.execute(f"SELECT count(*) FROM sitemap('{farm.url('a.test')}', {QUICK})").fetchall() == [(5,)]
    assert given == [None]


def test_sitemaps_are_looked_at_in_the_pace_of_a_crawl_that_runs() -> None:
    site = Site(
        name="a.test", pages=Pages(30, size_bytes=500), robots=Robots(crawl_delay_s=0.1), sitemap=Sitemap("index")
    )
    with web(site) as (farm, con), con.cursor() as look:
        url = farm.url("a.test")
        statement = f"CRAWL (SELECT '{url}') INTO pages WITH (sitemap_cache_hours 0)"
        crawl = threading.Thread(target=run_until_stopped, args=(con, statement))
        crawl.start()
        try:
            while len(paths_asked(farm)) < 3:
                pass
            rows = look.execute(f"SELECT count(*) FROM sitemap('{url}', sitemap_cache_hours := 0)").fetchall()
        finally:
            con.interrupt()
            crawl.join()
        assert rows == [(30,)]
        (report,) = farm.judge().hosts
        assert report.under_crawl_delay == 0
        assert report.robots_fetches == 1


def test_links_with_what_became_of_their_targets() -> None:
    pages = Paths({
        "/": html('<a href="/a">A</a> <a href="/gone" rel="nofollow x">G</a> <a href="https://other.test/">O</a>'),
        "/a": html("<title>a</title>"),
    })  # fmt: skip
    with web(Site(name="a.test", features=(pages,))) as (farm, con):
        url = farm.url("a.test")
        con.execute(
            f"CRAWL (SELECT '{url}') INTO site WITH (follow_links = true, respect_nofollow = false, pacing = fixed, "
            "fixed_delay = 0)"
        )
        rows = con.execute(
            "SELECT to_url, anchor, nofollow, to_status, internal FROM links('site') ORDER BY anchor"
        ).fetchall()
        assert rows == [
            (farm.url("a.test", "/a"), "A", False, 200, True),
            (farm.url("a.test", "/gone"), "G", True, 404, True),
            ("https://other.test/", "O", False, None, False),
        ]
        for table in ("site", "main.site", '"site"', "'main.site'"):
            assert con.execute(f"SELECT count(*) FROM links({table})").fetchall() == [(3,)]
        assert con.execute("SELECT count(*) FROM amble.page_links").fetchall() == [(3,)]
        con.execute("CREATE VIEW outlinks AS SELECT to_url FROM links('site'); EXPLAIN FROM links('site')")
        assert con.execute("SELECT count(*) FROM outlinks").fetchall() == [(3,)]
