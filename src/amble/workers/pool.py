"""Processes beside the crawl that fetch and read its pages, each some of its domains, once one is not enough.

Every decision stays with the crawl: pace, robots.txt, frontier and store are in one process, so that there is one
budget per domain whoever fetches, and nothing that a worker holds is missed when it dies.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import time
from collections.abc import Callable, Container, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from amble.core.frontier.visit import Kind, Visit
from amble.core.page.page import Page
from amble.core.urls import domain_of
from amble.errors import WorkersDied
from amble.fetcher import Fetcher, FetcherSettings
from amble.fetcher.calls import Cancel, OnDone, awaited, in_task
from amble.workers.child import Child
from amble.workers.demand import Demand, Sharing
from amble.workers.errand import OnSent, UnderWay, Visited
from amble.workers.visitor import LocalVisitor, errand_of
from amble.workers.wire import Briefing

THREADS_MAX = 32
DEATHS_MAX = 5  # in a row, without an answer in between
STARTS_MAX = 2  # that fail before any has succeeded
HOMES_MAX = 50_000  # domains of which it is remembered who fetches them


def threads_of(settings: FetcherSettings) -> int:
    """How many workers there may be: as many as processors, and a connection for each."""
    # No socket can be passed on there; or what would be started is not Python, but a program made of it.
    if sys.platform == "win32" or not sys.executable or getattr(sys, "frozen", False):
        return 1
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = settings.threads if settings.threads is not None else min(processors, THREADS_MAX)
    return min(wanted, settings.max_total_connections)


class Workers:
    """A visitor with processes of its own. Until the first of them is ready, visits are made in this one."""

    def __init__(
        self,
        local: LocalVisitor,
        fetcher: Fetcher,
        briefing: Briefing,
        *,
        queued: Callable[[], int],
        seen: Container[str],
        on_begin: Callable[[], None],
        on_fail: Callable[[BaseException], None],
        on_death: Callable[[int, str, int], None],
        sharing: Sharing,
    ) -> None:
        self._local = local
        self._fetcher = fetcher
        self._queued = queued
        self._seen = seen
        self._on_begin = on_begin
        self._on_fail = on_fail
        self._on_death = on_death  # told which process, what became of it, and how many visits it had in hand
        self._settings = briefing.settings
        self.count = threads_of(briefing.settings)  # how many there may be; 1: this process alone
        self._briefing = self._pickled(briefing)
        self._demand = Demand(sharing, self.count)
        self._children: list[Child] = []
        self._ready: list[Child] = []
        self._homes: dict[str, Child] = {}
        self._under_way: set[asyncio.Future[None]] = set()
        self._made = 0  # visits, so far
        self._local_visits = 0
        self._deaths = 0
        self._changed = asyncio.Event()  # a worker is ready, or gone
        self._begun = False  # one of them was ready once
        self._given_up = False
        self._closed = False

    def _pickled(self, briefing: Briefing) -> bytes:
        """What a worker is told. A resolver that cannot leave this process keeps all of the crawl here."""
        if type(briefing.resolver).__module__ != "__main__":  # a script is not run again for the sake of its classes
            with suppress(pickle.PicklingError, TypeError, AttributeError):
                share = {"max_kept_connections": max(1, briefing.settings.max_kept_connections // self.count)}
                return pickle.dumps(briefing._replace(settings=briefing.settings.model_copy(update=share)))
        self.count = 1
        return b""

    @property
    def pids(self) -> list[int]:
        """The processes that can be given visits."""
        return [child.pid for child in self._ready]

    def visit(self, visit: Visit, gap_s: float, on_sent: OnSent, on_done: OnDone[Visited]) -> Cancel:
        self._made += 1
        if not self._children and self.count > 1 and not self._given_up:
            self._look()
        child = self._home_of(domain_of(visit.url))
        if child is not None:
            return self._give(child, visit, gap_s, on_sent, on_done)
        if self._is_alone:
            return self._visit_here(visit, gap_s, on_sent, on_done)
        return in_task(self._visit_later(visit, gap_s, on_sent), on_done)

    @property
    def _is_alone(self) -> bool:
        """Whether visits are made here. No more once a worker was ready: what kills it could kill the crawl."""
        return not self._begun or not self._children

    async def _visit_later(self, visit: Visit, gap_s: float, on_sent: OnSent) -> Visited | None:
        """As soon as another worker has taken the place of one that died."""
        while (child := self._home_of(domain_of(visit.url))) is None:
            if self._is_alone:
                return await awaited(partial(self._visit_here, visit, gap_s, on_sent))
            self._changed.clear()
            await self._changed.wait()
        return await awaited(partial(self._give, child, visit, gap_s, on_sent))

    def _give(self, child: Child, visit: Visit, gap_s: float, on_sent: OnSent, on_done: OnDone[Visited]) -> Cancel:
        """Pages are read by the worker; what else there is, here."""
        if visit.kind is Kind.PAGE:
            return child.visit(errand_of(visit), gap_s, on_sent, partial(self._visited, child, on_done))
        reading = self._local.reading(visit, on_done)
        reading.step = child.visit(errand_of(visit), gap_s, on_sent, partial(self._fetched, reading))
        return reading.cancel

    def _visited(
        self, child: Child, on_done: OnDone[Visited], visited: Visited | None, error: BaseException | None
    ) -> None:
        self._heard(visited)
        on_done(visited, error)
        page = visited.reading if visited is not None else None
        if isinstance(page, Page) and page.links:
            seen = [link.url for link in page.links if not link.rel and link.url in self._seen]
            if seen:  # by now also what was new
                child.tell_seen(seen)

    def _fetched(self, reading: UnderWay, visited: Visited | None, error: BaseException | None) -> None:
        self._heard(visited)
        reading.fetched(visited.result if visited is not None else None, error)

    def _heard(self, visited: Visited | None) -> None:
        if visited is not None:
            self._deaths = 0

    def _visit_here(self, visit: Visit, gap_s: float, on_sent: OnSent, on_done: OnDone[Visited]) -> Cancel:
        self._local_visits += 1
        return self._local.visit(visit, gap_s, on_sent, partial(self._visited_here, on_done))

    def _visited_here(self, on_done: OnDone[Visited], visited: Visited | None, error: BaseException | None) -> None:
        self._local_visits -= 1
        if self._ready and not self._local_visits:
            self._fetcher.let_go()  # the connections that there may be are the workers' now
        on_done(visited, error)

    def _home_of(self, domain: str) -> Child | None:
        """Who fetches a domain: always the same, for the sake of its connections; at first whoever has least to do."""
        home = self._homes.get(domain)
        if home is None and self._ready:
            if len(self._homes) >= HOMES_MAX:
                del self._homes[next(iter(self._homes))]  # the domain met first
            home = self._homes[domain] = min(self._ready, key=_load)
        return home

    # -- when to begin

    def _look(self) -> None:
        now = time.monotonic()
        if self._demand.is_due(now):
            workers = self._demand.workers(self._queued(), self._made, now, time.thread_time())
            if workers:
                self.start(workers)

    def start(self, workers: int | None = None) -> None:
        """Begin now, with so many or all that there may be. Visits are made here until the first of them is ready."""
        for _ in range(workers or self.count):
            self._start()

    def _start(self) -> None:
        timeout_s = self._settings.dns_timeout_s + self._settings.http_timeout
        child = Child(timeout_s, self._begins, self._gone)
        self._children.append(child)
        self._see_to(self._launch(child))

    async def _launch(self, child: Child) -> None:
        try:
            await child.start(self._briefing)
        except OSError:  # no memory, no descriptors: it goes on without
            self._given_up = True
            self._children.remove(child)
            self._changed.set()

    def _see_to(self, step: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(step)
        self._under_way.add(task)  # or nobody would hold it
        task.add_done_callback(self._under_way.discard)

    def _begins(self, child: Child) -> None:
        if not self._begun:
            self._begun = True
            self._on_begin()
        self._ready.append(child)
        self._changed.set()

    def _gone(self, child: Child) -> None:
        """A worker has died. What it had in hand is lost to it and goes back to the plan; another takes its place."""
        self._children.remove(child)
        self._homes = {domain: home for domain, home in self._homes.items() if home is not child}
        self._see_to(self._bury(child))
        self._changed.set()
        if child in self._ready:
            self._ready.remove(child)
        self._deaths += 1
        if not self._begun and self._deaths >= STARTS_MAX:
            self._given_up = True  # they cannot even begin on this machine: the crawl goes on in one process
        if self._closed or self._given_up:
            return
        if self._deaths >= DEATHS_MAX:
            self._on_fail(
                WorkersDied(
                    f"{self._deaths} worker processes died one after the other, without an answer in between",
                    hint="see whether this machine runs out of memory; resume the job, perhaps with threads = 1",
                )
            )
        else:
            self._start()

    async def _bury(self, child: Child) -> None:
        how = await child.gone()
        if not self._closed:
            self._on_death(child.pid, how, child.lost)

    def forget_failures(self) -> None:
        """The network is back: names that had no address are looked up anew, whoever comes to fetch from them."""
        self._fetcher.forget_failures()
        for child in self._ready:
            child.forget_failures()

    async def close(self) -> None:
        """End every worker, with whatever it has in hand."""
        self._closed = True
        await asyncio.gather(*self._under_way, return_exceptions=True)
        for child in self._children:
            child.close()
        await asyncio.gather(*(child.gone() for child in self._children))
        self._children.clear()
        self._ready.clear()


def _load(child: Child) -> int:
    return child.load
