"""Queries from outside on one database: how many run at once, and who ends them.

Each is watched, and interrupted when it takes too long or too much, or when nobody waits for its answer any more. The
writer sends all of them away when it finds no memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from duckdb import DuckDBPyConnection

from amble.errors import QueryRefused
from amble.spare_memory import SPARE

AT_ONCE = 4
_LOOK_EVERY_S = 0.05


class Guest:
    """Whoever asks: how long they may take, and whether they still wait."""

    def __init__(self, timeout_s: float, is_gone: Callable[[], bool]) -> None:
        self.why: str | None = None  # it was interrupted
        self._timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s
        self._is_gone = is_gone
        self._sent_away: str | None = None

    def send_away(self, why: str) -> None:
        self._sent_away = why

    def objection(self) -> str | None:
        """Why their query must end."""
        if self._sent_away is not None:
            return self._sent_away
        if time.monotonic() > self._until:
            return f"the query took longer than {self._timeout_s:g} s"
        if SPARE.is_spent():
            return "queries took more memory than the crawl can spare"
        return "nobody waits for the answer" if self._is_gone() else None

    def waits_still(self) -> bool:
        """For a place."""
        return time.monotonic() < self._until and not self._is_gone()

    @contextmanager
    def watched(self, connection: DuckDBPyConnection) -> Iterator[None]:
        """A query on this connection is interrupted as soon as there is an objection."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_LOOK_EVERY_S):
                self.why = self.why or self.objection()
                if self.why is not None:
                    connection.interrupt()  # more than once: it may be between two statements

        thread = threading.Thread(target=watch, name="amble-query-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()  # or a late interrupt would meet whatever comes next


class Guests:
    """Those of one database."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._here: set[Guest] = set()

    @contextmanager
    def welcome(self, guest: Guest) -> Iterator[None]:
        """As soon as there is a place: a query that nothing can interrupt must not leave none for orders."""
        with self._changed:
            while len(self._here) >= AT_ONCE:
                if not guest.waits_still():
                    raise QueryRefused("other queries took all the time there was", hint="ask again in a while")
                self._changed.wait(_LOOK_EVERY_S)
            self._here.add(guest)
        try:
            yield
        finally:
            with self._changed:
                self._here.discard(guest)
                self._changed.notify()

    def send_away(self, why: str) -> bool:
        """End every query; whether there was one."""
        with self._changed:
            for guest in self._here:
                guest.send_away(why)
            return bool(self._here)
