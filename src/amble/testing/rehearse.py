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
from amble.report.plan import known_latencies
from amble.report.words import duration
from amble.store.knowledge import load_domains
from amble.testing.lab.announce import WALL_AT_START, Dialect, Refusal
from amble.testing.lab.controller import Client, Reply
from amble.testing.lab.controllers import as_answer
from amble.testing.lab.limiters import FixedWindow, Limiter, TokenBucket, Unlimited, WindowFromFirst
from amble.testing.lab.modifiers import All, Ban, Changing
from amble.testing.lab.queues import FifoQueue, InFlight
from amble.testing.lab.servers import LogNormal, Server, Verdict
from amble.testing.lab.simulate import simulate

DOMAIN = "rehearsal.test"
LATENCY_S = 0.1
LONGEST_S = 366 * 86_400.0  # a rehearsal that takes longer has shown enough
LIMITED, DOWN = 429, 503
ON_THE_WAY_S = 0.005  # where answers take long because of the site
_SETTLED_SHARE = 5  # the last fifth of a crawl shows where it settled
_UTC = datetime.fromtimestamp(WALL_AT_START, UTC)


@dataclass(frozen=True, slots=True)
class ServerModel:
    """A server as one imagines it, or as it was found."""

    rate: float | None = None  # requests per second that it allows; None: as many as come
    burst: float | None = None  # at once, with a bucket; None: five, or a second's worth
    window_s: float | None = None  # counts in windows of this length and not with a bucket
    from_first: bool = False  # its windows begin with the first request, not with the clock
    queue: int | None = None  # answers one after the other, and refuses when so many wait
    at_once: int | None = None  # refuses one more while so many are under way
    penalty_s: float = 0.0  # who breaks the limit is shut out for this long
    change_after_s: float | None = None  # its rate changes then,
    change_to: float = 0.5  # to so many times what it was
    down_after_s: float | None = None  # answers nothing but 503 from then on,
    down_for_s: float = 10.0  # for so long,
    up_for_s: float | None = None  # and again after so long; None: only once
    retry_after: bool = False  # says how long to wait
    headers: Dialect | None = None  # tells its quota with every answer
    latency_s: float = LATENCY_S
    crawl_delay_s: float | None = None

    def __post_init__(self) -> None:
        numbers = {name: value for name, value in asdict(self).items() if isinstance(value, float | int)}
        for name, value in numbers.items():
            positive = name not in _MAY_BE_ZERO
            if not math.isfinite(value) or value < 0 or (positive and value == 0):
                raise SettingsError(f"{name} = {value:g} is not possible", hint="give a positive number")
        kinds = (self.burst, self.window_s, self.queue)
        if self.rate is None and (any(kind is not None for kind in (*kinds, self.change_after_s)) or self.penalty_s):
            what = "burst, window, queue, penalty or change"
            raise SettingsError(f"a server without a limit has no {what}", hint="give its rate")
        if sum(kind is not None for kind in kinds) > 1:
            raise SettingsError(
                "burst, window_s and queue exclude each other", hint="a bucket has a burst, a window a length"
            )
        if self.burst is not None and self.burst < 1:
            raise SettingsError(f"burst = {self.burst:g} lets nothing through", hint="1 is the least")
        if self.headers is not None and (self.rate is None or self.queue is not None):
            raise SettingsError("only a bucket or a window has a quota to tell", hint="give its rate, and a window")

    def limiter(self, random: Random) -> Limiter:
        limits: list[Limiter] = []
        if self.rate is not None:
            phase_s = random.uniform(0.0, self.window_s or 0.0)
            limits.append(self._at_rate(self.rate, phase_s))
            if self.change_after_s is not None:
                limits[0] = Changing(limits[0], self._at_rate(self.change_to * self.rate, phase_s), self.change_after_s)
        if self.at_once is not None:
            limits.append(InFlight(self.at_once, self.latency_s))
        limiter = limits[0] if len(limits) == 1 else All(*limits) if limits else Unlimited()
        return Ban(limiter, self.penalty_s) if self.penalty_s else limiter

    def _at_rate(self, rate: float, phase_s: float) -> Limiter:
        if self.queue is not None:
            return FifoQueue(rate, self.queue)
        if self.window_s is None:
            return TokenBucket(rate, max(5.0, rate) if self.burst is None else self.burst)
        if self.from_first:
            return WindowFromFirst(max(1, round(rate * self.window_s)), self.window_s)
        return FixedWindow(rate, self.window_s, phase_s)

    def server(self, random: Random) -> Server:
        told = Refusal(429, "seconds" if self.retry_after else "silent")
        limiter, dialect, latency = self.limiter(random), self.headers, LogNormal(self.latency_s)
        if self.at_once is not None:  # a place is taken for as long as the site works
            server = _Server(
                limiter, random, refusal=told, round_trip=LogNormal(ON_THE_WAY_S), service=latency, dialect=dialect
            )
        else:
            server = _Server(limiter, random, refusal=told, round_trip=latency, dialect=dialect)
        server.model = self
        return server

    def down_left_s(self, now: float) -> float:
        """How much longer it is down."""
        since_s = -1.0 if self.down_after_s is None else now - self.down_after_s
        if since_s < 0:
            return 0.0
        if self.up_for_s is not None:
            since_s %= self.down_for_s + self.up_for_s
        return max(0.0, self.down_for_s - since_s)


_MAY_BE_ZERO = ("penalty_s", "crawl_delay_s", "retry_after", "from_first", "down_after_s", "change_after_s")


class _Server(Server):
    """One that is down now and then."""

    model: ServerModel

    def arrive(self, now: float) -> Verdict:
        left_s = self.model.down_left_s(now)
        if left_s <= 0.0:
            return super().arrive(now)
        headers: dict[str, str] = {}
        not_before = self.refusal.announce(now, left_s, headers)
        return Verdict(DOWN, headers, 0.0, False, not_before)

    def ideal_s(self, pages: int) -> float:
        model, up_s = self.model, super().ideal_s(pages)
        if model.down_after_s is None or up_s <= model.down_after_s:
            return up_s
        outages = 1 if model.up_for_s is None else math.ceil((up_s - model.down_after_s) / model.up_for_s)
        return up_s + outages * model.down_for_s


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

    def __init__(
        self, settings: PacingSettings, client: Client, model: ServerModel, learned: Learned | None, random: Random
    ) -> None:
        domain, now = DOMAIN if learned is None else learned.domain, client.starts_at
        self._wall_s = WALL_AT_START - now  # from our clock to the time of day
        self.pace = Registry(settings, random.random).pace(domain, now, _UTC)
        self.pace.set_crawl_delay(model.crawl_delay_s)
        if learned is not None:
            restore(self.pace, learned, now, learned.learned_at)  # as if it had been learned just now
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
        if reply.status == LIMITED:
            self.refusals += 1
            if self.first_refusal_after is None:
                self.first_refusal_after = ticket.seq - 1
        self.pace.settle(ticket, as_answer(reply, now + self._wall_s), now)

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
    rehearsed = _Rehearsed(settings, client, model, learned, random)
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
