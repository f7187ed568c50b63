"""How long a domain takes to answer: a moving average and a percentile of the last 64 answers. Pure.

The answers are kept as a string of bytes, newest last, one byte each on a logarithmic scale: 1 ms to 23 minutes in
steps of 5.7 %, so that a percentile is right within 3 %. A domain that was asked twice pays for two bytes.
"""

from __future__ import annotations

import math

EWMA_SHARE = 0.2
KEPT = 64
# A page that takes so many times as long as is usual at its domain hangs: once so many answers have shown what that is,
# and never sooner than after this time.
HANGS_TIMES, HANGS_ANSWERS, HANGS_S = 20.0, 10, 5.0

_STEPS = 18.0
_SHORTEST_S = 0.001
_BYTES = tuple(bytes((code,)) for code in range(256))


def remember(ring: bytes, elapsed_s: float) -> bytes:
    """The last answers with one more."""
    code = int(math.log(elapsed_s / _SHORTEST_S) * _STEPS + 0.5) if elapsed_s > _SHORTEST_S else 0
    newest = _BYTES[code] if code < 255 else _BYTES[255]
    return ring + newest if len(ring) < KEPT else ring[1:] + newest


def percentile_s(ring: bytes, share: float = 0.95) -> float | None:
    """The time that so large a share of the answers stayed under; None before the first."""
    if not ring:
        return None
    ranked = sorted(ring)
    code = ranked[max(0, math.ceil(share * len(ranked)) - 1)]
    return _SHORTEST_S * math.exp(code / _STEPS)


def hangs_after_s(ring: bytes) -> float | None:
    """How long a page may wait for the headers of its answer at its first try. None: no saying yet."""
    if len(ring) < HANGS_ANSWERS:
        return None
    return max(HANGS_S, HANGS_TIMES * (percentile_s(ring, 0.5) or 0.0))
