"""What WITH, SET, DuckDB's settings and parameters say about a crawl, and how it can be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import amble
from amble.errors import SettingsError, StatementError
from amble.settings import SYNONYMS
from amble.sql import options
from amble.sql.connection import Connection
from amble.testing.farm import Pages, Site
from tests.sql.web import FAST, QUICK, SMALL, tables, web

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
        ("min_crawl_delay = 10, max_crawl_delay = 5", "min_crawl_delay is above max_crawl_delay", ""),
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


@pytest.mark.parametrize(
    ("before", "option", "limit", "most"),
    [
        ("", "max_crawl_pages = 2", 6, 2),
        ("", "max_crawl_pages = '2'", 6, 2),
        ("", "max_crawl_pages = '9'", 6, 6),
        ("SET max_crawl_pages = 2", "compress = true", 6, 2),
        ("SET max_crawl_pages = '9'", "compress = true", 6, 6),
        ("SET max_crawl_pages = 2", "max_crawl_pages = '4'", 6, 4),
        ("", "compress = true", 6, 6),
    ],
)
def test_of_limit_and_max_crawl_pages_the_smaller_holds(before: str, option: str, limit: int, most: int) -> None:
    with web() as (_, con):
        con.execute(before)
        con.execute(f"CRAWL (SELECT NULL) INTO pages WITH ({option}) LIMIT {limit}")
        assert settings_of_last_job(con)["max_crawl_pages"] == most


@pytest.mark.parametrize(
    ("config", "then", "threads"),
    [
        ({"threads": 1}, "", 1),
        ({"THREADS": "1"}, "", 1),
        ({"worker_threads": 1}, "", 1),
        ({"threads": 1}, "SET threads = 3", 3),
        ({"memory_limit": "1GB"}, "", None),
    ],
)
def test_threads_in_the_config_of_a_connection_are_those_of_its_crawls(
    config: dict[str, Any], then: str, threads: int | None
) -> None:
    with web(config=config) as (_, con):
        con.execute(then)
        con.execute("CRAWL (SELECT NULL) INTO pages")
        assert settings_of_last_job(con).get("threads") == threads


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


# --- the list of them ----------------------------------------------------------------------------------------------


def test_every_setting_is_listed_with_who_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "amble.toml").write_text("max_retries = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AMBLE_USER_AGENT", "variable/1")
    with amble.connect() as con:
        con.execute("SET max_rate = 2.5; SET accept_content_types = ['text/html', 'text/plain']")
        con.execute("SET http_proxy = 'http://127.0.0.1:9'; SET http_proxy_username = 'u'")
        con.execute("SET http_proxy_password = 'secret'")
        listed = {row[0]: row[1:4] for row in con.execute("FROM amble.settings").fetchall()}
        assert set(listed) | set(SYNONYMS) == options.names()
        assert listed["max_rate"] == ("2.5", "SET", "8")
        assert listed["max_retries"] == ("1", str(tmp_path / "amble.toml"), "5")
        assert listed["user_agent"][:2] == ("variable/1", "AMBLE_USER_AGENT")
        assert listed["http_proxy"][:2] == ("http://127.0.0.1:9", "SET, to DuckDB")
        assert listed["http_proxy_password"][0] == "(set)"
        assert listed["accept_content_types"][0] == "text/html,text/plain"
        assert listed["compress"] == ("true", "default", "true")
        assert con.sql("SELECT s.value FROM amble.settings() s WHERE name = 'max_rate'").fetchall() == [("2.5",)]
        con.execute("RESET max_rate")
        assert con.execute("SELECT source FROM amble.settings WHERE name = 'max_rate'").fetchall() == [("default",)]


def test_what_is_listed_can_be_set() -> None:
    with amble.connect() as con:
        for name, value in con.execute("SELECT name, value FROM amble.settings WHERE value <> ''").fetchall():
            con.execute(f"SET {name} = '{value}'")


def test_duckdb_lists_our_settings_beside_its_own() -> None:
    with amble.connect() as con, duckdb.connect() as plain:
        con.execute("SET max_rate = 2.5")
        every = con.execute("SELECT name FROM duckdb_settings() ORDER BY name").fetchall()
        theirs = plain.execute("SELECT name FROM duckdb_settings()").fetchall()
        assert len(every) == len(set(every))
        assert {name for (name,) in every} == {name for (name,) in theirs} | options.names() - set(SYNONYMS)
        query = "SELECT s.value, input_type, scope FROM duckdb_settings() s WHERE name = 'max_rate'"
        assert con.execute(query).fetchall() == [("2.5", "DOUBLE", "LOCAL")]
        assert [column[0] for column in con.execute("FROM duckdb_settings()").description or ()] == [
            column[0] for column in plain.execute("FROM duckdb_settings()").description
        ]


@pytest.mark.parametrize(
    "statement", ["SET {} = 3", "RESET {}", "SELECT 1; SET {} = 3", "SELECT current_setting('{}')"]
)
def test_a_setting_that_nobody_knows_is_told_with_the_nearest_of_ours(statement: str) -> None:
    with amble.connect() as con:
        for ask in (con.execute, con.sql):
            with pytest.raises(duckdb.CatalogException, match="did you mean 'max_retries'"):
                ask(statement.format("max_retrys"))
            with pytest.raises(duckdb.CatalogException) as refused:
                ask(statement.format("nothing_of_the_kind"))
            assert "CRAWL" not in str(refused.value)


def test_current_setting_gives_values_of_their_own_type() -> None:
    names = ("max_rate", "max_retries", "compress", "user_agent", "accept_content_types")
    with amble.connect() as con:
        asked = ", ".join(f"typeof(current_setting('{name}'))" for name in names)
        (types,) = con.execute(f"SELECT {asked}").fetchall()
    assert types == ("DOUBLE", "INTEGER", "BOOLEAN", "VARCHAR", "VARCHAR[]")
