"""The servers of the laboratory, in rows: what is crawled, and what a good pace must reach there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from amble.testing.lab.announce import Dialect, Refusal, RetryAfter
from amble.testing.lab.controller import Client
from amble.testing.lab.limiters import FixedWindow, Gcra, Limiter, SlidingLog, TokenBucket, Unlimited
from amble.testing.lab.modifiers import Ban, Changing, Shared
from amble.testing.lab.queues import InFlight, LeakyQueue, Overloading
from amble.testing.lab.servers import ROUND_TRIP, LogNormal, Noise, Server

Build = Callable[[Random], Server]


@dataclass(frozen=True, slots=True)
class Change:
    """A limit that becomes `rate` at the instant `at`; a client should use it well within `within_s`."""

    at: float
    rate: float
    within_s: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """One crawl: so many pages of one server, under one client's settings."""

    name: str
    pages: int
    build: Build
    client: Client = field(default_factory=Client)
    slow_s: float = math.inf  # a slower page does not count
    change: Change | None = None
    second_run: bool = False  # judged on a second crawl that starts from what the first one saved


@dataclass(frozen=True, slots=True)
class Row:
    """Scenarios judged together, by the means over them: goodput against the ideal, rejects per 1000 pages."""

    name: str
    group: str
    scenarios: tuple[Scenario, ...]
    goodput_min: float | None = None
    rejects_max: float | None = None


def pages_for(rate: float) -> int:
    """500 pages at 0.25/s to 5000 at 25/s, so that a few learning rejects weigh alike everywhere."""
    return int(min(5000.0, max(500.0, 1000.0 * math.sqrt(rate))))


def served(limiter: Callable[[Random], Limiter], retry_after: RetryAfter = "silent", status: int = 429) -> Build:
    """A server around a limiter that may want randomness (the phase of a window)."""
    refusal = Refusal(status, retry_after)
    return lambda random: Server(limiter(random), random, refusal=refusal)


def bucket(rate: float, burst: float) -> Callable[[Random], Limiter]:
    return lambda random: TokenBucket(rate, burst)


def window(rate: float, window_s: float) -> Callable[[Random], Limiter]:
    return lambda random: FixedWindow(rate, window_s, random.uniform(0.0, window_s))


def sliding(rate: float, window_s: float) -> Callable[[Random], Limiter]:
    return lambda random: SlidingLog(rate, window_s)


def banned(inner: Callable[[Random], Limiter], ban_s: float, extends: bool = False) -> Callable[[Random], Limiter]:
    return lambda random: Ban(inner(random), ban_s, extends)


def _token_buckets(rates: tuple[float, ...]) -> tuple[Scenario, ...]:
    hows: tuple[tuple[RetryAfter, int], ...] = (("silent", 429), ("seconds", 429), ("date", 503))
    return tuple(
        Scenario(f"bucket {rate:g}/s {how}", pages_for(rate), served(bucket(rate, max(5.0, rate)), how, status))
        for rate in rates
        for how, status in hows
    )


def _windows(window_s: float, rates: tuple[float, ...], hows: tuple[RetryAfter, ...]) -> tuple[Scenario, ...]:
    return tuple(
        Scenario(f"window {window_s:g} s {rate:g}/s {how}", pages_for(rate), served(window(rate, window_s), how))
        for rate in rates
        for how in hows
    )


def _slidings(window_s: float, rates: tuple[float, ...]) -> tuple[Scenario, ...]:
    hows: tuple[RetryAfter, ...] = ("silent", "seconds")
    return tuple(
        Scenario(f"sliding {window_s:g} s {rate:g}/s {how}", pages_for(rate), served(sliding(rate, window_s), how))
        for rate in rates
        for how in hows
    )


def _gcra(rate: float) -> tuple[Scenario, ...]:
    hows: tuple[RetryAfter, ...] = ("silent", "seconds")
    return tuple(
        Scenario(f"gcra {rate:g}/s {how}", pages_for(rate), served(lambda random: Gcra(rate), how)) for how in hows
    )


def _in_flight(slots: int, service: LogNormal, status: int) -> Scenario:
    round_trip_s = service.mean_s + ROUND_TRIP.mean_s

    def build(random: Random) -> Server:
        return Server(InFlight(slots, round_trip_s), random, refusal=Refusal(status), service=service)

    return Scenario(f"{slots} in flight, {service.median_s:g} s", pages_for(slots / round_trip_s), build)


def _overloading(workers: int, service: LogNormal) -> Scenario:
    round_trip_s = service.mean_s + ROUND_TRIP.mean_s

    def build(random: Random) -> Server:
        limiter = Overloading(workers, service.mean_s, 50 * workers)
        return Server(limiter, random, refusal=Refusal(503), service=service)

    name = f"{workers} workers, {service.median_s:g} s"
    slow_s = Overloading.patience * round_trip_s
    return Scenario(name, pages_for(workers / service.mean_s), build, slow_s=slow_s)


def _bans(how: RetryAfter) -> tuple[Scenario, ...]:
    """Who empties the bucket is shut out for a while, in which the bucket fills again: the ban costs what it gives."""
    cases = ((0.5, 30.0), (1.0, 60.0), (5.0, 30.0), (5.0, 60.0), (10.0, 30.0))
    return tuple(
        Scenario(
            f"ban {ban_s:g} s at {rate:g}/s {how}",
            pages_for(rate),
            served(banned(bucket(rate, rate * ban_s), ban_s), how),
        )
        for rate, ban_s in cases
    )


def _harsh_bans(how: RetryAfter) -> tuple[Scenario, ...]:
    """One request too many costs a ban that nothing makes good; knocking may even prolong it."""
    cases = ((1.0, 30.0, False), (5.0, 60.0, False), (5.0, 30.0, True))
    return tuple(
        Scenario(
            f"harsh ban {ban_s:g} s at {rate:g}/s {how}{' extending' if extends else ''}",
            2 * pages_for(rate),
            served(banned(bucket(rate, max(5.0, rate)), ban_s, extends), how),
        )
        for rate, ban_s, extends in cases
    )


def _short(punished: bool) -> tuple[Scenario, ...]:
    """Twenty seconds of crawling at the limit, in which it has to be found first."""
    hows: tuple[tuple[RetryAfter, int], ...] = (("silent", 429), ("seconds", 429), ("date", 503))
    return tuple(
        Scenario(
            f"20 s at {rate:g}/s {how}{', penalty box' if punished else ''}",
            round(20 * rate),
            served(banned(limiter, 3.0) if punished else limiter, how, status),
        )
        for rate in (2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0)
        for limiter in (bucket(rate, max(5.0, rate)),)
        for how, status in (hows[1:2] if punished else hows)
    )


def _punished() -> tuple[Scenario, ...]:
    """One request too many costs seconds, and the site says how many."""
    return tuple(
        Scenario(
            f"penalty of {ban_s:g} s at {rate:g}/s",
            pages_for(rate),
            served(banned(bucket(rate, max(5.0, rate)), ban_s), "seconds"),
        )
        for ban_s in (3.0, 5.0)
        for rate in (2.0, 5.0, 10.0, 20.0)
    )


def _headers(dialect: Dialect, rate: float, window_s: float) -> Scenario:
    def build(random: Random) -> Server:
        limiter = FixedWindow(rate, window_s, random.uniform(0.0, window_s))
        return Server(limiter, random, refusal=Refusal(429, "seconds"), dialect=dialect)

    return Scenario(f"{dialect} {rate:g}/s per {window_s:g} s", pages_for(rate), build)


def _changes(before: float, after: float, within_s: float) -> Scenario:
    at = 200.0
    pages = int(at * before + 300.0 * after)

    def build(random: Random) -> Server:
        limiter = Changing(TokenBucket(before, max(5.0, before)), TokenBucket(after, max(5.0, after)), at)
        return Server(limiter, random)

    return Scenario(f"{before:g}/s becomes {after:g}/s", pages, build, change=Change(at, after, within_s))


def _again(scenario: Scenario) -> Scenario:
    return Scenario(f"{scenario.name}, again", scenario.pages, scenario.build, second_run=True)


def _shared(rate: float, others: float) -> Scenario:
    def build(random: Random) -> Server:
        return Server(Shared(TokenBucket(rate, max(5.0, rate)), rate, others, Random(random.random())), random)

    return Scenario(f"{others:g} of {rate:g}/s taken", pages_for(rate - others), build)


def _noisy(rate: float, how: RetryAfter) -> Scenario:
    def build(random: Random) -> Server:
        return Server(TokenBucket(rate, max(5.0, rate)), random, refusal=Refusal(429, how), noise=Noise())

    return Scenario(f"1 % noise at {rate:g}/s {how}", pages_for(rate), build)


def _leaky(rate: float, depth: int) -> Scenario:
    return Scenario(f"leaky {rate:g}/s depth {depth}", pages_for(rate), served(lambda random: LeakyQueue(rate, depth)))


def _crawl_delay(delay_s: float) -> Scenario:
    client = Client(crawl_delay_s=delay_s)
    return Scenario(f"crawl delay {delay_s:g} s", 300, served(lambda random: Unlimited()), client)


def _caps(rate: float, in_flight: int, service: LogNormal) -> Scenario:
    client = Client(max_in_flight=in_flight, max_rate=rate)
    return Scenario(
        f"at most {rate:g}/s and {in_flight} at once",
        1000,
        lambda random: Server(Unlimited(), random, service=service),
        client,
    )


def rows() -> tuple[Row, ...]:
    """Every row of the table of targets; without a number where nothing is promised but the always-rules."""
    silent: tuple[RetryAfter, ...] = ("silent",)
    said: tuple[RetryAfter, ...] = ("seconds", "date")
    both: tuple[RetryAfter, ...] = ("silent", "seconds")
    dialects: tuple[Dialect, ...] = ("structured", "split", "x-delta", "x-epoch")
    second = (
        *_token_buckets((5.0, 20.0))[::3],
        *_windows(10.0, (5.0,), silent),
        *_slidings(10.0, (5.0,))[:1],
        *_windows(60.0, (5.0,), ("seconds",)),
    )
    return (
        Row("token bucket 1-2/s", "bucket", _token_buckets((1.0, 2.0)), 0.95, 10),
        Row("token bucket 5-20/s", "bucket", _token_buckets((5.0, 10.0, 20.0)), 0.95, 6),
        Row("window 60 s, Retry-After, 1/s", "window-ra", _windows(60.0, (1.0,), said), 0.95, 10),
        Row("window 60 s, Retry-After, 5-20/s", "window-ra", _windows(60.0, (5.0, 20.0), said), 0.95, 6),
        Row("window 1 s", "window-1", _windows(1.0, (2.0, 5.0, 20.0), both), 0.84, 6),
        Row("window 10 s", "window-10", _windows(10.0, (1.0, 5.0, 20.0), both), 0.92, 16),
        Row("window 60 s, silent, 0.2/s", "window-60", _windows(60.0, (0.2,), silent), 0.93, 45),
        Row("window 60 s, silent, 1/s", "window-60", _windows(60.0, (1.0,), silent), 0.93, 30),
        Row("window 60 s, silent, 5/s", "window-60", _windows(60.0, (5.0,), silent), 0.93, 15),
        Row("window 60 s, silent, 20/s", "window-60", _windows(60.0, (20.0,), silent), 0.93, 8),
        Row("sliding log 1 s, 10 s", "sliding", (*_slidings(1.0, (5.0, 20.0)), *_slidings(10.0, (1.0, 5.0))), 0.82, 18),
        Row("sliding log 60 s", "sliding", _slidings(60.0, (0.2, 1.0, 5.0)), 0.82, 30),
        Row("strict GCRA 0.2/s", "gcra", _gcra(0.2), 0.80, 20),
        Row("strict GCRA 1/s", "gcra", _gcra(1.0), 0.82, 12),
        Row("strict GCRA 5/s", "gcra", _gcra(5.0), 0.72, 8),
        Row("strict GCRA 20/s", "gcra", _gcra(20.0), 0.45, 8),
        Row("strict GCRA 50/s", "gcra", _gcra(50.0), 0.22, 8),
        Row(
            "in-flight limit",
            "in-flight",
            (
                _in_flight(4, LogNormal(0.4), 429),
                _in_flight(8, LogNormal(0.4), 503),
                _in_flight(3, LogNormal(1.0), 429),
            ),
            0.75,
            16,
        ),
        Row(
            "overloading queue",
            "overload",
            (_overloading(2, LogNormal(0.2)), _overloading(4, LogNormal(0.2)), _overloading(3, LogNormal(0.5))),
            0.76,
            9,
        ),
        Row("bans with Retry-After", "ban", _bans("seconds"), 0.95, 16),
        Row("bans without", "ban", (*_bans("silent"), *_harsh_bans("silent")), 0.35, 16),
        Row(
            "RateLimit headers",
            "headers",
            tuple(_headers(d, rate, span) for d in dialects for rate, span in ((2.0, 60.0), (10.0, 10.0), (5.0, 60.0))),
            0.95,
            0,
        ),
        Row("limit x1/4", "change", (_changes(20.0, 5.0, 30.0), _changes(8.0, 2.0, 30.0)), 0.78, 20),
        Row("limit x4", "change", (_changes(5.0, 20.0, 120.0), _changes(2.0, 8.0, 120.0)), 0.78, 20),
        Row("second run", "second", tuple(_again(s) for s in second), 0.90, 8),
        Row(
            "second run, window 60 s, 1/s",
            "second",
            tuple(_again(s) for s in _windows(60.0, (1.0,), silent)),
            0.90,
            20,
        ),
        # A mean over sites, of which the slowest have but 40 pages: 20 refusals per 1000 pages got are 25 here.
        Row("20 s crawls", "short", _short(punished=False), 0.85, 25),
        Row("20 s crawls, penalty box", "short", _short(punished=True), 0.80, 20),
        Row("penalty boxes, Retry-After", "short", _punished(), 0.80, 6),
        Row("harsh bans with Retry-After", "ban", _harsh_bans("seconds")),
        Row("leaky queue", "leaky", (_leaky(2.0, 5), _leaky(10.0, 20))),
        Row("shared limit", "shared", (_shared(4.0, 2.0), _shared(20.0, 10.0))),
        Row("1 % noise", "noise", (_noisy(2.0, "silent"), _noisy(10.0, "seconds"))),
        Row("crawl delay", "crawl-delay", (_crawl_delay(0.5), _crawl_delay(2.0), _crawl_delay(10.0))),
        Row("caps", "caps", (_caps(8.0, 16, LogNormal(0.1)), _caps(100.0, 4, LogNormal(0.5)))),
    )
