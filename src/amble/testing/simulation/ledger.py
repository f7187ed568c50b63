"""The store of a simulated crawl: what was handed over, what of it was acknowledged, and whether the books balance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from amble.core.frontier.changes import Changes, Final, Ready, State
from amble.core.frontier.plan import CrawlPlan
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.robots.verdict import RobotsRow
from amble.fetcher import FetchResult
from amble.jobs import rows
from amble.settings import Settings
from amble.store.seam import DomainRow, TaskRow

Fail = Callable[[str, str], None]
NOT_TRIED_AGAIN = frozenset(
    {Failure.CONTENT_TOO_LARGE, Failure.CONTENT_TYPE_REJECTED, Failure.CONTENT_DECODE_ERROR, Failure.ADDRESS_FORBIDDEN}
)
ENDED = frozenset({State.DONE, State.FAILED, State.SKIPPED})


@dataclass(slots=True)
class Ledger:
    """L1, L2, L3: every accepted URL ends exactly once, in a way that is known, with the body that was served."""

    settings: Settings
    fail: Fail
    hits: Counter[str]
    say: Callable[[str], None]
    tasks: dict[str, TaskRow] = field(default_factory=dict)
    ended: dict[str, State] = field(default_factory=dict)
    deferred: set[str] = field(default_factory=set)
    domains: dict[str, DomainRow] = field(default_factory=dict)
    robots: dict[str, RobotsRow] = field(default_factory=dict)
    dead: bool = False  # the process is gone: nothing more is heard of it
    _journal: list[tuple[float, list[TaskRow], list[tuple[str, State]]]] = field(default_factory=list)
    _tries: dict[tuple[str, str, int], tuple[int, bool]] = field(default_factory=dict)

    # -- in

    def take(self, changes: Changes, ready: Ready | None, result: FetchResult | None, now: float) -> None:
        if ready is not None and result is not None and ready.visit.kind is Kind.PAGE:
            self._check_try(ready.visit, result)
        accepted = [rows.task_row(visit, 1) for visit in changes.accepted]
        for row in accepted:
            if row.url in self.tasks:
                self.fail("L1", f"{row.url} accepted twice")
            self.tasks[row.url] = row
        most = self.settings.visiting.max_crawl_pages
        if most is not None and len(self.tasks) > most:
            self.fail("L1", f"{len(self.tasks)} URLs accepted, {most} wanted")
        for final in changes.finals:
            self._check_final(final)
        self._journal.append((now, accepted, [(final.visit.task, final.state) for final in changes.finals]))
        for reason, count in changes.left_out.items():
            self.hits[f"left out: {reason}"] += count
        for event in changes.events:
            self.hits[type(event).__name__] += 1
            self.say(repr(event))

    def _check_try(self, visit: Visit, result: FetchResult) -> None:
        """Only what may pass is tried again, and not too often."""
        key = (visit.task, visit.url, len(visit.trail))
        tries, passes = self._tries.get(key, (0, True))
        if not passes:
            self.fail("L3", f"{visit.url} asked for again after its answer")
        if tries > self.settings.pacing.max_retries:
            self.fail("L1", f"{visit.url} asked for {tries + 1} times")
        self._tries[key] = (tries + 1, self._passes(result))

    def _passes(self, result: FetchResult) -> bool:
        """L3: 429, 5xx, a challenge and what happens to the network; nothing else, unless it was asked for."""
        if result.failure is not None:
            return result.failure not in NOT_TRIED_AGAIN
        status = result.status or 0
        wanted = status == 429 or status >= 500 or status in self.settings.visiting.retry_statuses
        return wanted or result.headers.get("cf-mitigated") is not None

    def _check_final(self, final: Final) -> None:
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
        if (final.state is State.DONE) != (failure is None) or not isinstance(failure, Failure | None):
            self.fail("L3", f"{task} ended {final.state} with {failure!r}")
        if isinstance(final.fetched, FetchResult) and final.page is not None and final.fetched.url != visit.url:
            self.fail("L2", f"{task} ended with the page of {final.fetched.url}")
        if visit.attempt > 1 + self.settings.pacing.max_retries:
            self.fail("L1", f"{task} needed {visit.attempt} attempts")
        if len(visit.trail) > self.settings.visiting.max_redirects + (final.reason.startswith("redirect:")):
            self.fail("L4", f"{task} was followed over {len(visit.trail)} redirects")

    def balance(self, plan: CrawlPlan) -> None:
        """accepted = queued + under way + deferred + final, by counting what is really there."""
        frontier = plan.frontier
        queued = sum(visit.kind is Kind.PAGE for lane in frontier.lanes.values() for visit in lane.visits())
        if frontier.accepted != queued + frontier.pages_under_way + frontier.deferred + frontier.final:
            self.fail("L1", f"{frontier.accepted} accepted, {queued} queued, {frontier.final} final")
        if frontier.queued != queued:
            self.fail("L1", f"{queued} queued, not {frontier.queued}")
        open_tasks = len(self.tasks) - len(self.ended) - len(self.deferred)
        if open_tasks != queued + frontier.pages_under_way:
            self.fail("L1", f"{open_tasks} tasks are open, {queued} queued, {frontier.pages_under_way} under way")

    # -- what was learned

    def keep(self, plan: CrawlPlan, now: float, utc: datetime, *, last: bool) -> None:
        """As a job does it: now and then what changed, at the end everything."""
        registry, frontier = plan.frontier.registry, plan.frontier
        found = registry.learned(now, utc) if last else registry.changed(now, utc, force=False)
        learned = {row.domain: row for row in found}
        paces = [lane.pace for lane in frontier.lanes.values() if last or lane.pace.domain in learned]
        for pace in paces:
            self.domains[pace.domain] = rows.domain_row(pace, learned.get(pace.domain), utc, now)
        for row in frontier.book.dump_changed():
            stored = self.robots.get(row.origin)
            self.robots[row.origin] = row if row.body is not None or stored is None else row._replace(body=stored.body)

    # -- out

    def crash(self, committed_until: float) -> None:
        """Only what was acknowledged is left, which is a beginning of what was handed over."""
        self.tasks, self.ended, self.deferred = {}, {}, set()
        self._journal = [entry for entry in self._journal if entry[0] <= committed_until]
        for _, accepted, ends in self._journal:
            self.tasks |= {row.url: row for row in accepted}
            for task, state in ends:
                if state in ENDED:
                    self.ended[task] = state
        self.dead = False

    def begin_run(self) -> None:
        """Another process: what was handed back is to be done, and nobody has tried yet."""
        self.deferred.clear()
        self._tries.clear()

    def open_tasks(self) -> list[Visit]:
        return [rows.visit_of(row) for url, row in self.tasks.items() if url not in self.ended]
