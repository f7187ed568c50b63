"""How long a domain will take: its own pace, played forward against a server that answers everything."""

from __future__ import annotations

import heapq
from datetime import UTC, datetime
from typing import NamedTuple

from amble.core.answer import Answer
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Permit, Source
from amble.core.pacing.registry import Registry
from amble.core.pacing.settings import PacingSettings

PLAYED_MAX = 2_000  # requests; by then a pace that nobody refuses has found its rate
_CLOSE = 1.05
_WHEN = datetime(2000, 1, 1, tzinfo=UTC)
_WHY = {
    Source.MINIMUM: "min_crawl_delay",
    Source.MAX_RATE: "max_rate",
    Source.QUOTA: "quota",
    Source.NONE: "none",
}


class Expected(NamedTuple):
    """How a domain will be asked."""

    seconds: float
    delay_s: float  # once it runs evenly
    why: str  # robots, learned, default, rule, min_crawl_delay, max_rate, quota, latency or none
    concurrency: int
    sure: bool  # a pace that is still to be learned may turn out slower


def expect(pace: Pace, requests: int, latency_s: float) -> Expected:
    """What so many requests will take, from the pace as it stands."""
    settled = pace.strategy.learned or pace.strategy.name == "fixed"
    if settled:
        gap_s = pace.gap_s - pace.jitter_s + pace.bounds.random_delay_s / 2
        seconds = _lasts_s(requests, gap_s, latency_s, pace.parallel)
        if pace.strategy.learned and requests:
            seconds += pace.gap_s  # what is known of a domain begins with a delay of silence
        return Expected(seconds, gap_s, why(pace), pace.parallel, True)
    fresh = _fresh(pace)
    played = min(requests, PLAYED_MAX)
    seconds = _play(fresh, played, latency_s)
    gap_s = fresh.gap_s - fresh.jitter_s + fresh.bounds.random_delay_s / 2
    seconds += (requests - played) * max(gap_s, latency_s / fresh.parallel)
    bound = why(fresh)
    return Expected(seconds, gap_s, bound, fresh.parallel, bound in ("robots", "rule", "min_crawl_delay"))


def why(pace: Pace) -> str:
    """What sets the delay of a domain, in the words of a plan."""
    source = pace.source
    if source is Source.LEARNED:
        if pace.strategy.learned:
            return "learned"
        if pace.gap_s > _CLOSE * pace.bounds.gap_s:
            return "default"
        source = pace.bounds.source  # it comes down to what binds for good, and is all but there
    if source is Source.CRAWL_DELAY:
        return "robots" if pace.bounds.asked_s is not None else "default"
    if source in (Source.MINIMUM, Source.MAX_RATE) and _ruled(pace):
        return "rule"
    return _WHY[source]


def _ruled(pace: Pace) -> bool:
    """Whether a rule for this domain makes the difference to the general settings."""
    settings = pace.bounds.settings
    if not settings.rules:
        return False
    general = _pace(settings.model_copy(update={"rules": {}}), pace)
    return general.bounds.gap_s != pace.bounds.gap_s


def _fresh(pace: Pace) -> Pace:
    """The same domain at the beginning of a run."""
    return _pace(pace.bounds.settings, pace)


def _pace(settings: PacingSettings, like: Pace) -> Pace:
    made = Registry(settings, lambda: 0.5).pace(like.domain, 0.0, _WHEN)
    made.set_crawl_delay(like.bounds.asked_s)
    return made


def _lasts_s(requests: int, gap_s: float, latency_s: float, parallel: int) -> float:
    """From the first start to the last answer."""
    return 0.0 if not requests else (requests - 1) * max(gap_s, latency_s / parallel) + latency_s


def _play(pace: Pace, requests: int, latency_s: float) -> float:
    """Seconds until a server that answers everything in the same time has answered so many requests."""
    now, flying, sent = 0.0, list[tuple[float, int, Permit]](), 0
    while sent < requests or flying:
        got = pace.reserve(now) if sent < requests else None
        if isinstance(got, Permit):
            sent += 1
            heapq.heappush(flying, (now + latency_s, sent, got))
            continue
        if flying and (got is None or flying[0][0] <= got):
            now, _, permit = heapq.heappop(flying)
            pace.settle(permit, Answer(status=200, elapsed_s=latency_s), now)
        elif got is not None:
            now = max(got, now + 1e-9)  # a rounding error must not make it ask for ever
    return now
