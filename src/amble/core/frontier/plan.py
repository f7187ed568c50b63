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
from amble.core.frontier.frontier import Frontier, robots_visit
from amble.core.frontier.lane import Lane
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import FoundBy, Kind, Visit
from amble.core.outcome import LESSONS, Failure, Outcome, failure_of_status
from amble.core.pacing.backoff import retry_at
from amble.core.pacing.bounds import Random
from amble.core.page.page import Page
from amble.core.robots.policy import RobotsAnswer
from amble.core.scope import OutOfScope, Scope
from amble.core.seeds import Seed
from amble.core.sitemap.document import SitemapEntry
from amble.core.sitemap.read import read_sitemap
from amble.core.sitemap.walk import SitemapWalk
from amble.core.urls import Refusal, domain_of, normalize, origin_of

REDIRECTS = frozenset({301, 302, 303, 307, 308})
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
        self._to_discover: set[str] = set()  # origins whose sitemaps are looked for once their robots.txt is known

    # -- in

    def start(self, seeds: Iterable[Seed], now: float, utc: datetime) -> Changes:
        changes = Changes()
        for seed in seeds:
            discover = seed.names_site if self.settings.discover is None else self.settings.discover
            if discover:
                self._discover(seed.url, now, utc)
            self._accept(Visit(seed.url, task=seed.url), now, utc, changes)
        return changes

    def resume(self, visits: Iterable[Visit], now: float, utc: datetime) -> None:
        """Go on with tasks that an earlier run accepted and did not finish."""
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
        if visit.kind is Kind.ROBOTS:
            self._robots(visit, fetched, answer, now, utc)
        elif failure is not None and self._retries(visit, failure, fetched):
            self._again(visit, lane, failure, now)
        elif visit.kind is Kind.SITEMAP:
            self._sitemap(visit, fetched, failure, now, utc, changes)
        elif fetched.status in REDIRECTS and fetched.failure is None:
            self._redirect(visit, fetched, now, utc, changes)
        else:
            self._finish(visit, lane, fetched, failure, page, now, utc, changes)
        frontier.schedule(lane, now)
        return changes

    def cancelled(self, ready: Ready, now: float, utc: datetime) -> Changes:
        """Nobody waits for this answer any more; the URL is handed back."""
        visit, permit = ready
        changes = Changes()
        lane = self.frontier.lane(visit.url, now, utc)
        self.frontier.landed(visit, lane)
        changes.events = lane.pace.settle(permit, Answer(failure=Failure.CANCELLED), now)
        if visit.kind is Kind.ROBOTS:
            self.frontier.book.forget_ask(visit.task)
        self.frontier.end(visit, State.DEFERRED, Failure.CANCELLED, "stopped", changes)
        self.frontier.schedule(lane, now)
        return changes

    # -- robots.txt and sitemaps

    def _robots(self, visit: Visit, fetched: Fetched, answer: Answer, now: float, utc: datetime) -> None:
        book, origin = self.frontier.book, visit.task
        if fetched.status in REDIRECTS and fetched.failure is None:
            ask = book.redirected(origin, fetched.headers.get("location"), now)
            if ask is not None:
                self.frontier.add(robots_visit(ask), now, utc)
                return
        else:
            book.learn(
                origin,
                RobotsAnswer(
                    status=fetched.status,
                    failure=fetched.failure,
                    body=fetched.body,
                    etag=fetched.headers.get("etag"),
                    last_modified=fetched.headers.get("last-modified"),
                    retry_after_s=answer.retry_after_s,
                    fetched_at=utc,
                ),
                now,
            )
        self._walk(origin, now, utc)
        self.frontier.release(origin, now, utc)

    def _discover(self, url: str, now: float, utc: datetime) -> None:
        """Look for the sitemaps of a site, once; which ones to look for is known when its robots.txt is."""
        origin, book = origin_of(url), self.frontier.book
        lane = self.frontier.lane(url, now, utc)
        if lane.walk is None and origin not in self._to_discover:
            self._to_discover.add(origin)
            if book.knows(origin) or not book.settings.respect_robots_txt:
                self._walk(origin, now, utc)

    def _walk(self, origin: str, now: float, utc: datetime) -> None:
        if origin in self._to_discover:
            self._to_discover.discard(origin)
            lane = self.frontier.lane(origin, now, utc)
            lane.walk = SitemapWalk(origin, self.frontier.book.sitemaps(origin))
            self.frontier.walk_on(origin, now, utc)

    def _sitemap(
        self, visit: Visit, fetched: Fetched, failure: Failure | None, now: float, utc: datetime, changes: Changes
    ) -> None:
        lane = self.frontier.lane(visit.task, now, utc)
        walk = lane.walk
        if walk is None:
            return
        first = visit.first_url
        if fetched.status in REDIRECTS and fetched.failure is None:
            target = normalize(fetched.headers.get("location") or "", visit.url)
            if (
                isinstance(target, str)
                and len(visit.trail) < self.settings.max_redirects
                and walk.redirected(first, target)
            ):
                self.frontier.add(visit.redirected_to(target, domain_of(visit.url)), now, utc)
                return
            if isinstance(target, Refusal) or len(visit.trail) >= self.settings.max_redirects:
                walk.failed(first, "redirect")
        elif failure is not None or fetched.body is None:
            walk.failed(first, str(failure or "no body"))
        else:
            for entry in walk.settle(first, read_sitemap(fetched.body, visit.url)):
                self._take_entry(entry, visit, now, utc, changes)
        self.frontier.walk_on(visit.task, now, utc)

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
        target = normalize(fetched.headers.get("location") or "", visit.url)
        if isinstance(target, Refusal):
            self._close(visit, State.FAILED, Failure.OUT_OF_SCOPE, f"redirect to {target.why}", fetched, None, changes)
        elif len(visit.trail) >= self.settings.max_redirects or target in visit.trail or target == visit.url:
            self._close(visit, State.FAILED, Failure.TOO_MANY_REDIRECTS, target, fetched, None, changes)
        elif (out := self.scope.judge(target)) is not None:
            self._close(visit, State.SKIPPED, Failure.OUT_OF_SCOPE, f"redirect: {out.value}", fetched, None, changes)
        else:
            self._seen.add(target)
            self.frontier.add(visit.redirected_to(target, domain_of(visit.url)), now, utc)

    def _retries(self, visit: Visit, failure: Failure, fetched: Fetched) -> bool:
        wanted = LESSONS[failure].retried or fetched.status in self.settings.retry_statuses
        return wanted and visit.attempt <= self.frontier.registry.settings.max_retries

    def _again(self, visit: Visit, lane: Lane, failure: Failure, now: float) -> None:
        run_at = lane.pace.not_before  # a limit: when the block ends, with no wait of the URL's own on top
        if LESSONS[failure].outcome is not Outcome.LIMITED:
            run_at = retry_at(visit.attempt, now, run_at, self.frontier.registry.settings, self._random) or run_at
        lane.push_later(visit.again(), run_at)

    def _finish(
        self, visit: Visit, lane: Lane, fetched: Fetched, failure: Failure | None, page: Page | None,
        now: float, utc: datetime, changes: Changes,
    ) -> None:  # fmt: skip
        state = State.DONE if failure is None else State.FAILED
        self._close(visit, state, failure, fetched.detail, fetched, page, changes)
        if state is State.DONE:
            lane.failed_streak = 0
            if page is not None:
                self._follow(visit, page, now, utc, changes)
            return
        lane.failed_streak += 1
        if lane.failed_streak >= self.settings.job_failure_threshold:
            reason = f"{lane.failed_streak} URLs of this domain failed in a row"
            self.frontier.end_lane(lane, State.FAILED, failure or Failure.CANCELLED, reason, changes)

    def _follow(self, visit: Visit, page: Page, now: float, utc: datetime, changes: Changes) -> None:
        """Queue what a page leads to. What is left out is counted by reason."""
        if not self._follows(visit, now, utc):
            return
        if page.robots.nofollow and self.settings.respect_nofollow:
            changes.leave_out("nofollow")
            return
        depth, found_on = visit.depth + 1, domain_of(visit.url)
        if page.canonical is not None and self.settings.follow_canonical:
            self._link(Visit(page.canonical.url, depth=visit.depth, task=page.canonical.url, parent=visit.task,
                             found_by=FoundBy.CANONICAL, found_on=found_on),
                       self.scope.judge_canonical(page.canonical.url, visit.url), now, utc, changes)  # fmt: skip
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
        walk = self.frontier.lane(visit.url, now, utc).walk
        return walk is not None and not walk.found

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
