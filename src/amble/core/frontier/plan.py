"""The crawl as decided, without a network: seeds in, visits out, answers in, rows and new visits out. Pure.

    seeds -> next_ready -> (fetch) -> settle -> finals, links -> next_ready ...

Settling an answer and queueing what it leads to is one step.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from amble.core.answer import TELLING, Answer, read_answer
from amble.core.frontier.changes import Changes, Fetched, Final, Finished, Keeps, Ready, State, WaitUntil
from amble.core.frontier.following import Found, Inflow, lists
from amble.core.frontier.frontier import STOPPED, Frontier
from amble.core.frontier.intake import SLICE, Held, Intake, Seen
from amble.core.frontier.lane import Lane, Over
from amble.core.frontier.patience import Patience
from amble.core.frontier.recall import Leads, Recall
from amble.core.frontier.redirects import REDIRECTS, location_of, target_of
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import FoundBy, Kind, Visit
from amble.core.outcome import LESSONS, Failure, Outcome, failure_of_status, lasts
from amble.core.pacing.backoff import retry_at
from amble.core.pacing.bounds import Random
from amble.core.pacing.events import BlockOpened
from amble.core.pacing.pace import Pace
from amble.core.page.page import Page
from amble.core.robots.policy import Policy
from amble.core.scope import Scope
from amble.core.seeds import Seed
from amble.core.sitemap.document import SitemapDocument
from amble.core.urls import Refusal, domain_of, origin_of

LOST = "every process that read it died"
ONCE_MORE_WAIT_S = 10.0  # names are looked up anew by then
Reading = Page | Policy | SitemapDocument | None
# Enum members by a plain name: looking them up in their class takes several times as long.
_ROBOTS, _SITEMAP, _PAGE = Kind
_DONE, _ALL = State.DONE, Keeps.ALL
_NOINDEX = {"keep": Keeps.ALL, "drop_body": Keeps.ROW, "drop_row": Keeps.NOTHING}


class CrawlPlan(Intake):
    """One crawl. Everything it decides it returns; see `amble.crawl` for who acts on it."""

    def __init__(
        self,
        settings: VisitSettings,
        frontier: Frontier,
        scope: Scope,
        seen: Seen,
        random: Random,
        stored: Held = (),
    ) -> None:
        super().__init__(settings, frontier, scope, seen, stored)
        self._random = random
        self.patience = Patience(frontier, settings.domain_stall_timeout)

    # -- in

    def start(self, seeds: Iterable[Seed], now: float, utc: datetime) -> Changes:
        changes = Changes()
        seeds = list(seeds)
        for seed in seeds:
            discover = seed.names_site if self.settings.discover is None else self.settings.discover
            if discover:
                self.discovery.discover(seed.url, now, utc)
        for first in range(0, len(seeds), SLICE):
            part = seeds[first : first + SLICE]
            self.take_all([Found(Visit(seed.url, task=seed.url)) for seed in part], now, utc, changes)
        return changes

    def next_ready(self, now: float, utc: datetime, changes: Changes) -> Ready | WaitUntil | Finished:
        step = self.patience.next_ready(now, utc, changes)
        while self.put_off and isinstance(step, Finished) and not self.frontier.draining:
            self.take_put_off(now, utc, changes)
            step = self.patience.next_ready(now, utc, changes)
        return step

    # -- from other crawls of this process

    def settled_elsewhere(self, pace: Pace, now: float) -> None:
        """Another crawl that shares our paces settled something here, or left: our turn may have come."""
        lane = self.frontier.lanes.get(pace.domain)
        if lane is not None:
            if pace.success_streak:
                lane.stalled_since = None
            self.frontier.schedule(lane, now)
        self.frontier.look_at_neighbours(pace, now)

    def robots_known(self, origin: str, now: float, utc: datetime) -> None:
        """Another crawl has asked for a robots.txt, or gave up asking."""
        self.discovery.known(origin, now, utc)

    # -- an answer

    def settle(self, ready: Ready, fetched: Fetched, reading: Reading, now: float, utc: datetime) -> Changes:
        """Everything that one answer changes: the pace of its domain, its task, and what is visited next.

        `reading` is what its body says; of a robots.txt or a sitemap it may be left out, and is then read here.
        """
        visit, permit = self.patience.outage.forgive(ready.visit), ready.permit
        changes = Changes()
        frontier = self.frontier
        lane = frontier.landed(visit, permit)
        if self.patience.spares(visit, permit, lane, fetched, now, utc, changes):
            return changes
        answer = _answer(fetched, utc)
        events = lane.pace.settle(permit, answer, now)
        if events:
            changes.events = (*changes.events, *events)
        kind, status = visit.kind, fetched.status
        failure = fetched.failure or (failure_of_status(status) if status else None)
        if answer.challenge and failure in (None, Failure.HTTP_CLIENT_ERROR, Failure.HTTP_SERVER_ERROR):
            failure = Failure.BLOCKED_BY_BOT_PROTECTION
        unchanged = status == 304 and failure is None and kind is _PAGE
        if unchanged and not visit.is_conditional:
            failure = Failure.NETWORK_PROTOCOL_ERROR  # RFC 9110 15.4.5: nobody asked whether it had changed
        self._watch(lane, failure, changes)
        if kind is _ROBOTS:
            policy = reading if isinstance(reading, Policy) else None
            self.discovery.robots(visit, fetched, answer, policy, now, utc, changes)
        elif failure is not None and self._retries(visit, failure, fetched):
            self._again(visit, lane, failure, fetched, now)
        elif kind is _SITEMAP:
            document = reading if isinstance(reading, SitemapDocument) else None
            own = self.discovery.sitemap(visit, fetched, failure, document, now, utc, changes)
            self.pour_in(Inflow(lists(own, visit, self.scope)), now, utc, changes)
        elif unchanged and failure is None:
            frontier.await_store(Recall(visit, fetched=fetched))  # ends when its links are followed, which lie there
        elif status in REDIRECTS and fetched.failure is None:
            self._redirect(visit, fetched, now, utc, changes)
        else:
            page = reading if isinstance(reading, Page) else None
            self._finish(visit, lane, fetched, failure, page, now, utc, changes)
        frontier.look_again(lane, now)
        return changes

    def _watch(self, lane: Lane, failure: Failure | None, changes: Changes) -> None:
        """Count what goes wrong at a domain without a success in between."""
        if failure is not None:
            lane.last_failure = failure
        pace = lane.pace
        if pace.success_streak:
            lane.stalled_since, lane.limit_streak = None, 0
        elif any(isinstance(event, BlockOpened) for event in changes.events):  # one for each refusal that counts
            pause_s = max(pace.strategy.delay_s, pace.block.pause_s if pace.block else 0.0)
            at_cap = pause_s >= self.frontier.registry.settings.max_adaptive_delay
            lane.limit_streak = lane.limit_streak + 1 if at_cap else 0
            if lane.limit_streak == self.settings.cancel_on_limit_streak:
                reason = f"{lane.limit_streak} refusals in a row at the longest delay"
                lane.over = Over(State.DEFERRED, Failure.CANCELLED, reason)

    def cancelled(self, ready: Ready, now: float, utc: datetime) -> Changes:
        """Nobody waits for this answer any more; the URL is handed back."""
        visit, permit = ready
        changes = Changes()
        frontier = self.frontier
        lane = frontier.landed(visit, permit)
        changes.events = lane.pace.settle(permit, Answer(failure=Failure.CANCELLED), now)
        if visit.kind is Kind.ROBOTS:
            frontier.book.forget_ask(visit.task)
            frontier.release(visit.task, now, utc)
        elif visit.kind is Kind.SITEMAP:
            frontier.lose_sitemap(visit, Failure.CANCELLED, now, utc)
        else:
            frontier.close_task(Final(visit, *STOPPED), changes)
        frontier.look_again(lane, now)
        return changes

    def lost(self, ready: Ready, now: float, utc: datetime) -> Changes:
        """Whoever made this visit died with it, perhaps because of it: tried again as often as a failure is [G1, G9].

        What was sent counts as sent; nobody learns anything from it.
        """
        visit, permit = ready
        changes, frontier = Changes(), self.frontier
        lane = frontier.landed(visit, permit)
        changes.events = lane.pace.settle(permit, Answer(failure=Failure.CANCELLED), now)
        run_at = retry_at(visit.attempt, now, lane.pace.not_before, frontier.registry.settings, self._random)
        if run_at is not None and visit.kind is not Kind.ROBOTS:
            lane.push_later(visit.again(), run_at)
        else:  # a robots.txt counts as unreachable, and is asked for again as such
            frontier.end_visits([visit], Over(State.FAILED, Failure.CANCELLED, LOST), now, utc, changes)
        frontier.look_again(lane, now)
        return changes

    # -- pages

    def _redirect(self, visit: Visit, fetched: Fetched, now: float, utc: datetime, changes: Changes) -> None:
        """Every hop is a new request: through the gate, the scope, and then robots.txt and pace of its own host."""
        target = target_of(visit, fetched.headers)
        if isinstance(target, Refusal):
            nowhere = location_of(fetched.headers) is None
            failure = Failure.NETWORK_PROTOCOL_ERROR if nowhere else Failure.OUT_OF_SCOPE
            self._close(visit, State.FAILED, failure, f"redirect: {target.why}", fetched, None, changes)
        elif len(visit.trail) >= self.settings.max_redirects or target in visit.trail or target == visit.url:
            self._close(visit, State.FAILED, Failure.TOO_MANY_REDIRECTS, target, fetched, None, changes)
        elif (out := self._out(visit, target)) is not None:
            self._close(visit, State.SKIPPED, Failure.OUT_OF_SCOPE, f"redirect: {out}", fetched, None, changes)
        else:
            hop = visit.redirected_to(target, domain_of(visit.url))
            self._move_home(visit, target, now, utc)
            if target in self.stored and not visit.stored:  # it is there, and leads on from there
                found = hop._replace(task=target, trail=())
                self.take(Found(found), now, utc, changes)
                new = False
            else:
                new = self.seen.add(target) or visit.found_by is FoundBy.SEED
            if new:
                self.frontier.add(hop, now, utc)
            else:  # a hundred links that lead to one login page ask for it once
                self._close(hop, State.DONE, None, "redirect: the target has a row of its own", fetched, None, changes)

    def _out(self, visit: Visit, target: str) -> str | None:
        """Why a redirect is not followed, or None: to another domain it counts as a page of that one [D3]."""
        out = self.scope.judge(target)
        if out is not None:
            return out.value
        frontier, most = self.frontier, self.settings.max_pages_per_domain
        domain = frontier.key_of(target)
        if most is not None and domain != frontier.key_of(visit.url):
            if frontier.pages.get(domain, 0) >= most:
                return "max_pages_per_domain"
            frontier.pages[domain] = frontier.pages.get(domain, 0) + 1
        return None

    def _move_home(self, visit: Visit, target: str, now: float, utc: datetime) -> None:
        """A site typed as example.com often lives at www.example.com: then that is where its sitemaps are."""
        if visit.found_by is FoundBy.SEED and self.frontier.has_sitemaps(origin_of(visit.url)) is False:
            self.discovery.discover(target, now, utc)

    def _retries(self, visit: Visit, failure: Failure, fetched: Fetched) -> bool:
        wanted = LESSONS[failure].retried or fetched.status in self.settings.retry_statuses
        most = self.frontier.registry.settings.max_retries
        return wanted and visit.attempt <= (min(1, most) if lasts(fetched.dns_error, fetched.untrusted) else most)

    def _again(self, visit: Visit, lane: Lane, failure: Failure, fetched: Fetched, now: float) -> None:
        run_at = lane.pace.not_before  # a limit: when the block ends, with no wait of the URL's own on top
        if lasts(fetched.dns_error, fetched.untrusted):
            run_at = max(run_at, now + ONCE_MORE_WAIT_S)
        elif LESSONS[failure].outcome is not Outcome.LIMITED:
            run_at = retry_at(visit.attempt, now, run_at, self.frontier.registry.settings, self._random) or run_at
        lane.push_later(visit.again(), run_at)

    def _finish(
        self, visit: Visit, lane: Lane, fetched: Fetched, failure: Failure | None, page: Page | None,
        now: float, utc: datetime, changes: Changes,
    ) -> None:  # fmt: skip
        if failure is None:
            final = self._final(visit, _DONE, None, fetched.detail, fetched, page)
            lane.failed_streak = 0
            leads = Leads() if page is None else Leads.of(page)
            self.pour_in(Inflow(self.found_on(visit, leads), final), now, utc, changes)
        elif failure is Failure.ADDRESS_FORBIDDEN:
            # Says nothing about the domain: others could otherwise end it by linking to it.
            self._close(visit, State.SKIPPED, failure, fetched.detail, fetched, None, changes)
        else:
            self._close(visit, State.FAILED, failure, fetched.detail, fetched, page, changes)
            lane.failed_streak += 1
            if lane.failed_streak >= self.settings.job_failure_threshold:
                reason = f"{lane.failed_streak} URLs of this domain failed in a row"
                lane.over = lane.over or Over(State.FAILED, failure, reason)
                self.frontier.given_up.add(lane.domain)

    def _close(
        self, visit: Visit, state: State, failure: Failure | None, reason: str,
        fetched: Fetched | None, page: Page | None, changes: Changes,
    ) -> None:  # fmt: skip
        self.frontier.close_task(self._final(visit, state, failure, reason, fetched, page), changes)

    def _final(
        self, visit: Visit, state: State, failure: Failure | None, reason: str, fetched: Fetched | None,
        page: Page | None,
    ) -> Final:  # fmt: skip
        keeps = _NOINDEX[self.settings.noindex] if page is not None and page.robots.noindex else _ALL
        return Final(visit, state, failure, reason, fetched, page, keeps)


def _answer(fetched: Fetched, utc: datetime) -> Answer:
    """What the pace may learn. A fault of our proxy or of this machine says nothing about the site."""
    if fetched.proxy_fault or fetched.local_fault:
        return Answer(failure=Failure.CANCELLED)
    status, failure, headers, elapsed_s = fetched.status, fetched.failure, fetched.headers, fetched.ttfb_s
    if elapsed_s is None:
        elapsed_s = fetched.elapsed_s
    if not headers.has_any(TELLING):
        return Answer(status, failure, elapsed_s)  # nearly every answer
    return read_answer(status=status, headers=headers, failure=failure, elapsed_s=elapsed_s, utc=utc)
