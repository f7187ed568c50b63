"""CRAWL against sites on loopback: its row, its table, what it refuses before anything happens, and how it ends."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest

import amble
from amble.errors import AmbleError, BadUrl, SettingsError, StatementError, StoreError
from amble.sql.connection import Connection, open_connection
from amble.sql.seeds import Seeds
from amble.store.tables import COLUMNS
from amble.testing.farm import Pages, Robots, Site, Sitemap
from amble.testing.farm.exchange import Response, html
from tests.sql.web import FAST, QUICK, Paths, paths_asked, proxy_server, web

SMALL = Pages(5, size_bytes=2_000)
SLOW = Site(name="slow.test", pages=Pages(200, size_bytes=2_000), robots=Robots(crawl_delay_s=0.05))


def tables(con: Connection) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = con.execute(
        "SELECT database_name, schema_name, table_name FROM duckdb_tables() ORDER BY ALL"
    ).fetchall()
    return found


def when(condition: Callable[[], Any], act: Callable[[], Any]) -> threading.Thread:
    """Do this as soon as that holds, in a thread."""

    def run() -> None:
        wait_for(condition)
        act()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def wait_for(condition: Callable[[], Any]) -> Any:
    """Until it holds; the limit of the test is the limit."""
    while not (found := condition()):
        time.sleep(0.01)
    return found


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
        assert [column[0] for column in con.description] == heads
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
        assert [column[0] for column in con.execute("FROM pages").description] == list(COLUMNS)
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


# --- options, SET and parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem", "hint"),
    [
        ("maxcrawlpages = 5", "unknown option 'maxcrawlpages'", "max_crawl_pages"),
        ("user_agnet = 'x'", "unknown option", "user_agent"),
        ("compress = true, compress = false", "compress is given twice", ""),
        ("http_timeout = 5, timeout_seconds = 6", "given twice", ""),
        ("max_total_connections = -1", "max_total_connections", ""),
        ("max_total_connections = 1000000000", "max_total_connections", ""),
        ("max_total_connections = 'NaN'", "max_total_connections", ""),
        ("max_total_connections = 1.5", "max_total_connections", ""),
        ("max_total_connections = true", "max_total_connections", ""),
        ("http_timeout = 'NaN'", "http_timeout", ""),
        ("http_timeout = NULL", "http_timeout", ""),
        ("compress = 'perhaps'", "compress", ""),
        ("user_agent = E'x\\r\\nX: y'", "user_agent", ""),
        ("user_agent = ''", "user_agent", ""),
        ("pacing = 'x''; DROP TABLE kept; --'", "pacing", ""),
        ("follow_links = false, max_crawl_depth = 3", "max_crawl_depth", ""),
        ("accept_content_types = ['text/*'], reject_content_types = ['text/*']", "both accepted and rejected", ""),
        ("http_proxy_password = 'x'", "http_proxy", ""),
        ("max_crawl_pages = $nothing", "no value for the parameter $nothing", ""),
    ],
)
def test_options_are_typed_and_ranged_and_mistakes_name_the_option(options: str, problem: str, hint: str) -> None:
    """E2: unknown, doubled, out of range or contradictory options are errors, and nothing changes."""
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        con.execute("CREATE TABLE kept (n INT)")
        before = tables(con)
        with pytest.raises((SettingsError, StatementError)) as refused:
            con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages WITH ({options})")
        assert problem in str(refused.value)
        assert hint in str(refused.value.hint)
        assert tables(con) == before
        assert farm.log() == []


def settings_of_last_job(con: Connection) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads(con.execute("SELECT settings FROM amble.jobs ORDER BY id DESC").fetchall()[0][0])
    return found


def test_with_wins_over_set_which_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "amble.toml").write_text('http_timeout = 11\nuser_agent = "file/1"\nmax_retries = 1\n')
    monkeypatch.chdir(tmp_path)
    with web() as (_, con):
        con.execute("SET http_timeout = 12; SET user_agent = 'set/1'")
        con.execute("CRAWL (SELECT NULL) INTO pages WITH (http_timeout = 13)")
        found = settings_of_last_job(con)
        assert (found["http_timeout"], found["user_agent"], found["max_retries"]) == (13, "set/1", 1)
        con.execute("RESET http_timeout; RESET user_agent; CRAWL (SELECT NULL) INTO pages")
        found = settings_of_last_job(con)
        assert (found["http_timeout"], found["user_agent"]) == (11, "file/1")


def test_what_set_gave_holds_for_every_cursor_and_for_no_other_connection() -> None:
    with web() as (_, con), web() as (_, other), con.cursor() as cursor:
        con.execute("SET timeout_seconds = 12")
        cursor.execute("CRAWL (SELECT NULL) INTO pages")
        other.execute("CRAWL (SELECT NULL) INTO pages")
        assert settings_of_last_job(con)["http_timeout"] == 12
        assert "http_timeout" not in settings_of_last_job(other)


@pytest.mark.parametrize("statement", ["SET http_timeout = -1", "SET user_agent = E'a\\nb'", "SET http_keep_alive = 7"])
def test_set_refuses_what_no_crawl_could_use(statement: str) -> None:
    with web() as (_, con), pytest.raises(SettingsError):
        con.execute(statement)


def test_settings_that_duckdb_has_stay_with_duckdb_and_are_read_when_a_crawl_starts() -> None:
    with web() as (_, con):
        con.execute("SET http_proxy = 'http://127.0.0.1:9'; SET http_proxy_username = 'u'")
        assert con.execute("SELECT current_setting('http_proxy')").fetchall() == [("http://127.0.0.1:9",)]
        con.execute("CRAWL (SELECT NULL) INTO pages")
        found = settings_of_last_job(con)
        assert (found["http_proxy"], found["http_proxy_username"]) == ("http://127.0.0.1:9", "u")
        con.execute("CRAWL (SELECT NULL) INTO pages WITH (http_proxy = '127.0.0.1:10')")
        found = settings_of_last_job(con)  # another proxy is not told who we are at the first
        assert (found["http_proxy"], found.get("http_proxy_username")) == ("http://127.0.0.1:10", None)


def test_the_settings_of_the_user_are_theirs_after_a_crawl() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        con.execute("SET threads = 1; SET memory_limit = '300MB'; SET preserve_insertion_order = false")
        before = con.execute("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall()
        con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages {FAST}")
        assert con.execute("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall() == before
        assert con.execute("SELECT current_database(), current_schema()").fetchall() == [("memory", "main")]


def test_parameters_go_into_the_select_the_options_and_the_limit() -> None:
    with web(Site(name="a.test", pages=Pages(9, size_bytes=2_000))) as (farm, con):
        url = farm.url("a.test")
        statement = f"CRAWL (SELECT ?) INTO pages WITH (follow_links = ?, {QUICK}) LIMIT ?"
        assert con.execute(statement, [url, True, 4]).fetchall()[0][1] == 4
        named = f"CRAWL (SELECT $url) INTO more WITH (follow_links = $links, {QUICK}) LIMIT $n"
        assert con.execute(named, {"url": url, "links": True, "n": 3}).fetchall()[0][1] == 3
        again = f"CRAWL (SELECT $1 UNION SELECT $1) INTO third {FAST} LIMIT $2"
        assert con.sql(again, params=[url, 1]).fetchall()[0][1] == 1
        con.executemany(f"CRAWL (SELECT ?) INTO each {FAST}", [[url], [farm.url("a.test", "/absent")]])
        assert con.execute("SELECT count(*) FROM each").fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        (None, "no value for the parameter $2"),
        (["a.test"], "no value for the parameter $2"),
        ({"2": 5}, "no value for the parameter $1"),
        (["a.test", 1, 2], "no place in the statement takes the parameter $3"),
        (["a.test", "many"], "a whole number from 1 on"),
        (["a.test", 0], "a whole number from 1 on"),
        ({"1": "a.test", "2": 1, "x": 3}, "takes the parameter $x"),
    ],
)
def test_parameters_that_are_missing_or_too_many_or_wrong_are_refused(parameters: Any, problem: str) -> None:
    with web() as (_, con), pytest.raises(StatementError) as refused:
        con.execute("CRAWL (SELECT ?) INTO pages LIMIT ?", parameters)
    assert problem in str(refused.value)


# --- while it runs -------------------------------------------------------------------------------------------------


def test_a_crawl_inside_a_transaction_is_refused_with_a_hint() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        con.execute("BEGIN; CREATE TABLE mine (a INT)")
        for statement in (f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages", "RESUME CRAWL 1"):
            with pytest.raises(StatementError, match="inside a transaction") as refused:
                con.execute(statement)
            assert "COMMIT" in str(refused.value.hint)
        con.execute("INSERT INTO mine VALUES (1); COMMIT")  # it is still open, and whole
        assert con.execute("FROM mine").fetchall() == [(1,)]
        assert farm.log() == []


def test_rows_are_seen_by_others_while_it_runs_and_it_can_be_paused_resumed_and_stopped() -> None:
    with web(SLOW) as (farm, con), ThreadPoolExecutor(1) as pool:
        with con.cursor() as cursor:
            statement = f"CRAWL (SELECT '{farm.url('slow.test')}') INTO pages WITH (follow_links = true, {QUICK})"
            crawl = pool.submit(lambda: cursor.execute(statement).fetchall())
            wait_for(lambda: ("memory", "main", "pages") in tables(con))
            wait_for(lambda: con.execute("SELECT count(*) FROM pages").fetchall()[0][0] > 0)
            assert not crawl.done()
            assert con.execute("PAUSE CRAWL 1").fetchall() == [(1, "paused")]
            wait_for(lambda: con.execute("SELECT status FROM amble.jobs").fetchall() == [("paused",)])
            wait_for(lambda: all(entry.ended is not None for entry in farm.log()))
            asked = len(farm.log())
            resumed = pool.submit(lambda: None)  # the crawl waits, and nothing else does
            assert not resumed.done()
            assert len(farm.log()) == asked
            with con.cursor() as third:
                going_on = threading.Thread(target=lambda: third.execute("RESUME CRAWL 1").fetchall())
                going_on.start()
                wait_for(lambda: len(farm.log()) > asked)
                assert con.execute("STOP CRAWL 1").fetchall() == [(1, "paused")]
                going_on.join()
            row = crawl.result()[0]
        assert row[0] == 1
        assert 0 < row[1] < 200
        assert con.execute("SELECT count(*) FROM pages WHERE http_status = 200").fetchall() == [(row[1],)]


def test_a_stopped_crawl_is_resumed_with_what_is_left() -> None:
    with web(Site(name="a.test", pages=Pages(30, size_bytes=2_000), robots=Robots(crawl_delay_s=0.02))) as (farm, con):
        statement = f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages WITH (follow_links = true, {QUICK})"
        stopper = when(lambda: len(farm.log()) > 5, con.interrupt)
        with pytest.raises(duckdb.InterruptException, match="RESUME CRAWL 1"):
            con.execute(statement)
        stopper.join()
        first = con.execute("SELECT count(*) FROM pages").fetchall()[0][0]
        assert 0 < first < 30
        second = con.execute("RESUME CRAWL 1").fetchall()[0]
        assert (second[0], first + second[1]) == (1, 30)
        assert con.execute("SELECT count(*), count(DISTINCT url) FROM pages").fetchall() == [(30, 30)]
        with pytest.raises(StoreError, match="is over"):
            con.execute("STOP CRAWL 1")


def test_a_job_is_resumed_with_the_password_of_today() -> None:
    """It is never stored, so whoever goes on must have it."""
    one = Site(name="a.test", pages=Pages(20, size_bytes=2_000), robots=Robots(crawl_delay_s=0.02))
    with web(one) as (farm, con), proxy_server("me", "secret") as server:
        con.execute(f"SET http_proxy = 'http://127.0.0.1:{server.server_port}'; SET http_proxy_username = 'me'")
        con.execute("SET http_proxy_password = 'secret'")
        stopper = when(lambda: len(farm.log()) > 5, con.interrupt)
        with pytest.raises(duckdb.InterruptException):
            con.execute(f"CRAWL (SELECT ?) INTO pages WITH (follow_links = true, {QUICK})", [farm.url("a.test")])
        stopper.join()
        con.execute("RESUME CRAWL 1")
        assert con.execute("SELECT count(*) FROM pages WHERE http_status = 200").fetchall() == [(20,)]
        with pytest.raises(StoreError, match="is over"):
            con.execute("RESUME CRAWL 1")


@pytest.mark.parametrize("statement", ["RESUME CRAWL 7", "PAUSE CRAWL 7", "STOP CRAWL 7"])
def test_a_job_that_does_not_exist_is_no_job(statement: str) -> None:
    with web() as (_, con), pytest.raises(StoreError, match="no job 7"):
        con.execute(statement)


def test_ctrl_c_stops_politely_and_says_how_to_go_on() -> None:
    """F2: what was fetched is stored, and the job can be taken up."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("only the main thread is interrupted")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with web(SLOW) as (farm, con):
        main = threading.main_thread().ident
        assert main is not None
        presser = when(lambda: len(farm.log()) > 5, lambda: signal.pthread_kill(main, signal.SIGINT))
        with pytest.raises(KeyboardInterrupt) as interrupted:
            con.execute(f"CRAWL (SELECT '{farm.url('slow.test')}') INTO pages WITH (follow_links = true, {QUICK})")
        presser.join()
        signal.signal(signal.SIGINT, before)
        assert "RESUME CRAWL 1" in str(interrupted.value)
        counts = con.execute("SELECT count(*), count(http_status) FROM pages").fetchall()[0]
        fetched = sum(entry.complete and not entry.is_robots and entry.status == 200 for entry in farm.log())
        assert counts == (fetched, fetched)
        assert con.execute("SELECT status FROM amble.jobs").fetchall() == [("paused",)]
        assert con.execute("SELECT 1").fetchall() == [(1,)]


def test_a_second_ctrl_c_stops_at_once() -> None:
    """F2: what hangs is not waited for, and goes back to the job."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("only the main thread is interrupted")
    main = threading.main_thread().ident
    assert main is not None
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with web(Site(name="a.test", pages=SMALL, features=(Paths({"/x": Response(broken="hang")}),))) as (farm, con):

        def press_twice() -> None:
            signal.pthread_kill(main, signal.SIGINT)
            wait_for(lambda: con._running is not None and con._running.job.plan.frontier.draining)
            signal.pthread_kill(main, signal.SIGINT)

        presser = when(lambda: len(farm.log()) == 2, press_twice)
        patient = f"{FAST[:-1]}, http_timeout = 3600, header_timeout_s = 3600)"
        with pytest.raises(KeyboardInterrupt, match="RESUME CRAWL 1"):
            con.execute(f"CRAWL (SELECT ?) INTO pages {patient}", [farm.url("a.test", "/x")])
        presser.join()
        signal.signal(signal.SIGINT, before)
        assert con.execute("SELECT count(*) FROM pages").fetchall() == [(0,)]
        farm.replace(Site(name="a.test", pages=SMALL, features=(Paths({"/x": html("<title>back</title>")}),)))
        assert con.execute("RESUME CRAWL 1").fetchall()[0][1] == 1


def test_crawls_of_two_cursors_at_once_share_the_database_and_lose_nothing() -> None:
    sites = [Site(name=f"{name}.test", pages=Pages(12, size_bytes=2_000)) for name in "abc"]
    with web(*sites) as (farm, con), ThreadPoolExecutor(3) as pool:

        def crawl(n: int, url: str) -> tuple[Any, ...]:
            with con.cursor() as cursor:
                statement = f"CRAWL (SELECT ?) INTO pages_{n % 2} WITH (follow_links true, {QUICK})"
                row: tuple[Any, ...] = cursor.execute(statement, [url]).fetchall()[0]
                return row

        rows = list(pool.map(crawl, range(3), farm.roots()))
        assert sorted(row[0] for row in rows) == [1, 2, 3]
        assert [row[1] for row in rows] == [12, 12, 12]
        both = con.execute(
            "SELECT count(*) FROM (SELECT url FROM pages_0 UNION ALL SELECT url FROM pages_1)"
        ).fetchall()
        assert both == [(36,)]


def test_a_crawl_goes_on_when_the_connection_that_opened_the_store_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    quick, slow = (
        Site(name=name, pages=Pages(count, size_bytes=2_000), robots=Robots(crawl_delay_s=0.1))
        for name, count in (("a.test", 5), ("b.test", 10))
    )
    with web(quick, slow, path=file) as (farm, con):
        other = open_connection(file, {}, ways={"policy": farm.policy, "resolver": farm.resolver})
        with other, ThreadPoolExecutor(2) as pool:
            statement = f"CRAWL (SELECT ?) INTO pages WITH (follow_links = true, {QUICK})"
            first = con.cursor()
            opening = pool.submit(lambda: first.execute(statement, [farm.url("a.test")]).fetchall())
            wait_for(farm.log)
            crawl = pool.submit(lambda: other.execute(statement, [farm.url("b.test")]).fetchall())
            assert opening.result()[0][1] == 5
            first.close()
            con.close()
            assert not crawl.done()
            assert crawl.result()[0][1] == 10
            assert other.execute("SELECT count(*) FROM pages").fetchall() == [(15,)]
            assert other.execute("SELECT count(DISTINCT id) FROM amble.jobs").fetchall() == [(2,)]


def test_explain_fetches_no_page_and_tells_what_a_crawl_would_do() -> None:
    site = Site(name="a.test", pages=Pages(9), robots=Robots(crawl_delay_s=0.05))
    with web(site) as (farm, con):
        rows = con.execute(f"EXPLAIN CRAWL (SELECT '{farm.url('a.test')}') INTO pages {FAST}").fetchall()
        heads = [column[0] for column in con.description]
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


def test_current_setting_knows_what_set_gave_us() -> None:
    with amble.connect() as con:
        ask = "SELECT current_setting('max_rate'), CURRENT_SETTING('follow_links') /* 'max_rate' */"
        assert con.execute(ask).fetchall() == [(8.0, "auto")]
        con.execute("SET max_rate = 2.5; SET http_timeout = 7; SET accept_content_types = ['text/html', 'x/y''s']")
        assert con.execute(ask).fetchall() == [(2.5, "auto")]
        assert con.sql("SELECT current_setting('timeout_seconds') + $1", params=[1]).fetchall() == [(8.0,)]
        assert con.execute("SELECT current_setting('accept_content_types')").fetchall() == [(["text/html", "x/y's"],)]
        con.execute("RESET max_rate")
        assert con.execute(f"SELECT 1; {ask}; ").fetchall() == [(8.0, "auto")]
        assert con.execute("SELECT current_setting('threads') > 0, 'current_setting(''max_rate'')'").fetchall() == [
            (True, "current_setting('max_rate')")
        ]
        with pytest.raises(duckdb.CatalogException):
            con.execute("SELECT current_setting('no_such_setting')")


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
