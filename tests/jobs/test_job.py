"""A crawl of the farm into a real file: every URL one row, receipts that hold, learning that comes back."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from amble.cli.exits import exit_of
from amble.core.pacing.events import BlockOpened, CircuitOpened, Event, NobodyReached, PaceChanged, TailBegan
from amble.errors import BadUrl, StoreError
from amble.jobs import Job, JobResult
from amble.report.audit import audit
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import JobStatus
from amble.testing.farm import Farm, Pages, Robots, Site
from amble.testing.farm.exchange import Response
from amble.testing.farm.faults import Errors
from amble.testing.farm.limits import Limit
from amble.testing.farm.outages import Outage
from amble.testing.lab.limiters import TokenBucket
from tests.sql.web import Paths

QUICK = {"pacing": "fixed", "fixed_delay": 0, "max_rate": "unlimited", "follow_links": True}


def sites() -> list[Site]:
    return [
        Site(name="a.test", pages=Pages(12)),
        Site(name="b.test", pages=Pages(8), robots=Robots(crawl_delay_s=0.1)),
    ]


def crawl(
    farm: Farm, file: Path, listeners: Sequence[Callable[[Event], None]] = (), table: str = "pages", **settings: Any
) -> JobResult:
    with DuckDBStore.open(file) as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver, "listeners": listeners}
        return asyncio.run(Job.start(store, farm.roots(), Settings.of({**QUICK, **settings}), table, **ways).run())


def test_every_accepted_url_has_exactly_one_row(tmp_path: Path) -> None:
    with Farm(sites()) as farm:
        result = crawl(farm, tmp_path / "x.duckdb")
        report = farm.judge()
    assert result.status is JobStatus.COMPLETED
    assert [site.missing for site in report.hosts] == [(), ()]
    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        counts = store.counts(result.job_id)
        rows = (
            store.database.connect().execute("SELECT count(*), count(DISTINCT url), count(body) FROM pages").fetchall()
        )
    assert counts.accepted == counts.final == result.pages
    assert rows == [(result.pages, result.pages, result.pages)]


def test_the_receipts_prove_that_the_crawl_delay_was_kept(tmp_path: Path) -> None:
    with Farm(sites()) as farm:
        crawl(farm, tmp_path / "x.duckdb")
        assert sum(site.under_crawl_delay for site in farm.judge().hosts) == 0
    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        found = audit(store.database.connect())
        rules = (
            store.database.connect()
            .execute("SELECT DISTINCT rule FROM amble.requests WHERE domain LIKE 'b.%'")
            .fetchall()
        )
    assert found.violations == ()
    assert found.requests > 20
    assert ("crawl_delay",) in rules


def test_an_audit_finds_a_request_that_came_too_early(tmp_path: Path) -> None:
    with Farm(sites()) as farm:
        crawl(farm, tmp_path / "x.duckdb")
    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        cursor = store.database.connect()
        cursor.execute("UPDATE amble.requests SET actual_gap_s = 0.01 WHERE rule = 'crawl_delay' AND permit = 5")
        found = audit(cursor)
    assert [violation.rule for violation in found.violations] == ["crawl_delay"]
    assert "1 violations" in found.as_text()


def test_a_job_that_was_drained_is_taken_up_where_it_was_left(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    with Farm([Site(name="a.test", pages=Pages(40))]) as farm:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}

        async def interrupted(store: DuckDBStore) -> JobResult:
            job = Job.start(store, farm.roots(), Settings.of({**QUICK, "fixed_delay": 0.02}), **ways)
            asyncio.get_running_loop().call_later(0.3, job.crawl.drain)
            return await job.run()

        with DuckDBStore.open(file) as store:
            first = asyncio.run(interrupted(store))
            assert first.status is JobStatus.PAUSED
            assert store.counts(first.job_id).deferred > 0
        with DuckDBStore.open(file) as store:
            second = asyncio.run(Job.take_up(store, first.job_id, **ways).run())
            counts = store.counts(first.job_id)
            rows = store.database.connect().execute("SELECT count(*), count(DISTINCT url) FROM pages").fetchall()
            counted = store.jobs()[0].counters
        assert [site.missing for site in farm.judge().hosts] == [()]
    assert second.status is JobStatus.COMPLETED
    assert counted == {
        "pages": first.pages + second.pages, "requests": first.requests + second.requests, "limited": 0, "failed": 0,
        "skipped": 0, "left_out": 0,
    }  # fmt: skip
    assert counts.accepted == counts.final
    assert rows == [(counts.final, counts.final)]


def test_what_a_job_did_not_fetch_is_counted_with_it(tmp_path: Path) -> None:
    settings = Settings.of({**QUICK, "max_crawl_depth": 1})
    with Farm([Site(name="a.test", pages=Pages(40))]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        result = asyncio.run(Job.start(store, farm.roots(), settings, **ways).run())
        counted = store.jobs()[0].counters
    assert result.pages < 40
    assert counted["left_out"] == result.left_out.total() > 0


def test_events_reach_those_who_listen_and_learning_comes_back(tmp_path: Path) -> None:
    heard: list[Event] = []
    learning: dict[str, Any] = {"pacing": "linear", "base_delay": 0.01, "delay_step": 0.5}
    learning["success_probe_threshold"] = 1_000  # so that nothing is tried out meanwhile
    # Slow enough to be met on the busiest machine, and one step is all it takes to keep to it.
    limited = Site(name="limited.test", pages=Pages(6), limit=Limit(lambda random: TokenBucket(2.0, 3.0)))
    with Farm([limited]) as farm:
        first = crawl(farm, tmp_path / "x.duckdb", [heard.append], **learning)
        assert first.limited > 0
        assert any(isinstance(event, BlockOpened) for event in heard)
        with DuckDBStore.open(tmp_path / "x.duckdb") as store:
            known = {row.domain: row.adaptive_delay_seconds for row in store.load_domains()}
        assert (known.popitem()[1] or 0.0) > 0.5
        farm.clear()
        second = crawl(farm, tmp_path / "x.duckdb", table="again", **learning)
    assert (second.pages, second.limited) == (6, 0)


@pytest.mark.parametrize(("level", "told"), [(logging.INFO, True), (logging.WARNING, False)])
def test_a_crawl_logs_each_change_of_pace_with_domain_delay_streak_and_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, level: int, told: bool
) -> None:
    heard: list[Event] = []
    learning: dict[str, Any] = {"pacing": "linear", "base_delay": 0.01, "delay_step": 0.2}
    site = Site(name="limited.test", pages=Pages(6), limit=Limit(lambda random: TokenBucket(2.0, 3.0)))
    with Farm([site]) as farm, caplog.at_level(level, logger="amble"):
        crawl(farm, tmp_path / "x.duckdb", [heard.append], **learning)
    changes = [event for event in heard if isinstance(event, BlockOpened | CircuitOpened | PaceChanged)]
    assert len(changes) >= 2
    lines = [vars(record) for record in caplog.records if record.name == "amble.pacing"]
    names = ("domain", "error_streak", "reason")
    assert [[line[name] for name in names] for line in lines] == [
        [getattr(event, name) for name in names] for event in changes if told
    ]
    slower = [line for line in lines if line["change"] == "PaceChanged"]
    assert [line["delay_s"] for line in slower] == [
        event.delay_s for event in changes if told and isinstance(event, PaceChanged)
    ]
    assert all("error streak" in line["message"] for line in slower)


@pytest.mark.parametrize("seed", ["ftp://a.test/", "", "http://"])
def test_a_bad_seed_is_refused_before_anything_is_stored(tmp_path: Path, seed: str) -> None:
    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        with pytest.raises(BadUrl):
            Job.start(store, ["http://a.test/", seed], Settings())
        assert store.jobs() == []


def test_the_error_of_a_job_goes_when_it_is_taken_up_to_its_end(tmp_path: Path) -> None:
    with Farm(sites()[:1]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}

        async def break_off() -> None:
            job = Job.start(store, farm.roots(), Settings.of({**QUICK, "fixed_delay": 0.05}), **ways)
            asyncio.get_running_loop().call_later(0.3, job.crawl.fail, ValueError("of ours"))
            with pytest.raises(ValueError, match="of ours"):
                await job.run()

        asyncio.run(break_off())
        [job] = store.jobs()
        assert (job.status, job.error) == (JobStatus.PAUSED, "ValueError: of ours")
        asyncio.run(Job.take_up(store, job.id, **ways).run())
        [job] = store.jobs()
        assert (job.status, job.error) == (JobStatus.COMPLETED, None)


def test_a_job_of_another_version_is_taken_up_by_what_is_known_of_its_settings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "x.duckdb"
    with Farm(sites()[:1]) as farm:
        with DuckDBStore.open(file) as store:
            Job.start(store, farm.roots(), Settings.of(QUICK))
            stored = json.dumps({**QUICK, "dns_threads": 3, "warp\x1bspeed": 9})
            store.database.connect().execute("UPDATE amble.jobs SET settings = $1", [stored])
        with DuckDBStore.open(file) as store, caplog.at_level("WARNING", logger="amble.jobs"):
            job = Job.take_up(store, 1, policy=farm.policy, resolver=farm.resolver)
            assert asyncio.run(job.run()).status is JobStatus.COMPLETED
    assert job.settings == Settings.of({**QUICK, "dns_lookups": 3})
    assert [record.getMessage() for record in caplog.records] == [
        "job 1 goes on without settings that this version does not take: 'warp\\x1bspeed'"
    ]


def test_an_unknown_job_cannot_be_taken_up(tmp_path: Path) -> None:
    with DuckDBStore.open(tmp_path / "x.duckdb") as store, pytest.raises(StoreError, match="no job 7"):
        Job.take_up(store, 7)


def test_a_site_that_does_not_exist_fails_the_job_soon_f8(tmp_path: Path) -> None:
    """A name typed wrong is asked for once more and no oftener, and is not called done."""
    with Farm(sites()) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        settings = Settings.of({**QUICK, "robots_retry_delay": 0.05})
        result = asyncio.run(Job.start(store, ["http://typo.test/"], settings, **ways).run())
        rows = store.database.connect().execute("SELECT error_type, error FROM pages").fetchall()
        [job] = store.jobs()
    assert (result.status, result.failed, result.requests) == (JobStatus.FAILED, 1, 2)
    assert job.error == "no domain is left: 1 network_dns_failure"
    assert rows == [("network_dns_failure", "not a site of the farm")]


def test_where_every_name_is_denied_the_job_fails_and_says_what_to_look_at(tmp_path: Path) -> None:
    events: list[Event] = []
    with Farm(sites()) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver, "listeners": [events.append]}
        seeds = [f"http://typo{number}.test/" for number in range(9)]
        result = asyncio.run(Job.start(store, seeds, Settings.of(QUICK), **ways).run())
        [job] = store.jobs()
    line = "every name is denied: is this machine online, behind a portal?"
    assert (result.status, result.failed, exit_of(result)) == (JobStatus.FAILED, 9, 3)
    assert job.error == line
    assert [event.reason for event in events if isinstance(event, NobodyReached)] == [line]


@pytest.mark.parametrize(("others", "status"), [(0, JobStatus.FAILED), (1, JobStatus.COMPLETED_WITH_ERRORS)])
def test_a_job_has_failed_when_no_domain_is_left(tmp_path: Path, others: int, status: JobStatus) -> None:
    """Though some pages were got before."""
    broken = [f"/broken/{number}" for number in range(9)]
    with (
        Farm([Site(name="a.test", features=(Errors(broken=9),)), *sites()[1 : 1 + others]]) as farm,
        DuckDBStore.open(tmp_path / "x.duckdb") as store,
    ):
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        settings = Settings.of({**QUICK, "follow_links": False, "job_failure_threshold": 3, "max_retries": 0})
        seeds = [farm.url("a.test"), *(farm.url("a.test", path) for path in broken), *farm.roots()[1:]]
        result = asyncio.run(Job.start(store, seeds, settings, **ways).run())
        [job] = store.jobs()
    assert result.pages == 1 + others
    assert result.status is status
    assert (job.error is not None) is (status is JobStatus.FAILED)


def test_a_site_that_never_brings_a_page_is_given_up_and_asked_by_the_next_crawl(tmp_path: Path) -> None:
    """One place for all requests, which a request without an answer holds: it is abandoned."""
    file, said = tmp_path / "x.duckdb", list[Event]()
    dead = Site(name="dead.test", outages=(Outage(0.0, 3.0, "reset"), Outage(3.0, 3_600.0, "hang")))
    settings: dict[str, Any] = {
        "max_tail": 10.0,
        "max_total_connections": 1,
        "header_timeout_s": 90.0,
        "http_timeout": 120.0,
        "robots_retry_delay": 8,
    }
    with Farm([Site(name="a.test", pages=Pages(3)), dead]) as farm:
        result = crawl(farm, file, [said.append], **settings)
        assert (result.ends["done"], result.ends["domain_given_up"]) == (3, 1)
        assert result.seconds < 60.0
        assert [event.given_up for event in said if isinstance(event, TailBegan)]
    with Farm([Site(name="dead.test", pages=Pages(2))]) as farm, DuckDBStore.open(file) as store:
        url = farm.roots()[0]
        store.database.connect().execute("UPDATE pages SET url = $1 WHERE error_type = 'domain_given_up'", [url])
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        job = Job.start(store, farm.roots(), Settings.of({**QUICK, "max_crawl_pages": 9}), **ways)
        assert url not in job.plan.tried
        assert asyncio.run(job.run()).pages == 2


def test_a_streak_of_refusals_ends_the_job_as_cancelled_with_its_reason(tmp_path: Path) -> None:
    """`cancel_on_limit_streak`, as those who asked for it want it: not deferred, and not without a word."""
    refused = Paths({"/x": Response(429, {}, ())})
    streak = {"pacing": "linear", "max_adaptive_delay": 0.5, "max_rate": "unlimited", "cancel_on_limit_streak": 1}
    site = Site(name="a.test", pages=Pages(0), features=(refused,))
    with Farm([site]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        settings = Settings.of({**streak, "discover": False})
        result = asyncio.run(Job.start(store, [farm.url("a.test", "/x")], settings, **ways).run())
        [job] = store.jobs()
    assert (result.status, job.status, exit_of(result)) == (JobStatus.CANCELLED, JobStatus.CANCELLED, 6)
    assert job.error is not None
    assert "1 refusals in a row at the longest delay" in job.error
