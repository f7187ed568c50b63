"""The crawl as decided, without a network: seeds in, visits out, answers in, rows and new visits out. Pure.

    seeds -> next_ready -> (fetch) -> settle -> finals, links -> next_ready ...

Settling an answer and queueing what it leads to is one step.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from amble.core.answer import Answer, read_answer
from amble.core.frontier.changes import Changes, Fetched, Final, Finished, Keeps, Ready, State, WaitUntil
from amble.core.frontier.discovery import Discovery
from amble.core.frontier.frontier import STOPPED, Frontier
from amble.core.frontier.lane import Lane, Over
from amble.core.frontier.redirects import REDIRECTS, location_of, target_of
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import FoundBy, Kind, Visit
from amble.core.outcome import LESSONS, Failure, Outcome, failure_of_status
from amble.core.pacing.backoff import retry_at
from amble.core.pacing.bounds import Random
from amble.core.pacing.events import BlockOpened
from amble.core.page.page import Page
from amble.core.scope import OutOfScope, Scope
from amble.core.seeds import Seed
from amble.core.sitemap.document import SitemapEntry
from amble.core.urls import Refusal, domain_of, origin_of

ONCE_MORE_WAIT_S = 10.0  # names are looked up anew by then
_NOINDEX = {"keep": Keeps.ALL, "drop_body": Keeps.ROW, "drop_row": Keeps.NOTHING}


class Seen(Protocol):
    """URLs met before."""

    def add(self, url: str) -> bool:
        """Whether this one is new."""


class CrawlPlan:
    """One crawl. Everything it decides it returns; see `amble.crawl` for who acts on it."""

    def __init__(self, settings: VisitSettings, frontier: Frontier, scope: Scope, seen: Seen, random: Random) -> None:
        self.settings = settings
        self.frontier = frontier
        self.scope = scope
        self._seen = seen
        self._random = random
        self._discovery = Discovery(settings, frontier)

    # -- in

    def start(self, seeds: Iterable[Seed], now: float, utc: datetime) -> Changes:
        changes = Changes()
        for seed in seeds:
            discover = seed.names_site if self.settings.discover is None else self.settings.discover
            if discover:
                self._discovery.discover(seed.url, now, utc)
            self._accept(Visit(seed.url, task=seed.url), now, utc, changes)
        return changes

    def resume(self, visits: Iterable[Visit], now: float, utc: datetime) -> None:
        """Go on with tasks that an earlier run accepted and did not finish."""
        self.frontier.resumed_at = now
        for visit in visits:
            self._seen.add(visit.task)
            self.frontier.accepted += visit.attempt > 1 or bool(visit.trail)  # `add` counts the others
            self.frontier.add(visit, now, utc)

    def next_ready(self, now: float, utc: datetime, changes: Changes) -> Ready | WaitUntil | Finished:
        return self.frontier.next_ready(now, utc, changes)

    # -- an answer

    def settle(self, ready: Ready, fetched: Fetched, page: Page | None, now: float, utc: datetime) -> Changes:
        """Everything that one answer changes: the pace of its domain, its task, and what is visited next."""
        visit, permit = ready
        changes = Changes()
        frontier = self.frontier
        lane = frontier.lane(visit.url, now, utc)
        frontier.landed(visit, lane)
        answer = _answer(fetched, utc)
        changes.events = lane.pace.settle(permit, answer, now)
        failure = fetched.failure or (failure_of_status(fetched.status) if fetched.status else None)
        if answer.challenge and failure in (None, Failure.HTTP_CLIENT_ERROR, Failure.HTTP_SERVER_ERROR):
            failure = Failure.BLOCKED_BY_BOT_PROTECTION
        self._watch(lane, failure, changes)
        if visit.kind is Kind.ROBOTS:
            self._discovery.robots(visit, fetched, answer, now, utc, changes)
        elif failure is not None and self._retries(visit, failure, fetched):
            self._again(visit, lane, failure, fetched, now)
        elif visit.kind is Kind.SITEMAP:
            for entry in self._discovery.sitemap(visit, fetched, failure, now, utc):
                self._take_entry(entry, visit, now, utc, changes)
        elif fetched.status in REDIRECTS and fetched.failure is None:
            self._redirect(visit, fetched, now, utc, changes)
        else:
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
        lane = frontier.lane(visit.url, now, utc)
        frontier.landed(visit, lane)
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

    # -- sitemaps

    def _take_entry(self, entry: SitemapEntry, visit: Visit, now: float, utc: datetime, changes: Changes) -> None:
        reason = self.scope.judge(entry.url)
        if reason is not None:
            changes.leave_out(reason.value)
            return
        priority = 0.5 if entry.priority is None else entry.priority
        self._accept(
            Visit(entry.url, task=entry.url, parent=visit.url, found_by=FoundBy.SITEMAP, priority=priority,
                  found_on=domain_of(visit.url)),
            now, utc, changes,
        )  # fmt: skip

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
        elif (out := self._out(visit, target, now, utc)) is not None:
            self._close(visit, State.SKIPPED, Failure.OUT_OF_SCOPE, f"redirect: {out}", fetched, None, changes)
        else:
            new = self._seen.add(target)
            hop = visit.redirected_to(target, domain_of(visit.url))
            if new or visit.found_by is FoundBy.SEED:
                self._move_home(visit, target, now, utc)
                self.frontier.add(hop, now, utc)
            else:  # a hundred links that lead to one login page ask for it once
                self._close(hop, State.DONE, None, "redirect: the target has a row of its own", fetched, None, changes)

    def _out(self, visit: Visit, target: str, now: float, utc: datetime) -> str | None:
        """Why a redirect is not followed, or None: to another domain it counts as a page of that one [D3]."""
        out = self.scope.judge(target)
        if out is not None:
            return out.value
        lane, most = self.frontier.lane(target, now, utc), self.settings.max_pages_per_domain
        if lane is not self.frontier.lane(visit.url, now, utc):
            if most is not None and lane.pages >= most:
                return "max_pages_per_domain"
            lane.pages += 1
        return None

    def _move_home(self, visit: Visit, target: str, now: float, utc: datetime) -> None:
        """A site typed as example.com often lives at www.example.com: then that is where its sitemaps are."""
        walk = self.frontier.walk_of(origin_of(visit.url), now, utc)
        if visit.found_by is FoundBy.SEED and walk is not None and not walk.found:
            self._discovery.discover(target, now, utc)

    def _retries(self, visit: Visit, failure: Failure, fetched: Fetched) -> bool:
        wanted = LESSONS[failure].retried or fetched.status in self.settings.retry_statuses
        most = self.frontier.registry.settings.max_retries
        return wanted and visit.attempt <= (min(1, most) if _lasts(failure, fetched) else most)

    def _again(self, visit: Visit, lane: Lane, failure: Failure, fetched: Fetched, now: float) -> None:
        run_at = lane.pace.not_before  # a limit: when the block ends, with no wait of the URL's own on top
        if _lasts(failure, fetched):
            run_at = max(run_at, now + ONCE_MORE_WAIT_S)
        elif LESSONS[failure].outcome is not Outcome.LIMITED:
            run_at = retry_at(visit.attempt, now, run_at, self.frontier.registry.settings, self._random) or run_at
        lane.push_later(visit.again(), run_at)

    def _finish(
        self, visit: Visit, lane: Lane, fetched: Fetched, failure: Failure | None, page: Page | None,
        now: float, utc: datetime, changes: Changes,
    ) -> None:  # fmt: skip
        if failure is None:
            self._close(visit, State.DONE, None, fetched.detail, fetched, page, changes)
            lane.failed_streak = 0
            if page is not None:
                self._follow(visit, page, now, utc, changes)
        elif failure is Failure.ADDRESS_FORBIDDEN:
            # Says nothing about the domain: others could otherwise end it by linking to it.
            self._close(visit, State.SKIPPED, failure, fetched.detail, fetched, None, changes)
        else:
            self._close(visit, State.FAILED, failure, fetched.detail, fetched, page, changes)
            lane.failed_streak += 1
            if lane.failed_streak >= self.settings.job_failure_threshold:
                reason = f"{lane.failed_streak} URLs of this domain failed in a row"
                lane.over = lane.over or Over(State.FAILED, failure, reason)

    def _follow(self, visit: Visit, page: Page, now: float, utc: datetime, changes: Changes) -> None:
        """Queue what a page leads to. What is left out is counted by reason."""
        depth, found_on = visit.depth + 1, domain_of(visit.url)
        if page.canonical is not None and self.settings.follow_canonical:
            url = page.canonical.url
            found = Visit(url, depth=visit.depth, task=url, parent=visit.task, found_by=FoundBy.CANONICAL,
                          found_on=found_on)  # fmt: skip
            self._link(found, self.scope.judge_canonical(url, visit.url), now, utc, changes)
        if not self._follows(visit, now, utc):
            return
        if page.robots.nofollow and self.settings.respect_nofollow:
            changes.leave_out("nofollow")
            return
        if page.refresh is not None:  # a redirect that waits: no step deeper than the page that has it [C9]
            found = Visit(page.refresh.url, depth=visit.depth, task=page.refresh.url, parent=visit.task,
                          found_by=FoundBy.LINK, found_on=found_on)  # fmt: skip
            self._link(found, self.scope.judge(page.refresh.url), now, utc, changes)
        for link in page.links:
            if link.nofollow and self.settings.respect_nofollow:
                changes.leave_out("nofollow")
                continue
            found = Visit(link.url, depth=depth, task=link.url, parent=visit.task, found_by=FoundBy.LINK,
                          found_on=found_on)  # fmt: skip
            self._link(found, self.scope.judge_link(link.url, depth), now, utc, changes)

    def _follows(self, visit: Visit, now: float, utc: datetime) -> bool:
        if self.settings.follow_links != "auto":
            return bool(self.settings.follow_links)
        walk = self.frontier.walk_of(origin_of(visit.url), now, utc)
        # Where nobody looked for sitemaps: what was found by following links is followed further.
        return visit.found_by is FoundBy.LINK if walk is None else not walk.found

    def _link(self, visit: Visit, out: OutOfScope | None, now: float, utc: datetime, changes: Changes) -> None:
        if out is not None:
            changes.leave_out(out.value)
        else:
            self._accept(visit, now, utc, changes)

    def _accept(self, visit: Visit, now: float, utc: datetime, changes: Changes) -> None:
        """One URL becomes a task, unless it is one already or the budget is spent."""
        if not self._seen.add(visit.task):
            return
        lane = self.frontier.lane(visit.url, now, utc)
        per_domain, overall = self.settings.max_pages_per_domain, self.settings.max_crawl_pages
        if overall is not None and self.frontier.accepted >= overall:
            changes.leave_out("max_crawl_pages")
        elif per_domain is not None and lane.pages >= per_domain:
            changes.leave_out("max_pages_per_domain")
        else:
            lane.pages += 1
            self.frontier.add(visit, now, utc)
            changes.accepted.append(visit)

    def _close(
        self, visit: Visit, state: State, failure: Failure | None, reason: str,
        fetched: Fetched | None, page: Page | None, changes: Changes,
    ) -> None:  # fmt: skip
        keeps = _NOINDEX[self.settings.noindex] if page is not None and page.robots.noindex else Keeps.ALL
        self.frontier.close_task(Final(visit, state, failure, reason, fetched, page, keeps), changes)


def _answer(fetched: Fetched, utc: datetime) -> Answer:
    """What the pace may learn. A fault of our proxy or of this machine says nothing about the site."""
    if fetched.proxy_fault or fetched.local_fault:
        return Answer(failure=Failure.CANCELLED)
    elapsed_s = fetched.ttfb_s if fetched.ttfb_s is not None else fetched.elapsed_s
    return read_answer(
        status=fetched.status, headers=tuple(fetched.headers), failure=fetched.failure, elapsed_s=elapsed_s, utc=utc
    )


def _lasts(failure: Failure, fetched: Fetched) -> bool:
    """Whether trying again soon is no use: the name does not exist, or the certificate is another's."""
    return failure is Failure.NETWORK_TLS_ERROR or fetched.dns_error == "no_such_name"
