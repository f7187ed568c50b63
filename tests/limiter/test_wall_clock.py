"""Somebody sets the machine's clock: nothing changes but the dates in the records [F3, T1]."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random
from typing import Any

import pytest

from tests.limiter.helpers import NEVER_TRIPS, World

DOMAINS = ("a.test", "b.test", "c.test")
SERVERS_NOON = datetime(2031, 7, 1, 12, tzinfo=UTC)  # the server has a clock of its own

ANSWERS: list[tuple[int, dict[str, str]]] = [
    *[(200, {})] * 12,
    (404, {}),
    (500, {}),
    (429, {}),
    (429, {"Retry-After": "7"}),
    (503, {"Retry-After": "3"}),
    (
        429,
        {
            "Date": format_datetime(SERVERS_NOON, usegmt=True),
            "Retry-After": format_datetime(SERVERS_NOON + timedelta(seconds=90), usegmt=True),
        },
    ),
    (200, {"RateLimit-Remaining": "40", "RateLimit-Reset": "20"}),
]


def history(strategy: str, jumps: dict[int, timedelta]) -> tuple[list[Any], list[dict[str, Any]], timedelta]:
    """What is sent when, and every event; then what is kept. Before request n, the wall clock jumps by jumps[n]."""
    dice = Random(7)
    world = World(
        **NEVER_TRIPS,
        pacing=strategy,
        fixed_delay=0.5,
        random=dice.random,
        domain_state_ttl=60.0,
        save_debounce=5.0,
        shards=1,
    )
    told: list[Any] = []
    kept: list[dict[str, Any]] = []

    async def crawl() -> None:
        for number in range(150):
            if number in jumps:
                world.clock.shift_wall(jumps[number])
            if number % 40 == 39:
                await asyncio.sleep(200.0)  # long enough to be forgotten
            domain = DOMAINS[dice.randrange(3)]
            status, headers = ANSWERS[dice.randrange(len(ANSWERS))]
            async with world.limiter.permit(f"https://{domain}/{number}") as permit:
                told.append((domain, permit.sent_at, permit.receipt.gap_s, permit.receipt.source))
                await asyncio.sleep(0.1)
                permit.settle(status=status, headers=headers)
            kept.extend(world.limiter.changed())

    world.run(crawl())
    kept.extend(world.limiter.save())
    snapshot = world.limiter.snapshot()
    return [*told, *world.events, snapshot], kept, sum(jumps.values(), timedelta())


@pytest.mark.parametrize("strategy", ["gauge", "linear", "aimd", "fibonacci", "fixed"])
@pytest.mark.parametrize(
    "jumps",
    [
        {50: timedelta(days=1)},
        {50: timedelta(days=-1)},
        {20: timedelta(days=1), 45: timedelta(days=-2), 90: timedelta(days=1), 130: timedelta(hours=-1)},
    ],
    ids=["a day forward", "a day back", "to and fro"],
)
def test_setting_the_clock_changes_nothing_but_dates(strategy: str, jumps: dict[int, timedelta]) -> None:
    calm, calm_rows, _ = history(strategy, {})
    shaken, shaken_rows, shift = history(strategy, jumps)
    assert shaken == calm
    assert len(shaken_rows) == len(calm_rows)
    dates = {"learned_at", "blocked_until_at"}
    for there, here in zip(shaken_rows, calm_rows, strict=True):
        assert {k: v for k, v in there.items() if k not in dates} == {k: v for k, v in here.items() if k not in dates}
    if calm_rows:
        last = [datetime.fromisoformat(rows[-1]["learned_at"]) for rows in (calm_rows, shaken_rows)]
        assert last[1] - last[0] in (shift, timedelta())  # not later than the last jump: it may be of before


def test_the_history_is_worth_comparing() -> None:
    """Blocks, evictions, changes of pace and rows to keep are all in it."""
    told, rows, _ = history("gauge", {})
    kinds = {type(entry).__name__ for entry in told}
    assert kinds >= {"BlockOpened", "BlockClosed", "PaceChanged", "LimiterSnapshot"}
    assert told[-1].domains_evicted > 0
    assert rows
    assert told == history("gauge", {})[0]
