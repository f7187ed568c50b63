"""Text of strangers, everywhere that text goes in: nothing of it is executed, nothing is lost [E1, E2, E4, E7]."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from typing import Any

import duckdb
import pytest

from amble.errors import AmbleError, BadUrl
from amble.sql.caller import Caller
from amble.sql.connection import Connection
from amble.sql.parse import parse
from amble.sql.seeds import read_seeds
from amble.sql.statements import Crawl, Plain
from amble.store.database import quote, quote_text
from amble.testing.farm import Pages, Site
from amble.testing.farm.exchange import HTML, Request, Response
from tests.conformance import conformance
from tests.sql.web import FAST, Paths, web

FILES = ("Generic-SQLi.txt", "SQLi-Polyglots.txt", "URI-XSS.fuzzdb.txt", "XSS-Jhaddix.txt", "XSS-Vectors-Mario.txt")


def strings() -> list[str]:
    """Every string of the collections, each once."""
    found = json.loads(conformance("security/blns.json").read_text())
    for name in FILES:
        found += conformance(f"security/{name}").read_text(errors="replace").splitlines()
    return list(dict.fromkeys(text for text in found if isinstance(text, str)))


def objects(con: Connection) -> set[tuple[Any, ...]]:
    """Everything there is in the database, but for what a crawl makes for itself."""
    found: list[tuple[Any, ...]] = con.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() UNION ALL "
        "SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal"
    ).fetchall()
    return {(schema, name) for schema, name in found if schema != "amble"}


def can_be_a_name(text: str) -> bool:
    return bool(text) and "\0" not in text


def test_every_string_is_one_statement_when_it_is_quoted_as_sql_quotes() -> None:
    """As a name, as a string, between dollars, in a comment: what follows it is still seen, and as itself."""
    count = 0
    for text in strings():
        if "\0" in text:
            continue
        count += 1
        name = quote(text or "x")
        found = parse(f"CRAWL (SELECT {quote_text(text)}) INTO {name} WITH (user_agent = {quote_text(text)}); SELECT 1")
        assert len(found) == 2, text
        crawl, after = found
        assert isinstance(crawl, Crawl)
        assert crawl.target == (text or "x",)
        assert crawl.select == f"SELECT {quote_text(text)}"
        assert crawl.options[0].value == text
        assert after == Plain(" SELECT 1")
        line = text.replace("\n", " ").replace("\r", " ").replace("\u2028", " ").replace("\x0b", " ")
        commented = parse(f"SELECT 2; -- {line}\nCRAWL (SELECT 'x') INTO t")
        assert commented[-1] == Crawl("SELECT 'x'", ("t",)), text
    assert count > 900


def test_no_string_without_its_quotes_gets_further_than_an_error() -> None:
    """E1: pasted as it is behind INTO, it is an error, or a statement of its own that is seen as such."""
    for text in strings():
        try:
            found = parse(f"CRAWL (SELECT 'x') INTO {text}")
        except AmbleError:
            continue
        crawl, *more = found
        assert isinstance(crawl, Crawl | Plain), text  # Plain: half a character, for DuckDB to refuse
        assert not more or ";" in text, text


def test_table_names_are_names() -> None:
    """E1: some of the strings as the name of a table, in a real crawl of nothing."""
    with web() as (_, con):
        con.execute("CREATE TABLE kept AS SELECT 1 AS n; CREATE TABLE users AS SELECT 1 AS n")
        before = objects(con)
        names = [text for text in strings() if can_be_a_name(text)][::160]
        for name in names:
            con.execute(f"CRAWL (SELECT NULL) INTO {quote(name)}")
        made = {name for schema, name in objects(con) - before if schema == "main"}
        assert {name.casefold() for name in made} == {name.casefold() for name in names}
        assert con.execute("SELECT (SELECT n FROM kept), (SELECT n FROM users)").fetchall() == [(1, 1)]


def test_a_name_of_ten_thousand_characters_is_a_name() -> None:
    with web() as (_, con):
        con.execute(f"CRAWL (SELECT NULL) INTO {quote('x' * 10_000)}")
        assert ("main", "x" * 10_000) in objects(con)


def test_seeds_are_urls_or_errors() -> None:
    """Every string as a seed: a URL, or an error that can be shown on a terminal."""
    with duckdb.connect() as con:
        refused = []
        for text in [text for text in strings() if "\0" not in text]:
            try:
                seeds = read_seeds(con, "SELECT $1", {"1": text}, Caller.above(0))
            except BadUrl as error:
                refused.append(error.message)
            else:
                assert all(url.startswith(("http://", "https://")) for url in seeds.urls), text
        assert len(refused) > 500
        assert all(message.isprintable() for message in refused)  # E7: they can be shown as they are


@pytest.mark.parametrize("option", ["user_agent", "pacing", "http_proxy", "accept_content_types", "max_crawl_pages"])
def test_values_of_options_are_values(option: str) -> None:
    """E2: taken as they are, or refused; never run, and never part of a header that they should not be in."""
    with web() as (_, con):
        con.execute("CREATE TABLE kept AS SELECT 1 AS n")
        for text in [text for text in strings() if "\0" not in text][::200]:
            try:
                con.execute(f"CRAWL (SELECT NULL) INTO pages WITH ({option} = {quote_text(text)})")
            except AmbleError:
                continue
            settings = json.loads(con.execute("SELECT settings FROM amble.jobs ORDER BY id DESC").fetchall()[0][0])
            if option == "user_agent":
                assert settings[option] == text
                assert all(" " <= c <= "~" for c in text)
        assert con.execute("FROM kept").fetchall() == [(1,)]


@lru_cache
def titles() -> tuple[str, ...]:
    """Strings that HTML can hold as a title without changing them."""
    return tuple(
        text
        for text in strings()
        if text and text.isprintable() and text == " ".join(text.split()) and "\ufffd" not in text
    )[::5]


def hostile_pages() -> Iterator[tuple[str, Any]]:
    for n, text in enumerate(titles()):
        visible = "".join(c for c in text if "!" <= c <= "~" or c == " ")

        def answer(request: Request, text: str = text, visible: str = visible) -> Response:
            page = f"<!doctype html><meta charset=utf-8><title>{escape(text)}</title><p>{escape(text)}"
            headers = {"Content-Type": HTML, "ETag": f'"{visible.replace(chr(34), "")}"', "X-Powered-By": visible}
            return Response(200, headers, (page.encode(),))

        yield f"/{n}", answer


def test_titles_headers_and_bodies_of_strangers_are_stored_as_they_are() -> None:
    with web(Site(name="a.test", pages=Pages(1), features=(Paths(dict(hostile_pages())),))) as (farm, con):
        con.execute("CREATE TABLE kept AS SELECT 1 AS n")
        seeds = [farm.url("a.test", f"/{n}") for n in range(len(titles()))]
        row = con.execute(f"CRAWL (SELECT unnest(?)) INTO pages {FAST}", [seeds]).fetchall()[0]
        assert row[1:4] == (len(seeds), 0, 0)
        found = dict(con.execute("SELECT url, title FROM pages").fetchall())
        assert [found[url] for url in seeds] == list(titles())
        counts = con.execute("SELECT count(*) FILTER (contains(body, '<p>')), count(etag) FROM pages").fetchall()
        short = sum(len(title) < 1_000 for title in titles())  # E4: a longer validator is of no use to anybody
        assert counts == [(len(seeds), short)]
        assert con.execute("FROM kept").fetchall() == [(1,)]
