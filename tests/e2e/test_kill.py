"""kill -9 at random moments and at the crash points of the store [F1, F3]: nothing acknowledged is lost or doubled,
nothing is stuck, and sites are not asked sooner because of a restart. `AMBLE_KILLS` says how often (`make soak`: more).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from amble.core.pacing.settings import PacingSettings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, DomainRow
from amble.store.writer import WriterLimits
from amble.testing.farm import Entry, FarmProcess, Pages, Robots, Site, Sitemap
from amble.testing.farm.limits import bucket, refusing
from tests.e2e.campaign import STEPS, Campaign
from tests.e2e.crawler import Orders

KILLS = int(os.environ.get("AMBLE_KILLS", "12"))
KILLS_PER_CRAWL = 12  # then it may finish, and another begins
CRAWL_DELAY_S = 0.8
TOLERANCE_S = 0.01
KNOWN_S = 0.25  # an answer that left the server so long before a kill has been stored
DYING_S = 0.05  # what the killed process sent last may still be on its way
STRICT = tuple(f"strict-{number}.test" for number in range(6))


def sites() -> list[Site]:
    return [
        Site(name="plain.test", pages=Pages(300, 4_000)),
        Site(name="listed.test", pages=Pages(100, 4_000), sitemap=Sitemap()),
        Site(name="slow.test", pages=Pages(4, 4_000), robots=Robots(crawl_delay_s=CRAWL_DELAY_S)),
        Site(name="strict.test", pages=Pages(12, 4_000), limit=refusing(bucket(5.0), "seconds")),
    ]


def orders_for(farm: FarmProcess, folder: Path, **settings: object) -> Orders:
    # One at a time: while one request connects the next may come closer to it, and the receipts are audited.
    # What a run has to know of the one before is to come from the file, not from what living processes share.
    given = {
        "pacing": "fixed", "fixed_delay": 0.02, "max_rate": "unlimited", "max_parallel_per_domain": 1,
        "share_pace": "process", **settings
    }  # fmt: skip
    names = tuple(site.name for site in farm.sites)
    return Orders(str(folder / "x.duckdb"), str(folder / "acked"), farm.port, names, given)


def at_host(log: list[Entry], host: str) -> list[Entry]:
    return sorted((entry for entry in log if entry.host == host), key=lambda entry: entry.arrived)


def too_soon(entries: list[Entry], delay_s: float) -> list[tuple[str, str, float]]:
    """Requests that came too soon after the one before. A robots.txt that nobody lived to store is asked for again."""
    return [
        (before.target, after.target, after.arrived - before.arrived)
        for before, after in pairwise(entries)
        if after.arrived - before.arrived < delay_s - TOLERANCE_S and not (before.is_robots and after.is_robots)
    ]


def kill_again_and_again(campaign: Campaign, kills: int, first_step: int) -> None:
    """In turn at a crash point and at a moment, the first before there are any tables; then it may finish."""
    for number in range(kills):
        step = STEPS[(number // 2 - 1 + first_step) % len(STEPS)] if number else "migrating"
        if number % 2:
            killed = campaign.kill_at_a_moment(1.0)
        else:
            seldom = step == "migrating" or "checkpoint" in step
            killed = campaign.kill_at_a_step(step, 0 if seldom else campaign.random.randrange(6))
        if not killed:
            return  # it was through before
    campaign.finish()


class Window(NamedTuple):
    """A Retry-After that ran on over a kill, and when it was not kept to."""

    host: str
    known_s: float  # how long before the kill its answer had left the server
    asked_after_s: float  # when the domain was asked again, after the kill


def broken_windows(log: list[Entry], killed_at: list[float]) -> tuple[int, list[Window]]:
    """How many windows were open at a kill, and the requests that later runs made within one."""
    count, broken = 0, []
    for entry in log:
        if entry.not_before is None or entry.ended is None or not entry.complete:
            continue
        until = min(entry.not_before, entry.ended + PacingSettings().max_retry_after)
        killed = next((at for at in killed_at if entry.ended < at < until), None)
        if killed is None:
            continue
        count += 1
        broken += [
            Window(entry.host, killed - entry.ended, later.arrived - killed)
            for later in at_host(log, entry.host)
            if killed + DYING_S < later.arrived < until - TOLERANCE_S
        ]
    return count, broken


@pytest.fixture
def farm() -> Iterator[FarmProcess]:
    with FarmProcess(sites()) as served:
        yield served


@pytest.mark.timeout(600)  # a dozen processes, one after the other, on a machine that may be busy
@pytest.mark.parametrize("crawl", range(-(-KILLS // KILLS_PER_CRAWL)))
def test_a_crawl_survives_being_killed_again_and_again(farm: FarmProcess, tmp_path: Path, crawl: int) -> None:
    kills = min(KILLS_PER_CRAWL, KILLS - crawl * KILLS_PER_CRAWL)
    campaign = Campaign(
        orders_for(farm, tmp_path, rules={f"strict.test:{farm.port}": {"pacing": "gauge"}}), Random(f"kills {crawl}")
    )
    kill_again_and_again(campaign, kills, crawl)
    known = campaign.look()
    log, report = farm.log(), farm.judge()
    assert [site.missing for site in report.hosts] == [()] * 4
    assert known.counts.accepted == known.counts.final == known.counts.done, "something is stuck"
    assert set(known.rows) == set(farm.urls())
    finals = [each.counts.final for each in campaign.known]
    assert finals == sorted(finals), "what was done is done again"
    assert too_soon(at_host(log, "slow.test"), CRAWL_DELAY_S) == []
    assert [window for window in broken_windows(log, campaign.killed_at)[1] if window.known_s > KNOWN_S] == []
    assert campaign.deaths.total() >= kills // 2, f"it was hardly killed: {campaign.deaths}"
    sys.stdout.write(f"{campaign.deaths.total()} kills: {dict(campaign.deaths)}\n")  # seen with `pytest -rP`


@pytest.mark.timeout(600)
@pytest.mark.parametrize("crawl", range(-(-KILLS // KILLS_PER_CRAWL)))
def test_a_retry_after_outlasts_the_process_that_met_it(tmp_path: Path, crawl: int) -> None:
    """By what was stored: what is learned of a pace would hide that something was not."""
    kills = min(KILLS_PER_CRAWL, KILLS - crawl * KILLS_PER_CRAWL)
    limit = refusing(bucket(0.5, 2.0), "seconds")
    with FarmProcess([Site(name=name, pages=Pages(200, 1_000), limit=limit) for name in STRICT]) as farm:
        orders = orders_for(farm, tmp_path, domain_stall_timeout=3_600)
        campaign = Campaign(replace(orders, linger_s=WriterLimits().linger_s), Random(f"windows {crawl}"))
        for _ in range(kills):
            assert campaign.kill_at_a_moment(2.0)
        log = farm.log()
    windows, broken = broken_windows(log, campaign.killed_at)
    unknown = [window for window in broken if window.known_s <= KNOWN_S]
    sys.stdout.write(f"{windows} windows open at {kills} kills, {len(unknown)} too short before one to be known\n")
    assert windows >= kills // 2, "it was hardly killed within a Retry-After"
    assert [window for window in broken if window.known_s > KNOWN_S] == []


@pytest.mark.parametrize("rule", ["Crawl-delay", "learned delay"])
def test_a_domain_is_left_alone_for_its_delay_after_a_restart(tmp_path: Path, rule: str) -> None:
    """Killed right after a request and taken up at once: the next request comes no sooner for that [F3]."""
    delay_s = 1.2
    robots = Robots(crawl_delay_s=delay_s) if rule == "Crawl-delay" else Robots()
    with FarmProcess([Site(name="slow.test", pages=Pages(8), robots=robots)]) as farm:
        orders = orders_for(farm, tmp_path, pacing="linear", discover=False)
        if rule == "learned delay":
            remember_delay(orders, f"slow.test:{farm.port}", delay_s)
        campaign = Campaign(orders, Random(0))
        for requests in (2, 3, 4):  # robots.txt and a page, and then a page each time
            assert campaign.kill_when(partial(has_been_asked, farm, requests))
        entries = at_host(farm.log(), "slow.test")
    assert [entry.is_robots for entry in entries].count(True) == 1, "what robots.txt says was stored"
    assert too_soon(entries, delay_s) == []
    assert any(after.arrived - before.arrived < 2 * delay_s for before, after in pairwise(entries)), (
        "restarts take so long that this shows nothing"
    )


def has_been_asked(farm: FarmProcess, times: int) -> bool:
    return len(farm.log()) >= times


def remember_delay(orders: Orders, domain: str, delay_s: float) -> None:
    """An earlier crawl of this file has learned it."""
    row = DomainRow(domain, adaptive_delay_seconds=delay_s, adaptive_delay_floor_seconds=delay_s,
                    learned_at=datetime.now(UTC), strategy="linear", numbers={"delay_s": delay_s})  # fmt: skip
    with DuckDBStore.open(orders.file) as store:
        store.submit(Batch(domains=[row])).result()
