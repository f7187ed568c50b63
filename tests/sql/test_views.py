"""Views for those who look after a site: pages, links, and what changed between two crawls."""

from __future__ import annotations

from pathlib import Path

import duckdb

from amble.store.database import Database
from amble.store.duckdb_store import DuckDBStore
from amble.store.names import TableName
from amble.store.tables import create
from amble.testing.farm import Pages, Site
from amble.testing.farm.exchange import Request, Response, html, not_found, redirect
from tests.sql.web import QUICK, Paths, web

FOLLOW = f"WITH (follow_links = true, respect_nofollow = false, {QUICK})"


def test_seo_pages() -> None:
    site = Site(
        name="a.test",
        pages=Pages(0),
        features=(
            Paths({
                "/": html(
                    "<title>Home page</title><meta name=description content='Four words of text'>"
                    "<link rel=canonical href='/'><script>not words</script><p>one two <b>three</b></p>"
                    "<a href=/b>b</a><a href=/b>again</a><a href=/moved>m</a><a href=/gone>g</a>"
                    "<a href=/hidden>h</a><a href=https://other.test/>o</a><a href=/>self</a>"
                ),
                "/b": html("<title>B</title><link rel=canonical href='/'><a href=/>home</a>"),
                "/moved": redirect(301, "/target"),
                "/target": html("<title>T</title>"),
                "/gone": not_found(),
                "/hidden": html("<title>H</title><meta name=robots content=noindex>"),
            }),
        ),
    )  # fmt: skip
    with web(site) as (farm, con):
        con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO main.\"my pages\" {FOLLOW}")
        rows = con.execute(
            "SELECT parse_path(url)[-1], status, title_length, description_length, canonical_is_self, depth, inlinks, "
            "outlinks, outlinks_external, redirects, indexable, not_indexable_because FROM amble.seo_pages ORDER BY 1"
        ).fetchall()
        by_name = {row[0]: row[1:] for row in rows}
        host = farm.url("a.test").removeprefix("http://").removesuffix("/")
        home = by_name.get("", by_name.get(host))
        assert home == (200, 9, 18, True, 0, 1, 6, 1, 0, True, None)
        assert by_name["b"] == (200, 1, None, False, 1, 1, 1, 0, 0, False, "canonical is another URL")
        assert by_name["gone"][-2:] == (False, "status 404")
        assert by_name["hidden"][-2:] == (False, "noindex")
        assert by_name["moved"][8:] == (1, False, "redirect")
        words = con.execute(f"SELECT words FROM amble.seo_pages('\"my pages\"') WHERE url = '{farm.url('a.test')}'")
        assert words.fetchall() == [(12,)]  # what is read, tags and scripts left out
        broken = con.execute("SELECT count(*) FROM amble.page_links WHERE to_status = 404").fetchall()
        assert broken == [(1,)]


def test_changes_between_two_crawls() -> None:
    edition = [1]

    def versioned(request: Request) -> Response:
        second = edition[0] == 2
        titles = {
            "/": '<a href="/same">s</a><a href="/edited">e</a>' + ('<a href="/fresh">f</a>' if second else "")
            + '<a href="/deleted">d</a><a href="/flaky">y</a>' + ("" if second else '<a href="/unlinked">u</a>'),
            "/same": "same",
            "/edited": f"edition {edition[0]}",
            "/unlinked": "u",
        }  # fmt: skip
        if request.path == "/fresh":
            return html("new") if second else not_found()
        if request.path == "/deleted":
            return not_found() if second else html("d")
        if request.path == "/flaky":
            return html("", 403) if second else html("y")
        return html(titles[request.path]) if request.path in titles else not_found()

    paths = ("/", "/same", "/edited", "/fresh", "/deleted", "/flaky", "/unlinked")
    site = Site(name="a.test", pages=Pages(0), features=(Paths(dict.fromkeys(paths, versioned)),))
    with web(site) as (farm, con):
        url = farm.url("a.test")
        con.execute(f"CRAWL (SELECT '{url}') INTO pages {FOLLOW}")
        edition[0] = 2
        con.execute("CREATE TABLE before AS FROM pages")
        con.execute("DELETE FROM pages")
        con.execute(f"CRAWL (SELECT '{url}') INTO pages {FOLLOW}")
        rows = con.execute("SELECT regexp_extract(url, '[^/]*$'), change FROM amble.changes ORDER BY 1").fetchall()
        assert rows == [
            ("", "changed"), ("deleted", "gone"), ("edited", "changed"), ("flaky", "failed"), ("fresh", "new"),
            ("unlinked", "not visited"),
        ]  # fmt: skip
        assert con.execute("SELECT count(*) FROM amble.changes_between(1, 1)").fetchall() == [(0,)]


def test_a_page_that_the_server_says_is_the_same_has_not_changed() -> None:
    with web(Site(name="a.test", pages=Pages(6, size_bytes=500))) as (farm, con):
        options = f"WITH (follow_links = true, update_stale = true, {QUICK})"
        for _ in range(2):
            con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages {options}")
        assert con.execute("SELECT count(*) FROM amble.history WHERE http_status = 304").fetchall() == [(6,)]
        assert con.execute("FROM amble.changes").fetchall() == []


def test_a_crawl_for_one_statement_leaves_the_views_where_they_are() -> None:
    with web(Site(name="a.test", pages=Pages(3, size_bytes=500))) as (farm, con):
        url = farm.url("a.test")
        for _ in range(2):
            con.execute(f"CRAWL (SELECT '{url}') INTO pages WITH (follow_links = true, {QUICK})")
            con.execute("DELETE FROM pages")
        con.execute("DELETE FROM amble.history WHERE job_id = 1")
        con.execute(f"FROM crawl('{url}', follow_links := true, pacing := 'fixed', fixed_delay := 0)")
        assert con.execute("SELECT count(*) FROM amble.seo_pages").fetchall() == [(0,)]  # pages, which is empty
        assert con.execute("SELECT change, count(*) FROM amble.changes GROUP BY 1").fetchall() == [("new", 3)]


def test_views_read_large_tables_in_time_near_their_size() -> None:
    """Nothing is joined with everything."""
    with duckdb.connect() as connection:
        store = DuckDBStore(Database.over(connection))
        create(connection, TableName.of("main", "pages"))
        views = ("amble.seo_pages('pages')", "amble.page_links('pages')", "amble.changes_between(1, 2)")
        plans = [str(connection.execute(f"EXPLAIN SELECT * FROM {view}").fetchall()) for view in views]
        store.close()
    for plan in plans:
        assert "NESTED_LOOP" not in plan
        assert "CROSS_PRODUCT" not in plan
        assert "BLOCKWISE" not in plan


def test_the_views_work_in_plain_duckdb_on_a_file_of_ours(tmp_path: Path) -> None:
    path, pages = tmp_path / "site.duckdb", 20_000
    store = DuckDBStore.open(path)
    with store.database.connect() as cursor:
        create(cursor, TableName.of("main", "pages"))
        cursor.execute(
            f"INSERT INTO pages (url, http_status, title, final_url, redirect_count, depth, job_id) "
            f"SELECT 'https://a.test/' || i, 200, 't' || i, 'https://a.test/' || i, 0, 1, 1 FROM range({pages}) r(i)"
        )
        cursor.execute(
            "INSERT INTO amble.link_lines SELECT i, 1, 'https://a.test/' || i, 10, (SELECT string_agg("
            f"'https://a.test/' || ((i * 7 + j) % {pages}), chr(10)) FROM range(10) s(j)) FROM range({pages}) r(i)"
        )
    store.close()
    with duckdb.connect(path, read_only=True) as plain:
        found = plain.execute("SELECT count(*), sum(inlinks), sum(outlinks) FROM amble.seo_pages('pages')").fetchall()
        links = plain.execute("SELECT count(*), count(to_status) FROM amble.page_links('pages')").fetchall()
    assert found[0][0] == pages
    assert found[0][2] == 10 * pages
    assert links == [(10 * pages, 10 * pages)]
