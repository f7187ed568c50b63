"""What a crawl does while the network is down: sends next to nothing, blames nobody, and goes on when it is back. Pure.

`outage` decides whether that is so; here is what follows from it.
"""

from __future__ import annotations

from datetime import datetime

from amble.core.answer import Answer
from amble.core.frontier.changes import Changes, Fetched, Finished, Ready, WaitUntil
from amble.core.frontier.frontier import Frontier
from amble.core.frontier.lane import Lane
from amble.core.frontier.outage import Fault, Outage, Turn, fault_of
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.pacing.events import NetworkBack, NetworkDown
from amble.core.pacing.permit import Permit

_ANSWERED = Fault.ANSWERED
FAULT_WAIT_S = 5.0  # after a fault of our own, before its domain is asked again
NOBODYS = Answer(failure=Failure.CANCELLED)  # no pace learns from this


class Patience:
    """Stands between a crawl's plan and its frontier, and lets everything pass while the network is up."""

    def __init__(self, frontier: Frontier, give_up_after_s: float) -> None:
        self.frontier = frontier
        self.outage = Outage(give_up_after_s)

    def next_ready(self, now: float, utc: datetime, changes: Changes) -> Ready | WaitUntil | Finished:
        if not self.outage.is_down:
            return self.frontier.next_ready(now, utc, changes)
        hold_until = self.outage.hold_until(now)
        if now < hold_until and not self.frontier.draining:
            return WaitUntil(hold_until)
        step = self.frontier.next_ready(now, utc, changes)
        if isinstance(step, Ready):
            self.outage.sent(now)
        return step

    def spares(
        self, visit: Visit, permit: Permit, lane: Lane, fetched: Fetched, now: float, utc: datetime, changes: Changes
    ) -> bool:
        """Whether this failure is not the site's: then its visit is put back as it was, and no pace hears of it."""
        outage, fault = self.outage, fault_of(fetched)
        since, domain = outage.since, lane.pace.domain
        turn = outage.observe(domain, visit, fault, now, known=lane.pace.last_success is not None)
        if fault is _ANSWERED and since is None:
            return False  # nearly every answer
        if turn is Turn.DOWN:
            self._pardon(now, utc, changes)
            changes.events = (*changes.events, NetworkDown("network", outage.reason, fetched.detail))
        elif turn is Turn.BACK and since is not None:
            changes.events = (*changes.events, NetworkBack("network", now - since))
        if not outage.excuses(domain, fault, now):
            return False
        changes.events = (*changes.events, *lane.pace.settle(permit, NOBODYS, now))
        self._put_back(visit, lane, fault is Fault.OWN, now, utc)
        self.frontier.look_again(lane, now)
        return True

    def _put_back(self, visit: Visit, lane: Lane, own: bool, now: float, utc: datetime) -> None:
        if own and not self.outage.is_down:
            lane.rest_until = now + FAULT_WAIT_S
        if visit.kind is Kind.ROBOTS:
            self.frontier.book.forget_ask(visit.task)
            self.frontier.release(visit.task, now, utc)
        else:
            lane.push_later(visit, now)

    def _pardon(self, now: float, utc: datetime, changes: Changes) -> None:
        """Failures of the last moments, before it was clear whose they were."""
        for domain in self.outage.failing():
            lane = self.frontier.lanes.get(domain)
            if lane is None:
                continue
            changes.events = (*changes.events, *lane.pace.pardon(now))
            for scheme in ("http", "https"):
                self.frontier.book.pardon(f"{scheme}://{domain}", now)
            self.frontier.schedule(lane, now)
