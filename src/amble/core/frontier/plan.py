"""The crawl as decided, without a network: seeds in, visits out, answers in, rows and new visits out. Pure.

    seeds -> next_ready -> (fetch) -> settle -> finals, links -> next_ready ...

Settling an answer and queueing what it leads to is one step.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from amble.core.answer import Answer
from amble.core.frontier.changes import Changes, Fetched, Final, Finished, Keeps, Over, Ready, State, WaitUntil
from amble.core.frontier.following import Found, Inflow, lists
from amble.core.frontier.frontier import STOPPED, Frontier
from amble.core.frontier.hint import Hint
from amble.core.frontier.intake import Held, Intake, Seen
from amble.core.frontier.lane import Lane
from amble.core.frontier.outage import Fault
from amble.core.frontier.patience import NOBODYS, Patience, answer_of, leave_alone
from amble.core.frontier.presence import TRIES_MAX
from amble.core.frontier.recall import Leads, Recall
from amble.core.frontier.redirection import Redirection
from amble.core.frontier.redirects import REDIRECTS
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.tail import SLOW_S, Tail, is_trouble
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import LESSONS, Failure, Outcome, failure_of_status, found_nobody, lasts, speaks_of_url_alone
from amble.core.pacing.backoff import retry_at
from amble.core.pacing.bounds import Random
from amble.core.pacing.events import BlockOpened
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Permit
from amble.core.page.page import Page
from amble.core.robots.book import MISSED_WAIT_S
from amble.core.robots.policy import Policy
from amble.core.scope import Scope
from amble.core.seeds import Seed
from amble.core.sitemap.document import SitemapDocument
from amble.core.urls import origin_of

LOST = "every process that read it died"
ONCE_MORE_WAIT_S = 10.0  # names are looked up anew by then
Reading = Page | Policy | SitemapDocument | None
# Enum members by a plain name: looking them up in their class takes several times as long.
_ROBOTS, _SITEMAP, _PAGE = Kind
_DONE, _ALL = State.DONE, Keeps.ALL
_ANSWERED = Fault.ANSWERED
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
        self.tail = Tail(frontier, settings.max_tail)
        self.hint = Hint(frontier.book)
        self.redirection = Redirection(self)
        self.cancelled_because: str | None = None  # the job ends as cancelled

    # -- in

    def start(self, seeds: Iterable[Seed], now: float, utc: datetime) -> Changes:
        changes = Changes()
        seeds = list(seeds)
        for seed in seeds:
            discover = seed.names_site if self.settings.discover is None else self.settings.discover
            if discover:
                self.discovery.discover(seed.url, now, utc)
        self.take_seeds((Found(Visit(seed.url, task=seed.url)) for seed in seeds), now, utc, changes)
        return changes

    def next_ready(self, now: float, utc: datetime, changes: Changes) -> Ready | WaitUntil | Finished:
        if self.patience.inquiry.is_open:
            self.patience.conclude(now, utc, changes)
            self._settle_held(now, utc, changes)
        step = self.patience.next_ready(now, utc, changes)
        while self.put_off and isinstance(step, Finished) and not self.frontier.draining:
            self.take_put_off(now, utc, changes)
            step = self.patience.next_ready(now, utc, changes)
        return self.wait(step, now, utc, changes) if isinstance(step, WaitUntil) else step

    def wait(self, step: WaitUntil, now: float, utc: datetime, changes: Changes) -> WaitUntil:
        """Nothing is sent before `step`, if only because every place is taken. Domains that fail are not waited for
        without end; a network that does is."""
        if self.patience.outage.is_down:
            self.tail.stop_clock(now)
            return step
        return self.tail.look(step, now, utc, changes)

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
        changes = Changes()
        fault = self.patience.hear(ready, fetched, now, utc, changes)
        if fault is _ANSWERED or not self.patience.holds(ready, fetched, fault):
            self._settle(ready, fetched, fault, reading, now, utc, changes)
        self._settle_held(now, utc, changes)
        return changes

    def _settle_held(self, now: float, utc: datetime, changes: Changes) -> None:
        """Failures that waited until it was known whether they are the network's."""
        for held in self.patience.release():
            self._settle(held.ready, held.fetched, held.fault, None, now, utc, changes)

    def _settle(
        self, ready: Ready, fetched: Fetched, fault: Fault | None, reading: Reading, now: float, utc: datetime,
        changes: Changes,
    ) -> None:  # fmt: skip
        visit, permit = self.patience.outage.forgive(ready.visit), ready.permit
        frontier = self.frontier
        lane = frontier.landed(visit, permit)
        if fetched.status is not None and not lane.presence.has_answered(visit.url):
            lane.presence.answered(origin_of(visit.url))
        if fetched.stale and not visit.new_connection:
            self._repeat(visit, permit, lane, now, changes)
            return
        if fault is not _ANSWERED and self.patience.spares(visit, permit, lane, fault, now, utc, changes):
            return
        most_s = frontier.registry.settings.max_retry_after
        answer = answer_of(fetched, utc, most_s)
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
        if visit.asks_other_scheme:
            self._answer_hint(visit, lane, fetched, answer, reading, now, utc, changes)
            return
        self._watch(lane, failure, changes)
        trouble = failure is not None and is_trouble(failure)
        lane.fails = trouble and (lane.faltered or lane.pace.gap_s <= SLOW_S)
        lane.faltered = trouble
        if answer.retry_after_s is not None:
            lane.pause_until = max(lane.pause_until, now + answer.retry_after_s)
            if answer.retry_after_s >= most_s:
                lane.over = lane.over or leave_alone(lane, most_s, changes)
        was_trial = failure is not None and self._was_trial(visit, permit, lane, fetched, answer, now)
        nobody = failure is not None and self._found_nobody(visit, lane, fetched)
        if nobody and failure is not None:
            self._say_what_to_check(visit, lane, failure, fetched, now, changes)
        if kind is _ROBOTS:
            policy = reading if isinstance(reading, Policy) else None
            self.discovery.robots(visit, fetched, answer, policy, now, utc, changes, nobody=nobody)
            if nobody and frontier.book.tries_missing_twice and frontier.book.allows_some(visit.task):
                self._miss(visit, lane, failure or Failure.ROBOTS_UNREACHABLE, fetched, now, utc, changes)
        elif nobody and failure is not None and frontier.tries_missing_twice:
            self._miss(visit, lane, failure, fetched, now, utc, changes)
        elif failure is not None and self._retries(visit, failure, fetched, was_trial=was_trial):
            self._again(visit, lane, failure, fetched, now, was_trial=was_trial)
        elif kind is _SITEMAP:
            document = reading if isinstance(reading, SitemapDocument) else None
            own = self.discovery.sitemap(visit, fetched, failure, document, now, utc, changes)
            self.pour_in(Inflow(lists(own, visit, self.scope)), now, utc, changes)
        elif unchanged and failure is None:
            self.tail.delivered(lane.domain)
            frontier.await_store(Recall(visit, fetched=fetched))  # ends when its links are followed, which lie there
        elif status in REDIRECTS and fetched.failure is None:
            self.redirection.settle(visit, fetched, now, utc, changes)
        else:
            page = reading if isinstance(reading, Page) else None
            self._finish(visit, lane, fetched, failure, page, now, utc, changes)
        frontier.look_again(lane, now)

    def _repeat(self, visit: Visit, permit: Permit, lane: Lane, now: float, changes: Changes) -> None:
        """A kept connection broke before the first byte of an answer: nobody's failure, and the request is made good
        over a new one as soon as its domain may be asked (RFC 9110 9.2.2). What breaks there is the site's."""
        changes.events = (*changes.events, *lane.pace.settle(permit, NOBODYS, now))
        lane.push(visit.over_new_connection())
        self.frontier.look_again(lane, now)

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
                self.cancelled_because = self.cancelled_because or f"{lane.domain}: {reason}"

    def cancelled(self, ready: Ready, now: float, utc: datetime) -> Changes:
        """Nobody waits for this answer any more; the URL is handed back, or ends with its domain."""
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
            frontier.close_task(Final(visit, *(STOPPED if frontier.draining else lane.over or STOPPED)), changes)
        frontier.look_again(lane, now)
        return changes

    def lost(self, ready: Ready, now: float, utc: datetime) -> Changes:
        """Whoever made this visit died with it, perhaps because of it: tried again as often as a failure is [G1, G9].

        What was sent counts as sent; nobody learns anything from it.
        """
        visit, permit = ready
        changes, frontier = Changes(), self.frontier
        self.patience.inquiry.drop(permit)
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

    def _found_nobody(self, visit: Visit, lane: Lane, fetched: Fetched) -> bool:
        """Whether nobody was there, and never has been in this run: not where our proxy or this machine failed."""
        ours = fetched.proxy_fault or fetched.local_fault
        return not ours and found_nobody(fetched.failure, fetched.phase) and not lane.presence.has_answered(visit.url)

    def _say_what_to_check(
        self, visit: Visit, lane: Lane, failure: Failure, fetched: Fetched, now: float, changes: Changes
    ) -> None:
        frontier = self.frontier
        last = not (frontier.tries_missing_twice and frontier.book.tries_missing_twice)  # there may be no other
        probe = self.hint.nobody(visit.url, failure, fetched, now, changes, last=last)
        if probe is not None:
            lane.push(probe)

    def _answer_hint(
        self, visit: Visit, lane: Lane, fetched: Fetched, answer: Answer, reading: Reading, now: float, utc: datetime,
        changes: Changes,
    ) -> None:  # fmt: skip
        """The other scheme was asked for its robots.txt. If it has one it is heeded; nothing else follows from it."""
        self.hint.answered(visit, fetched, changes)
        if fetched.failure is None and fetched.status not in REDIRECTS:
            policy = reading if isinstance(reading, Policy) else None
            self.discovery.robots(visit, fetched, answer, policy, now, utc, changes, nobody=False)
        else:
            self.frontier.book.forget_ask(visit.task)
            self.frontier.release(visit.task, now, utc)
        self.frontier.look_again(lane, now)

    def _miss(
        self, visit: Visit, lane: Lane, failure: Failure, fetched: Fetched, now: float, utc: datetime, changes: Changes
    ) -> None:
        """Nobody is there. One more try some seconds later, for all URLs of the origin together; then it is over."""
        origin, kind = origin_of(visit.url), visit.kind
        tries = lane.presence.missed(origin)
        if tries < TRIES_MAX:
            lane.rest_until = max(lane.rest_until, now + MISSED_WAIT_S * (1.0 + self._random()))
            if kind is not _ROBOTS:
                lane.push(visit.again(new_name=True))
            return
        over = Over(State.FAILED, failure, f"{fetched.detail or failure.value}; tried {tries} times")
        lane.presence.end(origin, over)
        if kind is _PAGE:
            self._close(visit, *over, fetched, None, changes)
        elif kind is _SITEMAP:
            self.frontier.lose_sitemap(visit, failure, now, utc)
        self.discovery.end_all(origin, over, now, utc, changes)

    def _was_trial(
        self, visit: Visit, permit: Permit, lane: Lane, fetched: Fetched, answer: Answer, now: float
    ) -> bool:
        """Whether a failure costs its URL no try: it asked whether its site is back, as is done often where that has
        only just begun to fail. Of all requests for one URL no more than every second costs it none."""
        often = permit.probe and answer.retry_after_s is None and lane.pace.tries_often(now)
        return often and visit.spared < visit.attempt - 1 and not lasts(fetched.dns_error, fetched.untrusted)

    def _retries(self, visit: Visit, failure: Failure, fetched: Fetched, *, was_trial: bool) -> bool:
        wanted = LESSONS[failure].retried or fetched.status in self.settings.retry_statuses
        most = self.frontier.registry.settings.max_retries
        tries_left = visit.attempt <= (min(1, most) if lasts(fetched.dns_error, fetched.untrusted) else most)
        return wanted and (was_trial or tries_left)

    def _again(
        self, visit: Visit, lane: Lane, failure: Failure, fetched: Fetched, now: float, *, was_trial: bool
    ) -> None:
        run_at = lane.pace.not_before  # a limit: when the block ends, with no wait of the URL's own on top
        if lasts(fetched.dns_error, fetched.untrusted):
            run_at = max(run_at, now + ONCE_MORE_WAIT_S)
        elif LESSONS[failure].outcome is not Outcome.LIMITED:
            settings = self.frontier.registry.settings
            run_at = retry_at(min(visit.attempt, settings.max_retries), now, run_at, settings, self._random) or run_at
        new_name = failure is Failure.NETWORK_DNS_FAILURE
        lane.push_later(visit.after_trial(new_name=new_name) if was_trial else visit.again(new_name=new_name), run_at)

    def _finish(
        self, visit: Visit, lane: Lane, fetched: Fetched, failure: Failure | None, page: Page | None,
        now: float, utc: datetime, changes: Changes,
    ) -> None:  # fmt: skip
        if failure is None:
            final = self._final(visit, _DONE, None, fetched.detail, fetched, page)
            lane.failed_streak = 0
            self.tail.delivered(lane.domain)
            leads = Leads() if page is None else Leads.of(page)
            self.pour_in(Inflow(self.found_on(visit, leads), final), now, utc, changes)
        elif failure is Failure.ADDRESS_FORBIDDEN:
            # Says nothing about the domain: others could otherwise end it by linking to it.
            self._close(visit, State.SKIPPED, failure, fetched.detail, fetched, None, changes)
        elif failure is Failure.CONTENT_TYPE_REJECTED:  # by the user, who has no use for it
            self._close(visit, State.SKIPPED, failure, fetched.detail, fetched, None, changes)
        else:
            self._close(visit, State.FAILED, failure, fetched.detail, fetched, page, changes)
            if not speaks_of_url_alone(failure, fetched.status):
                self._count_failed(lane, failure)

    def _count_failed(self, lane: Lane, failure: Failure) -> None:
        """One more in a row. What is given up then was never asked for, and the next crawl asks for it."""
        lane.failed_streak += 1
        if lane.failed_streak >= self.settings.job_failure_threshold:
            reason = f"{lane.failed_streak} URLs of this domain failed in a row, the last with {failure}"
            lane.over = lane.over or Over(State.FAILED, Failure.DOMAIN_GIVEN_UP, reason)
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
