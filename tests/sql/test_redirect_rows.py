"""A URL that redirects has a row of its own, with the status of its own answer; see decision 81."""

from __future__ import annotations

import pytest

from amble.testing.farm import Pages, Site
from amble.testing.farm.exchange import Response, html, redirect
from tests.sql.web import QUICK, Answer, Paths, web

FOLLOW = f"follow_links = true, discover = false, {QUICK}"
# `/old` is met before and after what it leads to is known: its row says the same.
BEFORE = html("<title>Home</title><a href=/old>o</a><a href=/older>o</a><a href=/page>p</a><a href=/out>x</a>")
AFTER = html("<title>Home</title><a href=/page>p</a><a href=/older>o</a><a href=/old>o</a><a href=/out>x</a>")


@pytest.mark.parametrize("home", [BEFORE, AFTER], ids=["met before its target", "met after its target"])
def test_every_url_that_redirects_has_a_row_with_its_own_status(home: Response) -> None:
    site = Site(name="a.test", pages=Pages(0), features=(
        Paths({
            "/": home, "/old": redirect(301, "/page"),
            "/older": redirect(302, "/old"), "/page": html("<title>P</title>"),
            "/out": redirect(307, "http://elsewhere.test/"),
        }),
    ))  # fmt: skip
    with web(site) as (farm, con):
        url = farm.url("a.test").removesuffix("/")
        con.execute(f"CRAWL (SELECT '{url}/') INTO pages WITH ({FOLLOW})")
        rows = con.execute(
            "SELECT replace(url, $1, ''), http_status, replace(final_url, $1, ''), redirect_count, title, error_type "
            "FROM pages ORDER BY 1",
            [url],
        ).fetchall()
        assert rows == [
            ("/", 200, "/", 0, "Home", None),
            ("/old", 301, "/page", 1, None, None),
            ("/older", 302, "/page", 2, None, None),
            ("/out", 307, "http://elsewhere.test/", 1, None, "out_of_scope"),
            ("/page", 200, "/page", 0, "P", None),
        ]
        hops = con.execute(
            "SELECT replace(from_url, $1, ''), replace(to_url, $1, ''), status FROM amble.redirects", [url]
        )
        assert sorted(hops.fetchall()) == [
            ("/old", "/page", 301), ("/older", "/old", 302), ("/out", "http://elsewhere.test/", 307),
        ]  # fmt: skip
        nowhere = (
            "SELECT final_url FROM pages WHERE final_url LIKE $1 || '%' AND final_url NOT IN (SELECT url FROM pages)"
        )
        assert con.execute(nowhere, [url]).fetchall() == []


def test_each_hop_has_its_place_in_the_chain() -> None:
    steps: dict[str, Response | Answer] = {f"/{number}": redirect(301, f"/{number + 1}") for number in range(1, 4)}
    site = Site(name="a.test", pages=Pages(0), features=(Paths(steps | {"/4": html("<title>end</title>")}),))
    with web(site) as (farm, con):
        url = farm.url("a.test").removesuffix("/")
        con.execute(f"CRAWL (SELECT '{url}/1') INTO pages WITH (follow_links = false, {QUICK})")
        assert con.execute("SELECT from_url[-1], hop FROM amble.redirects ORDER BY hop").fetchall() == [
            ("1", 1), ("2", 2), ("3", 3),
        ]  # fmt: skip
        ends = con.execute(
            "SELECT url[-1], http_status, final_url[-1], redirect_count FROM pages ORDER BY 1"
        ).fetchall()
        assert ends == [("1", 301, "4", 3), ("2", 301, "4", 2), ("3", 301, "4", 1), ("4", 200, "4", 0)]


def test_a_redirect_spends_no_page_of_the_budget() -> None:
    steps = {f"/{number}": redirect(301, f"/{number}/page") for number in range(5)}
    pages = {f"/{number}/page": html(f"<title>{number}</title>") for number in range(5)}
    home = html("<title>home</title>" + "".join(f"<a href={path}>x</a>" for path in steps))
    answers: dict[str, Response | Answer] = {"/": home, **steps, **pages}
    site = Site(name="a.test", pages=Pages(0), features=(Paths(answers),))
    with web(site) as (farm, con):
        con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages WITH (max_crawl_pages = 4, {FOLLOW})")
        counted = con.execute("SELECT http_status, count(*) FROM pages GROUP BY 1 ORDER BY 1").fetchall()
        assert counted == [(200, 4), (301, 3)]


def test_read_html_reads_the_page_that_a_redirect_leads_to() -> None:
    table = html("<table><tr><th>a</th></tr><tr><td>1</td></tr></table>")
    site = Site(name="a.test", pages=Pages(0), features=(Paths({"/old": redirect(302, "/new"), "/new": table}),))
    with web(site) as (farm, con):
        rows = con.execute(f"SELECT * FROM read_html('{farm.url('a.test')}old', 'table', pacing := 'fixed')").fetchall()
        assert rows == [("1",)]
