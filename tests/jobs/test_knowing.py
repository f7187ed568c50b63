"""What a job knows when it begins, and what it leaves for the next: of every domain, in slices, and dated."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from amble.core.answer import Answer
from amble.core.frontier.changes import Changes
from amble.core.outcome import Failure
from amble.core.pacing.bounds import Rulebook
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Permit
from amble.core.pacing.settings import PacingSettings
from amble.core.robots.verdict import RobotsRow
from amble.jobs import Job, knowing
from amble.jobs.rows import domain_row, learned_of
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, DomainRow
from amble.testing.farm import Farm, Pages, Site
from amble.testing.farm.limits import Limit
from amble.testing.lab.limiters import TokenBucket

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def ask(pace: Pace, now: float, answer: Answer) -> None:
    permit = pace.reserve(now)
    assert isinstance(permit, Permit)
    pace.settle(permit, answer, now + 1.0)


def test_a_domain_is_dated_by_its_last_request_success_and_refusal() -> None:
    settings = PacingSettings(pacing="fixed", fixed_delay=10.0, max_rate=None)
    pace = Pace("a.test", Rulebook(settings, lambda: 0.0).bounds("a.test"), 0.0)
    row = domain_row(pace, None, NOON, 0.0)
    assert (row.last_request_at, row.last_success_at, row.last_limited_at) == (None, None, None)
    ask(pace, 0.0, Answer(status=200))
    ask(pace, 100.0, Answer(status=429, failure=Failure.HTTP_RATE_LIMITED))
    row = domain_row(pace, None, NOON, 160.0)
    assert row.last_request_at == NOON - timedelta(seconds=60)
    assert row.last_success_at == NOON - timedelta(seconds=160)  # when it was asked
    assert row.last_limited_at == NOON - timedelta(seconds=59)


def test_what_a_file_knows_is_taken_in_by_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever shares the event loop has its turn in between."""
    monkeypatch.setattr(knowing, "DOMAINS_AT_ONCE", 10)
    monkeypatch.setattr(knowing, "ROBOTS_AT_ONCE", 10)
    now = datetime.now(UTC)
    domains = [DomainRow(f"{n}.test", None, 2.0, 1.0, learned_at=now, strategy="linear") for n in range(200)]
    robots = [RobotsRow(f"http://{n}.test", 200, b"User-agent: *\nDisallow: /", fetched_at=now) for n in range(200)]
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def load(job: Job) -> None:
        other = asyncio.create_task(others())
        await job._load()
        other.cancel()

    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        store.submit(Batch(domains=domains, robots=robots)).result()
        job = Job.start(store, ["http://7.test/"], Settings.of({"pacing": "linear"}))
        before = job.loaded
        asyncio.run(load(job))
        assert (before, job.loaded) == (False, True)
        pace = job.plan.frontier.registry.pace("199.test", job.clock.monotonic(), job.clock.utc())
        assert pace.strategy.delay_s == pytest.approx(2.0, rel=0.01)
        assert all(job.plan.frontier.book.knows(row.origin) for row in robots)
    assert turns >= 40


def test_what_was_learned_of_a_domain_that_memory_was_made_of_is_kept(tmp_path: Path) -> None:
    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        job = Job.start(store, ["http://a.test/"], Settings.of({"pacing": "linear"}))
        registry, now, utc = job.plan.frontier.registry, job.clock.monotonic(), job.clock.utc()
        pace = registry.pace("b.test", now - 100.0, utc)
        ask(pace, now - 100.0, Answer(status=429, failure=Failure.HTTP_RATE_LIMITED))
        ask(pace, now - 50.0, Answer(status=200))
        delay_s = pace.strategy.delay_s
        registry._evict([pace], now, utc)
        job._keep(last=True)
        store.flush().result()
        [row] = [row for row in store.load_domains() if row.domain == "b.test"]
    assert row.strategy == "linear"
    assert row.adaptive_delay_seconds == pytest.approx(delay_s)
    assert row.last_reserved_at is not None, "and a run that comes soon begins with silence"


@pytest.mark.parametrize("limit", [None, Limit(lambda random: TokenBucket(4.0, 2.0))], ids=["free", "refuses"])
@pytest.mark.parametrize(
    "settings", [{"pacing": "fixed", "fixed_delay": 0.01}, {"pacing": "fibonacci"}, {"enabled": False}], ids=str
)
def test_a_crawl_that_learns_nothing_keeps_what_was_known_as_of_its_own_day(
    tmp_path: Path, settings: dict[str, Any], limit: Limit | None
) -> None:
    yesterday = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
    with Farm([Site(name="a.test", pages=Pages(5), limit=limit)]) as farm:
        before = DomainRow(
            f"a.test:{farm.port}", None, 0.25, 0.2, learned_at=yesterday, strategy="gauge", numbers={"limit": 5.0}
        )
        with DuckDBStore.open(tmp_path / "x.duckdb") as store:
            store.submit(Batch(domains=[before])).result()
            ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
            result = asyncio.run(Job.start(store, farm.roots(), Settings.of(settings), **ways).run())
            [after] = store.load_domains()
    assert after.requests >= result.pages > 0
    assert (result.limited > 0) is (limit is not None)
    assert learned_of(after) == learned_of(before)


def test_a_block_is_noted_beside_what_was_known(tmp_path: Path) -> None:
    """Also if nothing is stored after it, and though the strategy in force learns nothing."""
    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        known = DomainRow("a.test", None, 2.0, 1.0, learned_at=NOON, strategy="linear", numbers={"floor_s": 1.0})
        store.submit(Batch(domains=[known])).result()
        job = Job.start(store, ["http://a.test/"], Settings.of({"pacing": "fixed"}))
        frontier, now, utc = job.plan.frontier, job.clock.monotonic(), job.clock.utc()
        pace = frontier.registry.pace("a.test", now - 100.0, utc)
        permit = pace.reserve(now)
        assert isinstance(permit, Permit)
        refused = Answer(status=429, failure=Failure.HTTP_RATE_LIMITED, retry_after_s=600.0)
        changes = Changes(events=[*pace.settle(permit, refused, now)])
        store.submit(job._batches.of(changes, None, None, now, utc)).result()
        [met] = store.load_domains()
    assert met.blocked_until_at is not None
    assert (met.adaptive_delay_seconds, met.adaptive_delay_floor_seconds, met.learned_at) == (2.0, 1.0, NOON)
    assert (met.strategy, met.numbers, met.limited) == ("linear", {"floor_s": 1.0}, 1)
