"""The same crawl against a simulated server, in virtual time: what would be met, where it would settle, how long.

model = ServerModel(rate=0.5, burst=20)
print(rehearse(settings, 5_000, model).as_text())
with these settings you would meet a 429 after 26 requests; it would settle at 2.0 s; done in 3 h 10 min
"""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

from duckdb import DuckDBPyConnection

from amble.core.pacing.learned import Learned, restore
from amble.core.pacing.permit import Permit
from amble.core.pacing.registry import Registry
from amble.core.pacing.settings import PacingSettings
from amble.core.urls import domain_of
from amble.errors import SettingsError, StoreError
from amble.jobs.rows import learned_of
from amble.report.known import known_latencies
from amble.report.words import duration
from amble.store.knowledge import load_domains
from amble.testing.lab.announce import WALL_AT_START, Refusal
from amble.testing.lab.controller import Client, Reply
from amble.testing.lab.controllers import as_answer
from amble.testing.lab.limiters import FixedWindow, Limiter, TokenBucket, Unlimited
from amble.testing.lab.modifiers import Ban
from amble.testing.lab.servers import LogNormal, Server
from amble.testing.lab.simulate import simulate

DOMAIN = "rehearsal.test"
LATENCY_S = 0.1
LONGEST_S = 366 * 86_400.0  # a rehearsal that takes longer has shown enough
LIMITED = (429, 503)
_SETTLED_SHARE = 5  # the last fifth of a crawl shows where it settled
_UTC = datetime.fromtimestamp(WALL_AT_START, UTC)


@dataclass(frozen=True, slots=True)
class ServerModel:
    """A server as one imagines it, or as it was found."""

    rate: float | None = None  # requests per second that it allows; None: as many as come
    burst: float | None = None  # at once, with a bucket; None: five, or a second's worth
    window_s: float | None = None  # counts in windows of this length and not with a bucket
    penalty_s: float = 0.0  # who breaks the limit is shut out for this long
    retry_after: bool = False  # says how long to wait
    latency_s: float = LATENCY_S
    crawl_delay_s: float | None = None

    def __post_init__(self) -> None:
        numbers = {name: value for name, value in asdict(self).items() if isinstance(value, float | int)}
        for name, value in numbers.items():
            positive = name in ("rate", "burst", "window_s", "latency_s")
            if not math.isfinite(value) or value < 0 or (positive and value == 0):
                raise SettingsError(f"{name} = {value:g} is not possible", hint="give a positive number")
        if self.rate is None and (self.burst is not None or self.window_s is not None or self.penalty_s):
            raise SettingsError("a server without a limit has no burst, window or penalty", hint="give its rate")
        if self.burst is not None and self.window_s is not None:
            raise SettingsError("burst and window_s exclude each other", hint="a bucket has a burst, a window a length")
        if self.burst is not None and self.burst < 1:
            raise SettingsError(f"burst = {self.burst:g} lets nothing through", hint="1 is the least")

    def limiter(self, random: Random) -> Limiter:
        if self.rate is None:
            return Unlimited()
        limiter: Limiter
        if self.window_s is not None:
            limiter = FixedWindow(self.rate, self.window_s, random.uniform(0.0, self.window_s))
        else:
            limiter = TokenBucket(self.rate, max(5.0, self.rate) if self.burst is None else self.burst)
        return Ban(limiter, self.penalty_s) if self.penalty_s else limiter

    def server(self, random: Random) -> Server:
        told = Refusal(429, "seconds" if self.retry_after else "silent")
        return Server(self.limiter(random), random, refusal=told, round_trip=LogNormal(self.latency_s))


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What would happen."""

    pages: int
    done: int  # fewer than pages only if it would take more than a year
    requests: int
    refusals: int
    first_refusal_after: int | None  # requests; None: there would be none
    settled_delay_s: float
    seconds: float
    ideal_s: float  # for somebody who knew the limit from the start

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def as_text(self) -> str:
        if self.first_refusal_after is None:
            met = "you would meet no 429"
        else:
            times = "" if self.refusals == 1 else f" ({self.refusals} in all)"
            met = f"you would meet a 429 after {self.first_refusal_after} requests{times}"
        done = f"done in {duration(self.seconds)}"
        if self.done < self.pages:
            done = f"only {self.done} of {self.pages} pages done in {duration(self.seconds)}"
        return f"with these settings {met}; it would settle at {duration(self.settled_delay_s)}; {done}"


class _Rehearsed:
    """One domain's pace with the settings of the crawl; notes what it meets."""

    def __init__(self, settings: PacingSettings, model: ServerModel, learned: Learned | None, random: Random) -> None:
        domain = DOMAIN if learned is None else learned.domain
        self.pace = Registry(settings, random.random).pace(domain, 0.0, _UTC)
        self.pace.set_crawl_delay(model.crawl_delay_s)
        if learned is not None:
            restore(self.pace, learned, 0.0, learned.learned_at)  # as if it had been learned just now
        self.answers = 0
        self.refusals = 0
        self.first_refusal_after: int | None = None
        self.gaps_s: list[float] = []

    def request(self, now: float) -> object | float:
        return self.pace.reserve(now)

    def answer(self, ticket: object, reply: Reply, now: float) -> None:
        assert isinstance(ticket, Permit)
        self.answers += 1
        self.gaps_s.append(ticket.gap_s)
        if reply.status in LIMITED:
            self.refusals += 1
            if self.first_refusal_after is None:
                self.first_refusal_after = ticket.seq - 1
        self.pace.settle(ticket, as_answer(reply, now), now)

    def save(self) -> object:
        return None

    def load(self, saved: object) -> None:
        return None


def rehearse(
    settings: PacingSettings, pages: int, model: ServerModel, *, learned: Learned | None = None, seed: int = 0
) -> Rehearsal:
    """Crawl so many pages of a model server; `learned` is what an earlier crawl knows of it. One seed, one history."""
    if pages < 1:
        raise SettingsError(f"{pages} pages cannot be rehearsed", hint="one is the least")
    random = Random(f"rehearse {seed}")
    client = Client(
        max_in_flight=settings.max_parallel_per_domain,
        max_rate=settings.max_rate or math.inf,
        crawl_delay_s=model.crawl_delay_s,
    )
    rehearsed = _Rehearsed(settings, model, learned, random)
    server = model.server(random)
    run = simulate(rehearsed, server, pages, client, until_s=LONGEST_S)
    last = rehearsed.gaps_s[-max(1, len(rehearsed.gaps_s) // _SETTLED_SHARE) :]
    return Rehearsal(
        pages,
        run.done,
        run.sent,
        rehearsed.refusals,
        rehearsed.first_refusal_after,
        statistics.median(last) if last else 0.0,
        run.lasted_s,
        max(server.ideal_s(pages), (model.crawl_delay_s or 0.0) * (pages - 1)),
    )


def known_model(connection: DuckDBPyConnection, domain: str) -> tuple[ServerModel, Learned | None, int]:
    """A server as an earlier crawl found it: its model, what was learned of it, and how many pages it had."""
    name = domain_of(domain)
    row = next(iter(load_domains(connection, [name])), None)
    if row is None:
        raise StoreError(f"nothing is known of {name} in this file", hint="`amble domains FILE` lists what is")
    learned = learned_of(row)
    rate = None
    if learned is not None and learned.adaptive_delay_seconds > 0:
        rate = learned.numbers.get("limit") or 1.0 / learned.adaptive_delay_seconds
    [(pages,)] = connection.execute(
        "SELECT count(DISTINCT url) FROM amble.requests WHERE domain = $1 AND status < 400 "
        "AND NOT ends_with(url, '/robots.txt')",
        [name],
    ).fetchall()
    latency_s = known_latencies(connection, [name]).get(name) or LATENCY_S
    model = ServerModel(rate=rate, latency_s=latency_s, crawl_delay_s=row.crawl_delay_seconds)
    return model, learned, int(pages)
