"""amble's own strategies, as controllers of the laboratory: the very objects a crawl uses, told the virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any

from amble.core.answer import Answer, read_answer
from amble.core.outcome import Failure
from amble.core.pacing.bounds import Bounds
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Permit
from amble.core.pacing.settings import PacingSettings, StrategyName
from amble.testing.lab.announce import WALL_AT_START
from amble.testing.lab.controller import Client, Reply, Rule
from amble.testing.lab.servers import TIMED_OUT

DOMAIN = "lab.test"


class PaceController:
    """One domain's pace under one strategy."""

    def __init__(self, strategy: StrategyName, client: Client, random: Random, **settings: Any) -> None:
        chosen = PacingSettings(
            pacing=strategy,
            max_rate=client.max_rate,
            max_parallel_per_domain=client.max_in_flight,
            **settings,
        )
        self.pace = Pace(DOMAIN, Bounds(chosen, None, random.random), client.starts_at)
        self._wall_s = WALL_AT_START - client.starts_at  # from its clock to the time of day
        if client.crawl_delay_s is not None:
            self.pace.set_crawl_delay(client.crawl_delay_s)

    def request(self, now: float) -> object | float:
        return self.pace.reserve(now)

    def answer(self, ticket: object, reply: Reply, now: float) -> None:
        assert isinstance(ticket, Permit)
        self.pace.settle(ticket, as_answer(reply, now + self._wall_s), now)

    def was_trial(self, ticket: object, now: float) -> bool:
        """Whether this asked if the site is back, which has only just begun to fail."""
        return isinstance(ticket, Permit) and ticket.probe and self.pace.tries_often(now)

    def save(self) -> object:
        return self.pace.strategy.save()

    def load(self, saved: object) -> None:
        assert isinstance(saved, Mapping)
        self.pace.strategy.load(saved, trust=1.0, now=self.pace.seen_at)
        # The shell works the next start out again with the learned delay.
        self.pace.set_crawl_delay(self.pace.crawl_delay_s)


def as_answer(reply: Reply, wall_at: float) -> Answer:
    """A reply of a model server, read at this Unix time, as the pacing core takes it in."""
    if reply.status == TIMED_OUT:
        return Answer(failure=Failure.NETWORK_TIMEOUT, elapsed_s=reply.latency_s)
    if not reply.headers:
        return Answer(status=reply.status, elapsed_s=reply.latency_s)
    utc = datetime.fromtimestamp(wall_at, UTC)
    return read_answer(status=reply.status, headers=reply.headers, elapsed_s=reply.latency_s, utc=utc)


STRATEGIES: dict[str, Rule] = {
    "gauge": partial(PaceController, "gauge"),
    "linear": partial(PaceController, "linear"),
    "aimd": partial(PaceController, "aimd"),
    "fibonacci": partial(PaceController, "fibonacci"),
    "fixed": partial(PaceController, "fixed"),
}
