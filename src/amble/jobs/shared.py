"""What the jobs of one process have in common: the budget of each domain, and who asks for its robots.txt."""

from __future__ import annotations

import random as system_random
from collections.abc import Callable
from weakref import WeakValueDictionary

from amble.clock import Clock
from amble.core.frontier.plan import CrawlPlan
from amble.core.pacing.bounds import Random
from amble.core.pacing.commons import Commons, Member
from amble.core.pacing.pace import Pace
from amble.core.robots.book import RobotsBook
from amble.core.robots.policy import Terms
from amble.core.robots.shelf import Shelf
from amble.settings import Settings


class Shared:
    """Joined by every job of an engine. Paces outlast the jobs, so that a block holds for the next one as well."""

    def __init__(self, random: Random = system_random.random) -> None:
        self._random = random
        self._commons = Commons()
        # A policy depends on who reads it and how. A shelf goes with its last reader: what a job is to know of a
        # robots.txt later must be in its own file, and so it must have asked.
        self._shelves: WeakValueDictionary[tuple[Terms, str], Shelf] = WeakValueDictionary()

    def join(self, settings: Settings) -> Membership:
        robots, user_agent = settings.robots, settings.fetching.user_agent
        key = Terms.of(user_agent, robots.purpose), robots.model_dump_json()
        shelf = self._shelves.get(key)
        if shelf is None:
            shelf = self._shelves[key] = Shelf(robots.robots_memory_mb * 1_000_000)
        book = RobotsBook(robots, user_agent, self._random, shelf)
        return Membership(self._commons.join(settings.pacing, self._random), book)


class Membership:
    """One job's part in what is shared."""

    def __init__(self, registry: Member, book: RobotsBook) -> None:
        self.registry = registry
        self.book = book

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
