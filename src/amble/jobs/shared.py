"""What the jobs of one process have in common: the budget of each domain, and who asks for its robots.txt."""

from __future__ import annotations

import random as system_random
import threading
from collections.abc import Callable

from amble.clock import Clock
from amble.core.frontier.plan import CrawlPlan
from amble.core.pacing.bounds import Random
from amble.core.pacing.commons import Commons, Member
from amble.core.pacing.pace import Pace
from amble.core.robots.book import RobotsBook
from amble.core.robots.policy import Terms
from amble.core.robots.shelf import Shelf
from amble.machine_pace import machine_pace
from amble.settings import Settings


class Shared:
    """Joined by every job of an engine. Paces outlast the jobs, so that a block holds for the next one as well."""

    def __init__(self, random: Random = system_random.random) -> None:
        self._random = random
        self._commons = Commons()
        self._lock = threading.Lock()  # jobs are made on any thread; all else happens on the engine's
        self._shelves: dict[tuple[Terms, str], list[Shelf]] = {}  # once for each job that reads it

    def join(self, settings: Settings, clock: Clock) -> Membership:
        robots, user_agent = settings.robots, settings.fetching.user_agent
        # What a file says depends on who reads it and how; those who agree on that share a shelf.
        key = Terms.of(user_agent, robots.purpose), robots.model_dump_json()
        with self._lock:
            shelves = self._shelves.setdefault(key, [])
            shelves.append(shelves[0] if shelves else Shelf(robots.robots_memory_mb * 1_000_000))
        book = RobotsBook(robots, user_agent, self._random, shelves[0])
        pacing = settings.pacing.outlasting(settings.fetching.http_timeout)
        registry = self._commons.join(pacing, self._random, machine_pace(pacing, clock))
        return Membership(registry, book, lambda: self._let_go(key))

    def _let_go(self, key: tuple[Terms, str]) -> None:
        """A shelf goes with its last reader: what a later job is to know must come to stand in its own file."""
        with self._lock:
            self._shelves[key].pop()
            if not self._shelves[key]:
                del self._shelves[key]


class Membership:
    """One job's part in what is shared."""

    def __init__(self, registry: Member, book: RobotsBook, let_go: Callable[[], None]) -> None:
        self.registry = registry
        self.book = book
        self._let_go = let_go

    def begin(self, plan: CrawlPlan, clock: Clock, wake: Callable[[], None]) -> None:
        """From now on the job hears from the others what it may have waited for, and looks again."""

        def settled(pace: Pace) -> None:
            plan.settled_elsewhere(pace, clock.monotonic())
            wake()

        def answered(origin: str) -> None:
            plan.robots_known(origin, clock.monotonic(), clock.utc())
            wake()

        self.registry.on_settled = settled
        self.book.listen(answered)

    def leave(self) -> None:
        self.book.leave()
        self.registry.leave()
        self._let_go()
