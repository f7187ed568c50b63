"""Which tasks of a job may be claimed, and how many stand where. In memory; read back from the tables when needed.

The tasks themselves lie in the store, in bundles. The ledger knows the places of those that wait, per domain and in
the order in which they should be visited, so that a claim reads the few rows it needs and nothing else. A stretch of
tasks takes eight bytes, so that a million waiting tasks of one host fit in a few megabytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Collection
from operator import attrgetter
from typing import NamedTuple

from amble.store.rows import Bundle
from amble.store.seam import FINAL, Counts, TaskDone, TaskState

Rank = tuple[int, float]  # depth, then priority, negated: smaller comes first
_BITS = 7  # a place in a bundle, and how often a task was tried, are below 128
_LOW = (1 << _BITS) - 1


class Run(NamedTuple):
    """Consecutive tasks of one bundle."""

    bundle: int
    start: int
    stop: int
    attempts: int | None = None  # None: as the bundle says

    @property
    def tasks(self) -> int:
        return self.stop - self.start

    def packed(self) -> int:
        attempts = 0 if self.attempts is None else min(self.attempts + 1, _LOW)
        return ((self.bundle << _BITS | self.start) << _BITS | self.stop) << _BITS | attempts

    @classmethod
    def unpacked(cls, code: int) -> Run:
        attempts = code & _LOW
        code >>= _BITS
        return cls(code >> 2 * _BITS, code >> _BITS & _LOW, code & _LOW, attempts - 1 if attempts else None)


def rank_of(depth: int, priority: float) -> Rank:
    """Breadth first, then by priority, to a hundredth: a site may give every URL its own, but no shelf of its own."""
    return depth, -round(min(max(priority, 0.0), 1.0), 2) if priority == priority else 0.0


class Taken(NamedTuple):
    """Tasks that were handed out, and where they stood."""

    domain: str
    rank: Rank
    run: Run


class Shelf:
    """Runs of one rank, first come first served."""

    __slots__ = ("_codes", "_head", "rank")

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self._codes = array("q")
        self._head = 0

    def __bool__(self) -> bool:
        return self._head < len(self._codes)

    def push(self, run: Run) -> None:
        self._codes.append(run.packed())

    def pop(self, tasks_max: int) -> Run:
        """The first run, or its beginning where it is longer."""
        run = Run.unpacked(self._codes[self._head])
        if run.tasks > tasks_max:
            self._codes[self._head] = run._replace(start=run.start + tasks_max).packed()
            return run._replace(stop=run.start + tasks_max)
        self._head += 1
        if self._head > 64 and 2 * self._head > len(self._codes):
            del self._codes[: self._head]
            self._head = 0
        return run


_rank = attrgetter("rank")


class Queue:
    """What waits at one domain."""

    __slots__ = ("_shelves", "tasks")

    def __init__(self) -> None:
        self._shelves: list[Shelf] = []  # by rank
        self.tasks = 0

    def push(self, rank: Rank, run: Run) -> None:
        self.tasks += run.tasks
        at = bisect_left(self._shelves, rank, key=_rank)
        if at == len(self._shelves) or self._shelves[at].rank != rank:
            self._shelves.insert(at, Shelf(rank))
        self._shelves[at].push(run)

    def pop(self, tasks_max: int) -> tuple[Rank, Run]:
        shelf = self._shelves[0]
        run = shelf.pop(tasks_max)
        if not shelf:
            del self._shelves[0]
        self.tasks -= run.tasks
        return shelf.rank, run


class Ledger:
    """One job's books. Not safe for threads by itself."""

    def __init__(self, as_of: int = 0) -> None:
        self.as_of = as_of  # number of the last transaction that it knows of
        self._queues: OrderedDict[str, Queue] = OrderedDict()  # the domain served longest ago stands first
        self._count = dict.fromkeys((*FINAL, TaskState.DEFERRED), 0)
        self._waiting = 0
        self._accepted = 0

    def found(self, bundle: Bundle) -> None:
        """New tasks: to be claimed, already held by the frontier, or ended when they were found."""
        if bundle.state is TaskState.WAITING:
            self.accept(bundle.domain, rank_of(bundle.depth, bundle.priority), Run(bundle.number, 0, bundle.tasks))
            return
        self._accepted += bundle.tasks
        if bundle.state in self._count:
            self._count[bundle.state] += bundle.tasks

    def settled(self, done: TaskDone) -> None:
        """A task that the frontier held has ended, or has had an attempt and goes on."""
        if done.state in self._count:
            self._count[done.state] += 1

    def restore(self, count: dict[TaskState, int]) -> None:
        """What the tables say about tasks that do not wait."""
        for state, number in count.items():
            self._count[state] += number
            self._accepted += number

    def accept(self, domain: str, rank: Rank, run: Run) -> None:
        """Tasks that wait and have not been counted yet."""
        self._accepted += run.tasks
        self.put(domain, rank, run)

    def put(self, domain: str, rank: Rank, run: Run) -> None:
        queue = self._queues.get(domain)
        if queue is None:
            queue = self._queues[domain] = Queue()
        queue.push(rank, run)
        self._waiting += run.tasks

    def take(self, n: int, per_domain: int | None, domains: Collection[str] | None) -> list[Taken]:
        """The next `n` tasks, as runs, a share for each domain in turn."""
        taken: list[Taken] = []
        asked = None if domains is None else iter([domain for domain in domains if domain in self._queues])
        for _ in range(len(self._queues)):
            domain = next(iter(self._queues)) if asked is None else next(asked, None)
            if n <= 0 or domain is None:
                break
            for one in self._take_from(domain, n if per_domain is None else min(n, per_domain)):
                taken.append(one)
                n -= one.run.tasks
        return taken

    def _take_from(self, domain: str, share: int) -> list[Taken]:
        queue = self._queues[domain]
        taken: list[Taken] = []
        while queue.tasks and share > 0:
            rank, run = queue.pop(share)
            taken.append(Taken(domain, rank, run))
            share -= run.tasks
            self._waiting -= run.tasks
        if queue.tasks:
            self._queues.move_to_end(domain)
        else:
            del self._queues[domain]
        return taken

    @property
    def waiting(self) -> dict[str, int]:
        return {domain: queue.tasks for domain, queue in self._queues.items()}

    def counts(self) -> Counts:
        running = self._accepted - self._waiting - sum(self._count.values())
        known = {str(state): number for state, number in self._count.items()}
        return Counts(waiting=self._waiting, running=running, **known)
