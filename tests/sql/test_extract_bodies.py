"""EXTRACT reads a page before its body goes: whatever is not kept of it is read first."""

from __future__ import annotations

import pytest

from amble.testing.farm import Pages, Site
from amble.testing.farm.exchange import html
from tests.sql.web import QUICK, Paths, web

PAGE = "<title>T</title><p class=price>9.5</p>"


@pytest.mark.parametrize(
    ("head", "option"), [("", "store_body = false"), ("<meta name=robots content=noindex>", "noindex = 'drop_body'")]
)
def test_extract_is_judged_on_the_page_before_its_body_goes(head: str, option: str) -> None:
    site = Site(name="a.test", pages=Pages(0), features=(Paths({"/x": html(head + PAGE)}),))
    with web(site) as (farm, con):
        con.execute(
            f"CRAWL (SELECT '{farm.url('a.test', '/x')}') INTO pages "
            "EXTRACT (htmlpath(body, '.price')::DOUBLE AS price, length(body) > 10 AS is_there) "
            f"WITH ({option}, follow_links = false, {QUICK})"
        )
        rows = con.execute("SELECT price, is_there, body, title, length(content_hash) > 0 FROM pages").fetchall()
        assert rows == [(9.5, True, None, "T", True)]
