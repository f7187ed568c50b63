"""`amble.crawl` as people use it: in scripts, coroutines, threads and notebooks; asked while it runs and after."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import amble
from amble.cli import main
from amble.control import ask
from amble.face.job import job_html
from amble.sql.progress import NotebookBar
from amble.store.seam import JobStatus
from amble.testing.farm import Farm, Pages, Robots, Site
from amble.testing.farm.limits import Limit
from amble.testing.lab.limiters import TokenBucket
from tests.sql.web import proxy_server

QUICK: dict[str, Any] = {"pacing": "fixed", "fixed_delay": 0, "max_rate": "unlimited", "follow_links": True}
SLOW = {**QUICK, "fixed_delay": 0.05, "max_parallel_per_domain": 1}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of whoever runs the tests, and no files left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))


@pytest.fixture
def farm() -> Iterator[Farm]:
    with Farm([Site(name="127.0.0.1", pages=Pages(20))]) as farm:
        yield farm


def root(farm: Farm) -> str:
    return farm.url("127.0.0.1")


def host(farm: Farm) -> str:
    return f"127.0.0.1:{farm.port}"


def until(so: Callable[[], bool]) -> None:
    moment = threading.Event()
    for _ in range(6_000):  # half a minute at the most
        if so():
            return
        moment.wait(0.005)
    raise AssertionError("nothing happens")


def until_pages(job: amble.CrawlJob, pages: int) -> None:
    until(lambda: job.result.pages >= pages or job.done)


def until_requests(farm: Farm, requests: int) -> None:
    until(lambda: len(farm.log()) >= requests)


def test_a_crawl_is_a_call_and_its_pages_a_query(farm: Farm) -> None:
    job = amble.crawl(root(farm), into="site.duckdb", **QUICK)
    assert (job.done, job.status) == (True, JobStatus.COMPLETED)
    assert job.counts == {"pages": 20, "failed": 0, "skipped": 0, "waiting": 0, "requests": job.result.requests,
                          "limited": 0}  # fmt: skip
    assert job.sql("SELECT count(*), count(title) FROM pages").fetchall() == [(20, 20)]
    assert job.pages.count("*").fetchall() == [(20,)]
    assert job.sql("SELECT $1 + 1", params=[2]).fetchall() == [(3,)]
    assert repr(job).startswith("<CrawlJob 1 completed into site.duckdb: 20 pages")


def test_pages_come_as_data_frames_and_arrow_tables(farm: Farm) -> None:
    job = amble.crawl(root(farm), into=":memory:", **QUICK)
    assert set(job.df()["url"]) == set(farm.urls())
    assert job.df("SELECT 1 AS one").to_dict("list") == {"one": [1]}
    assert job.arrow().num_rows == 20
    assert job.arrow("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_a_query_is_answered_though_nobody_holds_the_job(farm: Farm) -> None:
    count = "SELECT count(*) FROM pages"
    assert amble.crawl(root(farm), into=":memory:", **QUICK).sql(count).fetchall() == [(20,)]
    derived = (
        amble.crawl(root(farm), into="site.duckdb", **QUICK).pages.filter("http_status = 200").aggregate("count(*)")
    )
    gc.collect()
    assert derived.fetchall() == [(20,)]
    del derived
    gc.collect()
    duckdb.connect("site.duckdb", config={"threads": 1}).close()  # with options of its own: nobody else has it open


def test_a_job_that_is_over_is_not_taken_up(farm: Farm) -> None:
    amble.crawl(root(farm), into="site.duckdb", **QUICK).close()
    asked = len(farm.log())
    for job_id, says in ((None, "every job in this file is finished"), (1, "job 1 is over"), (2, "no job 2")):
        with pytest.raises(amble.StoreError, match=says):
            amble.resume("site.duckdb", job_id)
    assert len(farm.log()) == asked


def test_what_a_report_says_is_what_print_shows(farm: Farm) -> None:
    job = amble.crawl(root(farm), into=":memory:", **QUICK)
    found = job.why(root(farm))
    assert str(found) == found.as_text()


def test_without_a_name_the_file_is_named_after_the_host_as_on_the_command_line(farm: Farm, tmp_path: Path) -> None:
    with amble.crawl([root(farm), farm.url("127.0.0.1", "/p/1")], **QUICK) as job:
        assert Path(job.into) == tmp_path / f"127.0.0.1_{farm.port}.duckdb"
    assert Path(job.into).exists()


def test_it_can_be_asked_while_it_runs(farm: Farm) -> None:
    job = amble.crawl(root(farm), into="site.duckdb", wait=False, **{**SLOW, "fixed_delay": 0.15})
    until_pages(job, 5)
    while not (found := job.sql("SELECT count(*) FROM pages").fetchall()[0][0]):
        assert not job.done
    assert 0 < found < 20
    assert job.status is JobStatus.RUNNING
    assert job.progress().accepted >= 5
    with amble.connect("site.duckdb") as other:  # in the same process anybody may look
        assert other.execute("SELECT count(*) FROM pages").fetchall()[0][0] >= found
    assert job.wait().sql("SELECT count(*) FROM pages").fetchall() == [(20,)]


def test_the_lines_of_the_manual_work_one_after_the_other(farm: Farm) -> None:
    job = amble.crawl(root(farm), into="site.duckdb", **QUICK)
    assert len(job.sql("SELECT title FROM pages").fetchall()) == 20
    con = amble.connect("site.duckdb")
    con.execute(f"CRAWL (SELECT '{root(farm)}') INTO again WITH (follow_links = true, max_rate = unlimited)")
    assert con.execute("SELECT count(*) FROM again").fetchall() == [(20,)]
    assert job.sql("SELECT count(*) FROM again").fetchall() == [(20,)]
    con.close()


def test_why_a_domain_is_as_fast_as_it_is(farm: Farm) -> None:
    job = amble.crawl(root(farm), into="site.duckdb", wait=False, **SLOW)
    until_pages(job, 5)
    running = job.why(root(farm)) if job.sql("SELECT count(*) FROM amble.requests").fetchall()[0][0] else None
    over = job.wait().why(host(farm))
    assert over.domain == host(farm)
    assert over.requests == job.result.requests
    assert running is None or running.requests <= over.requests


def test_settings_come_from_the_environment_and_files_too(
    farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMBLE_MAX_CRAWL_PAGES", "3")
    (tmp_path / "amble.toml").write_text('user_agent = "fromfile/1.0"\nmax_crawl_pages = 5\n')
    assert amble.crawl(root(farm), into=":memory:", **QUICK).result.pages == 3
    assert amble.crawl(root(farm), into=":memory:", max_crawl_pages=4, **QUICK).result.pages == 4
    assert {entry.agent for entry in farm.log()} == {"fromfile/1.0"}


@pytest.mark.parametrize(
    ("seeds", "settings", "error", "says"),
    [
        ([], {}, amble.BadUrl, "nothing to crawl"),
        ("ftp://a.test/", {}, amble.BadUrl, "ftp"),
        (b"http://a.test/", {}, amble.BadUrl, "not bytes"),
        ("a.test", {"min_crawl_delay": 9, "max_crawl_delay": 5}, amble.SettingsError, "above max_crawl_delay"),
        ("a.test", {"max_raet": 1}, amble.SettingsError, "max_rate"),
        ("a.test", {"max_rate": -1}, amble.SettingsError, "max_rate"),
    ],
)
def test_what_is_wrong_is_said_before_a_file_is_made(
    seeds: Any, settings: dict[str, Any], error: type[amble.AmbleError], says: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=says):
        amble.crawl(seeds, into="x.duckdb", **settings)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_opened_is_an_error_and_leaves_no_thread(farm: Farm, tmp_path: Path) -> None:
    (tmp_path / "x.duckdb").write_bytes(b"this is no database, and long enough to tell" * 500)
    before = threading.active_count()
    with pytest.raises(Exception, match=r"x\.duckdb"):
        amble.crawl(root(farm), into="x.duckdb", **QUICK)
    with pytest.raises(Exception, match="no_such"):
        amble.crawl(root(farm), into="y.duckdb", table="no_such.schema.pages", **QUICK)
    assert threading.active_count() <= before + 1  # the engine's


# -- steering


def test_paused_resumed_stopped_and_taken_up(farm: Farm) -> None:
    job = amble.crawl(root(farm), into="site.duckdb", wait=False, **SLOW)
    until_pages(job, 3)
    job.pause()
    job.resume()
    job.stop()
    assert job.wait().status is JobStatus.PAUSED
    assert job.counts["waiting"] > 0
    again = amble.resume("site.duckdb", allow_private=host(farm))
    assert (again.job_id, again.status) == (job.job_id, JobStatus.COMPLETED)
    assert [site.missing for site in farm.judge().hosts] == [()]
    with pytest.raises(amble.AmbleError, match="every job in this file is finished"):
        amble.resume("site.duckdb")
    with pytest.raises(amble.AmbleError, match="there is no job 9"):
        amble.resume("site.duckdb", 9)
    with pytest.raises(amble.AmbleError, match="there is no file"):
        amble.resume("other.duckdb")


def test_leaving_a_with_block_stops_the_job_and_lets_go_of_the_file(farm: Farm, tmp_path: Path) -> None:
    with amble.crawl(root(farm), into="site.duckdb", wait=False, **SLOW) as job:
        until_pages(job, 3)
    assert job.status is JobStatus.PAUSED
    assert opens_elsewhere(tmp_path / "site.duckdb") == "paused"
    with pytest.raises(amble.AmbleError, match="is closed"):
        job.sql("SELECT 1")
    job.close()


def test_a_job_that_nobody_holds_lets_go_of_its_file(farm: Farm, tmp_path: Path) -> None:
    job = amble.crawl(root(farm), into="site.duckdb", **QUICK)
    other = threading.Thread(target=amble.CrawlJob.sql, args=(job, "SELECT 1"))
    other.start()
    other.join()
    del other
    assert "Conflicting lock" in opens_elsewhere(tmp_path / "site.duckdb")
    del job
    gc.collect()
    assert opens_elsewhere(tmp_path / "site.duckdb") == "completed"


def opens_elsewhere(file: Path) -> str:
    """What another process finds in a file, or why it cannot open it."""
    code = f"import duckdb; print(duckdb.connect({str(file)!r}).sql('FROM amble.jobs SELECT status').fetchall()[0][0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr


def test_two_crawls_into_one_file_at_once(farm: Farm) -> None:
    with Farm([Site(name="127.0.0.1", pages=Pages(5))]) as second:
        first = amble.crawl(root(farm), into="site.duckdb", wait=False, **SLOW)
        other = amble.crawl(root(second), into="site.duckdb", **QUICK)
        first.wait()
        assert other.job_id != first.job_id
        assert first.sql("SELECT count(*) FROM pages").fetchall() == [(25,)]


def test_crawls_from_several_threads(farm: Farm) -> None:
    jobs: list[amble.CrawlJob] = []
    threads = [
        threading.Thread(target=lambda n=n: jobs.append(amble.crawl(root(farm), into=f"{n}.duckdb", **QUICK)))
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [job.result.pages for job in jobs] == [20] * 3


# -- coroutines


async def beats(stop: asyncio.Event) -> int:
    count = 0
    while not stop.is_set():
        await asyncio.sleep(0.01)
        count += 1
    return count


def test_in_a_coroutine_it_is_awaited_and_the_loop_goes_on(farm: Farm) -> None:
    async def main() -> tuple[amble.CrawlJob, int]:
        stop = asyncio.Event()
        heart = asyncio.create_task(beats(stop))
        job = await amble.crawl_async(root(farm), into="site.duckdb", **SLOW)
        stop.set()
        return job, await heart

    job, count = asyncio.run(main())
    assert job.status is JobStatus.COMPLETED
    assert count > 20


def test_a_coroutine_that_is_cancelled_stops_its_job_politely(farm: Farm) -> None:
    async def main() -> None:
        task = asyncio.create_task(amble.crawl_async(root(farm), into="site.duckdb", **SLOW))
        await asyncio.to_thread(until_requests, farm, 4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        job = await amble.resume_async("site.duckdb", allow_private=host(farm))
        assert (job.job_id, job.status) == (1, JobStatus.COMPLETED)

    asyncio.run(main())


def test_in_a_coroutine_a_call_that_would_hold_up_the_loop_is_refused_with_a_hint(farm: Farm) -> None:
    async def main() -> None:
        with pytest.raises(amble.AmbleError, match=r"await amble\.crawl_async"):
            amble.crawl(root(farm), into="site.duckdb", **QUICK)
        job = amble.crawl(root(farm), into="site.duckdb", wait=False, **QUICK)
        assert (await job).status is JobStatus.COMPLETED

    asyncio.run(main())


# -- Ctrl-C


def test_the_first_ctrl_c_stops_politely_and_says_how_to_go_on(farm: Farm, tmp_path: Path) -> None:
    """F2."""
    code = f"""
    import amble
    try:
        amble.crawl({root(farm)!r}, into="site.duckdb", **{SLOW!r})
    except KeyboardInterrupt as stopped:
        print(stopped)
    """
    program = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    until_requests(farm, 4)
    program.send_signal(signal.SIGINT)
    said, _ = program.communicate(timeout=30)
    assert f"hint: amble.resume('{tmp_path / 'site.duckdb'}', 1)" in said
    answered = sum(entry.status == 200 and entry.path.startswith("/p") for entry in farm.log())
    with amble.resume("site.duckdb", wait=False, allow_private=host(farm)) as job:
        assert job.sql("SELECT count(*) FROM pages").fetchall()[0][0] >= answered


def test_a_program_that_ends_while_a_job_runs_loses_nothing(farm: Farm, tmp_path: Path) -> None:
    code = f"""
    import amble, threading
    job = amble.crawl({root(farm)!r}, into="site.duckdb", wait=False, **{SLOW!r})
    while job.result.pages < 3:
        threading.Event().wait(0.01)
    """
    done = subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(code)], capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    answered = sum(entry.status == 200 and not entry.is_robots for entry in farm.log())
    rows = duckdb.connect("site.duckdb").sql("SELECT count(*) FROM pages").fetchall()[0][0]
    assert rows == answered


# -- notebooks


def test_what_a_notebook_shows_holds_no_markup_of_others(farm: Farm) -> None:
    job = amble.crawl(root(farm), into="<script>.duckdb", wait=False, **SLOW)
    until_pages(job, 2)
    shown = job._repr_html_()
    job.close()
    assert "<script>" not in shown
    assert "&lt;script&gt;.duckdb" in shown
    assert "<table>" in shown
    assert host(farm) in shown
    assert "<b>" not in job_html(job.progress(), "<b>")


def test_the_clock_of_a_job_that_is_over_stands_still(farm: Farm) -> None:
    job = amble.crawl(root(farm), into=":memory:", **QUICK)
    first, shown = job.progress(), job._repr_html_()
    assert first.seconds == job.result.seconds
    assert first.phase == first.status == "completed"
    assert (job.progress(), job._repr_html_()) == (first, shown)
    assert "crawling" not in shown


def test_in_a_kernel_a_cell_waits_and_shows_a_widget_that_is_written_over(farm: Farm, tmp_path: Path) -> None:
    """A real kernel, whose cells run on an event loop; asked as a notebook asks it."""
    jupyter = pytest.importorskip("jupyter_client.manager")
    manager, client = jupyter.start_new_kernel(
        kernel_name="python3", cwd=str(tmp_path), env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    )
    messages: list[dict[str, Any]] = []
    try:
        cell = f"""
        import amble
        job = amble.crawl({root(farm)!r}, into="site.duckdb", **{SLOW!r})
        print(job.sql("SELECT count(*) FROM pages").fetchall())
        await job
        """
        reply = client.execute_interactive(textwrap.dedent(cell), timeout=60, output_hook=messages.append)
        assert reply["content"]["status"] == "ok", reply["content"]
        client.execute_interactive("job", timeout=60, output_hook=messages.append)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    kinds = [message["msg_type"] for message in messages]
    assert kinds.count("display_data") == 1, "one widget"
    assert kinds.count("update_display_data") >= 1, "written over"
    assert "[(20,)]" in "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream")
    last = [m["content"]["data"] for m in messages if m["msg_type"] == "update_display_data"][-1]
    assert "20 of 20 URLs" in last["text/html"]
    values = [m["content"]["data"]["text/html"] for m in messages if m["msg_type"] == "execute_result"]
    assert ["job 1 completed" in value for value in values] == [True, True]


def test_a_widget_is_one_display_updated(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    import IPython.display

    seen: list[tuple[str, str]] = []

    class Handle:
        def update(self, said: dict[str, str], raw: bool) -> None:
            seen.append(("update", said["text/html"]))

    def display(said: dict[str, str], raw: bool, display_id: bool) -> Handle:
        seen.append(("display", said["text/html"]))
        return Handle()

    monkeypatch.setattr(IPython.display, "display", display)
    job = amble.crawl(root(farm), into=":memory:", wait=False, **QUICK)
    job.wait_or_stop(NotebookBar(lambda: job_html(job.progress(), job.into)))
    assert seen[0][0] == ("display")
    assert {kind for kind, _ in seen[1:]} <= {"update"}
    assert "20 of 20 URLs" in seen[-1][1]


def test_robots_are_kept_in_python_as_everywhere(farm: Farm) -> None:
    farm.replace(Site(name="127.0.0.1", pages=Pages(20), robots=Robots(disallow=("/",))))
    job = amble.crawl(root(farm), into=":memory:", **QUICK)
    assert job.counts["pages"] == 0
    assert [entry.path for entry in farm.log() if not entry.is_robots] == []


# -- other processes, names and contacts


def test_a_terminal_reaches_the_crawl_of_a_program(farm: Farm, capsys: pytest.CaptureFixture[str]) -> None:
    with amble.crawl(root(farm), "site.duckdb", wait=False, **SLOW) as job:
        until_pages(job, 2)
        assert main(["pause", "site.duckdb"]) == 0
        until(lambda: job.status is JobStatus.PAUSED)
        assert main(["jobs", "site.duckdb"]) == 0
        assert "paused" in capsys.readouterr().out
        assert main(["resume", "site.duckdb"]) == 0
        assert main(["stop", "site.duckdb"]) == 0
        job.wait()
    assert main(["pause", "site.duckdb"]) == 1
    assert "nothing crawls into" in capsys.readouterr().err


def test_two_jobs_of_a_program_share_one_desk(farm: Farm) -> None:
    with amble.crawl(root(farm), "site.duckdb", table="a", wait=False, **SLOW) as first:
        second = amble.crawl(root(farm), "site.duckdb", table="b", wait=False, **SLOW)
        assert {each["job_id"] for each in ask("site.duckdb", "status")["jobs"]} == {first.job_id, second.job_id}
        second.close()
        assert [each["job_id"] for each in ask("site.duckdb", "status")["jobs"]] == [first.job_id]


def test_sql_from_outside_is_declined_with_a_way_out(farm: Farm) -> None:
    with (
        amble.crawl(root(farm), "site.duckdb", wait=False, **SLOW),
        pytest.raises(amble.AmbleError, match="ask there"),
    ):
        ask("site.duckdb", "sql", query="SELECT 1")


def test_a_file_whose_name_would_hide_our_tables_is_refused_before_it_is_made(farm: Farm) -> None:
    with pytest.raises(amble.AmbleError, match="another name"):
        amble.crawl(root(farm), "Amble.duckdb", **QUICK)
    assert main(["crawl", root(farm), "--into", "amble.duckdb"]) == 1
    assert os.listdir() == []


def test_a_job_is_taken_up_with_its_own_batches(farm: Farm) -> None:
    with amble.crawl(root(farm), "site.duckdb", wait=False, batch_size=7, **SLOW) as job:
        until_pages(job, 2)
    with amble.resume("site.duckdb", allow_private=host(farm)) as job:
        assert job._running.job.store._writer.limits.batch_size == 7


def test_what_one_crawl_learned_outlasts_one_that_learns_nothing() -> None:
    """Also in the same process, where the second has the pace of the first at hand."""
    limit = Limit(lambda random: TokenBucket(4.0, 2.0))
    learning = {**QUICK, "pacing": "linear", "base_delay": 0.01, "delay_step": 0.3}
    learned = "SELECT adaptive_delay_seconds, learned_at, strategy, numbers FROM amble.domains"
    with Farm([Site(name="127.0.0.1", pages=Pages(6), limit=limit)]) as farm:
        with amble.crawl(root(farm), "site.duckdb", **learning) as job:
            before = job.sql(learned).fetchall()
        with amble.crawl(root(farm), "site.duckdb", table="again", **SLOW) as job:
            after = job.sql(learned).fetchall()
    assert before[0][0] > 0
    assert after == before


@pytest.mark.timeout(30)  # without it the crawl waits for its proxy
def test_a_job_is_taken_up_with_the_password_of_today(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never stored, so whoever goes on must have it."""
    with proxy_server("me", "secret") as server:
        login = {"http_proxy": f"http://127.0.0.1:{server.server_port}", "http_proxy_username": "me"}
        for name, value in {**login, "http_proxy_password": "secret"}.items():
            monkeypatch.setenv(f"AMBLE_{name.upper()}", value)
        with amble.crawl(root(farm), "site.duckdb", wait=False, **SLOW) as job:
            until_pages(job, 3)
        assert job.status is JobStatus.PAUSED
        with amble.resume("site.duckdb", allow_private=host(farm)) as again:
            assert again.sql("SELECT count(*), count(error_type) FROM pages").fetchall() == [(20, 0)]


@pytest.mark.parametrize(
    ("pages", "contact", "warned"), [(101, {}, 1), (101, {"contact": "me@you.example"}, 0), (90, {}, 0)]
)
def test_more_than_a_hundred_pages_without_a_contact_warn_once(
    pages: int, contact: dict[str, Any], warned: int
) -> None:
    with Farm([Site(name="127.0.0.1", pages=Pages(pages, 500))]) as farm, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        amble.crawl(root(farm), ":memory:", **QUICK, **contact).close()
        options = ", ".join(f"{name} = '{value}'" for name, value in {**QUICK, **contact}.items())
        with amble.connect() as con:
            con.execute(f"CRAWL (SELECT '{root(farm)}') INTO pages WITH ({options})")
    assert len([each for each in told if "whom to write to" in str(each.message)]) == 2 * warned
