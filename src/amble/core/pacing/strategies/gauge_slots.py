"""Whether a site limits requests at once rather than per second, inferred from which requests it refuses. Pure.

A rate limiter refuses whoever comes too early, however many are under way. A limit of k at once refuses exactly those
that were sent with more than k under way, and no such request was ever accepted.
"""

from __future__ import annotations

import math

_REMEMBERED = 30  # accepted requests
_EVENTS = 5
_CONVINCED = -8.5  # sum of log likelihoods over the last events
_UNSEEN = 0.03  # likelihood of a refusal that no accepted request resembles
_FEWEST = 3  # with fewer under way the two limits look alike
_WRONG_WITHIN = 40  # pages
_OFF_FOR = 3_000  # requests
_FIRST_TRIAL = 200  # pages before one more at once is tried


class Slots:
    """The most requests at once that a site serves, where that is what it limits; `cap` is None otherwise."""

    __slots__ = ("_accepted", "_events", "_next", "_off_until", "_pages", "_trial", "_trying", "cap")

    def __init__(self) -> None:
        self.cap: int | None = None
        self._accepted = bytearray()
        self._next = 0
        self._events: tuple[tuple[int, float], ...] = ()
        self._pages = 0  # since the cap was set or changed
        self._trial = _FIRST_TRIAL
        self._trying = False
        self._off_until = 0

    def accept(self, in_flight: int) -> None:
        """A request sent with so many under way, itself included, was served."""
        if len(self._accepted) < _REMEMBERED:
            self._accepted.append(min(in_flight, 255))
        else:
            self._accepted[self._next] = min(in_flight, 255)
            self._next = (self._next + 1) % _REMEMBERED
        if self.cap is not None:
            self._pages += 1
            if self._pages >= self._trial:
                self._trying = not self._trying  # one more at once is tried; if that went well it stays
                self._set(self.cap + 1 if self._trying else self.cap)

    def refuse(self, in_flight: int, seq: int, needed: float) -> bool:
        """One was refused. True: the cap explains it, the rate need not be cut. `needed` slots fill the known rate."""
        if self.cap is not None:
            return self._refused_under_cap(self.cap, in_flight, seq)
        if in_flight < _FEWEST or seq < self._off_until or not self._accepted:
            return False
        alike = sum(1 for other in self._accepted if other >= in_flight) / len(self._accepted)
        self._events = (*self._events, (in_flight, math.log(max(_UNSEEN, alike))))[-_EVENTS:]
        if len(self._events) < _EVENTS or sum(weight for _, weight in self._events) >= _CONVINCED:
            return False
        # The second smallest: requests overtake each other on the way, so one may look refused with too few under way.
        cap = sorted(seen for seen, _ in self._events)[1] - 1
        if cap < 0.95 * needed:
            return False
        self._set(cap)
        return True

    def _refused_under_cap(self, cap: int, in_flight: int, seq: int) -> bool:
        if self._trying:
            self._trying = False
            self._trial *= 2
            self._set(cap - 1)
            return True
        if in_flight < cap or self._pages < _WRONG_WITHIN:
            self.cap = None  # the cap did not help: it is another kind of limit
            self._events = ()
            self._off_until = seq + _OFF_FOR
            return False
        self._set(max(1, cap - 1))
        return True

    def _set(self, cap: int) -> None:
        self.cap = cap
        self._pages = 0
