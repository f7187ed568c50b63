"""A crawl of the farm into a real file: every URL one row, receipts that hold, learning that comes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from amble.core.pacing.events import BlockOpened, CircuitOpened, Event, PaceChanged
from amble.errors import BadUrl, StoreError
from amble.jobs import Job, JobResult
from amble.report.audit import audit
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import JobStatus
from amble.testing.farm import Farm, Pages, Robots, Site
from amble.testing.farm.limits import Limit
from amble.testing.lab.limiters import TokenBucket

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


@pytest.mark.parametrize(("others", "status"), [(0, JobStatus.FAILED), (1, JobStatus.COMPLETED_WITH_ERRORS)])
def test_a_job_has_failed_when_no_domain_is_left(tmp_path: Path, others: int, status: JobStatus) -> None:
    """Though some pages were got before."""
    gone = [f"/gone/{number}" for number in range(9)]
    with Farm(sites()[: 1 + others]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        settings = Settings.of({**QUICK, "follow_links": False, "job_failure_threshold": 3, "fixed_delay": 0.01})
        seeds = [farm.url("a.test"), *(farm.url("a.test", path) for path in gone), *farm.roots()[1:]]
        result = asyncio.run(Job.start(store, seeds, settings, **ways).run())
        [job] = store.jobs()
    assert result.pages == 1 + others
    assert result.status is status
    assert (job.error is not None) is (status is JobStatus.FAILED)
