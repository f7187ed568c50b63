"""What a site refuses and how it says so: the laboratory's limiters, described so that a process can be sent them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from amble.testing.lab.announce import Dialect, Refusal, RetryAfter
from amble.testing.lab.limiters import FixedWindow, Limiter, SlidingLog, TokenBucket
from amble.testing.lab.modifiers import All, Ban, Changing
from amble.testing.lab.queues import InFlight

Build = Callable[[Random], Limiter]

SILENT = Refusal()


@dataclass(frozen=True, slots=True)
class Limit:
    """A limiter yet to be built, the way it refuses, and the fields it announces itself in."""

    build: Build
    refusal: Refusal = SILENT
    dialect: Dialect | None = None
    challenge: bool = False  # what is refused meets a challenge page
    pages_only: bool = False  # robots.txt and guesses at a sitemap are let in, and not counted

    def ideal_s(self, pages: int) -> float:
        """Seconds that a client which knows the limit needs for so many pages."""
        return self.build(Random("ideal")).ideal_s(pages)


# --- Builders: functions of the module, so that partial applications of them can be pickled -------------------------


def _bucket(rate: float, burst: float, random: Random) -> Limiter:
    return TokenBucket(rate, burst)


def _window(rate: float, window_s: float, random: Random) -> Limiter:
    return FixedWindow(rate, window_s, random.uniform(0.0, window_s))


def _sliding(rate: float, window_s: float, random: Random) -> Limiter:
    return SlidingLog(rate, window_s)


def _in_flight(slots: int, round_trip_s: float, random: Random) -> Limiter:
    return InFlight(slots, round_trip_s)


def _banned(inner: Build, ban_s: float, extends: bool, random: Random) -> Limiter:
    return Ban(inner(random), ban_s, extends)


def _changing(before: Build, after: Build, change_at: float, random: Random) -> Limiter:
    return Changing(before(random), after(random), change_at)


def _all(inner: tuple[Build, ...], random: Random) -> Limiter:
    return All(*(build(random) for build in inner))


def bucket(rate: float, burst: float | None = None) -> Build:
    """`rate` a second, `burst` of them at once (by default five, or a second's worth)."""
    return partial(_bucket, rate, max(5.0, rate) if burst is None else burst)


def window(rate: float, window_s: float) -> Build:
    """`rate * window_s` in each window, joined at some moment of it."""
    return partial(_window, rate, window_s)


def sliding(rate: float, window_s: float) -> Build:
    """`rate * window_s` in any stretch of that length."""
    return partial(_sliding, rate, window_s)


def in_flight(slots: int, round_trip_s: float) -> Build:
    """So many at once; `round_trip_s` is what one takes, for the ideal client's reckoning."""
    return partial(_in_flight, slots, round_trip_s)


def penalty_box(inner: Build, ban_s: float, *, extends: bool = False) -> Build:
    """Who breaks the limit is shut out for `ban_s`; `extends`: each knock starts it anew."""
    return partial(_banned, inner, ban_s, extends)


def changing(before: Build, after: Build, change_at: float) -> Build:
    """One limit until `change_at` seconds after the site was first asked, another from then on."""
    return partial(_changing, before, after, change_at)


def together(*inner: Build) -> Build:
    """All of these limits at once."""
    return partial(_all, inner)


def refusing(build: Build, retry_after: RetryAfter = "silent", status: int = 429) -> Limit:
    """A limit that refuses with this status and this form of Retry-After."""
    return Limit(build, Refusal(status, retry_after))


def announcing(build: Build, dialect: Dialect = "structured") -> Limit:
    """A limit that tells its quota with every answer, and Retry-After in seconds when it refuses."""
    return Limit(build, Refusal(429, "seconds"), dialect)


def challenging(build: Build, status: int = 403) -> Limit:
    """A limit behind which a bot wall stands: what it refuses gets a challenge page."""
    return Limit(build, Refusal(status), challenge=True)
