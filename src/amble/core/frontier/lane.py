"""One domain's visits, in the order in which they should be made. Pure."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from amble.core.frontier.changes import State
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.pacing.pace import Pace
from amble.core.sitemap.walk import SitemapWalk

_RANK = {Kind.ROBOTS: 0, Kind.SITEMAP: 1, Kind.PAGE: 2}
_ROBOTS, _SITEMAP, _PAGE = _RANK.values()
_order = count()


class Over(NamedTuple):
    """A domain is done with: how all that is or comes to be queued there ends."""

    state: State
    failure: Failure
    reason: str

    @classmethod
    def refused(cls, failure: Failure, reason: str) -> Over:
        """By a robots.txt, which is as it should be; or for want of one, which is not."""
        return cls(State.FAILED if failure is Failure.ROBOTS_UNREACHABLE else State.SKIPPED, failure, reason)


class Lane:
    """Due visits by rank, depth and priority; later ones by their instant."""

    __slots__ = (
        "_asked_s", "_due", "_later", "failed_streak", "held", "last_failure", "limit_streak", "over", "pace", "place",
        "rest_until", "stalled_since", "token", "turns_left", "under_way", "waits_at",
        "walks",
    )  # fmt: skip

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._due: list[tuple[int, int, float, int, Visit]] = []
        self._later: list[tuple[float, int, Visit]] = []
        self.place: float | None = None  # where it stands in the frontier's heap; None: it does not
        self.turns_left = 0  # visits it may make at once, as its answers come, before other domains have their turn
        self.token = 0  # of the newest place; older ones are void
        self.under_way = 0
        self.waits_at: str | None = None  # the address for which it stands in a queue with its neighbours
        self.held = False  # its robots.txt is being asked for: only that may be visited
        self.walks: dict[str, SitemapWalk] = {}  # by origin: http and https are two sites that share a pace
        self.failed_streak = 0  # tasks
        self.limit_streak = 0  # refusals in a row while the pause between them was the longest
        self.last_failure: Failure | None = None
        self.rest_until = -math.inf  # a fault of our own: nothing is to be gained by asking before
        self.stalled_since: float | None = None  # blocked from then on, without a success
        self.over: Over | None = None
        self._asked_s: dict[str, float] = {}  # what the robots.txt of each origin asks for

    def __len__(self) -> int:
        return len(self._due) + len(self._later)

    @property
    def domain(self) -> str:
        return self.pace.domain

    def forgettable(self, now: float) -> bool:
        """Whether nothing is to be done here and nothing remembered that a new lane would not find out [M1]."""
        return not (
            self._due
            or self._later
            or self.under_way
            or self.walks
            or self.held
            or self.failed_streak
            or self.limit_streak
            or self.over is not None
            or self.stalled_since is not None
            or self.rest_until > now
        )

    def waits_for_address(self, now: float) -> bool:
        """Whether nothing but the address that it shares holds this domain up."""
        shared = self.pace.shared
        return shared is not None and self.pace.ready(now) and not shared.ready(now)

    def push(self, visit: Visit) -> bool:
        """Whether it has become the first: only then may something be due here sooner than before."""
        # Retries and redirects keep their depth and so their place: breadth first, whatever happens on the way.
        due = self._due
        heapq.heappush(due, (_RANK[visit.kind], visit.depth, -visit.priority, next(_order), visit))
        return due[0][4] is visit

    def push_later(self, visit: Visit, run_at: float) -> None:
        heapq.heappush(self._later, (run_at, next(_order), visit))

    def head(self, now: float) -> Visit | None:
        """What is to be visited next. It stays until it is taken, so that whatever comes first keeps its place."""
        while self._later and self._later[0][0] <= now:
            self.push(heapq.heappop(self._later)[2])
        if not self._due or self._due[0][0] > self._rank_max():
            return None
        return self._due[0][4]

    def take(self) -> None:
        """The head is no longer queued."""
        heapq.heappop(self._due)

    def wake_at(self) -> float | None:
        """When there is something to do, as far as the queue knows; None: not before something else is answered."""
        if self._due and self._due[0][0] <= self._rank_max():
            return -math.inf
        return self._later[0][0] if self._later and not self.held else None

    def _rank_max(self) -> int:
        """What may be visited: pages only once it is known whether robots.txt allows them and sitemaps list them."""
        if self.held:
            return _ROBOTS
        if self.walks and any(not walk.found and not walk.finished for walk in self.walks.values()):
            return _SITEMAP
        return _PAGE

    def heed(self, origin: str, crawl_delay_s: float | None) -> bool:
        """What robots.txt asks for. Returns whether that is news."""
        if self._asked_s.get(origin) == crawl_delay_s:
            return False
        if crawl_delay_s is None:
            del self._asked_s[origin]
        else:
            self._asked_s[origin] = crawl_delay_s
        return True

    @property
    def is_slowed(self) -> bool:
        """Whether any robots.txt asks for a delay, as far as was heeded."""
        return bool(self._asked_s)

    @property
    def crawl_delay_s(self) -> float | None:
        """Where origins of one domain ask for different delays, the longest holds."""
        return max(self._asked_s.values(), default=None)

    def visits(self) -> list[Visit]:
        """Everything queued, in no particular order."""
        return [entry[4] for entry in self._due] + [entry[2] for entry in self._later]

    def drain(self, goes: Callable[[Visit], bool] = lambda visit: True) -> list[Visit]:
        """What is queued (or those of it that go), taken out."""
        drained = [visit for visit in self.visits() if goes(visit)]
        self._due = [entry for entry in self._due if not goes(entry[4])]
        self._later = [entry for entry in self._later if not goes(entry[2])]
        heapq.heapify(self._due)
        heapq.heapify(self._later)
        return drained
