"""What a simulated store gives back: it takes its time, and knows what the ledger knows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random

from amble.core.frontier.changes import Listing
from amble.core.frontier.recall import Recall, Stored
from amble.core.frontier.visit import Visit
from amble.testing.simulation.ledger import Ledger


class Shop:
    """See `amble.jobs.supply.Source`."""

    def __init__(self, ledger: Ledger, random: Random, hits: Counter[str]) -> None:
        self._ledger = ledger
        self._random = random
        self._hits = hits

    async def _look(self) -> None:
        await asyncio.sleep(self._random.choice((0.0, 0.001, 0.05, 1.0)))

    async def pages(self, recalls: Sequence[Recall]) -> dict[str, Stored]:
        await self._look()
        self._hits["recalled"] += len(recalls)
        listed = {entry.url: entry for _, read in self._ledger.listings.values() for entry in read.entries}
        urls = [recall.visit.task for recall in recalls]
        known = {url: row for url in urls if (row := self._ledger.table.get(url)) is not None}
        return {url: row._replace(entry=listed.get(url)) for url, row in known.items()}

    async def sitemap(self, url: str) -> Listing:
        await self._look()
        self._hits["sitemap recalled"] += 1
        _, known = self._ledger.listings[url]
        self._hits["no sitemap recalled"] += known.failure is not None
        return known

    async def judge(self, visits: Sequence[Visit]) -> list[bool]:
        await self._look()
        self._hits["judged"] += len(visits)
        return [self._ledger.wants(visit) for visit in visits]

    async def claim(self, domains: Sequence[str], per_domain: int) -> list[Visit]:
        await self._look()
        self._hits["claimed"] += 1
        now = asyncio.get_running_loop().time()
        return [visit for domain in domains for visit in self._ledger.claim(domain, per_domain, now)]
