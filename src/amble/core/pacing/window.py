"""How many of the last answers were failures: a sliding window on a fixed ring. Pure."""

from __future__ import annotations

_ROUNDING_S = 1e-6  # what floats lose of an instant far from the zero of its clock


class FailureWindow:
    """Counts of answers and failures in the last `buckets * bucket_s` seconds. Fixed memory, O(1) per answer."""

    __slots__ = ("_began", "_bucket_s", "_failures", "_newest", "_totals")

    def __init__(self, buckets: int, bucket_s: float, now: float) -> None:
        self._bucket_s = bucket_s
        self._began = now  # buckets count from here: no instant of a clock means anything
        self._newest = 0
        self._totals = [0] * buckets
        self._failures = [0] * buckets

    def add(self, failed: bool, now: float, count: int = 1) -> None:
        slot = self._turn(now)
        self._totals[slot] += count
        if failed:
            self._failures[slot] += count

    def counts(self, now: float) -> tuple[int, int]:
        """(answers, failures) in the window that ends now."""
        self._turn(now)
        return sum(self._totals), sum(self._failures)

    def error_rate(self, now: float) -> float:
        total, failures = self.counts(now)
        return failures / total if total else 0.0

    def clear(self) -> None:
        self._totals = [0] * len(self._totals)
        self._failures = [0] * len(self._failures)

    def seed(self, successes: int, over_s: float, now: float) -> None:
        """Count successes that came before the window existed, evenly over the last so many seconds."""
        newest, buckets = self._turn(now), len(self._totals)
        filled = min(buckets, int(over_s // self._bucket_s) + 1)
        for step in range(filled):
            share = round(successes * (step + 1) / filled) - round(successes * step / filled)
            self._totals[(newest - step) % buckets] += share

    def _turn(self, now: float) -> int:
        """Empty the buckets that time has passed by; return the slot of the present one."""
        bucket = int((now - self._began + _ROUNDING_S) // self._bucket_s)
        buckets = len(self._totals)
        passed = min(bucket - self._newest, buckets)
        for step in range(1, passed + 1):
            slot = (self._newest + step) % buckets
            self._totals[slot] = self._failures[slot] = 0
        if passed > 0:
            self._newest = bucket
        return self._newest % buckets
