"""When one URL is tried again: growing waits, and never before its domain may be asked. Pure."""

from __future__ import annotations

from amble.core.pacing.bounds import Random
from amble.core.pacing.settings import PacingSettings


def fibonacci_s(attempt: int, longest_s: float) -> float:
    """1, 1, 2, 3, 5, 8 ... seconds for attempts 1, 2, 3 ..., capped."""
    shorter, longer = 1.0, 1.0
    for _ in range(attempt - 1):
        if shorter >= longest_s:
            break
        shorter, longer = longer, shorter + longer
    return min(shorter, longest_s)


def exponential_s(attempt: int, base_s: float, longest_s: float) -> float:
    """base, 2 base, 4 base ... seconds, capped."""
    return min(longest_s, base_s * 2.0 ** min(attempt - 1, 64))


def retry_wait_s(attempt: int, settings: PacingSettings, random: Random) -> float | None:
    """The wait before retry number `attempt` (from 1); None when the URL has had its tries.

    Exponential waits have full jitter, uniform from nothing up to the bound, so that failures do not return in step.
    """
    if attempt > settings.max_retries:
        return None
    if settings.retry_backoff == "fibonacci":
        return fibonacci_s(attempt, settings.max_retry_backoff_seconds)
    return random() * exponential_s(attempt, settings.retry_base_delay, settings.max_retry_backoff_seconds)


def retry_at(
    attempt: int, now: float, domain_not_before: float, settings: PacingSettings, random: Random
) -> float | None:
    """The instant of the next try: the URL's own wait, or the domain's timing where that is later."""
    wait_s = retry_wait_s(attempt, settings, random)
    return None if wait_s is None else max(now + wait_s, domain_not_before)
