"""How much processor time something takes, for tests of growth: ratios, never seconds."""

from __future__ import annotations

import time
from collections.abc import Callable


def cpu_s(work: Callable[[], object], *, at_least_s: float = 0.01, runs: int = 5) -> float:
    """CPU seconds of one call: the best of several runs, each long enough for the clock."""
    count = 1
    while (spent_s := _spent_s(work, count)) < at_least_s:
        count *= 2
    return min(spent_s, *(_spent_s(work, count) for _ in range(runs - 1))) / count


def _spent_s(work: Callable[[], object], count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        work()
    return time.process_time() - start
