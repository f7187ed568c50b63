"""Servers nobody tuned on: drawn from a seeded generator over every model, rate, dialect, latency and noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from amble.testing.lab.announce import Dialect, Refusal, RetryAfter
from amble.testing.lab.limiters import FixedWindow, Gcra, Limiter, SlidingLog, TokenBucket
from amble.testing.lab.modifiers import Ban, Changing, Shared
from amble.testing.lab.queues import InFlight, LeakyQueue, Overloading
from amble.testing.lab.scenarios import Scenario, pages_for
from amble.testing.lab.servers import LogNormal, Noise, Server

# How often each kind of limiter is drawn: buckets and windows are what sites mostly run.
KINDS = {
    "bucket": 30,
    "window": 25,
    "sliding": 15,
    "gcra": 8,
    "headers": 6,
    "shared": 4,
    "in-flight": 3,
    "overload": 3,
    "leaky": 2,
    "changing": 2,
    "ban": 2,
}


def _log_uniform(dice: Random, low: float, high: float) -> float:
    return math.exp(dice.uniform(math.log(low), math.log(high)))


def _bucket(dice: Random, rate: float) -> Callable[[Random], Limiter]:
    burst = math.ceil(_log_uniform(dice, 2.0, max(4.0, 10.0 * rate)))
    return lambda random: TokenBucket(rate, burst)


def _window(dice: Random, rate: float) -> Callable[[Random], Limiter]:
    window_s = _window_s(dice, rate)
    return lambda random: FixedWindow(rate, window_s, random.uniform(0.0, window_s))


def _announced(dice: Random, rate: float) -> Callable[[Random], Limiter]:
    """A window whose quota is announced: the fields count whole seconds, so nobody announces a window of a few."""
    window_s = max(10.0, _window_s(dice, rate))
    return lambda random: FixedWindow(rate, window_s, random.uniform(0.0, window_s))


def _window_s(dice: Random, rate: float) -> float:
    """A window that holds a few requests at least."""
    return dice.choice([w for w in (1.0, 5.0, 10.0, 30.0, 60.0) if w * rate >= 4.0] or [60.0])


def _sliding(dice: Random, rate: float) -> Callable[[Random], Limiter]:
    window_s = _window_s(dice, rate)
    return lambda random: SlidingLog(rate, window_s)


def _gcra(dice: Random, rate: float) -> Callable[[Random], Limiter]:
    tolerance_s = _log_uniform(dice, 1.0, 20.0) / rate
    return lambda random: Gcra(rate, tolerance_s)


def _shared(dice: Random, rate: float) -> Callable[[Random], Limiter]:
    inner, others = _bucket(dice, rate), rate * dice.uniform(0.1, 0.5)
    return lambda random: Shared(inner(random), rate, others, Random(random.random()))


def _leaky(dice: Random, rate: float) -> Callable[[Random], Limiter]:
    depth = dice.randint(3, 30)
    return lambda random: LeakyQueue(rate, depth)


def _changing(dice: Random, rate: float) -> Callable[[Random], Limiter]:
    before, after = _bucket(dice, rate), _bucket(dice, rate * dice.choice((0.25, 0.5, 2.0, 4.0)))
    change_at = pages_for(rate) / rate / 2
    return lambda random: Changing(before(random), after(random), change_at)


def _ban(dice: Random, rate: float) -> Callable[[Random], Limiter]:
    inner, ban_s = _bucket(dice, rate), dice.choice((10.0, 30.0, 60.0))
    return lambda random: Ban(inner(random), ban_s)


_LIMITERS = {
    "bucket": _bucket,
    "window": _window,
    "sliding": _sliding,
    "gcra": _gcra,
    "headers": _announced,
    "shared": _shared,
    "leaky": _leaky,
    "changing": _changing,
    "ban": _ban,
}


def random_server(number: int) -> Scenario:
    """The random server with this number; always the same one."""
    dice = Random(f"a server nobody tuned on, {number}")
    kind = dice.choices(list(KINDS), list(KINDS.values()))[0]
    trip = LogNormal(_log_uniform(dice, 0.03, 0.3), dice.uniform(0.1, 0.4))
    if kind in ("in-flight", "overload"):
        return _crowded(dice, number, kind, trip)
    rate = _log_uniform(dice, 0.2, 50.0)
    # A ban lasts no shorter for a fast site: with silence it would be a matter of luck, so a banning site says so here.
    how: RetryAfter = "seconds" if kind == "ban" else dice.choice(("silent", "silent", "seconds", "date"))
    refusal = Refusal(429 if how == "silent" else dice.choice((429, 429, 503)), how)
    dialects: tuple[Dialect, ...] = ("structured", "split", "x-delta", "x-epoch")
    dialect = dice.choice(dialects) if kind == "headers" else None
    noise = Noise(dice.uniform(0.0, 0.02)) if dice.random() < 0.3 else None
    limiter = _LIMITERS[kind](dice, rate)

    def build(random: Random) -> Server:
        return Server(limiter(random), random, refusal=refusal, round_trip=trip, dialect=dialect, noise=noise)

    return Scenario(f"random {number}: {kind} {rate:.2g}/s {how}", pages_for(rate), build)


def _crowded(dice: Random, number: int, kind: str, trip: LogNormal) -> Scenario:
    """A server bound by its slots or workers."""
    places, service = dice.randint(2, 8), LogNormal(_log_uniform(dice, 0.1, 1.0), dice.uniform(0.1, 0.4))
    round_trip_s = trip.mean_s + service.mean_s

    def limiter() -> InFlight | Overloading:
        if kind == "in-flight":
            return InFlight(places, round_trip_s)
        return Overloading(places, service.mean_s, 20 * places)

    def build(random: Random) -> Server:
        return Server(limiter(), random, refusal=Refusal(503), round_trip=trip, service=service)

    slow_s = Overloading.patience * round_trip_s if kind == "overload" else math.inf
    rate = places / round_trip_s
    return Scenario(f"random {number}: {kind} {rate:.2g}/s", pages_for(rate), build, slow_s=slow_s)
