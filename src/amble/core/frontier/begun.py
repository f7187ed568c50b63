"""How many domains a crawl works on at once: as many as it can keep connections to. Pure.

A domain is begun from its first request on, for as long as its next one is due within seconds. While as many are begun
as may be, one that was never asked waits, so that those begun are finished over the connections they have. A domain
that is slow, blocked or dead is not begun: it holds up nobody, and is asked whenever it is due.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amble.core.frontier.lane import Lane

SOON_S = 5.0  # a server keeps an idle connection for about so long


class Begun:
    """Counts the begun domains of one crawl, and keeps those that wait to begin in the order they came."""

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        self.count = 0
        self._waiting: deque[Lane] = deque()

    def admits(self, lane: Lane) -> bool:
        """Whether a domain that is due may be asked now; if not, it waits here until there is room."""
        if not lane.begun:
            if self.count >= self.most and not lane.was_asked:
                lane.waits_to_begin = True
                self._waiting.append(lane)
                return False
            self._begin(lane)
        return True

    def next(self) -> Lane | None:
        """The domain that has waited longest, if there is room for it. It is begun with that."""
        if not self._waiting or self.count >= self.most:
            return None
        lane = self._waiting.popleft()
        lane.waits_to_begin = False
        self._begin(lane)
        return lane

    def end(self, lane: Lane) -> None:
        """Nothing is due here soon."""
        if lane.begun:
            lane.begun = False
            self.count -= 1

    def _begin(self, lane: Lane) -> None:
        lane.begun = True
        self.count += 1
