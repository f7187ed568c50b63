"""What a crawler inside DuckDB was first asked to do, requirement by requirement, each run from SQL where it can be."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest

from amble.core.answer import Answer
from amble.core.pacing.backoff import fibonacci_s
from amble.settings import Settings
from amble.sql.options import clamped, names
from amble.store.tables import COLUMNS
from amble.store.writer import WriterLimits
from amble.testing.farm import Farm, Pages, Robots, Site
from amble.testing.farm.exchange import HTML, Request, Response, html
from amble.testing.farm.limits import bucket, refusing
from amble.testing.farm.sitemap import Sitemap
from amble.testing.lab.servers import LogNormal
from tests.core.pacing.story import LIMITED, NEVER_TRIPS, OK, Story, limited
from tests.sql.web import FAST, QUICK, Paths, paths_asked, proxy_server, web

LINKS = f"WITH (follow_links = true, {QUICK})"
SLACK_S = 0.002  # between our clock at the send and the server's at the arrival


def few(count: int = 8) -> Pages:
    return Pages(count, size_bytes=2_000)


def site(answers: dict[str, Any] | None = None, **more: Any) -> Site:
    return Site(**{"name": "a.test", "pages": few(), "features": (Paths(answers or {}),), **more})


def crawl(one: Site, path: str = "/", options: str = FAST) -> tuple[list[dict[str, Any]], Farm]:
    """Crawl from one page of a site; the rows by name, and the site's log."""
    with web(one) as (farm, con):
        con.execute(f"CRAWL (SELECT ?) INTO pages {options}", [farm.url(one.name, path)])
        rows = con.execute("FROM pages ORDER BY crawl_time, url").fetchall()
        heads = [column[0] for column in con.description or ()]
        return [dict(zip(heads, row, strict=True)) for row in rows], farm


def gaps(farm: Farm) -> list[float]:
    arrivals = sorted(entry.arrived for entry in farm.log())
    return [later - earlier for earlier, later in pairwise(arrivals)]


# --- rate limiting -------------------------------------------------------------------------------------------------


def test_the_crawl_delay_of_robots_txt_is_kept() -> None:
    _, farm = crawl(site(robots=Robots(crawl_delay_s=0.1)), options=LINKS)
    assert len(farm.log()) > 8
    assert sum(host.under_crawl_delay for host in farm.judge().hosts) == 0
    assert min(gaps(farm)[1:]) >= 0.1 - SLACK_S


def test_several_crawls_at_once_do_not_get_around_the_crawl_delay_of_a_domain() -> None:
    one = site(pages=few(12), robots=Robots(crawl_delay_s=0.1))
    with web(one) as (farm, con), ThreadPoolExecutor(2) as pool:

        def run(table: str) -> None:
            with con.cursor() as cursor:
                cursor.execute(f"CRAWL (SELECT ?) INTO {table} {LINKS}", [farm.url("a.test")])

        list(pool.map(run, ["first", "second"]))
        assert con.execute("SELECT (SELECT count(*) FROM first), (SELECT count(*) FROM second)").fetchall() == [
            (12, 12)
        ]
        assert min(gaps(farm)[1:]) >= 0.1 - SLACK_S


def test_a_slot_is_taken_when_a_request_starts_and_not_when_it_ends() -> None:
    slow = site(robots=Robots(crawl_delay_s=0.05), latency=LogNormal(0.2, 0.0))
    _, farm = crawl(slow, options=LINKS)
    assert min(gaps(farm)[1:]) >= 0.05 - SLACK_S
    assert max(entry.in_flight for entry in farm.log()) > 1  # the next one starts while this one is under way


def test_a_429_stops_every_request_to_the_domain_until_retry_after_has_passed() -> None:
    limiting = site(pages=few(8), limit=refusing(bucket(5.0, 4), "seconds"))
    rows, farm = crawl(limiting, options=LINKS)
    assert any(entry.refused for entry in farm.log())
    assert sum(host.inside_retry_after for host in farm.judge().hosts) == 0
    assert [row["http_status"] for row in rows] == [200] * 8


def waits_s(story: Story, answers: list[Answer]) -> list[float]:
    found = []
    for answer in answers:
        story.visit(answer)
        answered_at = story.now
        story.pace.cancel(story.next())
        found.append(story.now - answered_at)
    return found


def test_without_retry_after_the_blocks_follow_fibonacci_and_grow_with_429s_in_a_row() -> None:
    story = Story("fibonacci", **NEVER_TRIPS)
    assert waits_s(story, [LIMITED] * 7) == pytest.approx([1, 1, 2, 3, 5, 8, 13])


def test_retry_after_is_respected_where_there_is_one() -> None:
    assert waits_s(Story("fibonacci"), [limited(30.0)])[0] >= 30.0


def test_a_success_clears_the_block_and_the_count_of_errors_at_once() -> None:
    story = Story("fibonacci", **NEVER_TRIPS)
    waits_s(story, [LIMITED] * 4)
    story.visit(OK)
    assert story.pace.block is None
    before = story.now
    story.pace.cancel(story.next())
    assert story.now - before < 1.0  # others go on at once
    assert waits_s(story, [LIMITED] * 2) == pytest.approx([1, 1])  # and the count begins anew


def test_the_delay_grows_while_responses_are_slow() -> None:
    story = Story("fibonacci")
    story.visits(5, Answer(200, elapsed_s=0.1))
    before = story.pace.strategy.delay_s
    story.visits(5, Answer(200, elapsed_s=9.0))
    assert story.pace.strategy.delay_s > before


@pytest.mark.parametrize("pacing", ["gauge", "linear", "aimd", "fibonacci", "fixed"])
def test_no_strategy_goes_below_the_users_minimum(pacing: str) -> None:
    options = f"pacing {pacing}, fixed_delay 0, base_delay 0, max_rate unlimited, min_crawl_delay .08"
    _, farm = crawl(site(pages=few(4)), options=f"WITH (follow_links true, {options})")
    assert min(gaps(farm)) >= 0.08 - SLACK_S


# --- robots.txt ----------------------------------------------------------------------------------------------------


def test_robots_txt_is_fetched_before_anything_else_of_a_domain() -> None:
    with web(site(), site(name="b.test")) as (farm, con):
        con.execute(f"CRAWL (SELECT unnest(?)) INTO pages {LINKS}", [farm.roots()])
        first: dict[str, str] = {}
        for entry in farm.log():
            first.setdefault(entry.host, entry.path)
        assert first == {"a.test": "/robots.txt", "b.test": "/robots.txt"}


@pytest.mark.parametrize(("agent", "allowed"), [("goodbot/1.0", True), ("badbot/1.0", False)])
def test_disallow_is_respected_for_the_user_agent_that_is_configured(agent: str, allowed: bool) -> None:
    rules = "User-agent: badbot\nDisallow: /\n\nUser-agent: *\nDisallow: /private\n"
    rows, farm = crawl(site(robots=Robots(text=rules)), options=f"{FAST[:-1]}, user_agent = '{agent}')")
    assert bool(paths_asked(farm)) is allowed
    assert rows[0]["http_status"] == (200 if allowed else None)
    assert rows[0]["error_type"] == (None if allowed else "robots_disallowed")


def test_a_noindex_of_the_page_is_noticed_and_its_body_is_not_kept() -> None:
    page = html("<title>t</title><meta name=robots content=noindex><p>secret")
    rows, _ = crawl(site({"/x": page}), "/x")
    assert (rows[0]["http_status"], rows[0]["body"], rows[0]["directives"]) == (200, None, "noindex")


def test_robots_txt_is_not_fetched_again_while_it_is_fresh() -> None:
    with web(site()) as (farm, con):
        for table in ("first", "second"):
            con.execute(f"CRAWL (SELECT ?) INTO {table} {LINKS}", [farm.url("a.test")])
        assert sum(entry.is_robots for entry in farm.log()) == 1


# --- threads and connections ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("threads", "used"), [(1, 1), (8, 8), (32, 32), (33, 32), (512, 32), (0, 1)])
def test_threads_are_at_least_one_and_at_most_thirty_two(threads: int, used: int) -> None:
    assert clamped(threads) == used


def test_connections_are_limited_over_all_domains() -> None:
    sites = [Site(name=f"{name}.test", pages=few(4), latency=LogNormal(0.03, 0.0)) for name in "abcd"]
    with web(*sites) as (farm, con):
        con.execute(f"CRAWL (SELECT unnest(?)) INTO pages {LINKS[:-1]}, max_total_connections 2)", [farm.roots()])
        marks = sorted(mark for entry in farm.log() if entry.ended for mark in ((entry.arrived, 1), (entry.ended, -1)))
        under_way = most = 0
        for _, change in marks:
            under_way += change
            most = max(most, under_way)
        assert most == 2


def test_parallel_requests_to_one_domain_are_limited() -> None:
    slow = site(pages=few(12), latency=LogNormal(0.03, 0.0))
    _, farm = crawl(slow, options=f"{LINKS[:-1]}, max_parallel_per_domain = 2)")
    assert max(entry.in_flight for entry in farm.log()) == 2


# --- content -------------------------------------------------------------------------------------------------------


def test_a_response_longer_than_the_limit_is_an_error_without_a_body() -> None:
    assert Settings.of({}).value("max_response_bytes") == 10 * 1024 * 1024
    rows, _ = crawl(site(), options=f"{FAST[:-1]}, max_response_bytes = 1000)")
    assert rows[0]["body"] is None
    assert rows[0]["error_type"] == "content_too_large"


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ("accept_content_types = ['text/*']", {"/x.html"}),
        ("accept_content_types = ['application/pdf']", {"/x.pdf"}),
        ("reject_content_types = ['application/*']", {"/x.html"}),
        ("accept_content_types = ['text/*', 'application/*'], reject_content_types = 'application/pdf'", {"/x.html"}),
        ("compress = true", {"/x.html", "/x.pdf"}),
    ],
)
def test_content_types_are_chosen_by_acceptance_and_then_by_rejection(options: str, kept: set[str]) -> None:
    answers = {"/x.html": html("<p>x"), "/x.pdf": Response(200, {"Content-Type": "application/pdf"}, (b"%PDF",))}
    with web(site(answers)) as (farm, con):
        seeds = [farm.url("a.test", path) for path in answers]
        con.execute(f"CRAWL (SELECT unnest(?)) INTO pages {FAST[:-1]}, {options})", [seeds])
        rows = con.execute("SELECT url, body IS NULL, error_type, attempts FROM pages").fetchall()
    for url, no_body, error, attempts in rows:
        taken = any(url.endswith(path) for path in kept)
        assert error == (None if taken else "content_type_rejected")
        assert taken or (no_body and attempts == 1)  # and it is not tried again


@pytest.mark.parametrize(("options", "asked"), [("", True), (", compress = false", False)])
def test_compression_is_asked_for_unless_it_is_switched_off(options: str, asked: bool) -> None:
    rows, farm = crawl(site(pages=Pages(1, compress=True)), options=f"{FAST[:-1]}{options})")
    assert ("gzip" in farm.log()[-1].headers.get("accept-encoding", "")) is asked
    assert "<title>" in rows[0]["body"]


def test_a_compressed_sitemap_is_read_whatever_it_is_called() -> None:
    rows, _ = crawl(site(sitemap=Sitemap(compressed=True)), options=f"WITH ({QUICK})")
    assert len(rows) == 8

    def listed(request: Request) -> Response:
        url = request.url(request.host, "/x")
        text = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>{url}</loc></url></urlset>'
        return Response(200, {"Content-Type": "text/xml"}, (gzip.compress(text.encode()),))

    rows, _ = crawl(site({"/sitemap.xml": listed, "/x": html("<p>x")}, pages=few(1)), options=f"WITH ({QUICK})")
    assert [row["discovered_by"] for row in rows] == ["seed", "sitemap"]


# --- finding URLs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sitemap",
    [
        Sitemap(),
        Sitemap(announced=False),
        Sitemap("index", per_file=3),
        Sitemap("index", per_file=3, announced=False, compressed=True),
    ],
    ids=["named in robots.txt", "at the usual place", "an index of several", "a compressed index at the usual place"],
)
def test_sitemaps_are_found_and_followed(sitemap: Sitemap) -> None:
    rows, _ = crawl(site(sitemap=sitemap), options=f"WITH ({QUICK})")
    assert sorted(row["discovered_by"] for row in rows) == ["seed"] + ["sitemap"] * 7


def test_urls_of_sitemaps_are_kept_with_their_dates() -> None:
    with web(site(sitemap=Sitemap())) as (farm, con):
        con.execute(f"CRAWL (SELECT ?) INTO pages WITH ({QUICK})", [farm.url("a.test")])
        assert con.execute("SELECT count(*), count(lastmod) FROM amble.sitemap_urls").fetchall() == [(8, 8)]


def test_links_are_followed_breadth_first_to_the_depth_and_the_number_allowed() -> None:
    deep = f"{LINKS[:-1]}, max_crawl_depth = 1)"
    rows, _ = crawl(site(pages=few(40)), options=deep)
    assert {row["depth"] for row in rows} == {0, 1}
    rows, farm = crawl(site(pages=few(40)), options=f"{LINKS[:-1]}, max_crawl_pages = 6, max_parallel_per_domain = 1)")
    assert len(rows) == len(paths_asked(farm)) == 6
    by_url = {row["url"]: row["depth"] for row in rows}
    asked = [by_url[farm.url("a.test", path)] for path in paths_asked(farm)]
    assert asked == sorted(asked)


@pytest.mark.parametrize(("respect", "found"), [("true", 2), ("false", 3)])
def test_nofollow_is_honoured_where_it_is_respected(respect: str, found: int) -> None:
    start = html('<a href="/one">1</a> <a rel="nofollow" href="/two">2</a>')
    answers = {"/x": start, "/one": html("1"), "/two": html("2")}
    rows, _ = crawl(site(answers, pages=few(1)), "/x", f"{LINKS[:-1]}, respect_nofollow = {respect})")
    assert len(rows) == found


@pytest.mark.parametrize(("follow", "found"), [("true", 2), ("false", 1)])
def test_a_canonical_url_is_followed_where_that_is_wanted(follow: str, found: int) -> None:
    answers = {"/x": html('<link rel=canonical href="/true">x'), "/true": html("true")}
    rows, _ = crawl(site(answers), "/x", f"{FAST[:-1]}, follow_canonical = {follow})")
    assert len(rows) == found


def test_a_full_url_is_crawled_itself_after_robots_txt_was_asked() -> None:
    rows, farm = crawl(site({"/page": html("<title>this one</title>")}), "/page", f"WITH ({QUICK})")
    assert farm.log()[0].is_robots
    assert [row["title"] for row in rows] == ["this one"]
    rows, farm = crawl(site({"/page": html("no")}, robots=Robots(disallow=("/page",))), "/page")
    assert paths_asked(farm) == []
    assert rows[0]["error_type"] == "robots_disallowed"


def test_that_a_full_url_was_not_found_is_not_remembered() -> None:
    with web(site()) as (farm, con):
        statement = f"CRAWL (SELECT '{farm.url('a.test', '/later')}') INTO pages {FAST}"
        con.execute(statement)
        assert con.execute("SELECT http_status FROM pages").fetchall() == [(404,)]
        farm.replace(site({"/later": html("<title>now</title>")}))
        con.execute(statement)
        assert con.execute("SELECT http_status, title FROM pages").fetchall() == [(200, "now")]


# --- errors --------------------------------------------------------------------------------------------------------


def once(first: Response) -> Any:
    """A page that fails the first time."""

    def answer(request: Request) -> Response:
        seen = request.memory.get(request.path, 0)
        request.memory[request.path] = seen + 1
        return html("<title>fine</title>") if seen else first

    return answer


@pytest.mark.parametrize(
    "first",
    [html("busy", 503), html("broken", 500), html("slow down", 429, Retry_After="1"), Response(broken="reset")],
    ids=["503", "500", "429", "cut"],
)
def test_what_may_pass_is_tried_again(first: Response) -> None:
    rows, farm = crawl(site({"/x": once(first)}), "/x")
    assert (rows[0]["http_status"], rows[0]["title"]) == (200, "fine")
    assert paths_asked(farm) == ["/x", "/x"]


def test_a_url_is_tried_again_five_times_at_most() -> None:
    assert Settings.of({}).value("max_retries") == 5
    rows, farm = crawl(site({"/x": html("never", 503)}), "/x", f"{FAST[:-1]}, max_retries = 1)")
    assert (rows[0]["http_status"], rows[0]["attempts"], rows[0]["error_type"]) == (503, 2, "http_server_error")
    assert paths_asked(farm) == ["/x", "/x"]


def test_waits_between_tries_follow_fibonacci_up_to_ten_minutes() -> None:
    longest = Settings.of({}).value("max_retry_backoff_seconds")
    assert longest == 600
    assert [fibonacci_s(attempt, longest) for attempt in range(1, 9)] == [1, 1, 2, 3, 5, 8, 13, 21]
    assert fibonacci_s(100, longest) == 600


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 418])
def test_other_client_errors_are_final(status: int) -> None:
    rows, farm = crawl(site({"/x": html("no", status)}), "/x")
    assert (rows[0]["http_status"], rows[0]["attempts"]) == (status, 1)
    assert paths_asked(farm) == ["/x"]


# --- the database --------------------------------------------------------------------------------------------------


def test_the_table_is_made_with_every_column_that_was_asked_for() -> None:
    asked = "url surt_key http_status body content_type crawl_time error etag last_modified content_hash final_url"
    assert [*asked.split(), "redirect_count"] == [
        name for name in COLUMNS if name in {*asked.split(), "redirect_count"}
    ]
    rows, _ = crawl(site(pages=few(1)))
    assert list(rows[0]) == list(COLUMNS)


def test_results_are_stored_in_batches_by_one_writer() -> None:
    if "batch_size" in names():
        assert Settings.of({}).value("batch_size") == 100
    else:
        assert WriterLimits().batch_size >= 100


def test_with_update_stale_pages_are_asked_for_again_by_the_dates_of_the_sitemap() -> None:
    if "update_stale" not in names():
        pytest.skip("this version has no such option yet")
    with web(site(sitemap=Sitemap())) as (farm, con):
        con.execute(f"CRAWL (SELECT ?) INTO pages WITH ({QUICK})", [farm.url("a.test")])
        con.execute("UPDATE pages SET crawl_time = TIMESTAMP '2020-01-01' WHERE depth = 0")
        before = len(paths_asked(farm))
        con.execute(
            f"CRAWL (SELECT ?) INTO pages WITH (update_stale = true, sitemap_cache_hours = 0, {QUICK})",
            [farm.url("a.test")],
        )
        again = farm.log()[-(len(paths_asked(farm)) - before) :]
        assert 0 < len(paths_asked(farm)) - before <= 8
        assert any("if-none-match" in entry.headers for entry in again)
        assert con.execute("SELECT count(*), count(body) FROM pages").fetchall() == [(8, 8)]


# --- HTTP ----------------------------------------------------------------------------------------------------------


def test_http_2_is_used_where_a_server_offers_it() -> None:
    assert Settings.of({}).value("http2") is True  # tests/fetcher proves it against a real server


def test_redirects_are_followed_and_recorded() -> None:
    answers = {"/old": html("", 301, Location="/older"), "/older": html("", 302, Location="/new"), "/new": html("new")}
    rows, farm = crawl(site(answers), "/old")
    ends = {row["url"]: (row["http_status"], row["final_url"], row["redirect_count"]) for row in rows}
    new = farm.url("a.test", "/new")
    assert ends == {
        farm.url("a.test", "/old"): (301, new, 2), farm.url("a.test", "/older"): (302, new, 1), new: (200, new, 0),
    }  # fmt: skip


def test_etag_and_last_modified_are_recorded() -> None:
    rows, _ = crawl(site(pages=few(1)))
    assert rows[0]["etag"] == '"0.1"'
    assert rows[0]["last_modified"].endswith("GMT")


def test_the_time_of_a_page_is_by_the_servers_clock() -> None:
    said = (datetime.now(UTC) - timedelta(minutes=5)).replace(microsecond=0)
    page = Response(200, {"Content-Type": HTML, "Date": format_datetime(said, usegmt=True)}, (b"x",))
    rows, _ = crawl(site({"/x": page}), "/x")
    assert rows[0]["crawl_time"].replace(tzinfo=UTC) == said


# --- settings of DuckDB --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("http_timeout", 30),
        ("http_keep_alive", True),
        ("http_proxy", None),
        ("http_proxy_username", None),
        ("http_proxy_password", None),
    ],
)
def test_settings_have_the_defaults_that_were_asked_for(name: str, default: object) -> None:
    assert Settings.of({}).value(name) == default


@pytest.mark.parametrize(("value", "reused"), [("true", True), ("false", False)])
def test_connections_are_kept_alive_unless_set_otherwise(value: str, reused: bool) -> None:
    with web(site()) as (farm, con):
        con.execute(f"SET http_keep_alive = {value}; CRAWL (SELECT ?) INTO pages {LINKS}", [farm.url("a.test")])
        connections = [entry.connection for entry in farm.log()]
        assert (len(set(connections)) < len(connections)) is reused


def test_a_timeout_that_was_set_ends_a_request_that_takes_longer() -> None:
    with web(site({"/x": Response(broken="hang")})) as (farm, con):
        script = f"SET http_timeout = 0.3; CRAWL (SELECT ?) INTO pages {FAST[:-1]}, max_retries = 0)"
        con.execute(script, [farm.url("a.test", "/x")])
        assert con.execute("SELECT error_type FROM pages").fetchall() == [("network_timeout",)]


@pytest.mark.parametrize(
    "login", [{}, {"username": "us er", "password": "pa:ss'word"}], ids=["open", "with a password"]
)
def test_the_example_runs_as_written_through_a_proxy(login: dict[str, str]) -> None:
    with web(site(pages=few(1))) as (farm, con), proxy_server(**login) as server:
        for name, value in login.items():
            con.execute(f"SET http_proxy_{name} = '{value.replace(chr(39), chr(39) * 2)}'")
        con.execute(f"""
            SET http_timeout = 60;
            SET http_proxy = 'http://127.0.0.1:{server.server_port}';
            CRAWL (SELECT '{farm.url("a.test")}') INTO pages;
        """)
        assert con.execute("SELECT http_status FROM pages").fetchall() == [(200,)]
        asked = server.RequestHandlerClass.asked  # type: ignore[attr-defined]
        assert {urlsplit(url).path for url in asked} >= {"/robots.txt", "/"}  # it went that way
        assert len(farm.log()) == len(asked)  # and no other
        assert b"pa:ss" not in str(con.execute("FROM amble.jobs").fetchall()).encode()  # a password is never stored
