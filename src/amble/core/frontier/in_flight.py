"""Room for the requests that are under way, and for those that wait for nobody. Pure.

A request whose name is still looked up, or whose connection does not come about, keeps nobody busy: after a second it
gives its place to another. There is room for many more of these, or a few hundred black holes would stop a crawl.
"""

from __future__ import annotations

from amble.core.pacing.permit import Permit

SOON_S = 1.0  # within this a request to somebody who is there has been written
UNSENT_MAX = 4_096  # requests without a place; of these the fetcher connects a quarter at once


class Places:
    """Counts the requests that hold a place. Called when a request sets out, when it is written, when it is over."""

    def __init__(self, size: int, unsent_max: int = UNSENT_MAX) -> None:
        self._size = size
        self._unsent_max = unsent_max
        self._held = 0
        self._young: dict[Permit, float] = {}  # not written yet, and since when; the oldest first
        self._unsent: set[Permit] = set()  # not written for a second: without a place

    def has_room(self, now: float) -> bool:
        """Whether another request may set out."""
        young, unsent = self._young, self._unsent
        while young and len(unsent) < self._unsent_max and young[oldest := next(iter(young))] + SOON_S <= now:
            del young[oldest]
            unsent.add(oldest)
            self._held -= 1
        return self._held < self._size

    def room_at(self) -> float | None:
        """When a place becomes free though nothing comes back; None: not before something does."""
        if not self._young or len(self._unsent) >= self._unsent_max:
            return None
        return next(iter(self._young.values())) + SOON_S

    def take(self, permit: Permit, now: float) -> None:
        """A request sets out."""
        self._held += 1
        if permit.gap_s > 0:  # a helper says when a request was written only where a gap is kept
            self._young[permit] = now

    def sent(self, permit: Permit) -> None:
        """It was written, and holds a place from now on, though there may be too many of these for a while."""
        if self._young.pop(permit, None) is None and permit in self._unsent:
            self._unsent.discard(permit)
            self._held += 1

    def leave(self, permit: Permit) -> None:
        """It is over."""
        self._young.pop(permit, None)
        if permit in self._unsent:
            self._unsent.discard(permit)
        else:
            self._held -= 1
