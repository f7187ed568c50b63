"""The end of a crawl of which nothing but failing domains is left: how long they are waited for. Pure, told the time.

A domain that brought a page in this run and fails now has an outage, and is waited for as long as its breaker and
`domain_stall_timeout` say. One that brought none is waited for `max_tail`, from when nothing else was left; then its
URLs end in rows that say so, and the next crawl asks for them. A robots.txt alone is no page.
"""

from __future__ import annotations

import math
from datetime import datetime
from itertools import chain

from amble.core.frontier.changes import Changes, Over, State, WaitUntil
from amble.core.frontier.frontier import Frontier
from amble.core.frontier.lane import Lane
from amble.core.outcome import LESSONS, Failure, Outcome
from amble.core.pacing.events import TailBegan

TELL_AFTER_S = 10.0  # what ends by itself until then needs no word
SLOW_S = 10.0  # between two requests: then the next may be long in coming, and one failure proves nothing
LANES_PER_S = 50_000  # are looked at: with very many of them not after every answer


def is_trouble(failure: Failure | None) -> bool:
    """Whether an answer says that its domain fails."""
    return failure is not None and LESSONS[failure].outcome is Outcome.FAILED


class Tail:
    """Looks, whenever nothing can be sent, whether anything but failing domains is left."""

    def __init__(self, frontier: Frontier, max_tail_s: float) -> None:
        self.frontier = frontier
        self._max_tail_s = max_tail_s
        self._tell_after_s = min(TELL_AFTER_S, max_tail_s / 2)
        self._delivered: set[str] = set()  # domains that brought a page in this run
        self._working: Lane | None = None  # one that does not fail, as last seen: mostly it still is one
        self._look_at = -math.inf
        self._since: float | None = None  # nothing else is left from then on; None: something is, or the clock stands
        self._spent_s = 0.0  # before that, since the last page
        self._told = False

    def delivered(self, domain: str) -> None:
        """A page: whatever still fails is waited for anew."""
        self._delivered.add(domain)
        self._since, self._spent_s = None, 0.0

    def stop_clock(self, now: float) -> None:
        """A pause, an outage, or something else to do: this time does not count."""
        if self._since is not None:
            self._spent_s += now - self._since
            self._since = None

    def look(self, step: WaitUntil, now: float, utc: datetime, changes: Changes) -> WaitUntil:
        """Nothing can be sent before `step`. Until when to wait at most; whoever was waited for too long has ended."""
        frontier = self.frontier
        if frontier.draining or self._something_is_on_its_way() or self._works(self._working, now):
            self.stop_clock(now)
            return step
        if now < self._look_at:
            return WaitUntil(min(step.instant, self._look_at))
        self._look_at = now + len(frontier.lanes) / LANES_PER_S
        failing = self._failing(now)
        if not failing:
            self.stop_clock(now)
            return step
        if self._since is None:
            self._since = now
        spent_s = self._spent_s + now - self._since
        without_a_page = [lane for lane in failing if lane.domain not in self._delivered]
        left_s = self._max_tail_s - spent_s
        if without_a_page and left_s <= 0:
            for lane in without_a_page:
                self._give_up(lane, now, utc, changes)
            self._since, self._spent_s = None, 0.0
            changes.abandoned = [lane.domain for lane in without_a_page]
            return WaitUntil(now)
        if not self._told and spent_s >= self._tell_after_s:
            self._told = True
            names, others = [lane.domain for lane in without_a_page], len(failing) - len(without_a_page)
            event = TailBegan("tail", names, left_s, others, frontier.settings.domain_stall_timeout)
            changes.events = (*changes.events, event)
        wake = math.inf if self._told else now + self._tell_after_s - spent_s
        return WaitUntil(min(step.instant, wake, now + left_s if without_a_page else math.inf))

    def _something_is_on_its_way(self) -> bool:
        """Whether more is to come of what was found, or from the store for domains that do not fail."""
        frontier, backlog = self.frontier, self.frontier.backlog
        if frontier.recalls or frontier.inflows or frontier.unjudged:
            return True
        lanes = map(frontier.lanes.get, chain(backlog.hungry, backlog.claiming))
        return any(lane is None or not lane.fails for lane in lanes)

    def _failing(self, now: float) -> list[Lane]:
        """Those that fail, if none works. Those that wait for others, which a sitemap may lie at, do neither."""
        stored, failing = self.frontier.backlog.stored, []
        for lane in self.frontier.lanes.values():
            if self._works(lane, now):
                self._working = lane
                return []
            if lane.fails and (lane.under_way or len(lane) or (lane.domain in stored and lane.over is None)):
                failing.append(lane)
        self._working = None
        return failing

    def _works(self, lane: Lane | None, now: float) -> bool:
        """Whether a domain has something to do and does not fail. One that asked for a pause answers, later."""
        if lane is None or (lane.fails and now >= lane.pause_until):
            return False
        return lane.under_way > 0 or lane.wake_at() is not None

    def _give_up(self, lane: Lane, now: float, utc: datetime, changes: Changes) -> None:
        why = lane.last_failure or Failure.ROBOTS_UNREACHABLE
        reason = f"no page in this run, {why} at last, and for {self._max_tail_s:g} s nothing else was left to do"
        lane.over = Over(State.FAILED, Failure.DOMAIN_GIVEN_UP, reason)
        self.frontier.given_up.add(lane.domain)
        self.frontier.end_lane(lane, lane.over, now, utc, changes)
