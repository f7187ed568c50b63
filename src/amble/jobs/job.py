"""A crawl that is stored: runs the loop, hands its rows to the store, keeps what was learned, can be taken up again."""

from __future__ import annotations

import asyncio
import logging
import random as system_random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from amble.assemble import address_policy, make_plan
from amble.clock import Clock, SystemClock
from amble.collecting import seldom
from amble.core.addresses import AddressPolicy
from amble.core.frontier.backlog import Window
from amble.core.frontier.changes import Changes, Ready, State
from amble.core.frontier.visit import FoundBy, Visit
from amble.core.outcome import Failure
from amble.core.pacing.events import Event, NetworkBack, Warned
from amble.core.seeds import Seed, seed_url
from amble.core.urls import domain_of
from amble.crawl import Crawl
from amble.errors import AddressRefused, StoreError
from amble.fetcher import Fetcher, FetchResult, Resolver
from amble.jobs import knowing, rows
from amble.jobs.batches import Batches, must_outlast_us
from amble.jobs.shared import Shared
from amble.jobs.source import StoreSource
from amble.jobs.supply import Supply
from amble.machine_pace import machine_pace
from amble.pace_log import log_changes
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, DomainRow, JobChange, JobRow, JobStatus
from amble.workers.demand import Sharing
from amble.workers.pool import Workers
from amble.workers.visitor import LocalVisitor
from amble.workers.wire import Briefing

PRIVATE_NOTED_MAX = 8  # places whose seeds were refused
SEED_HOSTS_CHECKED_MAX = 64  # of a job that is taken up
KEEP_EVERY_S = 5.0  # how often learned delays and robots.txt files are handed to the store
LOOK_EVERY_S = 0.1  # whether a disk can be written again, while somebody waits for the end
WINDOW = Window()
SHARING = Sharing()
_DONE, _SKIPPED = State.DONE, State.SKIPPED

Listener = Callable[[Event], None]
log = logging.getLogger("amble.jobs")


@dataclass(slots=True)
class JobResult:
    """What came of a job, for a person to read."""

    job_id: int
    status: JobStatus = JobStatus.RUNNING
    ends: Counter[str] = field(default_factory=Counter)  # state or kind of failure -> URLs
    left_out: Counter[str] = field(default_factory=Counter)  # reason -> links not taken
    pages: int = 0
    failed: int = 0
    skipped: int = 0
    limited: int = 0
    stored: int = 0  # URLs that were there already and were not asked for
    set_apart: Counter[str] = field(default_factory=Counter)  # table -> rows of it that could not be stored
    private: dict[str, None] = field(default_factory=dict)  # seeds' places that would need `allow_private`; some
    requests: int = 0
    body_bytes: int = 0
    seconds: float = 0.0

    def note_private(self, place: str) -> None:
        if len(self.private) < PRIVATE_NOTED_MAX:
            self.private[place] = None

    def counters(self, before: Mapping[str, int]) -> dict[str, int]:
        """What is kept of it with the job, added to what its earlier runs counted."""
        counted = {
            "pages": self.pages, "requests": self.requests, "limited": self.limited, "failed": self.failed,
            "skipped": self.skipped, "left_out": self.left_out.total(),
        }  # fmt: skip
        return {name: before.get(name, 0) + count for name, count in counted.items()}


class Job:
    """One job on one event loop. Make it with `start` or `take_up`, then `await job.run()`."""

    def __init__(
        self,
        store: DuckDBStore,
        row: JobRow,
        settings: Settings,
        *,
        clock: Clock | None = None,
        typed: Iterable[str] = (),
        policy: AddressPolicy | None = None,
        resolver: Resolver | None = None,
        listeners: Iterable[Listener] = (),
        window: Window = WINDOW,
        shared: Shared | None = None,
        sharing: Sharing = SHARING,
    ) -> None:
        self.store = store
        self.row = row
        self.settings = settings
        self.clock: Clock = clock or SystemClock()
        self.result = JobResult(row.id)
        seeds = [seed_url(text) for text in row.seeds]
        self.seeds: Sequence[Seed] = seeds
        self._listeners = list(listeners)
        session = int(self.clock.utc().timestamp() * 1_000_000)  # receipts of two runs must not be taken for one
        self._taken_up = self._repaired = False
        self._stored: Future[None] | None = None  # the promise for what was handed over last
        self._rejections_told = len(store.rejections)
        self.loaded = False  # what the store knows
        self._told_to_end, self._hurried = asyncio.Event(), False
        self.membership = shared.join(settings, self.clock) if shared is not None else None
        self.plan = make_plan(
            settings, seeds, system_random.random, store.seen(row.id), stored=store.stored(row.id), window=window,
            registry=self.membership.registry if self.membership else None,
            book=self.membership.book if self.membership else None,
            machine=machine_pace(settings.pacing, self.clock),
        )  # fmt: skip
        policy = policy or address_policy(settings, typed)
        self._fetcher = Fetcher(settings.fetching, policy=policy, resolver=resolver, clock=self.clock)
        self.crawl = Crawl(
            self.plan,
            self._fetcher,
            self.clock,
            in_flight_max=settings.fetching.max_total_connections,
            on_changes=self._on_changes,
        )
        self.workers = self._share_out(policy, resolver, sharing)
        extracts = store.extracts(row.id)
        self._batches = Batches(row.id, session, settings.visiting, self.plan.frontier, extracts=extracts)
        self._judge = store.judge_of(row.id)
        self.plan.has_where = self._judge is not None
        if settings.visiting.max_crawl_pages is not None:
            self.plan.tried = store.tried(row.id)
        source = StoreSource(store, row.id, update_stale=settings.visiting.update_stale, judge=self._judge)
        self._supply = Supply(self.plan, source, self.clock, self._supplied)
        self.crawl.on_wants = self._supply.look

    def _share_out(self, policy: AddressPolicy, resolver: Resolver | None, sharing: Sharing) -> Workers | None:
        """Let other processes fetch and read, where there may be any; their clock has to be ours."""
        local = self.crawl.visitor
        if not isinstance(local, LocalVisitor) or not isinstance(self.clock, SystemClock):
            return None
        briefing = Briefing(self.settings.fetching, policy, resolver, local.wants)
        self.crawl.visitor = workers = Workers(
            local, self._fetcher, briefing, queued=lambda: self.plan.frontier.queued, seen=self.plan.seen,
            on_begin=lambda: self.store.store_in_bulk(self.row.id, True), on_fail=self.crawl.fail,
            on_death=self._worker_died, sharing=sharing,
        )  # fmt: skip
        return workers

    @classmethod
    @seldom()
    def start(
        cls, store: DuckDBStore, seeds: Sequence[str], settings: Settings, table: str = "pages", **ways: Any
    ) -> Job:
        """A new job. Every seed is read first, so that a bad one is refused before anything is stored or fetched.
        Among `ways`, `typed` are the seeds that somebody typed for this very job: they alone may be private."""
        urls = [seed_url(text).url for text in seeds]
        clock: Clock = ways.get("clock") or SystemClock()
        row = store.create_job(table, settings.given(), urls, clock.utc(), ways.pop("clauses", None))
        return cls(store, row, settings, **ways)

    @classmethod
    def take_up(
        cls,
        store: DuckDBStore,
        job_id: int,
        here: Settings | None = None,
        *,
        repairs: Mapping[str, Any] | None = None,
        trust_clauses: bool = False,
        **ways: Any,
    ) -> Job:
        """An earlier job that did not finish. The file may be anybody's: a proxy, authorities and private addresses are
        those of `here`, and its WHERE and EXTRACT must be harmless or be trusted. `repairs` stand in for settings of it
        that are refused today."""
        row = next((job for job in store.jobs() if job.id == job_id), None)
        if row is None:
            raise StoreError(f"there is no job {job_id} in this file", hint="`amble jobs FILE` lists them")
        settings = Settings.taken_up(row.settings, here, repairs)
        if unknown := Settings.readable(row.settings).unknown:
            names = ", ".join(map(ascii, unknown))
            log.warning("job %d goes on without settings that this version does not take: %s", job_id, names)
        store.check_clauses(job_id, trust=trust_clauses)
        store.resume(job_id)
        job = cls(store, row, settings, **ways)
        job._taken_up, job._repaired = True, bool(repairs)
        return job

    async def run(self) -> JobResult:
        with seldom():
            return await self._run()

    async def _run(self) -> JobResult:
        began = self.clock.monotonic()
        await self._refuse_private_seeds()
        await self._load()
        repaired = self.settings.given() if self._repaired else None
        self.store.set_job_state(JobChange(self.row.id, JobStatus.RUNNING, self.clock.utc(), settings=repaired))
        for sentence in self.settings.idle():
            self._warn("settings", sentence)
        keeper = asyncio.create_task(self._keep_learning())
        supply = asyncio.create_task(self._supply.run())
        supply.add_done_callback(self._supply_ended)
        try:
            await self.crawl.run()
        finally:
            keeper.cancel()
            self._supply.close()
            await asyncio.gather(supply, return_exceptions=True)
            if self.workers is not None:
                await self.workers.close()
                self.store.store_in_bulk(self.row.id, False)
            await self._fetcher.close()
            if self._judge is not None:
                self._judge.close()
            self.result.seconds = self.clock.monotonic() - began
            self.result.status = self._status()
            self._keep(last=True)
            counters = self.result.counters(self.row.counters)
            error = self._error(sys.exception()) or ""
            change = JobChange(self.row.id, self.result.status, self.clock.utc(), error, counters)
            await self._stored_all(self.store.set_job_state(change), self.store.flush())
            self._tell_rejections()
        if (why := self.plan.why_no_seed()) is not None:
            self._warn("where", why)
        return self.result

    def drain(self) -> None:
        """Let what is under way end; the job can be taken up again."""
        self._told_to_end.set()
        self.crawl.drain()

    def stop(self) -> None:
        """End at once: wait for no answer, and not for a disk that takes nothing."""
        self._told_to_end.set()
        self._hurried = True
        self.store.hurry()
        self.crawl.stop()

    async def _stored_all(self, *promises: Future[None]) -> None:
        """A disk that is full is waited for as long as it takes, unless somebody wants an end."""
        stored = asyncio.gather(*map(asyncio.wrap_future, promises))
        told = asyncio.ensure_future(self._told_to_end.wait())
        await asyncio.wait((stored, told), return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        loop = asyncio.get_running_loop()
        until = loop.time() + self.store.close_s_max
        while not stored.done():
            if self.store.state.paused and (self._hurried or loop.time() > until):
                stored.cancel()
                with suppress(asyncio.CancelledError):
                    await stored
                raise StoreError(
                    f"what was held could not be written: {self.store.state.reason}",
                    hint="free some disk space; the crawl can be resumed, and fetches these pages again",
                )
            await asyncio.wait((stored,), timeout=LOOK_EVERY_S)
        await stored

    # -- in

    async def _refuse_private_seeds(self) -> None:
        """Of a job that is taken up nothing was typed here. Its URLs on private hosts would all end for good."""
        if not self._taken_up or "allow_private" in self.settings.fetching.model_fields_set:
            return
        waiting = await asyncio.to_thread(self.store.waiting, self.row.id)
        accepted = await asyncio.to_thread(self.store.accepted_by_domain, self.row.id)
        hosts = {domain_of(seed.url): seed.url for seed in self.seeds}
        hosts = {domain: url for domain, url in hosts.items() if domain in waiting or domain not in accepted}
        some = list(hosts.items())[:SEED_HOSTS_CHECKED_MAX]
        refusals = await asyncio.gather(*(self._fetcher.refusal(url) for _, url in some))
        private = {domain: refusal for (domain, _), refusal in zip(some, refusals, strict=True) if refusal}
        if private:
            await self._fetcher.close()
            raise AddressRefused(
                f"job {self.row.id} leads to {len(private)} private places that nobody typed here: {_some(private)}",
                places=tuple(private),
            )

    async def _load(self) -> None:
        """What earlier runs learned, and what is left of this job."""
        store, frontier, clock = self.store, self.plan.frontier, self.clock
        await knowing.recall_domains(store, frontier, clock)
        await knowing.recall_robots(store, frontier, clock)
        await knowing.recall_sitemaps(store, frontier, clock, self.settings.visiting.sitemap_cache_hours)
        left = await asyncio.to_thread(self._left) if self._taken_up else None
        now, utc = clock.monotonic(), clock.utc()
        if left is not None:
            self.plan.resume(*left, now)
        # Of a job taken up the seeds are known; whether its sitemaps had been read to their end is not.
        self._on_changes(self.plan.start(self.seeds, now, utc), None, None, utc)
        self.loaded = True

    def _left(self) -> tuple[dict[str, int], int, int, dict[str, int]]:
        """What waits by domain, how much has ended, and what is spent of the budgets."""
        store, job_id, visiting = self.store, self.row.id, self.settings.visiting
        return (
            store.waiting(job_id),
            store.counts(job_id).final,
            store.spent(job_id) if visiting.max_crawl_pages is not None else 0,
            store.accepted_by_domain(job_id) if visiting.max_pages_per_domain is not None else {},
        )

    # -- out

    def _on_changes(self, changes: Changes, ready: Ready | None, result: FetchResult | None, utc: datetime) -> None:
        batch = self._batches.of(changes, ready, result, self.clock.monotonic(), utc)
        self._hand_over(batch, soon=must_outlast_us(batch, changes))
        self._count(changes, result)
        if changes.events:
            self._tell(changes.events)
        if not self.store.has_room:
            # Rows wait for the disk: fetch nothing more until they are through.
            self.crawl.pause("store")
            loop = asyncio.get_running_loop()
            self.store.room().add_done_callback(lambda _: loop.call_soon_threadsafe(self.crawl.resume, "store"))

    def _hand_over(self, batch: Batch, *, soon: bool) -> None:
        """What the store gives up on ends the crawl: whatever else were fetched might be lost as well."""
        stored = self.store.submit(batch, soon=soon)
        if stored is self._stored:
            return
        self._stored = stored  # one promise for many batches
        loop = asyncio.get_running_loop()

        def told(stored: Future[None]) -> None:
            if (fault := stored.exception()) is not None:
                with suppress(RuntimeError):  # the loop is gone, and with it the crawl
                    loop.call_soon_threadsafe(self.crawl.fail, fault)

        stored.add_done_callback(told)

    def _tell(self, events: Sequence[Event]) -> None:
        log_changes(events)
        if any(isinstance(event, NetworkBack) for event in events):
            (self.workers or self._fetcher).forget_failures()
        for event in events if self._listeners else ():
            for listener in self._listeners:
                listener(event)

    def _supplied(self, changes: Changes) -> None:
        """The store has given something back."""
        if changes.tells:
            self._on_changes(changes, None, None, self.clock.utc())
        self.crawl.wake()

    def _supply_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.crawl.fail(error)

    def _count(self, changes: Changes, result: FetchResult | None) -> None:
        counted = self.result
        for final in (*changes.finals, *changes.refused):
            state = final.state
            counted.ends[str(final.failure or state)] += 1
            if final.failure is Failure.ADDRESS_FORBIDDEN and _was_given(final.visit):
                counted.note_private(domain_of(final.visit.url))
            if state is _DONE:
                counted.pages += final.move is None
            elif state is _SKIPPED:
                counted.skipped += 1
                counted.stored += final.failure is None
            else:
                counted.failed += state is State.FAILED
        if changes.left_out:
            counted.left_out.update(changes.left_out)
        if result is not None:
            counted.requests += 1
            counted.body_bytes += result.body_bytes
            counted.limited += result.status == 429

    def _warn(self, about: str, what: str) -> None:
        """To whoever listens; else to the log, which says it on standard error where a program has set up none."""
        if self._listeners:
            self._tell((Warned(about, what),))
        else:
            log.warning("job %d: %s: %s", self.row.id, about, what)

    def _worker_died(self, pid: int, how: str, in_hand: int) -> None:
        requests = f"{in_hand} request{'' if in_hand == 1 else 's'}"
        self._warn("workers", f"process {pid}, which fetched and read pages, {how}; it had {requests} in hand")

    def _tell_rejections(self) -> None:
        found, job_id = self.store.rejections, self.row.id
        new = [each for each in found[self._rejections_told :] if each.job_id in (None, job_id)]
        self._rejections_told = len(found)
        if new:
            self.result.set_apart.update(each.table for each in new)
            rows = f"{len(new)} row{'' if len(new) == 1 else 's'}"
            self._warn("store", f"{rows} could not be stored, see amble.rejected: {new[-1].reason}")

    async def _keep_learning(self) -> None:
        while True:
            await asyncio.sleep(KEEP_EVERY_S)
            self._keep(last=False)
            self._tell_rejections()

    def _keep(self, *, last: bool) -> None:
        now, utc = self.clock.monotonic(), self.clock.utc()
        registry, book = self.plan.frontier.registry, self.plan.frontier.book
        learned = {row.domain: row for row in registry.changed(now, utc, force=last)}
        if last:
            paces = registry.own()  # not what other jobs of this process know: it belongs into their files
        else:
            paces = [pace for pace in map(registry.find, learned) if pace is not None]
        domains: list[DomainRow] = []
        for pace in paces:
            domains.append(rows.domain_as_it_stands(pace, now, utc))
            learned.pop(pace.domain, None)
        domains += [rows.evicted_row(row, utc) for row in learned.values()]
        registry.sweep(now, utc)  # now that what was learned of them is kept
        robots = book.dump_changed()
        if domains or robots:
            self.store.submit(Batch(domains=domains, robots=robots))

    def _no_domain_is_left(self) -> bool:
        """Whether every domain of the job failed too often."""
        frontier = self.plan.frontier
        return bool(frontier.given_up) and all(pace.domain in frontier.given_up for pace in frontier.registry.own())

    def _error(self, raised: BaseException | None) -> str | None:
        """What there is to say of a job that broke off, or got nowhere."""
        if raised is not None:
            return f"{type(raised).__name__}: {raised}"
        if self.result.status is JobStatus.CANCELLED:
            return self.plan.cancelled_because
        if self.result.status is not JobStatus.FAILED:
            return self.plan.why_no_seed()
        if (lie := self.plan.patience.outage.lie) is not None:
            return lie
        return "no domain is left: " + ", ".join(f"{count} {end}" for end, count in self.result.ends.most_common())

    def _status(self) -> JobStatus:
        frontier, result = self.plan.frontier, self.result
        if frontier.draining:
            return JobStatus.PAUSED
        if self.plan.cancelled_because is not None:
            return JobStatus.CANCELLED
        if frontier.deferred:
            return JobStatus.DEFERRED
        nothing_got = result.failed and not result.pages and not result.stored
        if nothing_got or self._no_domain_is_left() or self.plan.patience.outage.lie is not None:
            return JobStatus.FAILED
        return JobStatus.COMPLETED_WITH_ERRORS if result.failed else JobStatus.COMPLETED


def _was_given(visit: Visit) -> bool:
    """Whether it is a seed itself, and not where a stranger led."""
    return visit.found_by is FoundBy.SEED and not visit.trail


def _some(names: Sequence[str] | Mapping[str, str], most: int = 3) -> str:
    return ", ".join(list(names)[:most]) + (", ..." if len(names) > most else "")
