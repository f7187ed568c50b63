"""Where a domain's time went: the split on receipts written by hand, and on those of real crawls."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.outcome import Failure
from amble.core.pacing.permit import Source
from amble.core.pacing.snapshot import snapshot_domain
from amble.errors import StoreError
from amble.jobs import Job
from amble.report.budget import DECISIONS_MAX, Budget, Cause, Receipt, budget_of
from amble.report.why import Why, why
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.testing.farm import Farm, Pages, Robots, Site, Sitemap
from amble.testing.farm.limits import bucket, refusing
from amble.testing.lab.servers import LogNormal

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CRAWL_DELAY, LEARNED, MAX_RATE, NONE = Source.CRAWL_DELAY, Source.LEARNED, Source.MAX_RATE, Source.NONE


def at(
    start_s: float, elapsed_s: float, gap_s: float = 0.0, rule: Source = NONE, status: int | None = 200, **more: Any
) -> Receipt:
    when = NOON + timedelta(seconds=start_s)
    return Receipt(more.pop("session", 1), start_s, elapsed_s, gap_s, rule, when, status, **more)


def split(*receipts: Receipt, first_page_s: float = 0.0) -> dict[str, float]:
    budget = budget_of(receipts, {1: first_page_s})
    assert sum(budget.seconds.values()) == pytest.approx(budget.elapsed_s)
    return {cause.name: round(spent_s, 3) for cause, spent_s in budget.seconds.items() if spent_s}


@pytest.mark.parametrize(
    ("story", "receipts", "expected"),
    [
        ("one request is all latency", [at(0, 0.5)], {"LATENCY": 0.5}),
        ("a crawl delay longer than the answer", [at(0, 0.2, 2, CRAWL_DELAY), at(2, 0.2, 2, CRAWL_DELAY)],
         {"CRAWL_DELAY": 2.0, "LATENCY": 0.2}),
        ("an answer longer than the delay", [at(0, 3.0, 1, LEARNED), at(3, 0.5, 1, LEARNED)],
         {"LEARNED": 1.0, "LATENCY": 2.5}),
        ("our own highest rate", [at(0, 0.1, 0.125, MAX_RATE), at(0.125, 0.1, 0.125, MAX_RATE)],
         {"OUR_LIMITS": 0.125, "LATENCY": 0.1}),
        ("nothing to send after the answer", [at(0, 0.5), at(4, 0.5)], {"LATENCY": 1.0, "IDLE": 3.5}),
        ("left alone after a refusal", [at(0, 0.5, 1, LEARNED, 429), at(10, 0.5, 1, LEARNED)],
         {"LEARNED": 1.0, "BLOCK": 9.0, "LATENCY": 0.5}),
        ("a slow refusal: waiting for it is no block yet", [at(0, 4.0, 1, LEARNED, 429), at(10, 0.0, 1, LEARNED)],
         {"LEARNED": 1.0, "LATENCY": 3.0, "BLOCK": 6.0}),
        ("left alone after a failure", [at(0, 5.0, status=None, failure=Failure.NETWORK_TIMEOUT), at(9, 0.0)],
         {"LATENCY": 5.0, "BLOCK": 4.0}),
        ("a refusal that arrives after the next start counts when it is known",
         [at(0, 3.0, 1, LEARNED, 429), at(1, 0.1, 1, LEARNED), at(8, 0.0, 1, LEARNED)],
         {"LEARNED": 2.0, "LATENCY": 1.0, "BLOCK": 5.0}),
        ("two at once: the second start waits for no answer", [at(0, 1.0), at(0.2, 1.0)], {"LATENCY": 1.2}),
    ],
)  # fmt: skip
def test_every_second_has_a_cause(story: str, receipts: list[Receipt], expected: dict[str, float]) -> None:
    assert split(*receipts) == expected, story


def test_what_comes_before_the_first_page_is_discovery() -> None:
    receipts = at(0, 0.1), at(2, 0.1, 2, CRAWL_DELAY), at(4, 0.1, 2, CRAWL_DELAY), at(6, 0.1, 2, CRAWL_DELAY)
    assert split(*receipts, first_page_s=4) == {"DISCOVERY": 4.0, "CRAWL_DELAY": 2.0, "LATENCY": 0.1}


def test_the_time_between_two_runs_is_nobodys() -> None:
    budget = budget_of([at(0, 1.0), at(500, 1.0, session=2), at(502, 1.0, session=2)], {1: 0.0, 2: 0.0})
    assert budget.elapsed_s == pytest.approx(4.0)
    assert budget.seconds[Cause.IDLE] == pytest.approx(1.0)


def test_decisions_tell_changes_and_are_few() -> None:
    receipts = [
        at(0, 0.1, 0.5, LEARNED),
        at(1, 0.1, 0.48, LEARNED),  # moves too little to be told
        at(2, 0.1, 0.4, LEARNED, 429),
        at(9, 0.1, 2.0, LEARNED),
    ]
    told = [decision.text for decision in budget_of(receipts, {1: 0.0}).decisions]
    assert told == [
        "delay 0.50 s (learned)",
        "delay 0.50 s -> 0.40 s (learned)",
        "HTTP 429: next asked 6.9 s later",
        "delay 0.40 s -> 2.00 s (learned)",
    ]
    many = [at(float(n), 0.0, 1.0 + n % 2, LEARNED) for n in range(100)]
    assert len(budget_of(many, {}).decisions) == DECISIONS_MAX


RECEIPTS = st.lists(
    st.tuples(
        st.floats(0, 10),
        st.floats(0, 30),
        st.floats(0, 5),
        st.sampled_from(Source),
        st.sampled_from([200, 404, 429, 503, None]),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=40,
)


@given(RECEIPTS, st.floats(0, 100))
def test_the_split_adds_up_whatever_happened(rows: list[tuple[Any, ...]], first_page_s: float) -> None:
    """No second is counted twice, none is lost, and none is less than nothing."""
    now, receipts = 0.0, []
    for step_s, elapsed_s, gap_s, rule, status, session in sorted(rows, key=lambda row: int(row[5])):
        now += step_s
        failure = None if status else Failure.NETWORK_RESET
        receipts.append(at(now, elapsed_s, gap_s, rule, status, session=session, failure=failure))
    budget = budget_of(receipts, dict.fromkeys((1, 2, 3), first_page_s))
    sessions = [[one for one in receipts if one.session == number] for number in (1, 2, 3)]
    expected = sum(max(one.end_s for one in runs) - runs[0].started_s for runs in sessions if runs)
    assert budget.elapsed_s == pytest.approx(expected)
    assert sum(budget.seconds.values()) == pytest.approx(expected)
    assert min(budget.seconds.values()) >= -1e-9


# -- real crawls


def crawl(sites: list[Site], file: Path, **settings: Any) -> None:
    with Farm(sites) as farm, DuckDBStore.open(file) as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        asyncio.run(Job.start(store, farm.roots(), Settings.of(settings), **ways).run())


def asked(file: Path, name: str) -> Why:
    with DuckDBStore.open(file) as store:
        [(domain,)] = (
            store.database.connect()
            .execute("SELECT DISTINCT domain FROM amble.requests WHERE starts_with(domain, $1)", [name])
            .fetchall()
        )
        return why(store.database.connect(), domain)


FIXED: dict[str, Any] = {"pacing": "fixed", "fixed_delay": 0, "max_rate": "unlimited"}


@pytest.mark.parametrize(
    ("site", "settings", "cause", "binds", "hint"),
    [
        (Site(name="a.test", pages=Pages(8), robots=Robots(crawl_delay_s=0.2)), {},
         Cause.CRAWL_DELAY, "the crawl delay that robots.txt asks for, 0.20 s", "owner of the site"),
        (Site(name="a.test", pages=Pages(10)), {"max_rate": 10.0},
         Cause.OUR_LIMITS, "our own max_rate, 0.10 s", "max_rate binds: raise it"),
        (Site(name="a.test", pages=Pages(10), latency=LogNormal(0.15)), {"max_parallel_per_domain": 1},
         Cause.LATENCY, "nothing but the server's answers", "higher max_parallel_per_domain"),
        (Site(name="a.test", pages=Pages(12), limit=refusing(bucket(4.0, 4.0), "seconds")),
         {"discover": False, "follow_links": True}, Cause.BLOCK, "", "the site refused"),
        (Site(name="a.test", pages=Pages(2), sitemap=Sitemap(kind="index", per_file=1),
              robots=Robots(crawl_delay_s=0.3)), {}, Cause.DISCOVERY, "", "robots.txt and sitemaps"),
    ],
    ids=["crawl delay", "our limits", "latency", "block", "discovery"],
)  # fmt: skip
def test_a_crawl_says_what_held_it_up(
    tmp_path: Path, site: Site, settings: dict[str, Any], cause: Cause, binds: str, hint: str
) -> None:
    crawl([site], tmp_path / "x.duckdb", **{**FIXED, **settings})
    found = asked(tmp_path / "x.duckdb", "a.test")
    assert next(iter(found.seconds)) == cause.value
    assert sum(found.seconds.values()) == pytest.approx(found.elapsed_s)
    assert found.binds.startswith(binds)
    assert hint in found.hint


def test_an_answer_reads_well_in_every_form(tmp_path: Path) -> None:
    crawl([Site(name="a.test", pages=Pages(5))], tmp_path / "x.duckdb", **FIXED)
    found = asked(tmp_path / "x.duckdb", "a.test")
    assert json.loads(json.dumps(found.as_dict()))["requests"] == found.requests
    assert found.as_text().startswith(f"{found.domain}: {found.requests} requests in ")
    assert "<table>" in found._repr_html_()


def test_a_domain_never_asked_is_an_error_that_names_those_that_were(tmp_path: Path) -> None:
    crawl([Site(name="shop.test", pages=Pages(2))], tmp_path / "x.duckdb", **FIXED)
    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        with pytest.raises(StoreError, match=r"it knows shop\.test"):
            why(store.database.connect(), "shop.test")  # without its port
        with pytest.raises(StoreError, match="job 7 sent nothing"):
            why(store.database.connect(), asked_domain(store), job_id=7)


def asked_domain(store: DuckDBStore) -> str:
    return str(store.database.connect().execute("SELECT min(domain) FROM amble.requests").fetchall()[0][0])


def test_a_running_crawl_says_what_binds_this_moment(tmp_path: Path) -> None:
    with Farm([Site(name="a.test", pages=Pages(30))]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        job = Job.start(store, farm.roots(), Settings.of({"min_crawl_delay": 0.1, "pacing": "fixed"}), **ways)

        async def look() -> Why:
            running = asyncio.create_task(job.run())
            await asyncio.sleep(1.0)
            await asyncio.wrap_future(store.flush())
            [pace] = job.plan.frontier.registry
            snapshot = snapshot_domain(pace, job.clock.monotonic())
            found = await asyncio.to_thread(lambda: why(store.database.connect(), pace.domain, snapshot=snapshot))
            job.crawl.stop()
            await running
            return found

        found = asyncio.run(look())
    assert found.binds.startswith("our own fixed_delay, 1.0 s")


def test_another_process_that_asks_the_domain_is_told_of(tmp_path: Path) -> None:
    with Farm([Site(name="a.test", pages=Pages(3))]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        job = Job.start(store, farm.roots(), Settings(), **ways)
        asyncio.run(job.run())
        [pace] = job.plan.frontier.registry
        snapshot = replace(snapshot_domain(pace, job.clock.monotonic()), others_ask=True)
        found = why(store.database.connect(), pace.domain, snapshot=snapshot)
    assert found.binds.endswith(f"; another amble is asking {pace.domain}, too")


def test_an_empty_budget_is_all_zeros() -> None:
    budget = budget_of([], {})
    assert (budget.elapsed_s, budget.latency_s, budget.last) == (0.0, 0.0, None)
    assert isinstance(budget, Budget)
