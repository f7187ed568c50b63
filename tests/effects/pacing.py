"""What the pacing of a domain looks like under given settings: a story in virtual time, and a few single questions."""

from __future__ import annotations

import heapq
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from amble.core.answer import Answer
from amble.core.pacing.backoff import retry_wait_s
from amble.core.pacing.learned import Learned
from amble.core.pacing.permit import Permit
from amble.core.pacing.registry import Registry
from amble.limiter import Limiter
from amble.settings import Settings

T0 = datetime(2026, 1, 1, tzinfo=UTC)
REQUESTS = 260
_numbers = count()


def answer_to(number: int) -> Answer:
    """Quick at first; then refusals, failures in a row, failures here and there, slow answers, and quick ones again."""
    if number in (20, 21, 60, 61, 62, 63, 64):
        return Answer(429, elapsed_s=0.1)
    if 90 <= number < 100 or 110 <= number < 130:
        return Answer(500, elapsed_s=0.1)
    if 135 <= number < 165 and number % 3:
        return Answer(500, elapsed_s=0.1)
    return Answer(200, elapsed_s=4.0 if 175 <= number < 200 else 0.1)


def story(settings: Settings) -> list[tuple[float, float, int, str]]:
    """Every request of a domain: when, under which gap, how many at once, and the circuit."""
    pace = Registry(settings.pacing, lambda: 0.5).pace("a.test", 0.0, T0)
    under_way: list[tuple[float, int, Permit, Answer]] = []
    told: list[tuple[float, float, int, str]] = []
    now, order = 0.0, count()
    while len(told) < REQUESTS:
        permit = pace.reserve(now)
        if isinstance(permit, Permit):
            number = len(told)
            pace.sent(permit, now)
            told.append((round(now, 4), round(pace.gap_s, 4), pace.parallel, pace.circuit))
            if number % 40 != 39:  # now and then one is never settled
                answer = answer_to(number)
                heapq.heappush(under_way, (now + (answer.elapsed_s or 0.0), next(order), permit, answer))
        elif under_way and under_way[0][0] <= permit:
            now, _, landed, answer = heapq.heappop(under_way)
            pace.settle(landed, answer, now)
        else:
            now = max(permit, now + 1e-6)
    return told


def outage(settings: Settings) -> list[float]:
    """When a domain is asked that fails for ten minutes."""
    pace = Registry(settings.pacing, lambda: 0.5).pace("a.test", 0.0, T0)
    asked, now = [], 0.0
    while now < 600.0:
        permit = pace.reserve(now)
        if isinstance(permit, Permit):
            pace.sent(permit, now)
            pace.settle(permit, Answer(500, elapsed_s=0.1), now)
            asked.append(now)
        else:
            now = max(permit, now + 1e-6)
    return asked


def beside_another(settings: Settings) -> bool:
    """Whether a second limiter, as another process would have one, may ask a domain that the first has just asked."""
    first, second, url = Limiter(settings.pacing), Limiter(settings.pacing), f"https://{next(_numbers)}.example/"
    assert first.try_permit(url) is not None
    return second.try_permit(url) is not None


def told_to_come_back(settings: Settings) -> bool:
    """Whether a limiter waits for an hour, asked to."""
    limiter, url = Limiter(settings.pacing), f"https://{next(_numbers)}.example/"
    permit = limiter.try_permit(url)
    assert permit is not None
    permit.settle(status=429, headers={"Retry-After": "3600"})
    return limiter.snapshot().domains[0].blocked_s > 600


def breaker(settings: Settings) -> list[str]:
    """The circuit of a domain that is asked once a second: it answers for a while, then two of three times it fails."""
    pace = Registry(settings.pacing, lambda: 0.5).pace("a.test", 0.0, T0)
    told = []
    for second in range(120):
        now = float(second)
        permit = pace.reserve(now)
        if isinstance(permit, Permit):
            pace.sent(permit, now)
            pace.settle(permit, Answer(500 if second >= 40 and second % 3 else 200, elapsed_s=0.1), now + 0.1)
        told.append(pace.circuit)
    return told


def neighbours(settings: Settings) -> list[Any]:
    """Two domains at one address, at one instant."""
    registry = Registry(settings.pacing, lambda: 0.5)
    paces = [registry.pace(name, 0.0, T0) for name in ("a.test", "b.test")]
    for pace in paces:
        registry.share(pace, "192.0.2.1", 0.0)
    return [type(registry.reserve(pace, 1.0)).__name__ for pace in paces]


def waits(settings: Settings) -> list[float | None]:
    return [retry_wait_s(attempt, settings.pacing, lambda: 0.5) for attempt in range(1, 30)]


def idle(settings: Settings) -> int:
    """How many domains are forgotten within ten minutes."""
    registry = Registry(settings.pacing, lambda: 0.5)
    registry.pace("a.test", 0.0, T0)
    return registry.sweep(600.0, T0)


def crowd(settings: Settings) -> int:
    registry = Registry(settings.pacing, lambda: 0.5)
    for number in range(40):
        registry.pace(f"{number}.test", float(number), T0)
    return len(registry)


def shards(settings: Settings) -> int:
    return len(Limiter(settings.pacing)._shards)


def remembered(settings: Settings) -> float:
    """The delay with which a domain starts that was learned ten days ago."""
    registry = Registry(settings.pacing, lambda: 0.5)
    row = Learned("a.test", "linear", 30.0, 0.0, T0 - timedelta(days=10))
    registry.load([row], 0.0, T0)
    return registry.pace("a.test", 0.0, T0).gap_s


def saved(settings: Settings) -> int:
    """How often what is learned of a domain is handed out in a minute of lessons."""
    registry = Registry(settings.pacing, lambda: 0.5)
    pace = registry.pace("a.test", 0.0, T0)
    now, given = 0.0, 0
    for _ in range(6):
        permit = pace.reserve(now)
        while not isinstance(permit, Permit):
            now = permit
            permit = pace.reserve(now)
        pace.sent(permit, now)
        pace.settle(permit, Answer(429), now + 0.1)
        now = max(now + 10.0, pace.not_before)
        given += len(registry.changed(now, T0, force=False))
    return given
