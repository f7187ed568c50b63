"""Live tables: what a running job is doing and about to do, in ordinary queries."""

from __future__ import annotations

import threading

import duckdb
import pytest

from amble.testing.farm import Pages, Robots, Site
from tests.sql.web import SMALL, run_until_stopped, web


def test_live_tables_show_what_a_running_job_is_about_to_do() -> None:
    site = Site(name="slow.test", pages=Pages(60, size_bytes=500), robots=Robots(crawl_delay_s=0.2))
    with web(site) as (farm, con), con.cursor() as look:
        url = farm.url("slow.test")
        statement = f"CRAWL (SELECT '{url}') INTO pages WITH (follow_links true, pacing fixed, fixed_delay 0)"
        crawl = threading.Thread(target=run_until_stopped, args=(con, statement))
        assert look.execute("SELECT count(*) FROM amble.frontier").fetchall() == [(0,)]
        crawl.start()
        try:
            while not (rows := look.execute("SELECT * FROM amble.frontier f WHERE f.queued > 10").fetchall()):
                pass
            names = [column[0] for column in look.description or ()]
            row = dict(zip(names, rows[0], strict=True))
            assert row["delay_s"] == pytest.approx(0.2)
            assert row["delay_source"] == "crawl_delay"
            assert row["state"] in ("waiting", "ready", "in flight")
            live = look.execute("SELECT requests, delay_s, crawl_delay_seconds FROM amble.domains").fetchall()
            assert len(live) == 1
            assert live[0][0] > 0
            assert live[0][1:] == (pytest.approx(0.2), pytest.approx(0.2))
            ((status, requests),) = look.execute(
                "SELECT status, (counters->>'requests')::INT FROM amble.jobs"
            ).fetchall()
            assert status == "running"
            assert requests > 0
        finally:
            con.interrupt()
            crawl.join()
        assert look.execute("SELECT count(*) FROM amble.frontier").fetchall() == [(0,)]
        after = look.execute("SELECT requests > 0, delay_s FROM amble.domains").fetchall()
        assert after == [(True, None)]  # from the disk now


def test_a_view_over_a_live_table_is_left_as_it_is() -> None:
    with web(Site(name="a.test", pages=SMALL)) as (farm, con):
        con.execute(f"FROM crawl('{farm.url('a.test')}', pacing := 'fixed', fixed_delay := 0)")
        con.execute("CREATE VIEW mine AS SELECT domain FROM amble.domains")
        assert len(con.execute("FROM mine").fetchall()) == 1
        with pytest.raises(duckdb.Error):
            con.execute("SELECT * FROM amble.no_such_table")
