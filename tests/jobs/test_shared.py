"""Jobs that run at once share the budget of each domain: judged by what the sites' own logs say of all of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from amble.jobs import runner
from amble.jobs.runner import RunningJob
from amble.report.audit import audit
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import JobStatus
from amble.testing.farm import Entry, Farm, Pages, Report, Robots, Site, SiteReport
from amble.testing.farm.judge import Tolerance
from amble.testing.farm.limits import refusing, window
from amble.testing.lab.servers import LogNormal

QUICK = {"pacing": "fixed", "fixed_delay": 0, "max_rate": "unlimited", "follow_links": True}
# Where gaps are looked at: while one request connects the next may come closer to it, and the receipts say so.
IN_TURN: dict[str, Any] = {"max_parallel_per_domain": 1}
HELD_UP = 2
LENIENT = Tolerance(spacing_s=0.05)
ONE, TWO = {"user_agent": "one/1.0"}, {"user_agent": "two/1.0"}


def crawl_at_once(farm: Farm, folder: Path, *settings: dict[str, Any]) -> list[DuckDBStore]:
    """Each crawls the farm into a file of its own, all at the same time; every one of them comes to its end."""
    stores = [DuckDBStore.open(folder / f"{number}.duckdb") for number in range(len(settings))]
    ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
    all_there = threading.Event()
    runner.engine().call(lambda: wait_for(all_there))  # nobody has a start over the others
    jobs = []
    for store, each in zip(stores, settings, strict=True):
        jobs.append(runner.start(store, farm.roots(), Settings.of({**QUICK, **each}), **ways))
    all_there.set()
    assert [job.wait(60).status for job in jobs] == [JobStatus.COMPLETED] * len(jobs)
    for store, job in zip(stores, jobs, strict=True):
        check(store, job, farm)
    return stores


def wait_for(event: threading.Event) -> None:
    event.wait(30)


def check(store: DuckDBStore, job: RunningJob, farm: Farm) -> None:
    """Everything was got, into this very file, and every receipt is in order."""
    urls = {
        url for (url,) in store.database.connect().execute("SELECT url FROM pages WHERE http_status = 200").fetchall()
    }
    assert urls == set(farm.urls())
    assert job.result.pages == len(urls)
    assert audit(store.database.connect()).violations == ()
    store.close()


def only(report: Report) -> SiteReport:
    (site,) = report.hosts
    return site


def spaced(entries: Sequence[Entry], gap_s: float) -> bool:
    """Whether requests came a gap apart, on a machine that may hold up a few of them.

    A request that is held up comes closer to the next one, but takes nothing off the time for all of them. Two jobs
    that knew nothing of each other would need about half of that time.
    """
    arrived = sorted(entry.arrived for entry in entries)
    return arrived[-1] - arrived[0] >= (len(arrived) - 1 - HELD_UP) * gap_s


def test_two_jobs_together_keep_the_crawl_delay_and_ask_for_robots_once(tmp_path: Path) -> None:
    with Farm([Site(name="a.test", pages=Pages(12), robots=Robots(crawl_delay_s=0.1))]) as farm:
        crawl_at_once(farm, tmp_path, IN_TURN, IN_TURN)
        site, log = only(farm.judge()), farm.log()
    assert spaced(log, 0.1)
    assert site.robots_fetches == 1
    assert site.before_robots == 0


def test_neither_of_two_jobs_is_kept_from_its_turn_by_the_other(tmp_path: Path) -> None:
    with Farm([Site(name="a.test", pages=Pages(20), robots=Robots(crawl_delay_s=0.05))]) as farm:
        crawl_at_once(farm, tmp_path, ONE | IN_TURN, TWO | IN_TURN)
        log = farm.log()
    agents = [entry.agent for entry in log]
    assert spaced(log, 0.05)
    both = agents[: min(last(agents, "one"), last(agents, "two"))]
    assert len(both) > 20
    assert max(len(list(run)) for _, run in groupby(both)) <= 3


def last(agents: Sequence[str], name: str) -> int:
    return max(place for place, agent in enumerate(agents) if agent.startswith(name))


def test_two_jobs_together_have_no_more_requests_under_way_than_one_may(tmp_path: Path) -> None:
    slow = LogNormal(0.02, 0.1)
    with Farm([Site(name="a.test", pages=Pages(25), latency=slow)]) as farm:
        crawl_at_once(farm, tmp_path, {"max_parallel_per_domain": 2}, {"max_parallel_per_domain": 2})
        assert only(farm.judge()).in_flight_max == 2


def test_domains_at_one_address_share_its_slots_over_both_jobs(tmp_path: Path) -> None:
    sites = [Site(name=f"{name}.test", pages=Pages(6), latency=LogNormal(0.02, 0.1)) for name in "abc"]
    with Farm(sites) as farm:
        mine: dict[str, Any] = {"max_parallel_per_address": 2}
        crawl_at_once(farm, tmp_path, mine, mine)
        assert farm.judge().in_flight_max <= 3 + 2  # before its first answer nobody knows where a domain lives


def test_a_refusal_of_one_job_holds_for_the_other(tmp_path: Path) -> None:
    """F5: over both jobs nothing is sent inside a Retry-After."""
    limit = refusing(window(8, 1.0), "seconds")
    with Farm([Site(name="a.test", pages=Pages(20), limit=limit)]) as farm:
        crawl_at_once(farm, tmp_path, {"pacing": "gauge"}, {"pacing": "gauge"})
        site = only(farm.judge())
    assert site.refusals > 0
    assert site.inside_retry_after == 0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"min_crawl_delay": 0.08}),
        ({"min_crawl_delay": 0.08}, {}),
        ({"enabled": False}, {"fixed_delay": 0.08}),
        ({}, {"rules": {"*": {"max_rate": 12.5}}}),
    ],
    ids=["the second is stricter", "the first is stricter", "the first keeps no pace", "a rule is stricter"],
)
def test_where_two_jobs_were_told_differently_the_stricter_holds_for_both(
    first: dict[str, Any], second: dict[str, Any], tmp_path: Path
) -> None:
    with Farm([Site(name="a.test", pages=Pages(8), latency=LogNormal(0.02, 0.1))]) as farm:
        crawl_at_once(farm, tmp_path, {**ONE, **IN_TURN, **first}, {**TWO, **IN_TURN, **second})
        log = farm.log()
    strict = "one" if "min_crawl_delay" in first else "two"
    theirs = [entry.arrived for entry in log if entry.agent.startswith(strict)]
    while_both = [entry for entry in log if theirs[0] <= entry.arrived <= theirs[-1]]
    assert len(while_both) > len(theirs) + HELD_UP, "both were at it"
    assert spaced(while_both, 0.08)


def test_where_robots_txt_asks_one_crawler_for_more_that_holds_for_both(tmp_path: Path) -> None:
    text = "User-agent: one\nCrawl-delay: 0.1\n\nUser-agent: two\nCrawl-delay: 0.02\n"
    with Farm([Site(name="a.test", pages=Pages(6), robots=Robots(crawl_delay_s=0.1, text=text))]) as farm:
        crawl_at_once(farm, tmp_path, ONE | IN_TURN, TWO | IN_TURN)
        log = farm.log()
    known = max(entry.arrived for entry in log if entry.is_robots)
    end = max(entry.arrived for entry in log if entry.agent.startswith("one"))
    both = [entry for entry in log if known < entry.arrived <= end]
    assert len(both) > 6 + HELD_UP
    assert spaced(both, 0.1)


def test_a_job_that_comes_after_another_keeps_its_distance_too(tmp_path: Path) -> None:
    """A domain has one budget in a process, also where the jobs do not overlap."""
    with Farm([Site(name="a.test", pages=Pages(3), robots=Robots(crawl_delay_s=0.3))]) as farm:
        crawl_at_once(farm, tmp_path, IN_TURN)
        (tmp_path / "later").mkdir()
        crawl_at_once(farm, tmp_path / "later", IN_TURN)
        site = only(farm.judge(LENIENT))
    assert site.under_crawl_delay == 0
    assert site.robots_fetches == 2, "each file is to know what robots.txt says"


def test_a_job_that_is_stopped_while_it_asks_for_robots_leaves_the_asking_to_the_other(tmp_path: Path) -> None:
    with Farm([Site(name="a.test", pages=Pages(5), robots=Robots(delay_s=30.0))]) as farm:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        with DuckDBStore.open(tmp_path / "1.duckdb") as one, DuckDBStore.open(tmp_path / "2.duckdb") as two:
            asking = runner.start(one, farm.roots(), Settings.of(QUICK), **ways)
            while not farm.log():
                pass
            waiting = runner.start(two, farm.roots(), Settings.of(QUICK), **ways)
            with pytest.raises(TimeoutError):
                waiting.wait(0.2)
            assert len(farm.log()) == 1
            farm.replace(Site(name="a.test", pages=Pages(5)))
            asking.stop(now=True)
            assert asking.wait(30).status is JobStatus.PAUSED
            assert waiting.wait(30).status is JobStatus.COMPLETED
            assert waiting.result.pages == 5


def test_both_files_know_what_one_of_the_jobs_read_in_robots(tmp_path: Path) -> None:
    with Farm([Site(name="a.test", pages=Pages(5), robots=Robots(delay_s=0.1))]) as farm:
        crawl_at_once(farm, tmp_path, {}, {})
        assert only(farm.judge()).robots_fetches == 1
    for number in range(2):
        with DuckDBStore.open(tmp_path / f"{number}.duckdb") as store:
            assert [row.status for row in store.load_robots()] == [200]
