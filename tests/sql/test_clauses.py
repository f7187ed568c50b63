"""WHERE and EXTRACT of a CRAWL, against sites on loopback, and after a stop."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pytest

from amble.errors import StatementError
from amble.sql.connection import open_connection
from amble.testing.farm import Pages, Robots, Site, Sitemap
from amble.testing.farm.exchange import Request, Response, html
from tests.sql.web import QUICK, Paths, paths_asked, web

SHOP = Site(
    name="a.test",
    pages=Pages(0),
    features=(
        Paths({
            "/": html('<title>Shop</title><a href="/p/1">1</a><a href="/p/x">x</a><a href="/about">a</a>'),
            "/p/1": html('<title>Mug</title><b class=price>9.5</b><a href="/p/2">2</a>'),
            "/p/2": html("<title>Cup</title><b class=price>soon</b>"),
            "/p/x": html("<title>X</title>"),
            "/about": html("<title>About</title>"),
        }),
    ),
)  # fmt: skip
FOLLOW = f"WITH (follow_links = true, {QUICK})"


def test_where_says_which_urls_are_fetched_and_the_others_get_a_row_that_says_so() -> None:
    with web(SHOP) as (farm, con):
        row = con.execute(
            f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages WHERE path = '/' OR path SIMILAR TO '/p/[0-9]+' {FOLLOW}"
        ).fetchall()[0]
        assert sorted(paths_asked(farm)) == ["/", "/p/1", "/p/2"]
        rows = con.execute("SELECT regexp_extract(url, '[^/]*$'), error_type, error FROM pages ORDER BY 1").fetchall()
        why = "the WHERE of the crawl does not hold"
        assert rows == [
            ("", None, None), ("1", None, None), ("2", None, None), ("about", "out_of_scope", why),
            ("x", "out_of_scope", why),
        ]  # fmt: skip
        assert row[1:4] == (3, 0, 2)  # pages, errors, skipped


def test_rejected_urls_get_no_row_where_skipped_ones_are_not_logged() -> None:
    with web(SHOP) as (farm, con):
        con.execute(
            f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages WHERE depth = 0 "
            f"WITH (follow_links = true, log_skipped = false, {QUICK})"
        )
        assert con.execute("SELECT count(*) FROM pages").fetchall() == [(1,)]


def test_seeds_are_judged_too() -> None:
    with web(SHOP) as (farm, con):
        row = con.execute(
            f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages WHERE path LIKE '/p/%' {FOLLOW}"
        ).fetchall()[0]
        assert paths_asked(farm) == []
        assert row[1:4] == (0, 0, 1)


def test_what_sitemaps_list_is_judged() -> None:
    pages = Pages(20, size_bytes=500)
    site = Site(name="a.test", pages=pages, sitemap=Sitemap())
    wanted = sorted(path for path in pages.paths() if path.endswith("3") or path == "/")
    with web(site) as (farm, con):
        con.execute(
            f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages WHERE path = '/' OR path LIKE '%3' WITH ({QUICK})"
        )
        assert sorted(paths_asked(farm)) == wanted


def test_a_page_that_is_stored_stays_when_a_later_where_does_not_want_it() -> None:
    with web(SHOP) as (farm, con):
        seed = f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages"
        con.execute(f"{seed} {FOLLOW}")
        con.execute(f"{seed} WHERE path = '/' {FOLLOW}")
        assert con.execute("SELECT count(*) FROM pages WHERE error_type IS NULL").fetchall() == [(5,)]


def test_extract_stores_what_is_read_from_each_page() -> None:
    with web(SHOP) as (farm, con):
        con.execute(
            f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages EXTRACT (htmlpath(body, '.price')::DOUBLE AS price, "
            f"css_select(body, 'a', '@href') AS hrefs, upper(title) AS \"LOUD\") WHERE path <> '/about' {FOLLOW}"
        )
        rows = con.execute('SELECT title, price, hrefs, "LOUD", body IS NOT NULL FROM pages ORDER BY title').fetchall()
        assert rows == [
            ("Cup", None, [], "CUP", True),  # 'soon' is no number
            ("Mug", 9.5, ["/p/2"], "MUG", True),
            ("Shop", None, ["/p/1", "/p/x", "/about"], "SHOP", True),
            ("X", None, [], "X", True),
            (None, None, None, None, False),  # not wanted
        ]
        con.execute(f"CRAWL (SELECT '{farm.url('a.test', '/about')}') INTO pages {FOLLOW}")  # without EXTRACT
        assert con.execute("SELECT price, \"LOUD\" FROM pages WHERE title = 'About'").fetchall() == [(None, None)]


@pytest.mark.parametrize(
    "clauses",
    [
        "EXTRACT (css_select(body, '[') AS x)",
        "EXTRACT (nowhere AS x)",
        "EXTRACT (length(body) AS title)",
        "WHERE body LIKE '%x%'",
        "WHERE url = ",
    ],
)
def test_what_is_wrong_is_told_before_anything_is_made_or_fetched(clauses: str) -> None:
    with web(SHOP) as (farm, con):
        with pytest.raises(StatementError):
            con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages {clauses} {FOLLOW}")
        assert farm.log() == []
        assert con.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]


def test_a_column_of_another_type_is_told_and_nothing_is_fetched() -> None:
    with web(SHOP) as (farm, con):
        con.execute(
            f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages EXTRACT (length(title) AS n) WHERE depth = 0 {FOLLOW}"
        )
        asked = len(farm.log())
        with pytest.raises(StatementError, match="n is VARCHAR"):
            con.execute(f"CRAWL (SELECT '{farm.url('a.test', '/about')}') INTO pages EXTRACT (title AS n) {FOLLOW}")
        assert len(farm.log()) == asked


def test_a_job_that_is_taken_up_keeps_its_where_and_its_extract(tmp_path: Path) -> None:
    links = "".join(f'<a href="/{kind}/{n}">x</a>' for n in range(30) for kind in ("yes", "no"))
    answers = {f"/yes/{n}": html(f"<title>t{n}</title>") for n in range(30)}
    asked = threading.Event()

    def first(_: Request) -> Response:
        asked.set()
        return html(f"<title>home</title>{links}")

    site = Site(
        name="a.test", pages=Pages(0), robots=Robots(crawl_delay_s=0.03),
        features=(Paths({"/": first, **answers}),),
    )  # fmt: skip
    with web(site, path=tmp_path / "f.duckdb") as (farm, con):

        def stop() -> None:
            asked.wait(30)
            con.interrupt()

        stopper = threading.Thread(target=stop)
        stopper.start()
        with pytest.raises(duckdb.InterruptException):
            con.execute(
                f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages EXTRACT (upper(title) AS loud) "
                f"WHERE path NOT LIKE '/no/%' {FOLLOW}"
            )
        stopper.join()
        con.close()
        again = open_connection(tmp_path / "f.duckdb", {}, {"policy": farm.policy, "resolver": farm.resolver})
        again.execute("RESUME CRAWL 1")
        rows = again.execute(
            "SELECT count(*), count(loud), count(*) FILTER (loud <> upper(title)) FROM pages WHERE error_type IS NULL"
        ).fetchall()
        again.close()
        assert rows == [(31, 31, 0)]
        assert not [path for path in paths_asked(farm) if path.startswith("/no/")]
