"""Which URLs become tasks, and what becomes of those that the store holds or has held: the way into a plan. Pure.

What is found comes in by slices. A URL that the store holds a success of is not queued but recalled: its stored links
are followed as if it had just been read, or the server is asked whether it has changed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Protocol

from amble.core.frontier.changes import Changes, Final, Keeps, Listing, State
from amble.core.frontier.discovery import Discovery
from amble.core.frontier.following import Found, Inflow, Unjudged, leads_to, lists
from amble.core.frontier.frontier import STOPPED, Frontier
from amble.core.frontier.recall import Leads, Recall, Stored, conditional, wants_update
from amble.core.frontier.redirects import REDIRECTS
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import FoundBy, Visit
from amble.core.outcome import Failure
from amble.core.scope import Scope
from amble.core.seen import SeenSet
from amble.core.urls import origin_of

NEAR_MAX = 30_000  # URLs kept at hand as text: the links that every page of a site has
NOT_WANTED = "the WHERE of the crawl does not hold"
RESERVE_MAX = 1_000  # URLs left out for the budget and kept for those of it that turn out to be redirects
SLICE = 1_000  # URLs taken in at once: a sitemap of 50,000 must not freeze the event loop


class Seen(Protocol):
    """URLs met before."""

    def add(self, url: str) -> bool:
        """Whether this one is new."""

    def __contains__(self, url: object, /) -> bool: ...


class Held(Protocol):
    """URLs that a store holds a success of."""

    def __contains__(self, url: str, /) -> bool: ...


class Intake:
    """The part of a plan that lets URLs in."""

    has_where: bool = False  # what is found is judged by somebody else before it is taken in
    tried: Container[str] = ()  # URLs that the store holds a failure of: where there is a budget, they come last

    def __init__(self, settings: VisitSettings, frontier: Frontier, scope: Scope, seen: Seen, stored: Held) -> None:
        self.settings = settings
        self.frontier = frontier
        self.scope = scope
        self.seen = seen
        self.stored = stored
        self.discovery = Discovery(settings, frontier)
        self.put_off: deque[Found] = deque()
        self._unwanted_count = 0
        self._reserve: deque[Found] = deque()
        self._left_out = SeenSet()  # seen, and yet without a row: the budget was spent
        self._let_in_later: set[str] = set()
        self._near: set[str] = set()  # some of those seen: a look at them costs next to nothing

    # -- what is found

    def found_on(self, visit: Visit, leads: Leads) -> Iterator[Found]:
        """What a page leads to and was not seen before."""
        if len(self._near) > NEAR_MAX:
            self._near.clear()
        follows = self.follows_links(visit)
        return leads_to(visit, leads, self.settings, self.scope, self.seen, self._near, follows=follows)

    def take_seeds(self, found: Iterable[Found], now: float, utc: datetime, changes: Changes) -> None:
        """At once, or once they are judged."""
        if self.has_where:
            self.pour_in(Inflow(iter(found)), now, utc, changes)
        else:
            self._take_all(found, (), now, utc, changes)

    def _take_all(
        self, batch: Iterable[Found], unwanted: Container[str], now: float, utc: datetime, changes: Changes
    ) -> None:
        """Take in what was found together. What the WHERE does not want gets a row that says so, and is no task."""
        for found in batch:
            if found.visit is None or found.visit.task not in unwanted:
                self.take(found, now, utc, changes)
            elif self.seen.add(found.visit.task):
                if found.visit.task in self.stored:  # its row stays what it is
                    changes.leave_out("where")
                else:
                    self._unwanted_count += 1
                    changes.refused.append(Final(found.visit, State.SKIPPED, Failure.OUT_OF_SCOPE, NOT_WANTED))

    def why_no_seed(self) -> str | None:
        """Why there was nothing to do at all, where the WHERE wanted none of the seeds."""
        if self.frontier.accepted or not self._unwanted_count:
            return None
        return (
            f"the WHERE of the crawl holds for none of its {self._unwanted_count} seeds: it is asked of seeds as well"
        )

    def take(self, found: Found, now: float, utc: datetime, changes: Changes) -> None:
        """One URL becomes a task, unless it is one already or something speaks against it."""
        visit = found.visit
        if visit is None or found.why_not is not None:
            changes.leave_out(found.why_not or "")
            return
        if not self.seen.add(visit.task):
            return
        if visit.task not in self.tried or visit.task in self.stored:
            self._accept(found, visit, now, utc, changes)
        elif len(self.put_off) < self._left():
            self.put_off.append(found)
        else:
            changes.leave_out("max_crawl_pages")

    def take_put_off(self, now: float, utc: datetime, changes: Changes) -> None:
        """Nothing else is left to do: a slice of what did not work before."""
        for _ in range(min(SLICE, len(self.put_off))):
            found = self.put_off.popleft()
            if found.visit is not None:
                self._accept(found, found.visit, now, utc, changes)

    def _accept(self, found: Found, visit: Visit, now: float, utc: datetime, changes: Changes) -> None:
        frontier = self.frontier
        per_domain, is_stored = self.settings.max_pages_per_domain, visit.task in self.stored
        if not is_stored and self._is_spent():  # what the table holds costs nothing before it is asked for
            changes.leave_out("max_crawl_pages")
            self._left_out.add(visit.task)
            if len(self._reserve) < RESERVE_MAX:
                self._reserve.append(found)
            return
        if per_domain is not None:
            domain = frontier.key_of(visit.url)
            if frontier.pages.get(domain, 0) >= per_domain:
                changes.leave_out("max_pages_per_domain")
                self._left_out.add(visit.task)
                return
            frontier.pages[domain] = frontier.pages.get(domain, 0) + 1
        if is_stored:
            frontier.recall(Recall(visit, found.entry), changes)
        else:
            frontier.spent += 1
            frontier.accept(visit, now, utc, changes)

    # -- redirects, which cost no page

    def is_new(self, target: str) -> bool:
        """Whether a redirect leads to a URL that has no row yet and will get none without it."""
        if self.seen.add(target):
            return True
        if target not in self._left_out or target in self._let_in_later:
            return False
        self._let_in_later.add(target)
        return True

    def has_room_for(self, target: str) -> bool:
        most = self.settings.max_pages_per_domain
        return most is None or self.frontier.pages.get(self.frontier.key_of(target), 0) < most

    def leave_out(self, target: str) -> None:
        """There is no room for the target of a redirect, which is new again where another redirect leads to it."""
        self._left_out.add(target)
        self._let_in_later.discard(target)

    def accept_target(self, visit: Visit, now: float, utc: datetime, changes: Changes) -> None:
        """The target of a redirect becomes a task, and is held here: the store would forget what led to it, and a chain
        without end would have none."""
        frontier = self.frontier
        if self.settings.max_pages_per_domain is not None:
            domain = frontier.key_of(visit.url)
            frontier.pages[domain] = frontier.pages.get(domain, 0) + 1
        if visit.task in self.stored:
            frontier.recall(Recall(visit), changes)
        else:
            frontier.spent += 1
            changes.accepted.append(visit)
            frontier.add(visit, now, utc)

    def refund(self, visit: Visit) -> None:
        """What was asked for is no page."""
        frontier = self.frontier
        frontier.spent -= 1
        if self.settings.max_pages_per_domain is not None:
            frontier.pages[frontier.key_of(visit.url)] -= 1

    def fill_up(self, now: float, utc: datetime, changes: Changes) -> None:
        """Take in what was left out while redirects were still counted as pages."""
        while self._reserve and not self._is_spent():
            found = self._reserve.popleft()
            visit = found.visit
            if visit is None or visit.task in self._let_in_later:
                continue
            self._let_in_later.add(visit.task)
            changes.left_out["max_crawl_pages"] = changes.left_out.get("max_crawl_pages", 0) - 1
            self._accept(found, visit, now, utc, changes)

    def _is_spent(self) -> bool:
        return self._left() <= 0

    def _left(self) -> float:
        """How many pages may still be asked for."""
        overall = self.settings.max_crawl_pages
        return math.inf if overall is None else overall - self.frontier.spent

    def pour(self, now: float, utc: datetime) -> Changes:
        """Take in the next slice of what was found, if there is any."""
        changes = Changes()
        if self.frontier.inflows:
            self.pour_in(self.frontier.inflows.popleft(), now, utc, changes)
        return changes

    def pour_in(self, inflow: Inflow, now: float, utc: datetime, changes: Changes) -> None:
        batch = list(islice(inflow.found, SLICE))
        if self.has_where and (part := Unjudged(batch, inflow)).visits:
            self.frontier.unjudged[part] = None
            self.frontier.to_judge.append(part)
        else:
            self._poured(batch, (), inflow, now, utc, changes)

    def judged(self, part: Unjudged, taken: Sequence[bool], now: float, utc: datetime) -> Changes:
        """Whether each of the visits is taken is known now."""
        changes = Changes()
        if part in self.frontier.unjudged:  # else it was handed back meanwhile
            del self.frontier.unjudged[part]
            unwanted = {visit.task for visit, is_taken in zip(part.visits, taken, strict=True) if not is_taken}
            self._poured(part.found, unwanted, part.rest, now, utc, changes)
        return changes

    def _poured(
        self, batch: Sequence[Found], unwanted: Container[str], inflow: Inflow, now: float, utc: datetime,
        changes: Changes,
    ) -> None:  # fmt: skip
        self._take_all(batch, unwanted, now, utc, changes)
        if len(batch) == SLICE:
            self.frontier.inflows.append(inflow)
            return
        if inflow.final is not None:  # only now: who is killed before this finds the rest by the same page again
            self.frontier.close_task(inflow.final, changes)

    def follows_links(self, visit: Visit) -> bool:
        if self.settings.follow_links != "auto":
            return bool(self.settings.follow_links)
        has_sitemaps = self.frontier.has_sitemaps(origin_of(visit.url))
        # Where nobody looked for sitemaps: what was found by following links is followed further.
        return visit.found_by is FoundBy.LINK if has_sitemaps is None else not has_sitemaps

    # -- what the store gives back

    def resume(self, waiting: Mapping[str, int], final: int, spent: int, pages: Mapping[str, int], now: float) -> None:
        """Go on with a job: what waits in the store by domain, how many tasks have ended, what of its budget is spent,
        what each domain has had."""
        frontier = self.frontier
        frontier.resumed_at = now
        frontier.accepted = frontier.final = final
        frontier.spent = spent
        frontier.pages.update(pages)
        for domain, count in waiting.items():
            frontier.accepted += count
            frontier.backlog.put(domain, count)
            frontier.backlog.feed(domain, 0, 0)

    def claimed(self, visits: Iterable[Visit], domains: Iterable[str], now: float, utc: datetime) -> Changes:
        """Take back what was claimed from the store for these domains."""
        changes, frontier = Changes(), self.frontier
        backlog = frontier.backlog
        backlog.claiming.difference_update(domains)
        served = set()
        for visit in visits:
            domain = frontier.key_of(visit.task)
            served.add(domain)
            if not backlog.take(domain):
                changes.finals.append(Final(visit, *STOPPED))  # given up meanwhile, and counted then
            elif visit.task in self.stored:
                frontier.await_store(Recall(visit))
            else:
                frontier.queue(visit, now, utc)
        for domain in domains:
            if domain not in served and (lost := backlog.leave(domain)):
                # Handed over and flushed, and yet not there: the store has set these rows apart.
                frontier.accepted -= lost
                changes.left_out["not_stored"] = changes.left_out.get("not_stored", 0) + lost
            elif domain in backlog.stored:
                lane = frontier.lanes.get(domain)
                backlog.feed(domain, 0 if lane is None else len(lane), frontier.held)
        return changes

    def recalled(self, recall: Recall, stored: Stored | None, now: float, utc: datetime) -> Changes:
        """What the store holds of a page crawled before; None: its row is gone."""
        changes, frontier, visit = Changes(), self.frontier, recall.visit
        if frontier.recalls.pop(recall.key, None) is None:
            return changes  # handed back meanwhile
        again = self._again_for(recall, stored, utc)
        if stored is not None and recall.fetched is not None:
            self._reset_streak(visit)
            final = Final(visit, State.DONE, reason="not modified", fetched=recall.fetched, confirmed=True)
            self.lead(visit, stored, final, now, utc, changes)
        elif again is not None and (recall.fetched is not None or not self._is_spent()):
            frontier.spent += recall.fetched is None  # what was answered 304 is counted already
            frontier.queue(again, now, utc)
        elif stored is not None:
            if again is not None:
                changes.leave_out("max_crawl_pages")
            final = Final(visit, State.SKIPPED, reason="stored already", keeps=Keeps.NOTHING)
            self.lead(visit, stored, final, now, utc, changes)
        else:
            changes.leave_out("max_crawl_pages")
            frontier.close_task(Final(visit, State.SKIPPED, Failure.OUT_OF_SCOPE, "max_crawl_pages"), changes)
        return changes

    def _again_for(self, recall: Recall, stored: Stored | None, utc: datetime) -> Visit | None:
        """What to ask the server of a page that the table holds, or held; None: nothing."""
        visit = recall.visit
        if stored is None:
            return visit._replace(etag=None, last_modified=None, stored=False)
        if self.settings.update_stale and wants_update(recall, stored, utc):
            return conditional(visit, visit.task, stored)
        return None

    def sitemap_recalled(self, recall: Recall, known: Listing | None, now: float, utc: datetime) -> Changes:
        """What a sitemap said when it was read lately; None: it has to be asked for after all."""
        changes, visit = Changes(), recall.visit
        if self.frontier.recalls.pop(recall.key, None) is None:
            return changes
        if known is None:
            self.frontier.queue(visit, now, utc)
            return changes
        own = self.discovery.sitemap_recalled(visit, known, now, utc)
        self.pour_in(Inflow(lists(own, visit, self.scope)), now, utc, changes)
        return changes

    def lead(self, visit: Visit, stored: Stored, final: Final, now: float, utc: datetime, changes: Changes) -> None:
        """Follow a stored page as if it had just been read."""
        leads, page = stored.leads, visit._replace(url=stored.final_url or visit.url)
        if stored.status is not None and stored.status in REDIRECTS and page.url != visit.task:
            # A redirect to a page that got a row of its own: that one leads on.
            out = self.scope.judge(page.url)
            target = page._replace(task=page.url, stored=False, etag=None, last_modified=None)
            found: Iterator[Found] = iter([Found(target, out.value if out else None)])
        else:
            found = self.found_on(page, leads)
        self.pour_in(Inflow(found, final), now, utc, changes)

    def _reset_streak(self, visit: Visit) -> None:
        lane = self.frontier.lanes.get(self.frontier.key_of(visit.url))
        if lane is not None:
            lane.failed_streak = 0
