"""One domain's visits, in the order in which they should be made. Pure."""

from __future__ import annotations

import heapq
from itertools import count

from amble.core.frontier.visit import Kind, Visit
from amble.core.pacing.pace import Pace
from amble.core.sitemap.walk import SitemapWalk

_RANK = {Kind.ROBOTS: 0, Kind.SITEMAP: 1, Kind.PAGE: 2}
_order = count()


class Lane:
    """Due visits by rank, depth and priority; later ones by their instant."""

    __slots__ = (
        "_due", "_later", "asked_delay_s", "failed_streak", "held", "pace", "pages", "stalled_since", "token",
        "under_way", "walk",
    )  # fmt: skip

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._due: list[tuple[int, int, float, int, Visit]] = []
        self._later: list[tuple[float, int, Visit]] = []
        self.token = 0  # the newest place in the frontier's heap; older ones are void
        self.under_way = 0
        self.pages = 0  # accepted at this domain
        self.held = False  # its robots.txt is being asked for: only that may be visited
        self.asked_delay_s: float | None = None
        self.walk: SitemapWalk | None = None
        self.failed_streak = 0
        self.stalled_since: float | None = None

    def __len__(self) -> int:
        return len(self._due) + len(self._later)

    @property
    def domain(self) -> str:
        return self.pace.domain

    def push(self, visit: Visit) -> None:
        # Retries and redirects keep their depth and so their place: breadth first, whatever happens on the way.
        heapq.heappush(self._due, (_RANK[visit.kind], visit.depth, -visit.priority, next(_order), visit))

    def push_later(self, visit: Visit, run_at: float) -> None:
        heapq.heappush(self._later, (run_at, next(_order), visit))

    def pop(self, now: float) -> Visit | None:
        while self._later and self._later[0][0] <= now:
            self.push(heapq.heappop(self._later)[2])
        if not self._due or self._due[0][0] > self._rank_max():
            return None
        return heapq.heappop(self._due)[4]

    def wake_at(self) -> float | None:
        """When there is something to do, as far as the queue knows; None: nothing is queued."""
        if self._due and self._due[0][0] <= self._rank_max():
            return float("-inf")
        if self._due or self.held:
            return None
        return self._later[0][0] if self._later else None

    def _rank_max(self) -> int:
        """What may be visited: pages only once it is known whether robots.txt allows them and sitemaps list them."""
        if self.held:
            return _RANK[Kind.ROBOTS]
        searching = self.walk is not None and not self.walk.found and not self.walk.finished
        return _RANK[Kind.SITEMAP] if searching else _RANK[Kind.PAGE]

    def drain(self) -> list[Visit]:
        """Everything queued, taken out."""
        visits = [entry[4] for entry in self._due] + [entry[2] for entry in self._later]
        self._due, self._later = [], []
        return visits
