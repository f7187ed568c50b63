"""Crawling on: a second crawl into a file that holds pages already, and a job taken up within its budget."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import duckdb

from amble.jobs import Job, JobResult
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import JobStatus
from amble.testing.farm import Farm, Pages, Site
from amble.testing.farm.outages import Outage
from tests.e2e.test_farm import crawl, missing

QUICK = {"pacing": "fixed", "fixed_delay": 0.0, "max_rate": "unlimited", "discover": False, "follow_links": True}


def titles(file: Path) -> dict[str, str | None]:
    with duckdb.connect(str(file)) as connection:
        return dict(connection.execute("SELECT url, title FROM pages").fetchall())


def test_a_page_that_changed_replaces_its_row(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    with Farm([Site(name="a.test", pages=Pages(20))]) as farm:
        crawl(farm, file, **QUICK)
        before = titles(file)
        farm.replace(Site(name="a.test", pages=Pages(20, edition=2)))
        farm.clear()
        again = crawl(farm, file, **QUICK, update_stale=True)
        assert missing(again.report) == {}
    after = titles(file)
    assert after.keys() == before.keys()
    changed = {url for url in after if after[url] != before[url]}
    assert len(changed) == 4, "every fifth page has a second edition"
    assert all("edition 2" in (after[url] or "") for url in changed)


def test_urls_that_failed_are_got_when_they_can_be(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    down = Site(name="a.test", pages=Pages(20), outages=(Outage(0.3, 600.0, "error"),))
    with Farm([down]) as farm:
        impatient = {"fixed_delay": 0.05, "max_retries": 0, "open_state_duration": 0.1, "open_state_duration_max": 0.1}
        crawl(farm, file, **QUICK | impatient)
        failed = [url for url, title in titles(file).items() if title is None]
        assert failed
        farm.replace(Site(name="a.test", pages=Pages(20)))
        crawl(farm, file, **QUICK)
    after = titles(file)
    assert len(after) == 20
    assert all(after.values())


def test_the_budget_of_a_job_holds_over_a_resumption(tmp_path: Path) -> None:
    """What was done before it was taken up counts."""
    settings = Settings.of({**QUICK, "fixed_delay": 0.05, "max_crawl_pages": 15})
    with Farm([Site(name="a.test", pages=Pages(40))]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}

        async def interrupted() -> JobResult:
            job = Job.start(store, farm.roots(), settings, **ways)
            asyncio.get_running_loop().call_later(0.4, job.crawl.drain)
            return await job.run()

        first = asyncio.run(interrupted())
        assert first.status is JobStatus.PAUSED
        second = asyncio.run(Job.take_up(store, first.job_id, **ways).run())
        assert second.status is JobStatus.COMPLETED
        assert store.counts(first.job_id).final == 15 == first.pages + second.pages
