"""CRAWL against sites on loopback: its row, its seeds, its table, what it refuses before anything happens."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import amble
from amble.errors import AmbleError, BadUrl, StatementError, StoreError
from amble.sql.seeds import Seeds
from amble.store.tables import COLUMNS
from amble.testing.farm import Pages, Robots, Site, Sitemap
from amble.testing.farm.exchange import html
from tests.sql.web import FAST, QUICK, SMALL, Paths, paths_asked, tables, web

# --- the answer ----------------------------------------------------------------------------------------------------


def test_a_crawl_answers_with_one_row_through_every_way_of_fetching() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        statement = f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages WITH (follow_links true, {QUICK})"
        row = con.execute(statement).fetchone()
        assert row is not None
        assert row[:4] == (1, 5, 0, 0)
        assert row[4] > 5_000
        assert row[5] > 0
        heads = ["job_id", "pages", "errors", "skipped", "bytes", "seconds"]
        assert [column[0] for column in con.description or ()] == heads
        relation = con.sql(statement.replace("pages WITH", "again WITH"))
        assert relation.columns == heads
        assert list(map(str, relation.types)) == ["BIGINT"] * 5 + ["DOUBLE"]
        assert relation.fetchall() == relation.fetchall()  # read twice; the crawl ran once
        assert con.execute("SELECT count(*) FROM amble.jobs").fetchall() == [(2,)]
        found = con.execute(statement.replace("pages WITH", "third WITH")).fetchnumpy()
        assert found["pages"].tolist() == [5]


def test_the_table_has_the_columns_of_the_specification_and_a_row_for_each_url() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        con.execute(f"CRAWL (SELECT ?) INTO pages WITH (follow_links true, {QUICK})", [farm.url("a.test")])
        assert [column[0] for column in con.execute("FROM pages").description or ()] == list(COLUMNS)
        rows = con.execute("SELECT count(*), count(DISTINCT url), count(surt_key), count(title) FROM pages").fetchall()
        assert rows == [(5, 5, 5, 5)]


def test_a_script_may_mix_crawls_and_ordinary_sql() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        script = f"""
            CREATE TABLE seeds (url VARCHAR);  -- the ';' in here is no end
            INSERT INTO seeds VALUES ('{farm.url("a.test")}'), (NULL);
            CRAWL (SELECT url FROM seeds) INTO "the pages" {FAST};
            SELECT count(*), $1 FROM "the pages";
        """
        assert con.execute(script, ["é"]).fetchall() == [(1, "é")]
        assert con.sql("SELECT 1; SET http_timeout = 9; SELECT 2").fetchall() == [(2,)]


def test_a_cursor_understands_crawl_as_well_and_sees_temporary_seeds_of_its_own() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con), con.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE seeds AS SELECT $1 AS url", [farm.url("a.test")])
        assert cursor.execute(f"CRAWL (FROM seeds) INTO pages {FAST}").fetchall()[0][1] == 1
        assert con.execute("SELECT count(*) FROM pages").fetchall() == [(1,)]


def test_seeds_may_stand_in_a_python_variable() -> None:
    import numpy as np

    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        seeds = {"url": np.array([farm.url("a.test")], dtype=object)}
        assert seeds
        assert con.execute(f"CRAWL (SELECT url FROM seeds) INTO pages {FAST}").fetchall()[0][1] == 1


# --- seeds ---------------------------------------------------------------------------------------------------------


def test_nulls_are_skipped_and_counted() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        select = f"SELECT unnest([NULL, '{farm.url('a.test')}', NULL])"
        assert con.execute(f"CRAWL ({select}) INTO pages {FAST}").fetchall()[0][1:4] == (1, 0, 2)
        assert con.execute("CRAWL (SELECT NULL) INTO none").fetchall()[0][1:4] == (0, 0, 1)
        assert con.execute("FROM none").fetchall() == []  # the table is there


def test_values_that_are_no_url_fail_before_anything_is_fetched_and_up_to_five_are_named() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        before = tables(con)
        seeds = [farm.url("a.test"), "ftp://a.test/", "", *(f"no url {n}" for n in range(9))]
        with pytest.raises(BadUrl) as refused:
            con.execute("CRAWL (SELECT unnest(?)) INTO pages", [seeds])
        for named in ("ftp://a.test/", "''", "no url 0", "no url 1", "no url 2"):
            assert named in refused.value.message
        assert "no url 3" not in refused.value.message
        assert "and perhaps more" in refused.value.message
        assert tables(con) == before
        assert farm.log() == []


def test_sites_means_the_site_of_each_seed_whatever_its_path() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        select = f"SELECT unnest(['{farm.url('a.test', '/deep/page?x=1')}', '{farm.url('a.test', '/other')}'])"
        assert con.execute(f"CRAWL SITES ({select}) INTO pages WITH ({QUICK})").fetchall()[0][1] == 5
        assert con.execute("SELECT seeds FROM amble.jobs").fetchall() == [(f'["{farm.url("a.test")}"]',)]


def test_limit_stops_the_fetching() -> None:
    with web(Site(name="a.test", pages=Pages(40, size_bytes=2_000))) as (farm, con):
        statement = f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages WITH (follow_links = true, {QUICK})"
        assert con.execute(f"{statement} LIMIT 7").fetchall()[0][1] == 7
        assert len(paths_asked(farm)) == 7
        both = statement.replace("pages WITH (", "fewer WITH (max_crawl_pages = 3, ")
        assert con.execute(f"{both} LIMIT ?", [20]).fetchall()[0][1] == 3


@pytest.mark.parametrize("way", ["a list", "links"])
def test_the_same_statement_with_limit_goes_on_each_time(way: str) -> None:
    """What the table holds is not among the n."""
    with web(Site(name="a.test", pages=Pages(20, size_bytes=2_000))) as (farm, con):
        if way == "links":
            statement = f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages WITH (follow_links = true, {QUICK}) LIMIT 8"
        else:
            con.execute("CREATE TABLE seeds AS SELECT unnest(?) AS url", [sorted(farm.urls())])
            statement = f"CRAWL (FROM seeds) INTO pages {FAST} LIMIT 8"
        assert [con.execute(statement).fetchall()[0][1] for _ in range(4)] == [8, 8, 4, 0]
        assert len(paths_asked(farm)) == len(set(paths_asked(farm))) == 20


def test_a_select_of_a_billion_rows_is_read_no_further_than_it_is_of_use() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        select = f"SELECT '{farm.url('a.test', '/p')}' || range FROM range(1_000_000_000)"
        row = con.execute(f"CRAWL ({select}) INTO pages {FAST} LIMIT 3").fetchall()[0]
        assert row[1] + row[2] == 3  # there are no such pages, and three were asked for


@pytest.mark.parametrize(
    "statement",
    [
        "CRAWL (FROM seeds) INTO pages WHERE path = '/' WITH (OPTIONS) LIMIT 3",
        "CREATE TABLE found (url VARCHAR); CRAWLING MERGE INTO found f USING (CRAWL (FROM seeds) WHERE path = '/' "
        "WITH (OPTIONS)) AS s ON (f.url = s.url) WHEN NOT MATCHED THEN INSERT (url) VALUES (s.url) LIMIT 3",
    ],
)
def test_limit_counts_what_where_takes_however_late_it_stands_among_the_seeds(statement: str) -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        con.execute(
            "CREATE TABLE seeds AS SELECT $1 || 'p' || range FROM range(20_000) UNION ALL SELECT $1",
            [farm.url("a.test")],
        )
        con.execute(statement.replace("OPTIONS", FAST.removeprefix("WITH (").removesuffix(")")))
        assert paths_asked(farm) == ["/"]


@pytest.mark.parametrize(
    ("select", "problem"),
    [
        ("DELETE FROM kept", "DELETE"),
        ("DROP TABLE kept", "DROP"),
        ("COPY kept TO 'x.csv'", "COPY"),
        ("SELECT 'a.test'; DROP TABLE kept", "( is never closed"),
        ("INSERT INTO kept VALUES (2) RETURNING 'a.test'", "INSERT"),
        ("ATTACH 'x.duckdb'", "ATTACH"),
        ("WITH x AS (INSERT INTO kept VALUES (2) RETURNING 'http://a.test/') FROM x", ""),
        ("SELECT 'http://a.test/' || nextval('numbers')", ""),
        ("SELECT 1", "int"),
        ("SELECT 'a.test'::BLOB", "bytes"),
        ("SELECT ['a.test']", "list"),
        ("SELECT DATE '2020-01-01'", "date"),
        ("SELECT nothing", ""),
        ("SELEKT", ""),
    ],
)
def test_only_a_select_without_effects_gives_seeds(select: str, problem: str) -> None:
    """E3: nothing between the parentheses changes the database, and what it gives is text."""
    with web() as (_, con):
        con.execute("CREATE TABLE kept (n INT); INSERT INTO kept VALUES (1); CREATE SEQUENCE numbers")
        before = tables(con)
        with pytest.raises((AmbleError, duckdb.Error)) as refused:
            con.execute(f"CRAWL ({select}) INTO pages")
        assert problem in str(refused.value)
        assert con.execute("SELECT n, nextval('numbers') FROM kept").fetchall() == [(1, 1)]
        assert tables(con) == before
        con.execute("BEGIN; COMMIT")  # no transaction was left open


def test_seeds_are_counted_once_each() -> None:
    seeds = Seeds()
    seeds.take(["a.test", "https://A.test/", None, "b.test/x#y"], sites=False)
    assert (list(seeds.urls), seeds.nulls, seeds.bad) == (["https://a.test/", "https://b.test/x"], 1, [])


# --- the target ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setup", "into", "found"),
    [
        ("", "pages", ("memory", "main", "pages")),
        ("CREATE SCHEMA s", "s.pages", ("memory", "s", "pages")),
        ("", "fresh.pages", ("memory", "fresh", "pages")),
        ("CREATE SCHEMA s; USE s", "pages", ("memory", "s", "pages")),
        ("CREATE SCHEMA s; USE s", "main.pages", ("memory", "main", "pages")),
        ("ATTACH ':memory:' AS other", "other.pages", ("other", "main", "pages")),
        ("ATTACH ':memory:' AS other; USE other", "pages", ("other", "main", "pages")),
        ("ATTACH ':memory:' AS other; CREATE SCHEMA other.s", "OTHER.s.pages", ("other", "s", "pages")),
        ("", "order", ("memory", "main", "order")),
        ("", '"a ""b"".c; DROP"', ("memory", "main", 'a "b".c; DROP')),
        ("", '"ünï😀"', ("memory", "main", "ünï😀")),
        ("", "memory.main.PAGES", ("memory", "main", "PAGES")),
    ],
)
def test_a_table_is_found_or_made_where_duckdb_would_look_for_it(setup: str, into: str, found: tuple[str, ...]) -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        con.execute(setup)
        for _ in range(2):  # made, then found
            con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO {into} {FAST}")
        ours = [table for table in tables(con) if table[1] != "amble"]
        assert ours == [found]
        assert {table[0] for table in tables(con) if table[1] == "amble"} == {found[0]}


def test_a_table_that_is_there_along_the_search_path_is_the_one_that_is_meant() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO b.pages {FAST}; CREATE SCHEMA a")
        con.execute("SET search_path = 'a,b'")
        con.execute(f"CRAWL (SELECT '{farm.url('a.test', '/none')}') INTO pages {FAST}")
        assert con.execute("SELECT count(*) FROM b.pages").fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("setup", "into", "problem"),
    [
        ("CREATE TABLE t (url VARCHAR, body VARCHAR)", "t", "lacks the columns surt_key, http_status, content_type"),
        ("CREATE TABLE t AS SELECT 1 AS url", "t", "lacks the columns"),
        ("CREATE VIEW t AS SELECT 1", "t", "is a view"),
        ("CREATE TEMP TABLE t (a INT)", "t", "temporary"),
        ("", "temp.t", "DuckDB's own"),
        ("", "absent.main.t", "there is no database absent"),
        ("", "amble.t", "not for pages"),
        ("", "main.pg_catalog.t", "there is no database main"),
        ("", "pg_catalog.t", "not for pages"),
        ("", "information_schema.t", "not for pages"),
        ("CREATE SCHEMA x; ATTACH ':memory:' AS x", "x.t", "both a schema and a database"),
        ("", '""', "empty"),
    ],
)
def test_a_target_that_cannot_be_written_is_refused_and_nothing_changes(setup: str, into: str, problem: str) -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        con.execute(setup)
        before = tables(con)
        with pytest.raises(AmbleError) as refused:
            con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO {into}")
        assert problem in str(refused.value)
        assert refused.value.hint
        assert tables(con) == before
        assert farm.log() == []


def test_an_existing_table_may_have_more_columns() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        columns = ", ".join(f"{name} {types[0]}" for name, types in reversed(COLUMNS.items()))
        con.execute(f"CREATE TABLE t (mine INT DEFAULT 7, {columns}, note VARCHAR)")
        con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO t {FAST}")
        assert con.execute("SELECT mine, note, http_status FROM t").fetchall() == [(7, None, 200)]


def test_a_database_opened_for_reading_is_refused_clearly(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    duckdb.connect(str(file)).close()
    with web(path=file, read_only=True) as (_, con), pytest.raises(StoreError, match="read-only") as refused:
        con.execute("CRAWL (SELECT 'a.test') INTO pages")
    assert "read_only" in str(refused.value.hint)


def test_a_file_is_free_when_the_connection_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    with web(Site(name="a.test", pages=SMALL), path=file) as (farm, con):
        con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages {FAST}")
    with duckdb.connect(str(file), config={"threads": 1}) as plain:  # refused while another has it open differently
        assert plain.execute("SELECT count(*) FROM pages").fetchall() == [(1,)]


def test_explain_fetches_no_page_and_tells_what_a_crawl_would_do() -> None:
    site = Site(name="a.test", pages=Pages(9), robots=Robots(crawl_delay_s=0.05))
    with web(site) as (farm, con):
        rows = con.execute(f"EXPLAIN CRAWL (SELECT '{farm.url('a.test')}') INTO pages {FAST}").fetchall()
        heads = [column[0] for column in con.description or ()]
        first = dict(zip(heads, rows[0], strict=True))
        assert (first["domain"], first["delay_s"], first["why"]) == (f"a.test:{farm.port}", 0.05, "robots")
        assert rows[-1][0] == "total"
        assert paths_asked(farm) == []
        assert ("memory", "main", "pages") not in tables(con)


def test_explain_counts_only_what_where_takes() -> None:
    site = Site(name="a.test", pages=Pages(12), sitemap=Sitemap())
    with web(site) as (farm, con):
        known = {}
        for where in ("", "WHERE path LIKE '/people/%'", "WHERE false"):
            rows = con.execute(f"EXPLAIN CRAWL (SELECT ?) INTO pages {where}", [farm.url("a.test")]).fetchall()
            known[where] = rows[-1][1]
        assert known[""] == 12
        assert 0 < known["WHERE path LIKE '/people/%'"] < 12
        assert known["WHERE false"] == 0
        assert paths_asked(farm) == []
        with pytest.raises(StatementError):
            con.execute("EXPLAIN CRAWL (SELECT 'a.test') INTO pages WHERE nothing = 1")


def test_an_answer_that_is_an_error_has_a_row_and_is_counted() -> None:
    site = Site(name="a.test", pages=SMALL, features=(Paths({"/gone": html("gone", 410)}),))
    with web(site) as (farm, con):
        row = con.execute(f"CRAWL (SELECT ?) INTO pages {FAST}", [farm.url("a.test", "/gone")]).fetchall()[0]
        assert row[1:4] == (0, 1, 0)
        assert con.execute("SELECT http_status, error_type FROM pages").fetchall() == [(410, "http_client_error")]


def test_where_chooses_what_is_fetched_and_extract_adds_columns() -> None:
    with web(Site(name="a.test", pages=Pages(12, size_bytes=2_000))) as (farm, con):
        con.execute(
            f"CRAWL (SELECT ?) INTO pages EXTRACT (css_select(body, 'h1')[1] AS heading, length(body) AS size) "
            f"WHERE path = '/' OR path LIKE '/people/%' WITH (follow_links true, {QUICK})",
            [farm.url("a.test")],
        )
        rows = con.execute("SELECT heading, size FROM pages WHERE http_status = 200").fetchall()
        assert 1 < len(rows) < 12
        assert all(heading and size > 1_000 for heading, size in rows)
        assert all(path == "/" or path.startswith("/people/") for path in paths_asked(farm))
        for wrong in (
            "EXTRACT (css_select(body, '['))",
            "EXTRACT (nothing)",
            "WHERE nothing = 1",
            "EXTRACT (1 AS url)",
        ):
            with pytest.raises(StatementError):
                con.execute(f"CRAWL (SELECT 'a.test') INTO other {wrong}")
        assert ("memory", "main", "other") not in tables(con)


def test_connect_is_public() -> None:
    with amble.connect() as con:
        assert isinstance(con, amble.Connection)
        assert con.execute("SELECT surt('http://a.test/')").fetchall()
