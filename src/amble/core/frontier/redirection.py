"""What becomes of a URL that answers with a redirect, and of where it leads; see decision 81. Pure."""

from __future__ import annotations

from datetime import datetime

from amble.core.frontier.chains import ChainEnd, Chains
from amble.core.frontier.changes import Changes, Fetched, Final, Move, State
from amble.core.frontier.intake import Intake
from amble.core.frontier.redirects import is_private, location_of, target_of
from amble.core.frontier.visit import FoundBy, Visit
from amble.core.outcome import Failure
from amble.core.urls import Refusal, domain_of, origin_of


class Redirection:
    """Of one crawl, whose way in its targets take."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._chains = Chains()

    def settle(self, visit: Visit, fetched: Fetched, now: float, utc: datetime, changes: Changes) -> None:
        """Its task ends with the redirect, which costs no page of a budget, and the target is a task of its own:
        through the gate, the scope, and then robots.txt and pace of its own host."""
        target = target_of(visit, fetched.headers)
        self._intake.refund(visit)
        if isinstance(target, Refusal):
            location = location_of(fetched.headers)
            failure = Failure.NETWORK_PROTOCOL_ERROR if location is None else Failure.OUT_OF_SCOPE
            move = Move(location, len(visit.trail) + 1)
            self._close_moved(visit, State.FAILED, failure, f"redirect: {target.why}", fetched, move, changes)
        elif len(visit.trail) >= self._intake.settings.max_redirects or target in visit.trail or target == visit.url:
            move = Move(target, len(visit.trail) + 1)
            self._close_moved(visit, State.FAILED, Failure.TOO_MANY_REDIRECTS, target, fetched, move, changes)
        elif (out := self._intake.scope.judge(target)) is not None:
            move = Move(target, len(visit.trail) + 1, target, 1)
            self._end_chains(visit.url, target, changes)
            self._close_moved(
                visit, State.SKIPPED, Failure.OUT_OF_SCOPE, f"redirect: {out.value}", fetched, move, changes
            )
        else:
            self._follow(visit, target, fetched, now, utc, changes)
        self._intake.fill_up(now, utc, changes)

    def _follow(self, visit: Visit, target: str, fetched: Fetched, now: float, utc: datetime, changes: Changes) -> None:
        order = len(visit.trail) + 1
        is_new = self._intake.is_new(target)  # a hundred links that lead to one login page ask for it once
        if is_new and not self._intake.has_room_for(target):
            self._intake.leave_out(target)
            move = Move(target, order)
            reason = "redirect: max_pages_per_domain"
            self._close_moved(visit, State.SKIPPED, Failure.OUT_OF_SCOPE, reason, fetched, move, changes)
            return
        end = self._end_chains(visit.url, target, changes)
        if end is None:
            failure = Failure.TOO_MANY_REDIRECTS
            self._close_moved(visit, State.FAILED, failure, target, fetched, Move(target, order), changes)
            return
        self._move_home(visit, target, now, utc)
        if is_new:
            hop = visit.redirected_to(target, domain_of(visit.url), is_private(fetched))
            self._intake.accept_target(hop._replace(task=target, parent=visit.url, stored=False), now, utc, changes)
        move = Move(target, order, end.final_url, end.redirects)
        self._close_moved(visit, State.DONE, None, fetched.detail, fetched, move, changes)

    def _end_chains(self, url: str, target: str, changes: Changes) -> ChainEnd | None:
        """Where a redirect ends, and that those that led to it end there as well; None: it leads back to itself."""
        ends = self._chains.lead(url, target)
        if ends is None:
            return None
        changes.chain_ends = (*changes.chain_ends, *ends[1:])
        return ends[0]

    def _close_moved(
        self, visit: Visit, state: State, failure: Failure | None, reason: str, fetched: Fetched, move: Move,
        changes: Changes,
    ) -> None:  # fmt: skip
        self._intake.frontier.close_task(Final(visit, state, failure, reason, fetched, move=move), changes)

    def _move_home(self, visit: Visit, target: str, now: float, utc: datetime) -> None:
        """A site typed as example.com often lives at www.example.com: then that is where its sitemaps are."""
        if visit.found_by is FoundBy.SEED and self._intake.frontier.has_sitemaps(origin_of(visit.url)) is False:
            self._intake.discovery.discover(target, now, utc)
