"""Two clocks: pacing reads the one that only moves forward; the other dates what servers say [T1, F3]."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amble.core.answer import read_answer
from amble.core.pacing.commons import Commons
from amble.core.pacing.learned import Learned
from amble.core.pacing.registry import Registry
from amble.core.pacing.settings import PacingSettings, StrategyName
from tests.core.pacing.story import STRATEGIES, Story, no_jitter

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
DAY_S = 86_400.0

Wall = Callable[[float], datetime]


@pytest.mark.parametrize("set_by", [timedelta(0), timedelta(days=1), timedelta(days=-1)], ids=str)
@pytest.mark.parametrize("shared", [False, True])
def test_a_block_of_an_earlier_run_lasts_however_late_its_domain_is_met(set_by: timedelta, shared: bool) -> None:
    """F3, T1: the wall clock counts when the block is loaded; what is set after that changes nothing."""
    settings = PacingSettings(pacing="linear")
    registry = Commons().join(settings, no_jitter) if shared else Registry(settings, no_jitter)
    registry.load(
        [Learned("a.test", "linear", 0.0, 0.0, START, blocked_until_at=START + timedelta(seconds=40))], 5.0, START
    )
    pace = registry.pace("a.test", 15.0, START + timedelta(seconds=10) + set_by)
    assert pace.blocked_until == 45.0


def server(number: int, now: float, random: Random) -> tuple[int, list[tuple[str, str]]]:
    """A server with a true clock that answers in every way that has a time in it, and always says its own time."""
    here = START + timedelta(seconds=int(now))
    headers = [("Date", format_datetime(here, usegmt=True))]
    later = here + timedelta(seconds=random.choice([3, 30, 300]))
    kind = random.randrange(12)
    if kind == 0:
        return 429, [*headers, ("Retry-After", format_datetime(later, usegmt=True))]
    if kind == 1:
        return 503, [*headers, ("Retry-After", str(int(later.timestamp())))]
    if kind == 2:
        return 429, [*headers, ("Retry-After", "20")]
    if kind == 3:
        reset = ("X-RateLimit-Reset", str(int(later.timestamp())))
        return 200, [*headers, ("X-RateLimit-Remaining", str(random.randrange(9))), reset]
    if kind == 4:
        return 301, [*headers, ("Retry-After", later.strftime("%A, %d-%b-%y %H:%M:%S GMT"))]
    if kind == 5:
        return 429, headers
    return 200, headers


def trace(strategy: StrategyName, seed: int, wall: Wall, visits: int = 60) -> list[tuple[float, float, str]]:
    """When each permit was issued, under which gap, set by what: all that pacing decides."""
    random = Random(seed)
    story = Story(strategy, random=Random(seed + 1).random)
    rows = []
    for number in range(visits):
        permit = story.next()
        rows.append((permit.sent_at, permit.gap_s, permit.source.value))
        story.now += 0.1
        status, headers = server(number, story.now, random)
        story.settle(permit, read_answer(status=status, headers=headers, elapsed_s=0.1, utc=wall(story.now)))
    return rows


WALLS: list[tuple[str, Wall]] = [
    ("a day ahead", lambda now: START + timedelta(seconds=now + DAY_S)),
    ("a day behind", lambda now: START + timedelta(seconds=now - DAY_S)),
    ("jumps a day ahead in the middle", lambda now: START + timedelta(seconds=now + (DAY_S if now > 100 else 0))),
    ("jumps a day back in the middle", lambda now: START + timedelta(seconds=now - (DAY_S if now > 100 else 0))),
    ("stands still", lambda now: START),
    ("runs backwards", lambda now: START - timedelta(seconds=now)),
]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("wall", [wall for _, wall in WALLS], ids=[name for name, _ in WALLS])
def test_the_wall_clock_changes_nothing(strategy: StrategyName, wall: Wall) -> None:
    """T1: the same permits at the same instants, whatever our wall clock says."""
    for seed in range(3):
        assert trace(strategy, seed, wall) == trace(strategy, seed, lambda now: START + timedelta(seconds=now))


@settings(max_examples=30)
@given(st.sampled_from(STRATEGIES), st.integers(0, 2**32), st.floats(-2 * DAY_S, 2 * DAY_S), st.floats(0, 500))
def test_no_jump_at_any_time_changes_anything(strategy: StrategyName, seed: int, jump_s: float, at: float) -> None:
    def wall(now: float) -> datetime:
        return START + timedelta(seconds=now + (jump_s if now > at else 0.0))

    assert trace(strategy, seed, wall) == trace(strategy, seed, lambda now: START + timedelta(seconds=now))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shift_s", [-1e6, 1_000.7, 9_876_543.2])
@pytest.mark.parametrize("seed", range(5))
def test_where_the_monotonic_clock_started_does_not_matter(strategy: StrategyName, shift_s: float, seed: int) -> None:
    """It starts at boot, or anywhere: only differences count. Instants are equal as far as floats are."""

    def starts(zero: float) -> list[tuple[float, str]]:
        random, story = Random(seed), Story(strategy, random=Random(seed + 1).random, now=zero)
        rows = []
        for _ in range(60):
            permit = story.next()
            rows.append((permit.sent_at - zero, permit.source.value))
            story.now += 0.05 + 0.1 * random.random()  # no two instants that floats may swap
            status, headers = server(0, story.now - zero + 1e-4, random)
            utc = START + timedelta(seconds=story.now - zero)
            story.settle(permit, read_answer(status=status, headers=headers, elapsed_s=0.1, utc=utc))
        return rows

    there, here = starts(shift_s), starts(0.0)
    assert [source for _, source in there] == [source for _, source in here]
    assert [at for at, _ in there] == pytest.approx([at for at, _ in here], abs=1e-3)
