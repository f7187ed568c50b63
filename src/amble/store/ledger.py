"""Which tasks of a job may be claimed, and how many stand where. In memory; read back from the tables when needed.

The tasks themselves lie in the store, in bundles. The ledger knows the places of those that wait, per domain and in
the order in which they should be visited, so that a claim reads the few rows it needs and nothing else.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Collection
from typing import NamedTuple

from amble.store.rows import Bundle
from amble.store.seam import FINAL, Counts, TaskDone, TaskState


class Run(NamedTuple):
    """Consecutive tasks of one bundle. Runs sort as their tasks should be visited: breadth first, then by priority."""

    depth: int
    minus_priority: float
    bundle: int
    start: int
    stop: int
    attempts: int | None = None  # None: as the bundle says

    @property
    def tasks(self) -> int:
        return self.stop - self.start


class Ledger:
    """One job's books. Not safe for threads by itself."""

    def __init__(self, as_of: int = 0) -> None:
        self.as_of = as_of  # number of the last transaction that it knows of
        self._runs: OrderedDict[str, list[Run]] = OrderedDict()  # a heap per domain; served longest ago stands first
        self._waiting: dict[str, int] = {}
        self._count = dict.fromkeys(TaskState, 0)  # WAITING is kept per domain, RUNNING is what remains
        self._accepted = 0

    def found(self, bundle: Bundle) -> None:
        """New tasks: to be claimed, already held by the frontier, or ended when they were found."""
        self._accepted += bundle.tasks
        if bundle.state is TaskState.WAITING:
            self.put(bundle.domain, Run(bundle.depth, -bundle.priority, bundle.number, 0, bundle.tasks))
        elif bundle.state is not TaskState.RUNNING:
            self._count[bundle.state] += bundle.tasks

    def settled(self, done: TaskDone) -> None:
        """A task that the frontier held has ended, or has had an attempt and goes on."""
        if done.state in FINAL or done.state is TaskState.DEFERRED:
            self._count[done.state] += 1

    def restore(self, count: dict[TaskState, int]) -> None:
        """What the tables say about tasks that do not wait."""
        for state, number in count.items():
            self._count[state] += number
            self._accepted += number

    def put(self, domain: str, run: Run) -> None:
        heapq.heappush(self._runs.setdefault(domain, []), run)
        self._waiting[domain] = self._waiting.get(domain, 0) + run.tasks

    def accept(self, domain: str, run: Run) -> None:
        """Tasks of an earlier session that still wait."""
        self._accepted += run.tasks
        self.put(domain, run)

    def take(self, n: int, per_domain: int | None, domains: Collection[str] | None) -> list[tuple[str, Run]]:
        """The next `n` tasks, as runs, a share for each domain in turn."""
        taken: list[tuple[str, Run]] = []
        asked = None if domains is None else iter([domain for domain in domains if domain in self._runs])
        for _ in range(len(self._runs)):
            domain = next(iter(self._runs)) if asked is None else next(asked, None)
            if n <= 0 or domain is None:
                break
            share = n if per_domain is None else min(n, per_domain)
            for run in self._take_from(domain, share):
                taken.append((domain, run))
                n -= run.tasks
        return taken

    def _take_from(self, domain: str, share: int) -> list[Run]:
        runs = self._runs.pop(domain)
        taken: list[Run] = []
        while runs and share > 0:
            run = heapq.heappop(runs)
            if run.tasks > share:
                heapq.heappush(runs, run._replace(start=run.start + share))
                run = run._replace(stop=run.start + share)
            taken.append(run)
            share -= run.tasks
        left = self._waiting.pop(domain) - sum(run.tasks for run in taken)
        if runs:
            self._runs[domain] = runs  # back in the queue, at its end
            self._waiting[domain] = left
        return taken

    @property
    def waiting(self) -> dict[str, int]:
        return dict(self._waiting)

    def counts(self) -> Counts:
        waiting = sum(self._waiting.values())
        known = {state: self._count[state] for state in (*FINAL, TaskState.DEFERRED)}
        running = self._accepted - waiting - sum(known.values())
        return Counts(waiting=waiting, running=running, **{str(state): number for state, number in known.items()})
