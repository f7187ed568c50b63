"""One domain's visits, in the order in which they should be made. Pure."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import count

from amble.core.frontier.changes import Over
from amble.core.frontier.presence import Presence
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.pacing.latency import hangs_after_s
from amble.core.pacing.pace import Pace
from amble.core.sitemap.walk import SitemapWalk

_RANK = {Kind.ROBOTS: 0, Kind.SITEMAP: 1, Kind.PAGE: 2}
_ROBOTS, _SITEMAP, _PAGE = _RANK.values()
_LATE = 3
LATE_AFTER = 100  # pages after which a late visit has its turn: some sites never run out of pages
TIMED_EVERY = 16  # answers, after which it is worked out anew how long a page may take
_order = count()


class Lane:
    """Due visits by rank, depth and priority; later ones by their instant.

    Late ones come when no page is due and no answer under way could bring one, or after so many pages.
    """

    __slots__ = (
        "_asked_s", "_due", "_hangs_after_s", "_late_in", "_later", "_timed_at", "begun", "failed_streak", "fails",
        "faltered", "held", "last_failure", "limit_streak", "over", "pace", "pause_until", "place", "presence",
        "rest_until", "stalled_since", "token", "turns_left", "under_way", "waits_at", "waits_to_begin", "walks",
        "was_asked",
    )  # fmt: skip

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._due: list[tuple[int, int, float, int, Visit]] = []
        self._later: list[tuple[float, int, Visit]] = []
        self._late_in = 0  # pages until late visits have their turn; 0: none waits
        self.place: float | None = None  # where it stands in the frontier's heap; None: it does not
        self.turns_left = 0  # visits it may make at once, as its answers come, before other domains have their turn
        self.token = 0  # of the newest place; older ones are void
        self.under_way = 0
        self.was_asked = False  # in this run
        self.begun = False  # its next request is under way, or due within seconds; see `begun`
        self.waits_to_begin = False  # has no place in the heap until others are done
        self.waits_at: str | None = None  # the address for which it stands in a queue with its neighbours
        self.held = False  # its robots.txt is being asked for: only that may be visited
        self.walks: dict[str, SitemapWalk] = {}  # by origin: http and https are two sites that share a pace
        self.presence = Presence(known=pace.successes > 0)
        self.failed_streak = 0  # tasks
        self.limit_streak = 0  # refusals in a row while the pause between them was the longest
        self.last_failure: Failure | None = None
        self.fails = False  # it gave no answer the last time, or one of trouble; or its robots.txt cannot be had
        self.faltered = False  # likewise; though one failure of a site that is asked slowly proves nothing
        self.pause_until = -math.inf  # as its server asked
        self.rest_until = -math.inf  # a fault of our own: nothing is to be gained by asking before
        self.stalled_since: float | None = None  # blocked from then on, without a success
        self.over: Over | None = None
        self._hangs_after_s: float | None = None
        self._timed_at = 0  # successes by then
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
            or self.presence.tells
        )

    def hangs_after_s(self) -> float | None:
        """After how long a page counts as hanging here, as last worked out: what is usual changes slowly."""
        answers = self.pace.successes
        if self._hangs_after_s is None or not answers - TIMED_EVERY < self._timed_at <= answers:
            self._timed_at, self._hangs_after_s = answers, hangs_after_s(self.pace.latency_ring)
        return self._hangs_after_s

    def waits_for_address(self, now: float) -> bool:
        """Whether nothing but the address that it shares holds this domain up."""
        shared = self.pace.shared
        return shared is not None and self.pace.ready(now) and not shared.ready(now)

    def push(self, visit: Visit) -> bool:
        """Whether it has become the first: only then may something be due here sooner than before."""
        # Retries and redirects keep their depth and so their place: breadth first, whatever happens on the way.
        due, rank = self._due, _RANK[visit.kind]
        if visit.late:
            rank, self._late_in = _LATE, self._late_in or LATE_AFTER
        heapq.heappush(due, (rank, visit.depth, -visit.priority, next(_order), visit))
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
        rank = heapq.heappop(self._due)[0]
        if rank == _LATE:
            self._late_in = LATE_AFTER if any(entry[0] == _LATE for entry in self._due) else 0
        elif rank == _PAGE and self._late_in:
            self._late_in -= 1
            if not self._late_in:
                self._due = [(_SITEMAP, *entry[1:]) if entry[0] == _LATE else entry for entry in self._due]
                heapq.heapify(self._due)

    def wake_at(self) -> float | None:
        """When there is something to do, as far as the queue knows; None: not before something else is answered."""
        if self._due and self._due[0][0] <= self._rank_max():
            return -math.inf
        return self._later[0][0] if self._later and not self.held else None

    def _rank_max(self) -> int:
        """What may be visited: pages only once it is known whether robots.txt allows them and sitemaps list them, late
        visits only when no answer is awaited that could bring a page."""
        if self.held:
            return _ROBOTS
        if self.walks and any(walk.holds_pages for walk in self.walks.values()):
            return _SITEMAP
        return _PAGE if self.under_way else _LATE

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
        self._late_in = self._late_in if any(entry[0] == _LATE for entry in self._due) else 0
        return drained
