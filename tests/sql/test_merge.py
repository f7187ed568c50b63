"""CRAWLING MERGE: DuckDB's own MERGE on what was fetched, and rows that the crawl has no answer for left alone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import duckdb
import pytest

from amble.errors import AmbleError
from amble.sql.connection import Connection
from amble.sql.merge import _by_source, _guard
from amble.testing.farm import Farm, Pages, Robots, Site
from amble.testing.farm.exchange import Request, Response, html, not_found
from tests.sql.web import QUICK, Paths, paths_asked, web

ALONE = f"WITH (follow_links = false, discover = false, max_retries = 0, {QUICK})"
CLAUSES = """
    WHEN MATCHED THEN UPDATE SET title = s.title, state = 'updated'
    WHEN NOT MATCHED THEN INSERT (url, title, state) VALUES (s.url, s.title, 'inserted')
    WHEN NOT MATCHED BY SOURCE THEN UPDATE SET state = 'unmatched'"""


def page(title: str) -> Response:
    return html(f"<title>{title}</title>")


SITE = Site(
    name="a.test",
    robots=Robots(disallow=("/private",)),
    pages=Pages(0),
    features=(
        Paths({
            "/old": page("Old"), "/new": page("New"), "/gone": not_found(), "/dead": html("", 410),
            "/broken": html("", 500), "/denied": html("", 403), "/private/x": page("no"),
        }),
    ),
)  # fmt: skip


def prepared(farm: Farm, con: Connection, *paths: str) -> None:
    con.execute("CREATE TABLE known (url VARCHAR, title VARCHAR, state VARCHAR)")
    for path in paths:
        con.execute("INSERT INTO known VALUES ($1, 'before', 'untouched')", [farm.url("a.test", path)])


def states(farm: Farm, con: Connection) -> dict[str, str]:
    prefix = len(farm.url("a.test", ""))
    rows = con.execute("SELECT url, state FROM known").fetchall()
    return {url[prefix:]: state for url, state in rows}


def staged_tables(con: Connection) -> int:
    rows = con.execute("SELECT count(*) FROM duckdb_tables() WHERE schema_name LIKE 'amble_st%'").fetchall()
    return int(rows[0][0])


def seeds(farm: Farm, *paths: str) -> str:
    return "SELECT unnest([" + ", ".join(f"'{farm.url('a.test', path)}'" for path in paths) + "])"


def test_each_row_of_the_target_gets_what_the_answer_of_its_page_means() -> None:
    every = ("/old", "/gone", "/dead", "/broken", "/denied", "/private/x", "/elsewhere")
    with web(SITE) as (farm, con):
        prepared(farm, con, *every)
        asked = ("/old", "/new", "/gone", "/dead", "/broken", "/denied", "/private/x")
        row = con.execute(
            f"CRAWLING MERGE INTO known USING (CRAWL ({seeds(farm, *asked)}) {ALONE}) AS s "
            f"ON (known.url = s.url) {CLAUSES}"
        ).fetchall()[0]
        names = [column[0] for column in con.description or ()]
        assert states(farm, con) == {
            "/old": "updated",
            "/new": "inserted",
            "/gone": "unmatched",  # 404
            "/dead": "unmatched",  # 410
            "/broken": "untouched",  # says nothing that lasts
            "/denied": "untouched",
            "/private/x": "untouched",  # robots.txt: never asked
            "/elsewhere": "untouched",  # no seed
        }
        assert dict(zip(names, row, strict=True)) | {"seconds": 0} == {
            "job_id": 1, "pages": 2, "errors": 4, "inserted": 1, "updated": 3, "deleted": 0, "seconds": 0,
        }  # fmt: skip
        assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE schema_name LIKE 'amble_st%'").fetchall() == [
            (0,)
        ]


def test_limit_leaves_what_was_not_come_to() -> None:
    with web(SITE) as (farm, con):
        prepared(farm, con, "/gone", "/dead")
        con.execute(
            f"CRAWLING MERGE INTO known USING (CRAWL ({seeds(farm, '/gone', '/dead')}) {ALONE}) AS s "
            "ON (known.url = s.url) WHEN NOT MATCHED BY SOURCE THEN DELETE LIMIT 1"
        )
        assert list(states(farm, con).values()) == ["untouched"]
        assert len(paths_asked(farm)) == 1


def test_a_site_that_is_down_loses_nothing() -> None:
    down = Site(
        name="a.test", pages=Pages(0), features=(Paths({"/old": html("", 503), "/x": Response(broken="reset")}),)
    )
    with web(down) as (farm, con):
        prepared(farm, con, "/old", "/x")
        con.execute(
            f"CRAWLING MERGE INTO known USING (CRAWL ({seeds(farm, '/old', '/x')}) {ALONE}) AS s "
            "ON (known.url = s.url) WHEN NOT MATCHED BY SOURCE THEN DELETE"
        )
        assert states(farm, con) == {"/old": "untouched", "/x": "untouched"}


@pytest.mark.parametrize("how", ["interrupt", "ctrl-c"])
def test_stopped_in_the_middle_what_was_fetched_is_merged_and_nothing_else(how: str) -> None:
    asked = threading.Event()

    def slow(request: Request) -> Response:
        asked.set()
        return Response(404, {}, (), wait_s=0.5)

    site = Site(
        name="a.test", pages=Pages(0), robots=Robots(crawl_delay_s=0.1),
        features=(Paths({"/old": page("Old"), "/gone": slow, **{f"/later{n}": not_found() for n in range(50)}}),),
    )  # fmt: skip
    with web(site) as (farm, con):
        later = [f"/later{n}" for n in range(50)]
        prepared(farm, con, "/old", "/gone", *later)
        order = seeds(farm, "/old", "/gone", *later)
        stop: Callable[[], Any] = con.interrupt if how == "interrupt" else _press_ctrl_c
        stopper = threading.Thread(target=lambda: (asked.wait(30), stop()))
        stopper.start()
        with pytest.raises((duckdb.InterruptException, KeyboardInterrupt)):
            con.execute(
                f"CRAWLING MERGE INTO known USING (CRAWL ({order}) {ALONE}) AS s ON (known.url = s.url) {CLAUSES}"
            )
        stopper.join()
        found = states(farm, con)
        assert found["/old"] == "updated"
        was_asked = set(paths_asked(farm))
        assert {path for path, state in found.items() if state == "unmatched"} <= was_asked
        assert "untouched" in {found[path] for path in later}
        assert con.execute("SELECT status FROM amble.jobs").fetchall() == [("cancelled",)]


def _press_ctrl_c() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # as a terminal does: it ends a wait


def test_a_merge_that_fails_changes_nothing_and_leaves_nothing() -> None:
    with web(SITE) as (farm, con):
        prepared(farm, con, "/old", "/gone")
        with pytest.raises(duckdb.Error):
            con.execute(
                f"CRAWLING MERGE INTO known USING (CRAWL ({seeds(farm, '/old', '/new')}) {ALONE}) AS s "
                "ON (known.url = s.url) WHEN MATCHED THEN UPDATE SET title = 'x' "
                "WHEN NOT MATCHED THEN INSERT (url, title) VALUES (s.url, error('no'))"
            )
        assert con.execute("SELECT DISTINCT title FROM known").fetchall() == [("before",)]
        assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE schema_name LIKE 'amble_st%'").fetchall() == [
            (0,)
        ]
        con.execute("BEGIN")  # no transaction was left open
        con.execute("ROLLBACK")


def test_extracted_columns_and_conditions_of_ones_own() -> None:
    with web(SITE) as (farm, con):
        prepared(farm, con, "/old", "/gone", "/dead")
        con.execute(
            f"CRAWLING MERGE INTO known AS t USING (CRAWL ({seeds(farm, '/old', '/new', '/gone', '/dead')}) "
            f"EXTRACT (htmlpath(body, 'title') AS head) {ALONE}) AS s ON (s.url = t.url AND length(s.url) > 0) "
            "WHEN MATCHED AND s.head = 'Old' THEN UPDATE SET title = upper(s.head) "
            "WHEN NOT MATCHED BY SOURCE AND CASE WHEN t.url LIKE '%dead' THEN true ELSE false END THEN DELETE "
            "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET state = 'gone' RETURNING merge_action, t.title"
        )
        assert sorted(con.fetchall()) == [("DELETE", "before"), ("UPDATE", "OLD"), ("UPDATE", "before")]
        assert states(farm, con) == {"/old": "untouched", "/gone": "gone"}


def test_a_query_over_crawl_is_a_source_too() -> None:
    with web(SITE) as (farm, con):
        prepared(farm, con, "/old", "/gone", "/elsewhere")
        urls = f"['{farm.url('a.test', '/old')}', '{farm.url('a.test', '/gone')}']"
        con.execute(
            "CRAWLING MERGE INTO known USING (SELECT url, upper(title) AS title FROM crawl("
            f"{urls}, follow_links := false, discover := false, pacing := 'fixed', fixed_delay := 0) "
            "WHERE error_type IS NULL) AS s ON (known.url = s.url) "
            "WHEN MATCHED THEN UPDATE SET title = s.title WHEN NOT MATCHED BY SOURCE THEN DELETE"
        )
        assert con.fetchall()[0][:6] == (1, 1, 1, 0, 1, 1)  # job, pages, errors, inserted, updated, deleted
        rows = con.execute("SELECT title, state FROM known ORDER BY title").fetchall()
        assert rows == [("OLD", "untouched"), ("before", "untouched")]


@pytest.mark.parametrize(
    ("merge", "said"),
    [
        (
            "INTO nowhere USING (CRAWL (SELECT 'a.test')) AS s ON (nowhere.url = s.url) WHEN MATCHED THEN DELETE",
            "merged into",
        ),
        ("INTO known USING (SELECT 1 AS url) AS s ON (known.url = s.url) WHEN MATCHED THEN DELETE", "crawls nothing"),
        (
            "INTO known USING (CRAWL (SELECT 'a.test')) AS s ON (known.title = s.title) "
            "WHEN NOT MATCHED BY SOURCE THEN DELETE",
            "the URL of each row",
        ),
        (
            "INTO known USING (CRAWL (SELECT 'a.test')) AS s ON (known.url = s.url OR true) "
            "WHEN NOT MATCHED BY SOURCE THEN DELETE",
            "the URL of each row",
        ),
        ("INTO known USING (CRAWL (SELECT 'no url')) AS s ON (known.url = s.url) WHEN MATCHED THEN DELETE", "no URL"),
    ],
)
def test_what_cannot_be_merged_is_refused_before_anything_is_fetched(merge: str, said: str) -> None:
    with web(SITE) as (farm, con):
        prepared(farm, con, "/old")
        with pytest.raises(AmbleError, match=said) as refused:
            con.execute(f"CRAWLING MERGE {merge}")
        assert refused.value.hint
        assert farm.log() == []
        assert states(farm, con) == {"/old": "untouched"}


@pytest.mark.parametrize(
    "source", ["CRAWL (SELECT '{url}') EXTRACT (length(body) AS n)", "SELECT *, 1 AS n FROM crawl('{url}')"]
)
@pytest.mark.parametrize(
    ("on", "clauses"),
    [
        ("known.url = s.url", "WHEN MATCHED THEN UPDATE SET titel = s.title"),
        ("known.url = s.url", "WHEN MATCHED THEN UPDATE SET title = s.titel"),
        ("known.url = s.url", "WHEN MATCHED THEN UPDATE SET title = lowercase(s.title)"),
        ("known.url = s.url", "WHEN NOT MATCHED BY SOURCE AND known.absent THEN DELETE"),
        ("known.url = s.url", "WHEN MATCHED THEN FORGET"),
        ("known.address = s.url", "WHEN MATCHED THEN DELETE"),
        ("known.url = s.url", "WHEN NOT MATCHED THEN INSERT (url, n) VALUES (s.url, s.n)"),
    ],
)
def test_a_mistake_in_the_clauses_is_told_before_anything_is_fetched(source: str, on: str, clauses: str) -> None:
    with web(SITE) as (farm, con):
        prepared(farm, con, "/old")
        with pytest.raises(duckdb.Error):
            con.execute(
                f"CRAWLING MERGE INTO known USING ({source.format(url=farm.url('a.test'))}) AS s ON ({on}) {clauses}"
            )
        assert farm.log() == []
        assert staged_tables(con) == 0


def test_clauses_are_guarded_wherever_they_stand() -> None:
    clauses = (
        "WHEN MATCHED THEN UPDATE SET x = 'WHEN NOT MATCHED BY SOURCE THEN' "
        "when not matched by /* c */ source AND (a OR b) -- why\nTHEN DELETE "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET y = 1"
    )
    guarded = _guard(clauses, _by_source(clauses), "OURS")
    assert guarded == (
        "WHEN MATCHED THEN UPDATE SET x = 'WHEN NOT MATCHED BY SOURCE THEN' "
        "when not matched by /* c */ source AND (OURS) AND ( (a OR b) -- why\n\n) THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE AND (OURS) THEN UPDATE SET y = 1"
    )
