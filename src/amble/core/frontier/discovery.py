"""What is visited for the sake of a site before its pages: its robots.txt, and its sitemaps if it has any. Pure."""

from __future__ import annotations

from datetime import datetime

from amble.core.answer import Answer
from amble.core.frontier.changes import Changes, Fetched, Listing, Over, State
from amble.core.frontier.frontier import Frontier
from amble.core.frontier.redirects import REDIRECTS, is_private, location_of, target_of
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure, lasts, speaks_of_url_alone
from amble.core.pacing.events import RobotsMissed
from amble.core.robots.policy import Policy, RobotsAnswer
from amble.core.robots.verdict import Refused
from amble.core.sitemap.document import SitemapDocument, SitemapEntry, SitemapKind
from amble.core.sitemap.read import read_sitemap
from amble.core.sitemap.walk import SITEMAP_INVALID, SitemapWalk
from amble.core.urls import Refusal, domain_of, origin_of


class Discovery:
    """What one crawl finds out about its sites. Both kinds of visit wait for the pace of the host they lie at."""

    def __init__(self, settings: VisitSettings, frontier: Frontier) -> None:
        self.settings = settings
        self.frontier = frontier
        self._to_discover: set[str] = set()  # origins whose sitemaps are looked for once their robots.txt is known

    def discover(self, url: str, now: float, utc: datetime) -> None:
        """Look for the sitemaps of a site, once; which ones to look for is known when its robots.txt is."""
        origin = origin_of(url)
        if self.frontier.has_sitemaps(origin) is None:
            self._to_discover.add(origin)
            self._walk(origin, now, utc)

    def _walk(self, origin: str, now: float, utc: datetime) -> None:
        book = self.frontier.book
        standing = book.standing(origin)
        known = not book.settings.respect_robots_txt or (standing is not None and standing.policy is not None)
        if known and origin in self._to_discover:
            self._to_discover.discard(origin)
            # `auto` decides by what is found whether links are followed at all; else nothing hangs on a guess.
            late = self.settings.follow_links is True
            paths = self.settings.sitemap_paths
            walk = SitemapWalk(origin, book.sitemaps(origin), more_paths=paths, late_guesses=late)
            self.frontier.lane(origin, now, utc).walks[origin] = walk
            self.frontier.walk_on(origin, now, utc)

    def known(self, origin: str, now: float, utc: datetime) -> None:
        """Another crawl of this process has asked for a robots.txt that we may have waited for."""
        if self.frontier.key_of(origin) in self.frontier.lanes:
            self._walk(origin, now, utc)
            self.frontier.release(origin, now, utc)

    def robots(
        self, visit: Visit, fetched: Fetched, answer: Answer, policy: Policy | None, now: float, utc: datetime,
        changes: Changes, *, nobody: bool,
    ) -> None:  # fmt: skip
        """Take in the answer for a robots.txt, or for what it was redirected to. `policy` is what a long one says;
        `nobody`: there has never been anybody where it was asked for."""
        frontier, book, origin = self.frontier, self.frontier.book, visit.task
        if not book.settings.respect_robots_txt:  # it was asked for to see whether anybody answers
            book.forget_ask(origin)
            frontier.release(origin, now, utc)
            return
        if fetched.failure is Failure.ADDRESS_FORBIDDEN and not visit.trail:
            # Not even its robots.txt may be asked for, and that will not change [D4].
            book.forget_ask(origin)
            over = Over(State.SKIPPED, Failure.ADDRESS_FORBIDDEN, fetched.detail)
            self.end_all(origin, over, now, utc, changes)
            return
        if fetched.status in REDIRECTS and fetched.failure is None:
            ask = book.redirected(origin, location_of(fetched.headers), now)
            if ask is not None:
                hop = visit.redirected_to(ask.url, domain_of(visit.url), is_private(fetched))
                frontier.add(hop._replace(etag=ask.etag, last_modified=ask.last_modified), now, utc)
                return
        else:
            failure = Failure.BLOCKED_BY_BOT_PROTECTION if _is_challenge(answer) else fetched.failure
            book.learn(
                origin,
                RobotsAnswer(
                    status=fetched.status,
                    failure=failure,
                    body=fetched.body,
                    etag=fetched.headers.get("etag"),
                    last_modified=fetched.headers.get("last-modified"),
                    retry_after_s=answer.retry_after_s,
                    fetched_at=utc,
                    lasts=lasts(fetched.dns_error, fetched.untrusted),
                    found_nobody=nobody,
                ),
                now,
                None if _is_challenge(answer) else policy,
            )
        self._walk(origin, now, utc)
        refused = book.given_up(origin)
        if refused is not None and frontier.stalled(frontier.lane(origin, now, utc), now) is None:
            # Now: the domain may be blocked for longer than the book gives up for, and would be asked for ever. Where
            # it is to be left alone for longer than a job waits, its URLs are handed back instead.
            self.end_all(origin, _without_robots(refused, fetched, answer), now, utc, changes)
        else:
            frontier.release(origin, now, utc)
        self._tell_missed(origin, _why(fetched, answer), now, utc, changes)

    def _tell_missed(self, origin: str, why: str, now: float, utc: datetime, changes: Changes) -> None:
        standing = self.frontier.book.standing(origin)
        if standing is not None and standing.failures and standing.policy is None:
            wait_s = None if standing.given_up else standing.ask_at - now
            self.frontier.lane(origin, now, utc).fails = True
            event = RobotsMissed(self.frontier.key_of(origin), why, standing.failures, wait_s)
            changes.events = (*changes.events, event)

    def end_all(self, origin: str, over: Over, now: float, utc: datetime, changes: Changes) -> None:
        """Every URL of an origin ends, without being asked for."""
        frontier = self.frontier
        gone = frontier.lane(origin, now, utc).drain(
            lambda visit: visit.kind is not Kind.ROBOTS and origin_of(visit.url) == origin
        )
        frontier.end_visits(gone, over, now, utc, changes)
        frontier.release(origin, now, utc)

    def sitemap(
        self, visit: Visit, fetched: Fetched, failure: Failure | None, document: SitemapDocument | None, now: float,
        utc: datetime, changes: Changes,
    ) -> list[SitemapEntry]:  # fmt: skip
        """Take in the answer for a sitemap, perhaps already read. Returns what it lists of its own site."""
        walk = self.frontier.walk_of(visit.task)
        assert walk is not None
        first, entries = visit.first_url, []
        if fetched.status in REDIRECTS and fetched.failure is None:
            target = target_of(visit, fetched.headers)
            if isinstance(target, Refusal) or len(visit.trail) >= self.settings.max_redirects:
                walk.failed(first, "redirect")
            elif walk.redirected(first, target):
                self.frontier.add(visit.redirected_to(target, domain_of(visit.url), is_private(fetched)), now, utc)
        elif failure is not None or fetched.body is None:
            walk.failed(first, str(failure or "no body"))
            if failure is not None and speaks_of_url_alone(failure, fetched.status):
                changes.listing = Listing(first, failure=failure.value)
        else:
            document = document or read_sitemap(fetched.body, visit.url, cut=fetched.truncated)
            entries = walk.settle(first, document)
            is_index = document.kind is SitemapKind.INDEX
            no_sitemap = SITEMAP_INVALID if document.is_none else None
            changes.listing = Listing(first, document.entries if is_index else entries, is_index, no_sitemap)
        self.frontier.walk_on(visit.task, now, utc)
        return entries

    def sitemap_recalled(self, visit: Visit, known: Listing, now: float, utc: datetime) -> list[SitemapEntry]:
        """What a sitemap said when it was read lately, or that there was none, instead of asking for it again."""
        walk = self.frontier.walk_of(visit.task)
        assert walk is not None
        own: list[SitemapEntry] = []
        if known.failure is not None:
            walk.failed(visit.url, known.failure)
        else:
            kind = SitemapKind.INDEX if known.is_index else SitemapKind.URLSET
            own = walk.settle(visit.url, SitemapDocument(visit.url, kind, tuple(known.entries)))
        self.frontier.walk_on(visit.task, now, utc)
        return own


def _is_challenge(answer: Answer) -> bool:
    """Whether a page to keep robots out stands where the file should: it says nothing of what is allowed."""
    return answer.challenge and 200 <= (answer.status or 0) < 300


def _without_robots(refused: Refused, fetched: Fetched, answer: Answer) -> Over:
    """How the URLs of an origin end whose robots.txt was given up. That there is no such host says it all."""
    if fetched.failure is not None and lasts(fetched.dns_error, fetched.untrusted):
        return Over(State.FAILED, fetched.failure, fetched.detail)
    return Over.refused(refused.failure, f"{refused.reason}: {_why(fetched, answer)}")


def _why(fetched: Fetched, answer: Answer) -> str:
    if _is_challenge(answer):
        return f"HTTP {fetched.status}, a bot challenge"
    return fetched.detail or (f"HTTP {fetched.status}" if fetched.status is not None else str(fetched.failure))
