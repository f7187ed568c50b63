"""The store of a simulated crawl: what was handed over, what of it was acknowledged, and whether the books balance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from zlib import crc32

from amble.clock import Clock
from amble.core.frontier.changes import Changes, Final, Keeps, Listing, Ready, State
from amble.core.frontier.plan import CrawlPlan
from amble.core.frontier.recall import Leads, Stored
from amble.core.frontier.redirects import REDIRECTS
from amble.core.frontier.visit import Kind, Visit
from amble.core.headers import Headers
from amble.core.outcome import Failure
from amble.core.pacing.events import (
    BlockClosed,
    BlockOpened,
    CircuitClosed,
    CircuitOpened,
    Event,
    NetworkBack,
    NetworkDown,
)
from amble.core.robots.verdict import RobotsRow
from amble.fetcher import FetchResult
from amble.jobs import rows
from amble.settings import Settings
from amble.store.seam import DomainRow, TaskRow
from amble.testing.simulation.judge import LEAST_PATIENCE_S

Fail = Callable[[str, str], None]
NOT_TRIED_AGAIN = frozenset(
    {Failure.CONTENT_TOO_LARGE, Failure.CONTENT_TYPE_REJECTED, Failure.CONTENT_DECODE_ERROR, Failure.ADDRESS_FORBIDDEN}
)
ENDED = frozenset({State.DONE, State.FAILED, State.SKIPPED})


# A page that ends with one of these had all its tries; a name or a certificate is tried once more, and nobody else.
NEEDS_ALL_TRIES = frozenset(
    {Failure.NETWORK_RESET, Failure.NETWORK_TIMEOUT, Failure.NETWORK_CONNECTION_REFUSED, Failure.HTTP_SERVER_ERROR}
)
OFTEN_FOR_S = 60.0  # after a site began to fail, trials come often


class Tries(NamedTuple):
    """How often a URL was asked for."""

    tries: int = 0  # that certainly cost it one of those it has
    tries_most: int = 0  # that may have
    requests: int = 0  # with those that were made good, and trials
    broke: bool = False  # a kept connection, under the last of them
    passes: bool = True  # what the last of them met may pass
    forbidden: bool = False  # it was the address, which passes where it was the network that lied


NOT_TRIED = Tries()


class Down(NamedTuple):
    """A site that refuses or fails."""

    since: float
    only_fails: bool


class Entry(NamedTuple):
    """What one batch brought."""

    at: float
    accepted: list[TaskRow]
    ends: list[tuple[str, State]]
    pages: list[tuple[str, Stored | None]]
    listing: Listing | None
    utc: datetime
    moved: set[str]


@dataclass(slots=True)
class Ledger:
    """L1, L2, L3: every accepted URL ends exactly once, in a way that is known, with the body that was served."""

    settings: Settings
    fail: Fail
    hits: Counter[str]
    say: Callable[[str], None]
    where: int = 0  # see `World`
    tasks: dict[str, TaskRow] = field(default_factory=dict)
    ended: dict[str, State] = field(default_factory=dict)
    deferred: set[str] = field(default_factory=set)
    shelf: dict[str, TaskRow] = field(default_factory=dict)  # tasks that nobody holds
    refused: set[str] = field(default_factory=set)  # URLs that the WHERE of the crawl did not take, with rows
    _refused_now: set[str] = field(default_factory=set)  # in this run
    asked: set[str] = field(default_factory=set)  # tasks of pages that were asked for
    moved: set[str] = field(default_factory=set)  # tasks that ended with a redirect, which is no page
    table: dict[str, Stored | None] = field(default_factory=dict)  # the rows of all crawls; None: not a success
    listings: dict[str, tuple[datetime, Listing]] = field(default_factory=dict)
    domains: dict[str, DomainRow] = field(default_factory=dict)
    robots: dict[str, RobotsRow] = field(default_factory=dict)
    read_lately: Container[str] = ()  # sitemaps that need not be asked for in this run
    dead: bool = False  # the process is gone: nothing more is heard of it
    _journal: list[Entry] = field(default_factory=list)
    _table_before: dict[str, Stored | None] = field(default_factory=dict)
    _learned: list[tuple[float, DomainRow]] = field(default_factory=list)
    _tries: dict[tuple[str, str, int], Tries] = field(default_factory=dict)
    _network_down: bool = False
    _excused: bool = False  # in this run: some requests were nobody's
    _down: dict[str, Down] = field(default_factory=dict)
    _claimed_at: dict[str, float] = field(default_factory=dict)

    # -- in

    def take(
        self, changes: Changes, ready: Ready | None, result: FetchResult | None, now: float, utc: datetime
    ) -> None:
        self._note_trouble(changes, ready, result, now)
        if ready is not None and result is not None and ready.visit.kind is Kind.PAGE:
            self.asked.add(ready.visit.task)
            self._check_try(ready, result, now)
        if ready is not None and ready.visit.kind is Kind.SITEMAP and not ready.visit.trail:
            self._check_sitemap(ready.visit.url)
        moved = {final.visit.task for final in changes.finals if final.move is not None}
        self.moved |= moved
        self._accept(changes)
        pages = [row for final in changes.finals if (row := self._check_final(final, utc)) is not None]
        accepted = [self.tasks[visit.task] for visit in (*changes.accepted, *changes.overflow)]
        ends = [(final.visit.task, final.state) for final in changes.finals]
        pages += [
            (end.url, known._replace(final_url=end.final_url))
            for end in changes.chain_ends if (known := self.table.get(end.url)) is not None
        ]  # fmt: skip
        self._keep_rows(Entry(now, accepted, ends, pages, changes.listing, utc, moved))
        for reason, count in changes.left_out.items():
            self.hits[f"left out: {reason}"] += count
        for event in changes.events:
            self.hits[type(event).__name__] += 1
            self._weather(event)
            self.say(repr(event))

    def _check_sitemap(self, url: str) -> None:
        if url in self.read_lately:
            self.fail("R1", f"{url} asked for, though what came of that lately is known")

    def _accept(self, changes: Changes) -> None:
        for visit in (*changes.accepted, *changes.overflow):
            row = rows.task_row(visit, 1)
            if row.url in self.tasks:
                self.fail("L1", f"{row.url} accepted twice")
            if not self.wants(visit) and not visit.trail:
                self.fail("W1", f"{row.url} accepted, though the WHERE does not take it")
            self.tasks[row.url] = row
        for final in changes.refused:
            self._refuse(final.visit)
        self.shelf |= {visit.task: self.tasks[visit.task] for visit in changes.overflow}
        self.hits["left to the store"] += len(changes.overflow)
        visiting = self.settings.visiting
        most, here = visiting.max_crawl_pages, visiting.max_pages_per_domain
        if most is not None and self.spent() > most:
            self.fail("L1", f"{self.spent()} URLs accepted or asked for, {most} wanted")
        # What is to be updated is in the budget before it is asked for, and then perhaps never is.
        left_out = not visiting.update_stale and "max_crawl_pages" in changes.left_out
        if most is not None and left_out and self.spent() < most:
            self.fail("L1", f"{self.spent()} URLs accepted, and others left out, though {most} are wanted")
        if here is not None and changes.accepted and max(self.by_domain().values()) > here:
            self.fail("L1", f"more than {here} URLs of one domain accepted")

    def wants(self, visit: Visit) -> bool:
        """What a WHERE might say of a URL."""
        return not self.where or crc32(visit.task.encode()) % self.where != 0

    def _refuse(self, visit: Visit) -> None:
        self.hits["refused by the WHERE"] += 1
        if self.wants(visit) or visit.task in self.tasks or visit.task in self._refused_now:
            self.fail("W1", f"{visit.task} refused as if by the WHERE")
        self.refused.add(visit.task)
        self._refused_now.add(visit.task)

    def spent(self) -> int:
        """Of the budget: what the table held before this crawl costs nothing unless it is asked for."""
        pages = self.tasks.keys() - self.moved
        return sum(url in self.asked or self._table_before.get(url) is None for url in pages)

    def waiting(self, host: str, now: float) -> list[str]:
        """Tasks of a host that the crawl has held for a while, and that no crawl has heard anything of. What comes out
        of the store in the instant of a request came after it was decided on, or before: nobody can tell."""
        return [
            url for url, row in self.tasks.items()
            if row.domain == host and url not in self.ended and url not in self.deferred and url not in self.shelf
            and url not in self.table and url not in self.asked and self._claimed_at.get(url) != now
        ]  # fmt: skip

    def by_domain(self) -> Counter[str]:
        return Counter(row.domain for url, row in self.tasks.items() if url not in self.moved)

    def _keep_rows(self, entry: Entry) -> None:
        self._journal.append(entry)
        self.table.update(entry.pages)
        if entry.listing is not None:
            self.listings[entry.listing.sitemap] = entry.utc, entry.listing

    def _note_trouble(self, changes: Changes, ready: Ready | None, result: FetchResult | None, now: float) -> None:
        """Which sites refuse or fail, and since when."""
        for event in changes.events:
            if isinstance(event, BlockOpened | CircuitOpened):
                self._down.setdefault(event.domain, Down(now, only_fails=True))
            elif isinstance(event, BlockClosed | CircuitClosed):
                self._down.pop(event.domain, None)
        if ready is None or result is None or (down := self._down.get(ready.permit.domain)) is None:
            return
        refuses = result.status in (403, 429) or result.headers.get("cf-mitigated") is not None
        self._down[ready.permit.domain] = down._replace(only_fails=down.only_fails and not refuses)

    def _costs_nothing(self, ready: Ready, result: FetchResult, now: float) -> bool:
        """Whether this was a trial of a site that has only just begun to fail, and one of those that cost no try."""
        visit, down = ready.visit, self._down.get(ready.permit.domain)
        if not ready.permit.probe or down is None or not down.only_fails or now - down.since >= OFTEN_FOR_S:
            return False
        if result.headers.get("retry-after") is not None:
            return False  # it says itself when it will be back
        fails = result.failure in NEEDS_ALL_TRIES or (result.failure is None and (result.status or 0) >= 500)
        return fails and visit.spared < visit.attempt - 1

    def _check_try(self, ready: Ready, result: FetchResult, now: float) -> None:
        """Only what may pass is tried again, and not too often, however often connections break or a site is down."""
        visit = ready.visit
        key = (visit.task, visit.url, len(visit.trail))
        before = self._tries.get(key, NOT_TRIED)
        tries_max = 1 + self.settings.pacing.max_retries
        if not before.passes:
            self.fail("L3", f"{visit.url} asked for again after its answer")
        if before.tries == tries_max:
            self.fail("L1", f"{visit.url} asked for {before.tries + 1} times")
        if before.requests == 2 * tries_max:
            self.fail("C1", f"{visit.url} asked for {before.requests + 1} times, broken connections included")
        if before.broke and not visit.new_connection:
            self.fail("C1", f"{visit.url} not made good over a new connection")
        forbidden = result.failure is Failure.ADDRESS_FORBIDDEN
        if visit.header_timeout_s is not None:
            if visit.attempt == tries_max:
                self.fail("H1", f"the last try of {visit.url} has not all the time there is")
            if visit.header_timeout_s < LEAST_PATIENCE_S * 2 ** (visit.attempt - 1):
                self.fail("H1", f"try {visit.attempt} of {visit.url} has only {visit.header_timeout_s:g} s")
        unasked = result.status == 304 and not visit.is_conditional  # as good as no answer
        broke = result.stale and not visit.new_connection  # the next request is the same try
        ours = result.proxy_fault or result.local_fault or self._network_down  # costs the URL nothing [F9, F10]
        self._excused = self._excused or ours
        is_try, trial = not ours and not broke, self._costs_nothing(ready, result, now)
        if trial:
            self.hits["a trial that cost no try"] += 1
        self._tries[key] = Tries(
            before.tries + (is_try and not ready.permit.probe), before.tries_most + (is_try and not trial),
            before.requests + (not ours), broke,
            unasked or self._passes(result) or (self._network_down and forbidden), forbidden,
        )  # fmt: skip

    def _weather(self, event: Event) -> None:
        """What failed shortly before it was clear that the network is down costs nothing either."""
        if isinstance(event, NetworkDown):
            self._network_down = self._excused = True
            self._tries = {
                key: NOT_TRIED._replace(broke=made.broke, passes=made.passes or made.forbidden)
                for key, made in self._tries.items()
            }
        elif isinstance(event, NetworkBack):
            self._network_down = False

    def _passes(self, result: FetchResult) -> bool:
        """L3: 429, 5xx, a challenge and what happens to the network; nothing else, unless it was asked for."""
        if result.failure is not None:
            return result.failure not in NOT_TRIED_AGAIN
        status = result.status or 0
        wanted = status == 429 or status >= 500 or status in self.settings.visiting.retry_statuses
        return wanted or result.headers.get("cf-mitigated") is not None

    def _check_final(self, final: Final, utc: datetime) -> tuple[str, Stored | None] | None:
        """Returns the row that it leaves behind, if any."""
        visit, failure, task = final.visit, final.failure, final.visit.task
        self.say(f"end {task} {final.state} {failure} {final.reason}")
        self.hits[f"state {final.state}"] += 1
        if failure is not None:
            self.hits[f"failure {failure}"] += 1
        if task not in self.tasks:
            self.fail("L1", f"{task} ended, and was never accepted")
        elif task in self.ended or task in self.deferred:
            self.fail("L1", f"{task} ended twice")
        if final.state is State.DEFERRED:
            self.deferred.add(task)
        else:
            self.ended[task] = final.state
        is_stored = final.reason == "stored already"
        fits = (final.state is State.SKIPPED) if is_stored else (final.state is State.DONE) == (failure is None)
        if not fits or not isinstance(failure, Failure | None):
            self.fail("L3", f"{task} ended {final.state} with {failure!r}")
        if is_stored:
            self.hits["stored already"] += 1
        if isinstance(final.fetched, FetchResult) and final.fetched.url != task:
            self.fail("L2", f"{task} ended with the answer of {final.fetched.url}")
        status = final.fetched.status if final.fetched is not None else None
        if final.state is State.DONE and (final.move is not None) != (status in REDIRECTS):
            self.fail("L5", f"{task} ended with {status} and {final.move}")
        self._check_lost(final)
        if visit.attempt > 1 + self.settings.pacing.max_retries:
            self.fail("L1", f"{task} needed {visit.attempt} attempts")
        if len(visit.trail) > self.settings.visiting.max_redirects + (final.reason.startswith("redirect:")):
            self.fail("L4", f"{task} was followed over {len(visit.trail)} redirects")
        return self._row(final, utc)

    def _check_lost(self, final: Final) -> None:
        """L6: what fails at a site that answered had as many tries as the settings say, trials left aside."""
        visit, fetched = final.visit, final.fetched
        if final.failure not in NEEDS_ALL_TRIES or fetched is None or self._excused or "; tried " in final.reason:
            return
        made = self._tries.get((visit.task, visit.url, len(visit.trail)), NOT_TRIED)
        if made.tries_most <= self.settings.pacing.max_retries:
            self.fail("L6", f"{visit.url} failed after {made.tries_most} tries, {made.requests} requests")

    def _row(self, final: Final, utc: datetime) -> tuple[str, Stored | None] | None:
        task, fetched = final.visit.task, final.fetched
        status = fetched.status if fetched is not None else None
        if (status == 304 and final.state is State.DONE) != final.confirmed:
            self.fail("R2", f"{task} ended with a 304 that confirms nothing")
        known = self.table.get(task)
        if final.confirmed:
            self.hits["confirmed"] += 1
            if known is None:
                self.fail("R2", f"{task} is confirmed, and the table holds nothing of it")
            return task, (known or Stored())._replace(crawled_at=utc)
        if final.state is State.DEFERRED or final.keeps is Keeps.NOTHING:
            if known is not None and final.failure is not None:
                self.hits["kept, though it could not be had again"] += 1
            return None
        if final.failure is not None:
            if known is not None and (status is None or status >= 500):
                self.fail("R2", f"{task} is gone from the table for {final.failure}")
            return task, None
        headers = fetched.headers if fetched is not None else Headers()
        leads = Leads() if final.page is None else Leads.of(final.page)
        final_url = final.move.final_url if final.move is not None else None
        return task, Stored(status, utc, headers.get("etag"), None, final_url or final.visit.url, leads)

    def check_chains(self) -> None:
        """L5: where a redirect leads inside the scope, there is a row."""
        for url in self.moved & self.ended.keys():
            row = self.table.get(url)
            if row is not None and row.final_url not in self.table.keys() | self.tasks.keys() | self.refused:
                self.fail("L5", f"{url} names {row.final_url}, which has no row")

    def balance(self, plan: CrawlPlan) -> None:
        """accepted = queued + under way + deferred + final, by counting what is really there."""
        frontier = plan.frontier
        queued = sum(visit.kind is Kind.PAGE for lane in frontier.lanes.values() for visit in lane.visits())
        queued += sum(recall.visit.kind is Kind.PAGE for recall in frontier.recalls.values())
        inflows = (*frontier.inflows, *(part.rest for part in frontier.unjudged))
        queued += sum(inflow.final is not None for inflow in inflows) + frontier.backlog.total
        if frontier.accepted != queued + frontier.pages_under_way + frontier.deferred + frontier.final:
            self.fail("L1", f"{frontier.accepted} accepted, {queued} queued, {frontier.final} final")
        if frontier.queued != queued:
            self.fail("L1", f"{queued} queued, not {frontier.queued}")
        # Of domains that were given up, what lies in the store stays there.
        left = frontier.deferred - len(self.deferred)
        open_tasks = len(self.tasks) - len(self.ended) - len(self.deferred)
        if open_tasks != queued + frontier.pages_under_way + left:
            self.fail("L1", f"{open_tasks} tasks are open, {queued} queued, {frontier.pages_under_way} under way")

    # -- what was learned

    def learn(self, learned: Sequence[DomainRow], at: float) -> None:
        self._learned += [(at, row) for row in learned]
        self.domains |= {row.domain: row for row in learned}

    def keep(self, plan: CrawlPlan, clock: Clock, at: float, *, last: bool) -> None:
        """As a job does it: now and then what changed, at the end everything."""
        now, utc = clock.monotonic(), clock.utc()
        registry, frontier = plan.frontier.registry, plan.frontier
        found = registry.learned(now, utc) if last else registry.changed(now, utc, force=False)
        learned = {row.domain: row for row in found}
        paces = [pace for pace in registry if last or pace.domain in learned]
        self.learn([rows.domain_row(pace, learned.get(pace.domain), utc, now) for pace in paces], at)
        for row in frontier.book.dump_changed():
            stored = self.robots.get(row.origin)
            self.robots[row.origin] = row if row.body is not None or stored is None else row._replace(body=stored.body)

    # -- out

    def crash(self, committed_until: float) -> None:
        """Only what was acknowledged is left, which is a beginning of what was handed over."""
        self.tasks, self.ended, self.deferred = {}, {}, set()
        self.table, self.listings = dict(self._table_before), {}
        self._learned = [(at, row) for at, row in self._learned if at <= committed_until]
        self.domains = {row.domain: row for _, row in self._learned}
        self.moved = set()
        kept, self._journal = [entry for entry in self._journal if entry.at <= committed_until], []
        for entry in kept:
            self.tasks |= {row.url: row for row in entry.accepted}
            for task, state in entry.ends:
                if state in ENDED:
                    self.ended[task] = state
            self.moved |= entry.moved
            self._keep_rows(entry)
        self.dead = False

    def begin_run(self) -> None:
        """Another process: what was handed back is to be done, and nobody has tried yet."""
        self.deferred.clear()
        self._tries.clear()
        self._refused_now.clear()  # no tasks, so another run finds it again
        self._down.clear()
        self._network_down = self._excused = False
        self.asked &= self.ended.keys()
        self.shelf = {url: row for url, row in self.tasks.items() if url not in self.ended}

    def begin_crawl(self) -> None:
        """Another crawl of the same table."""
        self.tasks, self.ended, self.asked, self.moved = {}, {}, set(), set()
        self._journal.clear()
        self._table_before = dict(self.table)

    def stored(self) -> set[str]:
        return {url for url, row in self.table.items() if row is not None}

    def claim(self, domain: str, count: int, now: float) -> list[Visit]:
        """As a store gives tasks out: breadth first, then by priority."""
        waiting = [row for row in self.shelf.values() if row.domain == domain]
        waiting.sort(key=lambda row: (row.depth, -row.priority))
        self._claimed_at |= dict.fromkeys((row.url for row in waiting[:count]), now)
        return [rows.visit_of(self.shelf.pop(row.url)) for row in waiting[:count]]
