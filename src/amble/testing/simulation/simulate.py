"""Runs the real crawl of one seed in virtual time, stops it, starts it again, and says what was wrong."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from amble.assemble import make_plan
from amble.core.frontier.changes import Changes, Ready
from amble.core.frontier.plan import CrawlPlan
from amble.core.frontier.visit import Kind
from amble.core.seeds import seed_url
from amble.core.seen import SeenSet
from amble.crawl import Crawl
from amble.fetcher import FetchResult
from amble.jobs import rows
from amble.jobs.job import KEEP_EVERY_S
from amble.jobs.supply import Supply
from amble.testing.simulation.forecast import Forecast
from amble.testing.simulation.judge import Judge, Robots
from amble.testing.simulation.ledger import Ledger
from amble.testing.simulation.network import Network
from amble.testing.simulation.shop import Shop
from amble.testing.simulation.tail_watch import TailWatch
from amble.testing.simulation.web import SimulatedWeb
from amble.testing.simulation.world import World, make_world
from amble.testing.virtual import EPOCH, Stuck, VirtualClock, run

LONGEST_S = 30 * 86_400.0  # of virtual time; nothing here takes a week
REQUESTS_MAX = 5_000
CLOCK_BEGINS = 1e3, 1e7  # for how long a machine may have been up
DAY = timedelta(days=1)


@dataclass(slots=True)
class Trace:
    """What happened in the simulation of one seed."""

    seed: int
    lines: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    hits: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    virtual_s: float = 0.0

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()


class RunClock:
    """The clock of one process: its monotonic time begins wherever it likes."""

    def __init__(self, clock: VirtualClock, zero: float) -> None:
        self._clock = clock
        self._zero = zero

    def monotonic(self) -> float:
        return self._clock.monotonic() + self._zero

    def utc(self) -> datetime:
        return self._clock.utc()


class Simulation:
    """One seed."""

    def __init__(self, seed: int, world: World) -> None:
        self.trace = Trace(seed)
        self.world = world
        self.random = Random(f"run {seed}")
        self.clock = VirtualClock(utc=self.random.choice((EPOCH, EPOCH + 1_500 * DAY)))  # the servers' lies between
        self.seeds = [seed_url(text) for text in world.seeds]
        files = {file.body(): file for site in world.sites.values() for _, file in site.robots}
        roots = frozenset(seed.url.split("/")[2].removeprefix("www.") for seed in self.seeds)
        self.judge = Judge(world.settings, roots, files, self.trace.hits, self.trace.violations)
        say = self.trace.lines.append
        self.ledger = Ledger(world.settings, self.judge.fail, self.trace.hits, say, world.where)
        self.judge.waiting = self.ledger.waiting
        self.network = Network(world.spells, Random(f"network of {seed}"))
        self.web = SimulatedWeb(world.sites, self.network, self.judge, Random(f"web {seed}"), self.trace.hits, say)
        self.forecast = Forecast(world, self.judge, self.network)
        self.shop = Shop(self.ledger, Random(f"shop {seed}"), self.trace.hits)
        self.saved_robots: dict[str, Robots] = {}
        self.plan: CrawlPlan | None = None
        self.taken_up = False  # a job that did not finish
        self.run_clock = RunClock(self.clock, 0.0)
        self.kept_at = 0.0
        self.tail = TailWatch(world.settings, self.judge.fail)

    # -- the whole story

    async def main(self) -> None:
        jumps = [asyncio.create_task(self._jump(at, days)) for at, days in self.world.wall_jumps]
        for number in range(self.world.crawls):
            if number:
                self._crawl_again()
            await self._crawl()
        for jump in jumps:
            jump.cancel()

    async def _crawl(self) -> None:
        """One crawl, however often it is interrupted."""
        ways: list[tuple[float, str, float] | None] = [*self.world.restarts, None]
        for way in ways:
            await self._run(way)
            if way is None:
                break
            self._go_down(way[1])
            await asyncio.sleep(way[2])
        ledger = self.ledger
        ledger.check_chains()
        if left := set(ledger.tasks) - set(ledger.ended) - ledger.deferred - set(ledger.shelf):
            self.judge.fail("V6", f"finished, though {len(left)} URLs are open, such as {min(left)}")

    def _crawl_again(self) -> None:
        self._go_down("crawled again")
        self.ledger.begin_crawl()
        self.taken_up = False

    async def _run(self, way: tuple[float, str, float] | None) -> None:
        clock = self.run_clock = RunClock(self.clock, self.random.uniform(*CLOCK_BEGINS))
        self.web.clock = clock
        self.network.forget()
        self.forecast.begin_run(now=self.clock.monotonic())
        self.tail = TailWatch(self.world.settings, self.judge.fail, self.clock.monotonic())
        plan = self._make_plan(clock)
        fetching = self.world.settings.fetching
        crawl = Crawl(
            plan, self.web, clock, in_flight_max=fetching.max_total_connections,
            on_changes=self._on_changes,
        )  # fmt: skip
        supply = self._supply_of(plan, clock, crawl)
        running = asyncio.create_task(crawl.run())
        beside = [asyncio.create_task(self._pause(crawl, *pause)) for pause in self.world.pauses]
        if way is not None:
            beside.append(asyncio.create_task(self._end(crawl, running, way[0], way[1])))
        try:
            await running
        except asyncio.CancelledError:
            if not self.ledger.dead:
                raise
        finally:
            for task in (*beside, supply):
                task.cancel()
            await asyncio.gather(*beside, supply, return_exceptions=True)
            self.judge.paused = self.judge.stopped = False
        if not self.ledger.dead:
            if not plan.frontier.draining:
                self.tail.end(self.clock.monotonic())
            self._check_the_end(plan)
            self._keep(plan, last=True)

    def _supply_of(self, plan: CrawlPlan, clock: RunClock, crawl: Crawl) -> asyncio.Task[None]:
        def tell(changes: Changes) -> None:
            self._on_changes(changes, None, None, clock.utc())
            crawl.wake()

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                crawl.fail(error)

        supplier = Supply(plan, self.shop, clock, tell)
        crawl.on_wants = supplier.look
        supply = asyncio.create_task(supplier.run())
        supply.add_done_callback(ended)
        return supply

    def _make_plan(self, clock: RunClock) -> CrawlPlan:
        self.ledger.begin_run()
        self.judge.begin_run()
        seen = SeenSet()
        for task in self.ledger.tasks:
            seen.add(task)
        ledger, visiting = self.ledger, self.world.settings.visiting
        stored = ledger.stored()
        plan = self.plan = make_plan(
            self.world.settings, self.seeds, Random(self.random.random()).random, seen, stored=stored,
            window=self.world.window,
        )  # fmt: skip
        now, utc = clock.monotonic(), clock.utc()
        plan.has_where = self.world.where > 0
        frontier = plan.frontier
        self.judge.held = self._held(stored, utc)
        since = utc - timedelta(hours=visiting.sitemap_cache_hours)
        frontier.read_lately = {url for url, (read_at, _) in ledger.listings.items() if read_at > since}
        ledger.read_lately = frontier.read_lately
        learned = (rows.learned_of(row) for row in ledger.domains.values())
        frontier.registry.load((row for row in learned if row is not None), now, utc)
        frontier.last_starts.update(rows.last_starts(ledger.domains.values(), now, utc))
        aged = [(row, (utc - row.fetched_at).total_seconds()) for row in ledger.robots.values() if row.fetched_at]
        frontier.book.load(aged, now)
        if self.taken_up:
            waiting = Counter(row.domain for row in ledger.shelf.values())
            plan.resume(waiting, len(ledger.ended), ledger.spent(), ledger.by_domain(), now)
        self._on_changes(plan.start(self.seeds, now, utc), None, None, utc)
        return plan

    def _held(self, stored: set[str], utc: datetime) -> frozenset[str]:
        """Pages that need not be asked for: all that are there, or those that a sitemap calls fresh."""
        if not self.world.settings.visiting.update_stale:
            return frozenset(stored)
        listed = {entry.url for _, read in self.ledger.listings.values() for entry in read.entries}
        ages = {url: row.crawled_at for url, row in self.ledger.table.items() if row is not None and row.crawled_at}
        return frozenset(url for url in stored & listed if url in ages and abs(utc - ages[url]) < 4 * DAY)

    def _check_the_end(self, plan: CrawlPlan) -> None:
        frontier = plan.frontier
        self.ledger.balance(plan)
        if frontier.under_way or frontier.queued or any(len(lane) for lane in frontier.lanes.values()):
            self.judge.fail("V6", f"finished with {frontier.queued} queued, {frontier.under_way} under way")
        if frontier.deferred != len(self.ledger.deferred) + len(self.ledger.shelf):
            self.judge.fail("L1", f"{frontier.deferred} deferred, {len(self.ledger.shelf)} of them in the store")
        if any(pace.in_flight for pace in frontier.registry):
            self.judge.fail("P2", "a permit was never settled")

    def _go_down(self, how: str) -> None:
        now = self.clock.monotonic()
        self.trace.lines.append(f"{now:.6f} {how}")
        self.trace.hits[how] += 1
        known_until = now - self.world.commit_lag_s if how == "crash" else now
        if how == "crash":
            self.ledger.crash(known_until)
        self.taken_up = True
        self.judge.restart(self.saved_robots, known_until)

    # -- what the crawl tells

    def _on_changes(self, changes: Changes, ready: Ready | None, result: FetchResult | None, utc: datetime) -> None:
        if self.ledger.dead:
            return
        now = self.clock.monotonic()
        is_robots = ready is not None and ready.visit.kind is Kind.ROBOTS
        if is_robots and ready is not None and result is not None and says_something(ready, result):
            self.judge.learn_robots(ready.visit.task, ready.visit.trail, result, now)
        self.forecast.take(changes, result, now)
        self.ledger.take(changes, ready, result, now, utc)
        self.tail.take(changes, ready, result, now)
        self.trace.hits["asked with the other scheme"] += ready is not None and ready.visit.asks_other_scheme
        if self.plan is not None:
            registry = self.plan.frontier.registry
            self.ledger.learn(rows.limits_met(registry, changes, ready, self.run_clock.monotonic(), utc), now)
        if self.plan is not None and (ready is not None or not changes.accepted):
            self.ledger.balance(self.plan)
        if self.plan is not None and now >= self.kept_at + KEEP_EVERY_S:
            self._keep(self.plan, last=False)
        if self.judge.requests > REQUESTS_MAX or now > LONGEST_S:
            self.judge.fail("V1", f"no end after {self.judge.requests} requests and {now:.0f} s")
            raise Stuck("given up")

    def _keep(self, plan: CrawlPlan, *, last: bool) -> None:
        """No timer does this, which would hide that nobody else waits for one."""
        self.kept_at = self.clock.monotonic()
        self.ledger.keep(plan, self.run_clock, self.kept_at, last=last)
        self.saved_robots = {
            origin: replace(known) for origin, known in self.judge.robots.items() if origin in self.ledger.robots
        }

    # -- what happens beside it

    async def _pause(self, crawl: Crawl, after_s: float, for_s: float) -> None:
        await asyncio.sleep(after_s)
        crawl.pause()
        self.judge.paused = True
        self.tail.pause(self.clock.monotonic(), paused=True)
        self.trace.hits["paused"] += 1
        await asyncio.sleep(for_s)
        self.judge.paused = False
        self.tail.pause(self.clock.monotonic(), paused=False)
        crawl.resume()

    async def _end(self, crawl: Crawl, running: asyncio.Task[None], after_s: float, how: str) -> None:
        await asyncio.sleep(after_s)
        self.judge.paused, self.judge.stopped = False, True
        if how == "drain":
            crawl.drain()
        elif how == "stop":
            crawl.stop()
        else:
            self.ledger.dead = True
            running.cancel()

    async def _jump(self, at: float, days: float) -> None:
        await asyncio.sleep(at)
        self.clock.shift_wall(days * DAY)
        self.judge.clock_set_at = self.clock.monotonic()
        self.trace.hits["wall clock set"] += 1


def says_something(ready: Ready, result: FetchResult) -> bool:
    """Whether what came of asking for a robots.txt is a word of its site: not where a kept connection broke, nor where
    nothing came though it was asked only to find out whether anything would. What is known of it holds then."""
    broke = result.stale and not ready.visit.new_connection
    return not broke and not (ready.visit.asks_network and result.failure is not None)


def simulate(seed: int, world: World | None = None, tick_s: float | None = None) -> Trace:
    """Crawl the web of this seed. Whatever is wrong is in `violations`, each beginning with the id of its rule."""
    simulation = Simulation(seed, world or make_world(seed))
    trace = simulation.trace
    try:
        _play(simulation.main(), simulation.clock, tick_s)
    except Stuck as stuck:
        trace.violations.append(f"V5 {stuck}")
    except Exception as error:
        trace.violations.append(f"V0 {type(error).__name__}: {error}")
    trace.requests, trace.virtual_s = simulation.judge.requests, simulation.clock.monotonic()
    return trace


def _play(main: Coroutine[Any, Any, None], clock: VirtualClock, tick_s: float | None) -> None:
    with suppress(asyncio.CancelledError):
        run(main, clock=clock, tick_s=tick_s)
