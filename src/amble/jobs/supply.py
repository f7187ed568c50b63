"""What a crawl asks of its store while it runs: pages crawled before, sitemaps read lately, tasks that lie there, and
whether its WHERE takes what was found.

One thing at a time and away from the event loop; whatever comes back goes to the plan in slices. Nothing polls: the
crawl says when it has changed, and is woken when something has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

from amble.clock import Clock
from amble.core.frontier.changes import Changes, Listing
from amble.core.frontier.following import Unjudged
from amble.core.frontier.plan import CrawlPlan
from amble.core.frontier.recall import Recall, Stored
from amble.core.frontier.visit import Kind, Visit

CLAIM_MAX = 4_000  # tasks claimed at once
RECALL_MAX = 1_000  # pages looked up at once: every look goes through the whole table of links
AT_ONCE = 100  # results given to the plan before others have their turn


class Source(Protocol):
    """Where it all comes from: the store, or the simulation's."""

    async def pages(self, recalls: Sequence[Recall]) -> dict[str, Stored]:
        """What is held of these pages, by the URL of their task."""

    async def sitemap(self, url: str) -> Listing | None:
        """What it said when it was last asked for."""

    async def claim(self, domains: Sequence[str], per_domain: int) -> list[Visit]: ...
    async def judge(self, visits: Sequence[Visit]) -> Sequence[bool]:
        """Whether the WHERE of the crawl takes each of them."""


class Supply:
    """Serves one plan. `look` after every change; `run` beside the crawl, until `close`."""

    def __init__(self, plan: CrawlPlan, source: Source, clock: Clock, tell: Callable[[Changes], None]) -> None:
        self._plan = plan
        self._source = source
        self._clock = clock
        self._tell = tell
        self._wanted = asyncio.Event()
        self._closed = False

    def look(self) -> None:
        """Whether the plan wants anything of the store now."""
        frontier = self._plan.frontier
        if frontier.to_recall or frontier.backlog.hungry or frontier.to_judge:
            self._wanted.set()

    def close(self) -> None:
        self._closed = True
        self._wanted.set()

    async def run(self) -> None:
        while not self._closed:
            self._wanted.clear()
            if not await self._serve():
                await self._wanted.wait()

    async def _serve(self) -> bool:
        """One round of whatever is wanted. Whether anything was."""
        parts = list(self._plan.frontier.to_judge)
        self._plan.frontier.to_judge.clear()
        if parts:
            await self._judge(parts)
        queue = self._plan.frontier.to_recall
        recalls = [queue.popleft() for _ in range(min(len(queue), RECALL_MAX))]
        pages = [recall for recall in recalls if recall.visit.kind is Kind.PAGE]
        if pages:
            await self._recall(pages)
        for recall in recalls:
            if recall.visit.kind is not Kind.PAGE:
                known = await self._source.sitemap(recall.visit.url)
                now, utc = self._clock.monotonic(), self._clock.utc()
                self._tell(self._plan.sitemap_recalled(recall, known, now, utc))
        domains, portion = self._plan.frontier.wants(CLAIM_MAX)
        if domains:
            visits = await self._source.claim(domains, portion)
            self._tell(self._plan.claimed(visits, domains, self._clock.monotonic(), self._clock.utc()))
        return bool(parts or recalls or domains)

    async def _judge(self, parts: Sequence[Unjudged]) -> None:
        """All together: each look at a database costs something."""
        taken = iter(await self._source.judge([visit for part in parts for visit in part.visits]))
        for part in parts:
            own = list(islice(taken, len(part.visits)))
            self._tell(self._plan.judged(part, own, self._clock.monotonic(), self._clock.utc()))
            await asyncio.sleep(0)

    async def _recall(self, recalls: Sequence[Recall]) -> None:
        held = await self._source.pages(recalls)
        for first in range(0, len(recalls), AT_ONCE):
            now, utc, changes = self._clock.monotonic(), self._clock.utc(), Changes()
            for recall in recalls[first : first + AT_ONCE]:
                changes.absorb(self._plan.recalled(recall, held.get(recall.visit.task), now, utc))
            self._tell(changes)
            await asyncio.sleep(0)
