"""The gap between two requests of one domain, kept where they are sent: what lies on the way cannot shorten it."""

from __future__ import annotations

SWEEP_AT = 10_000  # domains


class Spacing:
    """When each domain was last asked. The crawl decides when it may be; this only makes up for what came late."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}  # domain -> start, gap after it

    def wait_s(self, domain: str, gap_s: float, now: float) -> float:
        """How long a visit that has its permit still has to wait here; it then counts as started."""
        if gap_s <= 0:
            return 0.0
        if len(self._last) >= SWEEP_AT:
            self._last = {known: (at, gap) for known, (at, gap) in self._last.items() if at + gap > now}
        before = self._last.get(domain)
        start = now if before is None else max(now, before[0] + gap_s)
        self._last[domain] = (start, gap_s)
        return start - now

    def sent(self, domain: str, instant: float) -> None:
        """It left only now: what comes after it is spaced from here."""
        known = self._last.get(domain)
        if known is not None and known[0] < instant:
            self._last[domain] = (instant, known[1])
