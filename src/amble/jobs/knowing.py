"""What a job knows before it begins: read from its store in a thread, taken in by slices.

A file may know a million domains. Whoever else runs on this event loop, or presses Ctrl-C, must not wait for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import chain
from typing import TypeVar

from amble.clock import Clock
from amble.core.frontier.frontier import Frontier
from amble.jobs import rows
from amble.store.seam import DomainRow, Store

DOMAINS_AT_ONCE = 1_000
ROBOTS_AT_ONCE = 100  # files to be read

T = TypeVar("T")


async def recall_domains(store: Store, frontier: Frontier, clock: Clock) -> None:
    """What earlier runs learned of each domain, and when each may last have been asked.

    A run that was killed has not written what it knew of its domains; its receipts tell whom it had asked.
    """
    since = clock.utc() - timedelta(seconds=rows.LONGEST_GAP_S)
    parts = chain(store.domains_in_parts(), store.asked_in_parts(since))
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        for domains in slices(part, DOMAINS_AT_ONCE):
            _take_in(domains, frontier, clock)
            await asyncio.sleep(0)


def _take_in(domains: Sequence[DomainRow], frontier: Frontier, clock: Clock) -> None:
    now, utc = clock.monotonic(), clock.utc()
    learned = (rows.learned_of(row) for row in domains)
    frontier.registry.load((row for row in learned if row is not None), now, utc)
    for domain, start in rows.last_starts(domains, now, utc).items():
        frontier.last_starts[domain] = max(start, frontier.last_starts.get(domain, start))


async def recall_robots(store: Store, frontier: Frontier, clock: Clock) -> None:
    """The robots.txt files that earlier runs have read."""
    for part in slices(await asyncio.to_thread(store.load_robots), ROBOTS_AT_ONCE):
        utc = clock.utc()
        known = ((row, (utc - row.fetched_at).total_seconds()) for row in part if row.fetched_at)
        frontier.book.load(known, clock.monotonic())
        await asyncio.sleep(0)


async def recall_sitemaps(store: Store, frontier: Frontier, clock: Clock, hours: float) -> None:
    """Which sitemaps were read lately, and need not be asked for."""
    if hours:
        frontier.read_lately = await asyncio.to_thread(store.sitemaps_read, clock.utc() - timedelta(hours=hours))


def slices(items: Sequence[T], at_once: int) -> Iterator[Sequence[T]]:
    return (items[first : first + at_once] for first in range(0, len(items), at_once))
