"""A crawl whose pages are fetched and read by processes beside it, judged by the server's log and by what is stored.

Their number changes nothing but the speed: the same rows, the same gaps, one budget per domain. Workers are killed at
random moments [F1, G1], by a page [G9], and left without their crawl.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from amble.core.frontier.recall import Leads
from amble.core.frontier.visit import Visit
from amble.errors import WorkersDied
from amble.fetcher import Resolution
from amble.jobs import Job, JobResult
from amble.report.audit import audit
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import JobStatus
from amble.testing.farm import Farm, FarmProcess, Pages, Robots, Site, Sitemap
from amble.testing.rawserver import answer_each, response, serve
from amble.workers import child
from amble.workers.demand import AT_ONCE

QUICK = {
    "pacing": "fixed", "fixed_delay": 0, "max_rate": "unlimited", "follow_links": True, "threads": 2,
    "retry_backoff": "exponential", "retry_base_delay": 0.01, "robots_retry_delay": 0.05,
}  # fmt: skip
CRAWL_DELAY_S = 0.2
Beside = Callable[[Job], Awaitable[None]]


def sites() -> list[Site]:
    return [
        Site(name="a.test", pages=Pages(150)),
        Site(name="b.test", pages=Pages(150)),
        Site(name="listed.test", pages=Pages(60), sitemap=Sitemap()),
        Site(name="slow.test", pages=Pages(8), robots=Robots(crawl_delay_s=CRAWL_DELAY_S)),
    ]


async def nothing(job: Job) -> None:
    """Let it run."""


def run(job: Job, beside: Beside = nothing, *, workers: int = 2) -> JobResult:
    """To its end; everything is fetched by workers, unless there are to be none."""

    async def both() -> JobResult:
        assert job.workers is not None
        if workers:
            job.workers.start()
            await workers_of(job, workers)
        other = asyncio.ensure_future(beside(job))
        try:
            return await job.run()
        finally:
            other.cancel()
            await asyncio.gather(other, return_exceptions=True)

    return asyncio.run(both())


def crawl(farm: Farm, file: Path, beside: Beside = nothing, **settings: Any) -> JobResult:
    with DuckDBStore.open(file) as store:
        wanted = Settings.of({**QUICK, **settings})
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        return run(Job.start(store, farm.roots(), wanted, **ways), beside)


async def workers_of(job: Job, count: int = 1) -> list[int]:
    """As soon as there are so many."""
    workers = job.workers
    assert workers is not None
    await until(lambda: len(workers.pids) >= count)
    return workers.pids


async def until(happened: Callable[[], bool]) -> None:
    while not happened():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.002)


def check_rows(file: Path, farm: Farm | FarmProcess) -> None:
    """Every page has one row, every task has ended, and the receipts hold."""
    with DuckDBStore.open(file) as store:
        counts = store.counts(1)
        cursor = store.database.connect()
        rows = cursor.execute("SELECT url FROM pages WHERE body IS NOT NULL ORDER BY url").fetchall()
        found = audit(cursor)
    assert [url for (url,) in rows] == sorted(farm.urls())
    assert counts.accepted == counts.final == counts.done == len(rows)
    assert found.violations == ()


def test_two_workers_keep_the_gaps_of_each_domain_and_bring_every_page(tmp_path: Path) -> None:
    seen: list[int] = []

    async def look(job: Job) -> None:
        seen.extend(await workers_of(job, 2))

    with Farm(sites()) as farm:
        result = crawl(farm, tmp_path / "x.duckdb", look, max_parallel_per_domain=2)
        report = farm.judge()
    assert result.status is JobStatus.COMPLETED
    assert len(set(seen)) == 2
    assert os.getpid() not in seen
    assert [site.missing for site in report.hosts] == [()] * 4
    assert report.violations == 0
    assert report["slow.test"].under_crawl_delay == 0
    assert max(site.in_flight_max for site in report.hosts) <= 2
    check_rows(tmp_path / "x.duckdb", farm)
    assert [gone(pid) for pid in seen] == [True, True]


def test_links_are_kept_whole_though_few_are_named_once_they_were_seen(tmp_path: Path) -> None:
    named: Counter[int] = Counter()
    links: list[list[tuple[str, ...]]] = []
    with Farm(sites()[:2]) as farm:
        for workers in (0, 2):
            file = tmp_path / f"{workers}.duckdb"
            with DuckDBStore.open(file) as store:
                ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
                job = Job.start(store, farm.roots(), Settings.of(QUICK), **ways)
                found_on = job.plan.found_on

                def counted(visit: Visit, leads: Leads, workers: int = workers, found_on: Any = found_on) -> Any:
                    named[workers] += len(leads.links)
                    return found_on(visit, leads)

                job.plan.found_on = counted  # type: ignore[method-assign]
                run(job, workers=workers)
                links.append(
                    store.database.connect().execute("SELECT from_url, to_url, rel, anchor FROM amble.links").fetchall()
                )
            check_rows(file, farm)
    assert sorted(links[0], key=str) == sorted(links[1], key=str)
    assert named[0] >= 0.9 * len(links[0])  # the others are canonical URLs
    assert named[2] < named[0] / 2


def test_what_was_not_taken_is_named_and_counted_each_time(tmp_path: Path) -> None:
    """Where pages link deeper than the crawl goes, and with `nofollow`."""
    left_out = []
    with Farm([Site(name="a.test", pages=Pages(150, 4_000, quirks=True))]) as farm:
        for workers in (0, 2):
            with DuckDBStore.open(tmp_path / f"{workers}.duckdb") as store:
                ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
                job = Job.start(store, farm.roots(), Settings.of({**QUICK, "max_crawl_depth": 1}), **ways)
                left_out.append(run(job, workers=workers).left_out)
    assert left_out[0] == left_out[1]
    assert left_out[0]["too_deep"] > 100
    assert left_out[0]["nofollow"] > 1


def test_redirects_between_typed_private_sites_are_followed_whichever_process_asked_them_d4(tmp_path: Path) -> None:
    """A domain stays with one helper, so that half of the redirects lead to the other."""

    def answer(head: bytes) -> bytes:
        path, host = head.split()[1], head.lower().partition(b"host: ")[2].split()[0]
        if path == b"/robots.txt":
            return response(b"", status="404 Not Found")
        if host.startswith(b"127.0.0.2:") or path != b"/":
            return response(b"<title>t</title>", "Content-Type: text/html")
        number, port = host.partition(b":")[0].rpartition(b".")[2], host.partition(b":")[2]
        home = f"http://127.0.0.2:{port.decode()}/from/{number.decode()}"
        return response(b"", f"Location: {home}", status="302 Found")

    async def both() -> JobResult:
        async with serve(answer_each(answer), host="0.0.0.0") as server:
            seeds = [f"http://127.0.0.{number}:{server.port}/" for number in range(2, 14)]
            with DuckDBStore.open(tmp_path / "x.duckdb") as store:
                job = Job.start(store, seeds, Settings.of({**QUICK, "follow_links": False}), typed=seeds)
                assert job.workers is not None
                job.workers.start()
                await workers_of(job, 2)
                return await job.run()

    result = asyncio.run(both())
    assert dict(result.ends) == {"done": 12 + 11}, "every redirect, and where it leads"


def test_a_small_crawl_uses_one_process(tmp_path: Path) -> None:
    pids: list[int] = []

    async def look(job: Job) -> None:
        pids.extend(await workers_of(job))

    with Farm([Site(name="a.test", pages=Pages(40)), Site(name="b.test", pages=Pages(40))]) as farm:
        with DuckDBStore.open(tmp_path / "x.duckdb") as store:
            ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
            run(Job.start(store, farm.roots(), Settings.of(QUICK), **ways), look, workers=0)
        check_rows(tmp_path / "x.duckdb", farm)
    assert pids == []


@pytest.mark.parametrize("seed", range(int(os.environ.get("AMBLE_WORKER_KILLS", "2"))))
def test_nothing_is_lost_when_workers_are_killed_at_random_moments_f1_g1(tmp_path: Path, seed: int) -> None:
    random = Random(f"workers {seed}")
    killed: list[int] = []

    async def kill(job: Job) -> None:
        for _ in range(3):
            pids = await workers_of(job)
            await asyncio.sleep(random.uniform(0.0, 0.1))
            pid = random.choice(pids)
            if not gone(pid):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    with Farm(sites()) as farm:
        result = crawl(farm, tmp_path / "x.duckdb", kill)
        report = farm.judge()
    assert killed
    assert result.status is JobStatus.COMPLETED
    assert [site.missing for site in report.hosts] == [()] * 4
    assert report["slow.test"].under_crawl_delay == 0
    check_rows(tmp_path / "x.duckdb", farm)


def test_a_worker_that_hangs_is_ended_and_nothing_is_lost_g2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped, it would send what it holds when it wakes, long after its permits: it never wakes."""
    monkeypatch.setattr(child, "PATIENCE_S", 0.3)
    monkeypatch.setattr(child, "LOOK_EVERY_S", 0.1)
    stopped: list[int] = []

    async def stop_one(job: Job) -> None:
        await until(lambda: job.result.pages >= 10)
        stopped.append((await workers_of(job, 2))[0])
        os.kill(stopped[0], signal.SIGSTOP)

    with Farm(sites()) as farm:
        result = crawl(farm, tmp_path / "x.duckdb", stop_one, http_timeout=2)
        assert farm.judge()["slow.test"].under_crawl_delay == 0
    assert result.status is JobStatus.COMPLETED
    assert gone(stopped[0])
    check_rows(tmp_path / "x.duckdb", farm)


class Poisoned:
    """A host that kills every process that looks it up, save the one it was made in."""

    def __init__(self, inner: Any, host: str) -> None:
        self._inner, self._host, self._home = inner, host, os.getpid()

    async def resolve(self, host: str) -> Resolution:
        if host == self._host and os.getpid() != self._home:
            os.kill(os.getpid(), signal.SIGKILL)
        found: Resolution = await self._inner.resolve(host)
        return found

    def close(self) -> None:
        """Nothing is held."""


def poisoned(store: DuckDBStore, farm: Farm, **settings: Any) -> Job:
    ways: dict[str, Any] = {"policy": farm.policy, "resolver": Poisoned(farm.resolver, "b.test")}
    wanted = Settings.of({**QUICK, "respect_robots_txt": False, "discover": False, **settings})
    return Job.start(store, farm.roots(), wanted, **ways)


def test_what_kills_every_worker_ends_with_a_row_and_the_others_go_on_g9(tmp_path: Path) -> None:
    web = [Site(name="a.test", pages=Pages(40)), Site(name="b.test", pages=Pages(1))]
    with Farm(web) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        result = run(poisoned(store, farm, max_retries=1))
        rows = store.database.connect().execute(
            "SELECT domain, count(*), any_value(error_type) FROM pages GROUP BY ALL"
        )
        found = {domain.partition(":")[0]: (count, error) for domain, count, error in rows.fetchall()}
    assert found == {"a.test": (40, None), "b.test": (1, "cancelled")}
    assert result.status is JobStatus.COMPLETED_WITH_ERRORS


def test_a_crawl_whose_workers_die_again_and_again_stops_and_can_be_taken_up(tmp_path: Path) -> None:
    """Taken up, it is small enough for one process: what is started with workers goes on without them."""
    with Farm([Site(name="b.test", pages=Pages(20))]) as farm:
        with DuckDBStore.open(tmp_path / "x.duckdb") as store:
            with pytest.raises(WorkersDied, match="threads = 1"):
                run(poisoned(store, farm, max_retries=9))
            assert store.jobs()[0].status is JobStatus.PAUSED
            ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
            result = run(Job.take_up(store, 1, **ways), workers=0)
        assert result.status is JobStatus.COMPLETED
        check_rows(tmp_path / "x.duckdb", farm)


def test_a_job_of_one_process_goes_on_with_two(tmp_path: Path) -> None:
    with Farm([Site(name="a.test", pages=Pages(80)), Site(name="b.test", pages=Pages(80))]) as farm:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}

        async def stop_soon(job: Job) -> None:
            await until(lambda: job.result.pages >= 10)
            job.crawl.drain()

        with DuckDBStore.open(tmp_path / "x.duckdb") as store:
            first = run(Job.start(store, farm.roots(), Settings.of(QUICK), **ways), stop_soon, workers=0)
            second = run(Job.take_up(store, 1, **ways))
        assert first.status is JobStatus.PAUSED
        assert second.status is JobStatus.COMPLETED
        assert first.pages + second.pages == 160
        check_rows(tmp_path / "x.duckdb", farm)


def test_a_stop_reaches_what_workers_have_in_hand_and_they_end(tmp_path: Path) -> None:
    pids: list[int] = []

    async def stop_soon(job: Job) -> None:
        pids.extend(await workers_of(job, 2))
        await until(lambda: job.result.pages >= 10)
        job.crawl.stop()

    with Farm(sites()) as farm:
        result = crawl(farm, tmp_path / "x.duckdb", stop_soon)
    assert result.status is JobStatus.PAUSED
    assert [gone(pid) for pid in pids] == [True, True]


@pytest.mark.parametrize(("workers", "told"), [(2, [True, False]), (0, [False])])
def test_the_store_is_told_while_several_processes_bring_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, told: list[bool]
) -> None:
    heard: list[bool] = []
    monkeypatch.setattr(DuckDBStore, "store_in_bulk", lambda store, job_id, in_bulk: heard.append(in_bulk))
    with Farm([Site(name="a.test", pages=Pages(40))]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        assert run(Job.start(store, farm.roots(), Settings.of(QUICK), **ways), workers=workers).pages == 40
    assert heard == told


@pytest.mark.parametrize("executable", ["/no/such/program", "/bin/false"])
def test_where_no_process_can_be_started_the_crawl_goes_on_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    monkeypatch.setattr(sys, "executable", executable)

    async def start(job: Job) -> None:
        assert job.workers is not None
        job.workers.start()

    with Farm([Site(name="a.test", pages=Pages(40)), Site(name="b.test", pages=Pages(40))]) as farm:
        with DuckDBStore.open(tmp_path / "x.duckdb") as store:
            ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
            result = run(Job.start(store, farm.roots(), Settings.of(QUICK), **ways), start, workers=0)
        assert result.status is JobStatus.COMPLETED
        check_rows(tmp_path / "x.duckdb", farm)


def test_a_resolver_that_cannot_leave_the_process_keeps_the_crawl_in_it(tmp_path: Path) -> None:
    class Local(Poisoned):
        """Nobody else can import it."""

    with Farm([Site(name="a.test", pages=Pages(5))]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": Local(farm.resolver, "b.test")}
        job = Job.start(store, farm.roots(), Settings.of(QUICK), sharing=AT_ONCE, **ways)
        assert run(job, workers=0).pages == 5
        assert job.workers is not None
        assert job.workers.count == 1


def gone(pid: int) -> bool:
    """Whether a process is no more, or waits for nothing but to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
