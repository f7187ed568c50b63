"""The seam between the laboratory and whatever it judges: one client's rule for one server."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Protocol


class Reply(NamedTuple):
    """An answer as the client sees it. Status 0: there was none, and the client gave up waiting."""

    status: int
    headers: dict[str, str]
    latency_s: float


@dataclass(frozen=True, slots=True)
class Client:
    """What the client was told to keep to, whatever its rule thinks of the server."""

    max_in_flight: int = 16
    max_rate: float = 100.0
    crawl_delay_s: float | None = None
    starts_at: float = 86_400.0  # on its own clock, which began with the machine and not with the crawl


class Controller(Protocol):
    """When may the next request go? Asked before each request, told of each answer."""

    def request(self, now: float) -> object | float:
        """A ticket: send now. A float: the instant to ask again, `math.inf` for "after the next answer"."""
        ...

    def answer(self, ticket: object, reply: Reply, now: float) -> None:
        """What became of a ticket."""
        ...

    def save(self) -> object:
        """What a later run may start from; None for nothing."""
        ...

    def load(self, saved: object) -> None:
        """Start from what an earlier run saved."""
        ...


Rule = Callable[[Client, Random], Controller]


class Spaced:
    """The common part of the peers' rules: a parallelism, a gap between starts, an instant to wait for."""

    def __init__(self, client: Client, random: Random, *, parallel: int | None = None, delay_s: float = 0.0) -> None:
        self.client = client
        self.random = random
        self.parallel = min(client.max_in_flight, parallel or client.max_in_flight)
        self.delay_s = delay_s
        self.not_before = -math.inf
        self.in_flight = 0
        self._gap_s = max(1.0 / client.max_rate, client.crawl_delay_s or 0.0)
        self._last = -math.inf

    def spacing_s(self) -> float:
        """The gap to the next start; peers with a random part draw it here."""
        return self.delay_s

    def request(self, now: float) -> object | float:
        if self.in_flight >= self.parallel:
            return math.inf
        due = max(self.not_before, self._last + self._gap_s)
        if now < due:
            return due
        self.in_flight += 1
        self._last = now
        self.not_before = max(self.not_before, now + self.spacing_s())
        return self

    def answer(self, ticket: object, reply: Reply, now: float) -> None:
        self.in_flight -= 1
        self.learn(reply, now)

    def learn(self, reply: Reply, now: float) -> None:
        """What the rule takes from an answer."""

    def save(self) -> object:
        return None

    def load(self, saved: object) -> None:
        return None
