"""A CRAWL while it runs: seen, paused, stopped and taken up, by Ctrl-C and by other cursors."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest

from amble.errors import StatementError, StoreError
from amble.jobs.runner import RunningJob
from amble.sql.connection import Connection, open_connection
from amble.testing.farm import Farm, Pages, Robots, Site, Sitemap
from amble.testing.farm.exchange import Response, html
from tests.sql.web import FAST, QUICK, SLOW, SMALL, Paths, proxy_server, tables, wait_for, web, when

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


DELAYED = Site(name="a.test", pages=Pages(30, size_bytes=2_000), robots=Robots(crawl_delay_s=0.02))
OTHER = "ATTACH ':memory:' AS \"the other\""


@pytest.mark.parametrize("statement", ["FROM sitemap('{}')", "EXPLAIN CRAWL (SELECT '{}') INTO pages"])
def test_looking_around_can_be_interrupted_from_another_thread(statement: str) -> None:
    site = Site(name="a.test", pages=Pages(30), robots=Robots(crawl_delay_s=600), sitemap=Sitemap("index"))
    with web(site) as (farm, con):
        stopper = when(lambda: len(farm.log()) > 0, con.interrupt)
        with pytest.raises(duckdb.InterruptException, match="Interrupted"):
            con.execute(statement.format(farm.url("a.test")))
        stopper.join()
        assert con.execute("SELECT 42").fetchall() == [(42,)]


def interrupted(farm: Farm, con: Connection, into: str) -> str:
    """A crawl that somebody stops on its way; what it says then."""
    farm.clear()
    statement = f"CRAWL (SELECT '{farm.url('a.test')}') INTO {into} WITH (follow_links = true, {QUICK})"
    stopper = when(lambda: len(farm.log()) > 5, con.interrupt)
    with pytest.raises(duckdb.InterruptException) as told:
        con.execute(statement)
    stopper.join()
    return str(told.value)


def test_a_job_in_an_attached_database_is_stopped_and_resumed_as_it_says() -> None:
    with web(DELAYED) as (farm, con):
        con.execute(OTHER)
        told = interrupted(farm, con, '"the other".main.pages')
        assert told.endswith('hint: USE "the other"; RESUME CRAWL 1')
        assert con.execute("STOP CRAWL 1").fetchall() == [(1, "paused")]
        assert con.execute("PAUSE CRAWL 1").fetchall() == [(1, "paused")]
        assert con.execute("RESUME CRAWL 1").fetchall()[0][0] == 1
        assert con.execute('SELECT count(*) FROM "the other".pages').fetchall() == [(30,)]
        with pytest.raises(StoreError, match="is over"):
            con.execute("RESUME CRAWL 1")


def test_a_job_that_several_databases_have_is_taken_from_the_one_in_use() -> None:
    with web(DELAYED) as (farm, con):
        con.execute(f"{OTHER}; ATTACH ':memory:' AS third")
        interrupted(farm, con, '"the other".main.pages')
        interrupted(farm, con, "third.main.pages")
        for statement in ("RESUME CRAWL 1", "PAUSE CRAWL 1", "STOP CRAWL 1"):
            with pytest.raises(StoreError, match="several databases: the other, third") as refused:
                con.execute(statement)
            assert f'USE "third"; {statement}' in str(refused.value.hint)
        con.execute(f"CRAWL (SELECT NULL) INTO pages {FAST}")
        with pytest.raises(StoreError, match="is over") as over:  # here it is, and elsewhere it waits
            con.execute("RESUME CRAWL 1")
        assert 'USE "the other"; RESUME CRAWL 1' in str(over.value.hint)
        con.execute('USE "the other"; RESUME CRAWL 1')
        [(resumed,)] = con.execute('SELECT count(*) FROM "the other".pages').fetchall()
        [(waiting,)] = con.execute("SELECT count(*) FROM third.pages").fetchall()
        assert resumed == 30 > waiting


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
            wait_for(lambda: isinstance(con._running, RunningJob) and con._running.job.plan.frontier.draining)
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


def test_a_connection_that_crawls_refuses_another_statement_of_ours_from_another_thread() -> None:
    with web(SLOW) as (farm, con):
        refused: list[str] = []

        def interfere() -> None:
            with pytest.raises(duckdb.ResourceInUseException) as error:
                con.execute("CRAWL (SELECT 'b.test') INTO pages")
            refused.append(str(error.value))
            con.interrupt()

        stopper = when(lambda: len(farm.log()) > 2, interfere)
        with pytest.raises(duckdb.InterruptException):
            con.execute(f"CRAWL (SELECT '{farm.url('slow.test')}') INTO pages WITH (follow_links true)")
        stopper.join()
        assert "con.cursor()" in refused[0]
        assert con.execute("SELECT count(*) FROM amble.jobs").fetchall() == [(1,)]
