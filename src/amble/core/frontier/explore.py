"""A frontier that finds out and fetches nothing: robots.txt and sitemaps are visited, pages never. Pure."""

from __future__ import annotations

from datetime import datetime

from amble.core.frontier.changes import Changes, Ready
from amble.core.frontier.frontier import Frontier
from amble.core.frontier.lane import Lane
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import Kind, Visit
from amble.core.pacing.registry import Registry
from amble.core.robots.book import RobotsBook
from amble.core.robots.verdict import Allowed, Ask, Wait
from amble.core.urls import origin_of


class ExploringFrontier(Frontier):
    """Of each origin the first page stands in its lane as a scout: it has robots.txt asked for, and is then let go.

    No other page is queued, so a sitemap of a million URLs costs what its URLs cost.
    """

    def __init__(self, settings: VisitSettings, registry: Registry, book: RobotsBook) -> None:
        super().__init__(settings, registry, book)
        self._scouted: set[str] = set()

    def add(self, visit: Visit, now: float, utc: datetime) -> None:
        if visit.kind is Kind.PAGE:
            origin = origin_of(visit.url)
            if origin in self._scouted:
                self.accepted += 1
                return
            self._scouted.add(origin)
        super().add(visit, now, utc)

    def _try_visit(self, visit: Visit, lane: Lane, now: float, utc: datetime, changes: Changes) -> Ready | float | None:
        if visit.kind is not Kind.PAGE:
            return super()._try_visit(visit, lane, now, utc, changes)
        verdict = self.book.verdict(visit.url, now)
        if isinstance(verdict, Ask):
            return self._ask(verdict, lane, now)
        if isinstance(verdict, Wait) and verdict.not_before is None:
            lane.held = True  # somebody is asking
            return None
        if isinstance(verdict, Allowed):
            self._slow_down(lane, origin_of(visit.url), verdict.crawl_delay_s)
        lane.take()  # also where robots.txt cannot be had for now: what would be known later is not waited for
        return None

    def _due_at(self, lane: Lane, now: float, not_before: float | None) -> float | None:
        """A scout sends nothing, so it has no delay to wait for."""
        head = None if not_before is not None or lane.over is not None else lane.head(now)
        if head is not None and head.kind is Kind.PAGE:
            return now
        return super()._due_at(lane, now, not_before)
