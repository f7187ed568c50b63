"""What is remembered per origin, and which of it may be forgotten when memory is short. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

from amble.core.robots.policy import Policy
from amble.core.robots.verdict import Ask

_LOOK_AGAIN_AFTER_S = 1.0
_ENTRY_BYTES = 1_000  # an origin without rules


class Entry:
    """One origin. `policy` is in force until `ask_at`; `good` is the last file that was really read."""

    __slots__ = (
        "ask_at",
        "asking",
        "awaited",
        "etag",
        "failures",
        "given_up",
        "good",
        "good_at",
        "hops",
        "last_modified",
        "policy",
        "served_by",
        "used",
        "weight",
    )

    def __init__(self) -> None:
        self.policy: Policy | None = None
        self.ask_at = -math.inf
        self.asking = False
        self.awaited = False  # somebody was told to wait for what is being asked
        self.hops: list[str] = []  # URLs of the chain being followed, the first included
        self.failures = 0
        self.given_up = False
        self.good: Policy | None = None
        self.good_at = -math.inf
        self.etag: str | None = None
        self.last_modified: str | None = None
        self.served_by: str | None = None
        self.used = -math.inf
        self.weight = _ENTRY_BYTES

    def learned(self, policy: Policy | None, at: float, ask_at: float) -> None:
        """There is an answer, and so no failure any more."""
        self.policy, self.good_at, self.ask_at = policy, at, ask_at
        self.failures, self.given_up = 0, False

    def ask(self, origin: str) -> Ask:
        """The request that is due. Validators go only to the URL that gave them, and only with a copy to confirm."""
        url = self.hops[-1]
        if self.good is None or url != self.served_by:
            return Ask(origin, url, hop=len(self.hops) - 1)
        return Ask(origin, url, len(self.hops) - 1, self.etag, self.last_modified)

    def can_go(self, now: float) -> bool:
        """Whether nothing is lost but a file that can be had again.

        A delay is still in force until it has passed since the last time it was told, and so are the waits of an
        origin that could not be reached: forgetting them would mean asking too soon.
        """
        if self.asking or (self.failures and now < self.ask_at):
            return False
        delay_s = self.policy.crawl_delay_s if self.policy is not None else None
        return delay_s is None or now >= self.used + delay_s

    def __repr__(self) -> str:
        if self.policy is not None:
            held = f"{self.policy.rules!r} delay={self.policy.crawl_delay_s}"
        else:
            held = "given up" if self.given_up else "nothing"
        return f"<Entry {held} ask_at={self.ask_at:.1f} failures={self.failures}{' asking' if self.asking else ''}>"


class Shelf:
    """The entries by origin, within a bound on memory."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._entries: dict[str, Entry] = {}  # the least recently used first
        self._bytes = 0
        self._full_until = -math.inf
        self.readers: list[Callable[[str, object], None]] = []  # told when a robots.txt was answered, and by whom

    def tell(self, origin: str, by: object) -> None:
        for reader in tuple(self.readers):
            reader(origin, by)

    def find(self, origin: str) -> Entry | None:
        return self._entries.get(origin)

    def take(self, origin: str, now: float) -> Entry:
        """The entry of an origin, new if need be, marked as used."""
        entry = self._entries.pop(origin, None)
        if entry is None:
            entry = Entry()
            self._bytes += entry.weight
        self._entries[origin] = entry
        entry.used = now
        return entry

    def reweigh(self, entry: Entry, now: float) -> None:
        """Count an entry anew after it has learned; forget others if that is too much."""
        before, entry.weight = entry.weight, _weight(entry)
        self._bytes += entry.weight - before
        if self._bytes > self._bytes_max and now >= self._full_until:
            self._make_room(now)

    def _make_room(self, now: float) -> None:
        """Forget the least recently used, with some to spare so that this is rare."""
        enough = 0.9 * self._bytes_max
        for origin, entry in list(self._entries.items()):
            if self._bytes <= enough:
                return
            if entry.can_go(now):
                del self._entries[origin]
                self._bytes -= entry.weight
        self._full_until = now + _LOOK_AGAIN_AFTER_S  # all of it is in force; it will not be much longer

    def __len__(self) -> int:
        return len(self._entries)


def _weight(entry: Entry) -> int:
    """Bytes held, roughly."""
    policies = {id(policy): policy.weight for policy in (entry.policy, entry.good) if policy is not None}
    return _ENTRY_BYTES + sum(policies.values())
