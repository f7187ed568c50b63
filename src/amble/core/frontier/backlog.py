"""What the frontier leaves to the store: how many tasks of which domains, and which domains want theirs back. Pure.

The frontier keeps a window of each domain's visits in memory and the rest in the store. A domain whose window runs low
is hungry: the caller claims a portion for it and hands the visits in.
"""

from __future__ import annotations

from typing import NamedTuple

FEW = 8  # every domain may hold so many, however full the memory is: nobody waits for the room that others take


class Window(NamedTuple):
    """How many visits are kept in memory."""

    per_domain: int = 1_000
    overall: int = 50_000
    recalls: int = 2_000  # visits that wait for what the store holds of them


class Backlog:
    """One crawl's tasks that lie in the store and nowhere else."""

    def __init__(self, window: Window | None = None) -> None:
        self.window = window  # None: there is no store, everything is kept here
        self.total = 0
        self.stored: dict[str, int] = {}  # by domain; those that are being claimed are still counted
        self.hungry: dict[str, None] = {}  # in the order in which they became so
        self.claiming: set[str] = set()

    @property
    def busy(self) -> bool:
        """Whether anything is still to come out of the store."""
        return self.total > 0 or bool(self.claiming)

    def share(self, held: int) -> int:
        """How many visits one domain may hold while so many are held in all."""
        assert self.window is not None
        return self.window.per_domain if held < self.window.overall else min(FEW, self.window.per_domain)

    def takes(self, domain: str, queued: int, held: int) -> bool:
        """Whether a new visit goes to the store. Behind others that do, so that breadth still comes first."""
        return self.window is not None and (domain in self.stored or queued >= self.share(held))

    def put(self, domain: str, count: int = 1) -> None:
        self.stored[domain] = self.stored.get(domain, 0) + count
        self.total += count

    def feed(self, domain: str, queued: int, held: int) -> None:
        """Look whether a domain holds so little that it should get some of its own back."""
        if domain in self.stored and domain not in self.claiming and 2 * queued <= self.share(held):
            self.hungry[domain] = None

    def wants(self, held: int, tasks_max: int) -> tuple[list[str], int]:
        """Whom to claim for now, and how many tasks each; they count as being served until `served`."""
        if not self.hungry:
            return [], 0
        portion = max(1, self.share(held) // 2)
        domains = list(self.hungry)[: max(1, tasks_max // portion)]
        for domain in domains:
            del self.hungry[domain]
        self.claiming.update(domains)
        return domains, portion

    def take(self, domain: str) -> bool:
        """One task has come back; False: it was given up meanwhile, and counted then."""
        count = self.stored.get(domain, 0)
        if count:
            self.total -= 1
            if count == 1:
                del self.stored[domain]
            else:
                self.stored[domain] = count - 1
        return count > 0

    def leave(self, domain: str) -> int:
        """Nothing more of this domain in this run. Returns how many tasks stay in the store."""
        count = self.stored.pop(domain, 0)
        self.total -= count
        self.hungry.pop(domain, None)
        return count

    def leave_all(self) -> int:
        count, self.total = self.total, 0
        self.stored.clear()
        self.hungry.clear()
        return count
