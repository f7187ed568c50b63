"""The first climb of gauge: how steep it is, and which limit a refusal at its end betrays. Pure.

The rate doubles in a time that depends on the rate alone, so the rate at which a site first refuses tells how many
requests were sent over any limit below it, and for how long. A limiter refuses when these have used up the credit that
it grants on top of its limit. With a guess at the credit one unknown is left: the limit.
"""

from __future__ import annotations

import math
from itertools import pairwise

# What sites let pass over their limit: most buckets hold about a second's worth, and a handful at the least.
CREDIT_S, CREDIT = 1.0, 4.5
LEAST_SHARE = 0.3  # of the rate at the end; a site that refuses at once has shown nothing
_FEWEST = 4  # answers per doubling
# Seconds per doubling, from each rate on: steep while few are under way at once, gentle where a refusal meets many.
_GENTLE_FROM, _GENTLEST_FROM = 8.0, 30.0
_STEEP_S, _GENTLE_S, _GENTLEST_S = 1.2, 1.6, 8.0
_STRETCHES = (0.0, _STEEP_S), (_GENTLE_FROM, _GENTLE_S), (_GENTLEST_FROM, _GENTLEST_S), (math.inf, 0.0)
_LN2 = math.log(2)
_HALVINGS = 20  # of the interval that holds the answer: to a millionth


def climbed(rate: float) -> float:
    """The rate after one more answer."""
    doubling_s = _STEEP_S if rate < _GENTLE_FROM else _GENTLE_S if rate < _GENTLEST_FROM else _GENTLEST_S
    answers = rate * doubling_s
    return rate * math.exp2(1.0 / (answers if answers > _FEWEST else _FEWEST))


def limit_under(rate: float) -> float:
    """The limit of a site that first refused when the climb had come to this rate."""
    low, high = LEAST_SHARE * rate, rate
    for _ in range(_HALVINGS):
        limit = (low + high) / 2
        sent, lasted_s = _stretch(limit, rate)
        if sent > limit * lasted_s + max(CREDIT, limit * CREDIT_S):
            low = limit  # such a limit would have shown earlier
        else:
            high = limit
    return low


def _stretch(low: float, high: float) -> tuple[float, float]:
    """Requests sent and seconds passed while the climb went from one rate to another."""
    sent = lasted_s = 0.0
    for (begins, doubling_s), (ends, _) in pairwise(_STRETCHES):
        bottom, top = max(low, begins), min(high, ends)
        if bottom < top:
            sent += (top - bottom) * doubling_s / _LN2
            lasted_s += math.log2(top / bottom) * doubling_s
    return sent, lasted_s
