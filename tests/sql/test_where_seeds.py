"""What a crawl says whose WHERE leaves it nothing to begin with."""

from __future__ import annotations

from amble.testing.farm import Pages, Site
from tests.sql.web import QUICK, web


def test_where_that_leaves_no_seed_says_why() -> None:
    with web(Site(name="a.test", pages=Pages(2))) as (farm, con):
        con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages WHERE path LIKE '/blog/%' WITH ({QUICK})")
        [(said,)] = con.execute("SELECT error FROM amble.jobs").fetchall()
        assert "holds for none of its 1 seeds" in said


def test_where_that_leaves_a_seed_says_nothing() -> None:
    with web(Site(name="a.test", pages=Pages(2))) as (farm, con):
        con.execute(f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages WHERE path = '/' WITH ({QUICK})")
        assert con.execute("SELECT error FROM amble.jobs").fetchall() == [(None,)]
