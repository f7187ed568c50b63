"""What a crawl does while the network is down: sends next to nothing, blames nobody, and goes on when it is back. Pure.

`outage` decides whether that may be so, `inquiry` asks those who would know; here is what follows from it.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import NamedTuple

from amble.core.answer import TELLING, Answer, read_answer
from amble.core.frontier.changes import Changes, Fetched, Finished, Over, Ready, State, WaitUntil
from amble.core.frontier.frontier import Frontier
from amble.core.frontier.inquiry import ASK_WITHIN_S, Finding, Inquiry
from amble.core.frontier.lane import Lane
from amble.core.frontier.outage import DOUBTFUL, Fault, Outage, Turn, fault_of
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.pacing.events import NetworkBack, NetworkDown, NobodyReached, Paused
from amble.core.pacing.permit import Permit
from amble.core.urls import origin_of

_ANSWERED = Fault.ANSWERED
FAULT_WAIT_S = 5.0  # after a fault of our own, before its domain is asked again
NOBODYS = Answer(failure=Failure.CANCELLED)  # no pace learns from this


class Held(NamedTuple):
    """A failure of which it is not known yet whose it is."""

    ready: Ready
    fetched: Fetched
    fault: Fault


class Patience:
    """Stands between a crawl's plan and its frontier, and lets everything pass while the network is up."""

    def __init__(self, frontier: Frontier, give_up_after_s: float) -> None:
        self.frontier = frontier
        self.outage = Outage(give_up_after_s)
        self.inquiry = Inquiry()
        self._held: list[Held] = []  # no more than was under way when it was asked: nothing else is sent meanwhile
        self._is_known = True  # whose the failures are that are held
        self._spares_all = False  # a crawl that stops blames nobody for what it has not found out
        self._trials = 0
        self._has_told_lie = False

    # -- sending

    def next_ready(self, now: float, utc: datetime, changes: Changes) -> Ready | WaitUntil | Finished:
        if self.inquiry.is_open:
            return self._inquire(now, utc, changes)
        if not self.outage.is_down:
            step = self.frontier.next_ready(now, utc, changes)
            if isinstance(step, Finished):
                self._tell_lie(changes)
            return step
        hold_until = self.outage.hold_until(now)
        if now < hold_until and not self.frontier.draining:
            return WaitUntil(hold_until)
        return self._try_whether_it_is_back(now, utc, changes)

    def _inquire(self, now: float, utc: datetime, changes: Changes) -> Ready | WaitUntil:
        """Whom to ask next, at once; nothing else is sent until it is known who is to blame."""
        inquiry, wake_at = self.inquiry, math.inf
        looked_at: set[str] = set()
        while (origin := next((one for one in inquiry.look(now) if one not in looked_at), None)) is not None:
            looked_at.add(origin)
            got = self.frontier.ask_out_of_turn(origin, now, utc, changes)
            if isinstance(got, Ready):
                return Ready(inquiry.sent(origin, got.permit, got.visit, now), got.permit)
            if got is None or got > inquiry.until or now >= inquiry.until:
                inquiry.leave_out(origin)
            else:
                wake_at = min(wake_at, got)
        return WaitUntil(max(now, min(wake_at, inquiry.until)))

    def _try_whether_it_is_back(self, now: float, utc: datetime, changes: Changes) -> Ready | WaitUntil | Finished:
        """By the way that failed; in turn of what is queued, which may all be dead, and of those who answered."""
        self._trials += 1
        step: Ready | WaitUntil | Finished | None = None
        if self._trials % 2 == 0 and not self.frontier.draining and self.frontier.queued:
            step = self._ask_witness(now, utc, changes)
        step = step or self.frontier.next_ready(now, utc, changes)
        if isinstance(step, Ready):
            self.outage.sent(now)
            if (way := self.outage.way_down) is not None:
                step = step._replace(visit=way.taken_by(step.visit))
        return step

    def _ask_witness(self, now: float, utc: datetime, changes: Changes) -> Ready | None:
        inquiry = self.inquiry
        inquiry.open(self.outage.way(), (), lambda domain: self._can_be_asked(domain, now), now)
        origins = inquiry.to_ask
        inquiry.close()
        for origin in origins:
            got = self.frontier.ask_out_of_turn(origin, now, utc, changes)
            if isinstance(got, Ready):
                return got._replace(visit=got.visit._replace(asks_network=True))
        return None

    def _can_be_asked(self, domain: str, now: float) -> bool:
        """Whether a domain that answered before may be asked soon: not where it is blocked, or has to wait."""
        frontier = self.frontier
        pace, lane = frontier.registry.find(domain), frontier.lanes.get(domain)
        if lane is not None and (lane.over or lane.held or lane.waits_to_begin or lane.waits_at):
            return False
        return pace is None or pace.due_at <= now + ASK_WITHIN_S

    def _under_way(self, domain: str, but: Permit) -> Permit | None:
        """A request of this crawl there that has not ended; where as many are as may be, no other can be made."""
        lane, pace = self.frontier.lanes.get(domain), self.frontier.registry.find(domain)
        if lane is None or pace is None or not lane.under_way or but.domain == domain:
            return None
        return pace.flying[-1] if pace.flying and len(pace.flying) >= pace.parallel else None

    def _tell_lie(self, changes: Changes) -> None:
        """Where nobody was ever reached, this says more than a row for each URL."""
        lie = self.outage.lie
        if lie is not None and not self._has_told_lie and not self.frontier.draining:
            self._has_told_lie = True
            changes.events = (*changes.events, NobodyReached("network", lie))

    # -- hearing

    def hear(self, ready: Ready, fetched: Fetched, now: float, utc: datetime, changes: Changes) -> Fault | None:
        """Take in what an answer says about the network. Afterwards, `holds` says whether it is to be settled now."""
        visit, permit = ready
        if _is_answer(fetched) and not self.inquiry.is_open and self.outage.has_just_heard(permit.domain, now):
            return _ANSWERED  # nearly every answer says nothing new
        if fetched.stale and not visit.new_connection:  # is made good, and until then says nothing
            self.inquiry.drop(permit)
            return None
        fault = fault_of(fetched, visit.url)
        lane = self.frontier.lanes[permit.domain]
        outage, inquiry = self.outage, self.inquiry
        since, domain = outage.since, permit.domain
        begun_at = min(permit.sent_at, now - fetched.elapsed_s)  # before its name was looked up
        if inquiry.is_open and inquiry.takes(permit):
            if fault is _ANSWERED or fault in DOUBTFUL:
                through = fault is _ANSWERED
                inquiry.answered(permit, now, begun_at=begun_at, got_through=through, reused=fetched.reused)
            else:
                inquiry.drop(permit)
        turn = outage.observe(
            domain,
            visit,
            fault,
            now,
            known=lane.pace.last_success is not None,
            reused=fetched.reused,
            begun_at=begun_at,
        )
        if fault is _ANSWERED:
            if fetched.status is not None:  # whoever is there and speaks no HTTP could not be asked
                inquiry.remember(domain, origin_of(visit.url))
            if since is None and not inquiry.is_open:
                return fault  # nearly every answer
        if turn is Turn.DOUBT and not inquiry.is_open and not self.frontier.draining:
            failing = frozenset(outage.failing())
            inquiry.open(
                outage.way(), failing, lambda domain: self._can_be_asked(domain, now), now,
                lambda domain: self._under_way(domain, permit), all_silent=outage.is_silence,
            )  # fmt: skip
            self._is_known = False
        if turn is Turn.DOWN:
            self._go_down(fetched, now, utc, changes)
        elif turn is Turn.BACK and since is not None:
            changes.events = (*changes.events, NetworkBack("network", now - since))
        if inquiry.is_open:
            self._conclude(fetched, now, utc, changes)
        return fault

    def conclude(self, now: float, utc: datetime, changes: Changes) -> None:
        """Time has passed, or the crawl stops: what was asked may be known by that."""
        if self.frontier.draining and self.inquiry.is_open:
            self.inquiry.close()
            self._is_known = self._spares_all = True
        elif self.inquiry.is_open:
            self._conclude(None, now, utc, changes)

    def _conclude(self, fetched: Fetched | None, now: float, utc: datetime, changes: Changes) -> None:
        outage, finding = self.outage, self.inquiry.finding(now)
        if outage.since is not None:
            finding = Finding.DOWN  # our own faults say so
        elif not outage.is_doubtful:
            finding = Finding.UP  # others have answered meanwhile
        if finding is Finding.OPEN:
            return
        self.inquiry.close()
        self._is_known = True
        if (finding is Finding.DOWN and outage.is_shared) or (finding is Finding.NOBODY and outage.fell_together):
            if outage.since is None:
                outage.go_down(now)
                self._go_down(fetched, now, utc, changes)
        else:
            outage.clear(now)

    def _go_down(self, fetched: Fetched | None, now: float, utc: datetime, changes: Changes) -> None:
        self._pardon(now, utc, changes)
        detail = fetched.detail if fetched is not None else "no answer"
        changes.events = (*changes.events, NetworkDown("network", self.outage.reason, detail))

    # -- whose failure it is

    def holds(self, ready: Ready, fetched: Fetched, fault: Fault | None) -> bool:
        """Whether this is not to be settled before it is known whose failure it is."""
        if self._is_known or fault not in DOUBTFUL or fault is None:
            return False
        self._held.append(Held(ready, fetched, fault))
        return True

    @property
    def held(self) -> list[Ready]:
        """Requests that have ended and are not settled yet."""
        return [held.ready for held in self._held]

    def release(self) -> list[Held]:
        """What was held and may be settled now."""
        if not self._held or not self._is_known:
            return []
        held, self._held = self._held, []
        return held

    def spares(
        self, visit: Visit, permit: Permit, lane: Lane, fault: Fault | None, now: float, utc: datetime, changes: Changes
    ) -> bool:
        """Whether this failure is not the site's: then its visit is put back as it was, and no pace hears of it."""
        outage = self.outage
        if not outage.excuses(lane.pace.domain, fault, now) and not (self._spares_all and fault in DOUBTFUL):
            return False
        changes.events = (*changes.events, *lane.pace.settle(permit, NOBODYS, now))
        self._put_back(visit._replace(asks_network=False), lane, fault is Fault.OWN, now, utc)
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
            lane.presence.pardon()
            for scheme in ("http", "https"):
                self.frontier.book.pardon(f"{scheme}://{domain}", now)
            self.frontier.schedule(lane, now)


def _is_answer(fetched: Fetched) -> bool:
    """Whether a site spoke, and nothing else is to be learned from it."""
    whole = fetched.failure is None and fetched.status is not None
    return whole and not (fetched.local_fault or fetched.proxy_fault)


def answer_of(fetched: Fetched, utc: datetime, retry_after_max_s: float) -> Answer:
    """What the pace may learn. A fault of our proxy or of this machine says nothing about the site; nor does another
    time-out on a connection that is known to be silent, before a new one was tried."""
    if fetched.proxy_fault or fetched.local_fault or fetched.repeated:
        return Answer(failure=Failure.CANCELLED)
    status, failure, headers, elapsed_s = fetched.status, fetched.failure, fetched.headers, fetched.ttfb_s
    if elapsed_s is None:
        elapsed_s = fetched.elapsed_s
    if not headers.has_any(TELLING):
        return Answer(status, failure, elapsed_s)  # nearly every answer
    return read_answer(
        status=status, headers=headers, failure=failure, elapsed_s=elapsed_s, utc=utc,
        retry_after_max_s=retry_after_max_s,
    )  # fmt: skip


def leave_alone(lane: Lane, most_s: float, changes: Changes) -> Over:
    """How the URLs of a domain end that asks for more silence than is kept: no job waits for that."""
    kept = f"of its Retry-After {most_s:.0f} s are kept (max_retry_after)"
    changes.events = (*changes.events, Paused(lane.domain, most_s, kept))
    return Over(State.DEFERRED, lane.last_failure or Failure.HTTP_RATE_LIMITED, kept)
