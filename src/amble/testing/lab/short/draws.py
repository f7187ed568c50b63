"""Draws the short hosts: every kind of limit with its parameters, from a seeded die that nobody can have tuned on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from amble.testing.lab.announce import Dialect, Refusal, RetryAfter
from amble.testing.lab.limiters import FixedWindow, Limiter, TokenBucket, WindowFromFirst
from amble.testing.lab.modifiers import All, Changing
from amble.testing.lab.queues import FifoQueue, InFlight
from amble.testing.lab.servers import LogNormal
from amble.testing.lab.short.host import Downtime, ShortHost

SIGMAS = (0.0, 0.3, 0.5)
LATENCY_S = 0.005, 0.35
SLOW_LATENCY_S = 0.04, 1.0  # where the site counts requests at once
TOLD: tuple[RetryAfter, ...] = ("seconds", "date")
HOWS: tuple[RetryAfter, ...] = ("silent", *TOLD)
DIALECTS: tuple[Dialect, ...] = ("x-epoch", "split", "structured")
TRIES_MAX = 1000  # of a draw that must fit its bounds


@dataclass(frozen=True, slots=True)
class Size:
    """How long the crawls of a group are, at the limit."""

    pages_least: int
    pages_most: int
    least_s: float
    most_s: float

    def pages(self, dice: Random, rate: float) -> int:
        wanted = round(rate * log_uniform(dice, self.least_s, self.most_s))
        return min(max(wanted, self.pages_least), self.pages_most)


SHORT = Size(40, 400, 10.0, 40.0)
MIXED = Size(30, 800, 10.0, 60.0)

Draw = Callable[[Random, Size], ShortHost]


def log_uniform(dice: Random, low: float, high: float) -> float:
    return math.exp(dice.uniform(math.log(low), math.log(high)))


def fitting(draw: Callable[[], Any], fits: Callable[[Any], bool]) -> Any:
    """The first draw that fits."""
    for _ in range(TRIES_MAX):
        drawn = draw()
        if fits(drawn):
            return drawn
    raise RuntimeError("no draw fits")


def latency(dice: Random, bounds_s: tuple[float, float] = LATENCY_S) -> LogNormal:
    return LogNormal(log_uniform(dice, *bounds_s), dice.choice(SIGMAS))


def refusal(dice: Random, hows: tuple[RetryAfter, ...] = HOWS) -> Refusal:
    return Refusal(dice.choice((429, 429, 503)), dice.choice(hows))


def clock(dice: Random) -> float:
    """What the site's clock shows when it is first asked: somewhere in its hour."""
    return dice.uniform(0.0, 3600.0)


# -- one kind each ---------------------------------------------------------------------------------------------------


def bucket(dice: Random, size: Size, *, rates: tuple[float, float] = (2.0, 20.0)) -> ShortHost:
    rate = log_uniform(dice, *rates)
    name, burst = dice.choice((("1", 1.0), ("2", 2.0), ("5", 5.0), ("10", 10.0), ("L", rate), ("2L", 2.0 * rate)))
    return _bucket(dice, size, rate, max(1.0, burst), f"burst {name}")


def wide_bucket(dice: Random, size: Size) -> ShortHost:
    """As in the mixture of all kinds: slower and faster ones, too."""
    rate = log_uniform(dice, 0.8, 28.0)
    burst = dice.choice((1.0, 2.0, 5.0, 10.0, 2.0 * rate))
    return _bucket(dice, size, rate, max(1.0, burst), "bucket")


def _bucket(dice: Random, size: Size, rate: float, burst: float, part: str) -> ShortHost:
    return ShortHost(
        f"bucket {rate:.2g}/s burst {burst:.2g}",
        part,
        size.pages(dice, rate),
        partial(TokenBucket, rate, burst),
        latency(dice),
        clock_s=clock(dice),
        refusal=refusal(dice),
    )


def _window(
    dice: Random, size: Size, counts: tuple[int, int], lengths_s: tuple[float, ...], rates: tuple[float, float]
) -> ShortHost:
    """A window of which a crawl uses three to five, or, where it is short, as many as the size has."""

    def draw() -> tuple[int, float, int]:
        count, window_s = round(log_uniform(dice, *counts)), dice.choice(lengths_s)
        windows = dice.uniform(3.0, 5.0)
        return count, window_s, max(round(windows * count), size.pages(dice, count / window_s))

    def fits(drawn: tuple[int, float, int]) -> bool:
        count, window_s, pages = drawn
        return rates[0] <= count / window_s <= rates[1] and size.pages_least <= pages <= size.pages_most

    count, window_s, pages = fitting(draw, fits)
    aligned = dice.random() < 0.5
    limiter: Callable[[], Limiter] = partial(WindowFromFirst, count, window_s)
    if aligned:
        limiter = partial(FixedWindow, count / window_s, window_s)
    where = "of the clock" if aligned else "from the first request"
    return ShortHost(
        f"{count} per {window_s:g} s {where}",
        f"{window_s:g} s",
        pages,
        limiter,
        latency(dice),
        clock_s=clock(dice),
    )


def window(dice: Random, size: Size, *, hows: tuple[RetryAfter, ...] = HOWS) -> ShortHost:
    host = _window(dice, size, (2, 500), (1.0, 2.0, 5.0, 10.0, 30.0), (0.5, 28.0))
    return replace(host, refusal=refusal(dice, hows))


def window_with_headers(dice: Random, size: Size, *, dialects: tuple[Dialect, ...] = DIALECTS) -> ShortHost:
    host = _window(dice, size, (8, 1200), (5.0, 10.0, 30.0, 60.0), (0.5, 40.0))
    dialect = dice.choice(dialects)
    return replace(host, part=dialect, refusal=Refusal(429, dice.choice(HOWS)), dialect=dialect)


def at_once(dice: Random, size: Size) -> ShortHost:
    """Slots of which the pages of a group last as long as its crawls do: a climb is no crawl."""
    slots, answers = fitting(
        lambda: (dice.randint(1, 8), latency(dice, SLOW_LATENCY_S)),
        lambda drawn: drawn[0] / drawn[1].mean_s <= size.pages_most / size.least_s,
    )
    rate, told = slots / answers.mean_s, refusal(dice)
    return ShortHost(
        f"{slots} at once, {answers.mean_s:.2g} s",
        "silent" if told.retry_after == "silent" else "told",
        size.pages(dice, rate),
        partial(InFlight, slots, answers.mean_s),
        answers,
        clock_s=clock(dice),
        refusal=told,
    )


def queue(dice: Random, size: Size) -> ShortHost:
    rate, depth = log_uniform(dice, 2.0, 25.0), dice.choice((5, 20, 40, 200))
    return ShortHost(
        f"queue {rate:.2g}/s depth {depth}",
        f"depth {depth}",
        size.pages(dice, rate),
        partial(FifoQueue, rate, depth),
        latency(dice),
        clock_s=clock(dice),
        refusal=Refusal(503),
    )


def outage(dice: Random, size: Size, *, told: bool | None = None) -> ShortHost:
    """A site that is down once, for a while that begins well before the crawl could be over."""
    rate, clock_s = log_uniform(dice, 3.0, 25.0), clock(dice)
    tells = dice.random() < 0.5 if told is None else told
    pages, begins_s = fitting(
        lambda: (size.pages(dice, rate), dice.uniform(2.0, 12.0)), lambda drawn: drawn[1] * rate < 0.7 * drawn[0]
    )
    lasts_s = log_uniform(dice, 3.0, 35.0)
    return ShortHost(
        f"{rate:.2g}/s, down from {begins_s:.0f} s for {lasts_s:.0f} s",
        "told" if tells else "silent",
        pages,
        partial(TokenBucket, rate, max(5.0, rate)),
        latency(dice),
        clock_s=clock_s,
        refusal=Refusal(503, dice.choice(TOLD if tells else HOWS)),
        downtimes=(Downtime(clock_s + begins_s, clock_s + begins_s + lasts_s),),
        tells_downtime=tells,
    )


def flapping(dice: Random, size: Size) -> ShortHost:
    """A site that goes up and down for a minute, without a word."""
    rate, clock_s = log_uniform(dice, 3.0, 15.0), clock(dice)
    up_s, down_s = dice.uniform(2.5, 6.5), dice.uniform(1.2, 6.0)
    count = math.ceil(60.0 / (up_s + down_s))
    starts = [clock_s + up_s + number * (up_s + down_s) for number in range(count)]
    return ShortHost(
        f"{rate:.2g}/s, {up_s:.1f} s up, {down_s:.1f} s down",
        "flapping",
        size.pages(dice, rate),
        partial(TokenBucket, rate, max(5.0, rate)),
        latency(dice),
        clock_s=clock_s,
        refusal=refusal(dice),
        downtimes=tuple(Downtime(start, start + down_s) for start in starts),
    )


def changing(dice: Random, size: Size, *, within_s: tuple[float, float] = (5.0, 30.0)) -> ShortHost:
    """A bucket that becomes smaller or larger in the middle of the crawl."""

    def draw() -> tuple[float, float, int]:
        rate = log_uniform(dice, 2.0, 16.0)
        return rate, dice.uniform(*within_s), size.pages(dice, rate)

    rate, change_s, pages = fitting(draw, lambda drawn: drawn[0] * drawn[1] < 0.7 * drawn[2])
    burst, factor, clock_s = log_uniform(dice, 2.0, 15.0), dice.choice((0.25, 0.5, 2.0, 4.0)), clock(dice)

    def limiter() -> Limiter:
        return Changing(TokenBucket(rate, burst), TokenBucket(factor * rate, burst), clock_s + change_s)

    return ShortHost(
        f"{rate:.2g}/s burst {burst:.2g}, x{factor:g} after {change_s:.0f} s",
        "drop" if factor < 1.0 else "rise",
        pages,
        limiter,
        latency(dice),
        clock_s=clock_s,
        refusal=refusal(dice),
    )


def cap_and_bucket(dice: Random, size: Size) -> ShortHost:
    """A shop: the third request at once is refused, and more than thirty a second with hardly any credit."""
    answers = latency(dice, (0.015, 0.06))
    return ShortHost(
        f"2 at once and 30/s, {answers.mean_s:.2g} s",
        "shop",
        size.pages(dice, 30.0),
        lambda: All(InFlight(2, answers.mean_s), TokenBucket(30.0, 3.0)),
        answers,
        clock_s=clock(dice),
        refusal=refusal(dice),
    )


# Of fifteen hosts two are of each kind, and one flaps.
KINDS: tuple[Draw, ...] = (
    *(wide_bucket, window, window_with_headers, at_once, queue, outage, partial(changing, within_s=(10.0, 30.0))) * 2,
    flapping,
)
KIND_NAMES = ("bucket", "window", "headers", "at once", "queue", "outage", "changing") * 2 + ("flapping",)


def any_kind(dice: Random, size: Size) -> ShortHost:
    number = dice.randrange(len(KINDS))
    return replace(KINDS[number](dice, size), part=KIND_NAMES[number])
