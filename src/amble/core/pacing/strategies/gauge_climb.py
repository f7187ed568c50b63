"""The first climb of gauge: how steep it is, and which limit the refusal at its end betrays. Pure.

A limiter refuses when the requests over its limit have used up the credit that it grants on top. When each request
was sent is known, so each limit has its credit that would explain the refusal; with a guess at the credit one unknown
is left: the limit.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import NamedTuple

LEAST_SHARE, MOST_SHARE = 0.4, 2.0  # of the rate at the end, between which the limit is looked for
_KEPT = 64  # instants; when so many are there, every other one goes
_FEWEST = 4  # answers per doubling
# Seconds per doubling, from each rate on: steep while few are under way at once, gentle where a refusal meets many.
_GENTLE_FROM, _GENTLEST_FROM = 8.0, 30.0
_STEEP_S, _GENTLE_S, _GENTLEST_S = 1.2, 1.6, 8.0
ROUNDING = 1e-3  # of a request, in sums of instants kept with few digits
_HALVINGS = 20  # of the interval that holds the answer: to a millionth
# What sites let pass over their limit: a handful at the least, and where it is more, most of a second's worth.
_CREDIT, _CREDIT_S = 5.0, 0.6


class Guess(NamedTuple):
    """The likely limit, and the highest one at which what was accepted before does not speak for more credit still."""

    limit: float
    most: float

    @property
    def doubt(self) -> float:
        """By which share the guess may be too low."""
        return self.most / self.limit - 1 if self.limit > 0 else 0.0


def climbed(rate: float) -> float:
    """The rate after one more answer."""
    doubling_s = _STEEP_S if rate < _GENTLE_FROM else _GENTLE_S if rate < _GENTLEST_FROM else _GENTLEST_S
    answers = rate * doubling_s
    return rate * math.exp2(1.0 / (answers if answers > _FEWEST else _FEWEST))


class Climb:
    """When the accepted requests of the climb were sent, in seconds since the first; a few bytes each."""

    __slots__ = ("_before", "_began", "_count", "_sent", "_stride")

    def __init__(self, began: float, before: int) -> None:
        self._began = began
        self._before = before  # requests before those that are counted here, the first one included
        self._count = 0
        self._sent = array("f", (0.0,))
        self._stride = 1  # requests from one instant kept to the next

    def accept(self, sent_at: float) -> None:
        self._count += 1
        if self._count % self._stride == 0:
            self._sent.append(sent_at - self._began)
            if len(self._sent) >= _KEPT:
                self._sent = self._sent[::2]
                self._stride *= 2

    def guess(self, accepted: int, refused_at: float, rate: float) -> Guess:
        """The limit of a site that first refused a request sent then, after it had accepted so many."""
        refused_s, least, most = refused_at - self._began, LEAST_SHARE * rate, MOST_SHARE * rate

        def shows(limit: float) -> bool:
            """Whether the refused request needed more credit there than any that was accepted."""
            refused, before = self._needed(limit, accepted, refused_s)
            return refused >= before - ROUNDING

        def uses_up(limit: float) -> bool:
            """Whether such a limit would have shown earlier, were the credit the usual one."""
            return self._needed(limit, accepted, refused_s)[0] - 0.5 > max(_CREDIT, _CREDIT_S * limit)

        return Guess(_highest(uses_up, least, most), _highest(shows, least, most))

    def _needed(self, limit: float, accepted: int, refused_s: float) -> tuple[float, float]:
        """The credit that the refused request would have needed under a limit, and the most that one before it did."""
        sent = self._before - 1
        lowest, before = 0.0, 1.0  # by how much what was sent until then is ahead of the limit, at the least
        for sent_s in self._sent[1:]:
            sent += self._stride  # before this one
            ahead = sent - limit * sent_s
            if ahead < lowest:
                lowest = ahead
            before = max(before, ahead - lowest + 1)
        return accepted - limit * refused_s - lowest + 1, before


def _highest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Up to where something holds that holds no more from some limit on."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
