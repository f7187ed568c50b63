"""The door of a site: who is let in, how long the service takes, and what is said to those who are not."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from amble.core.sitemap.walk import USUAL_PATHS
from amble.testing.farm.limits import Limit
from amble.testing.lab.announce import WALL_AT_START, announce_quota
from amble.testing.lab.limiters import Unlimited
from amble.testing.lab.servers import LogNormal, Noise, TellsQuota

_NO_PAGES = ("/robots.txt", *USUAL_PATHS)
UNLIMITED = Limit(lambda random: Unlimited())


class Verdict(NamedTuple):
    """What the door did with one request. Status 200: it is let in, and the site answers."""

    status: int
    headers: dict[str, str]
    inside_s: float  # the service, and any wait before it
    refused: bool = False
    not_before_s: float | None = None  # seconds from now before which the site does not want to be asked


class Door:
    """A limiter told the seconds since the site was first asked, announcements told the time of day."""

    def __init__(self, limit: Limit | None, service: LogNormal | None, noise: Noise | None, random: Random) -> None:
        self._limit = limit or UNLIMITED
        self._limiter = self._limit.build(random)
        self._service = service
        self._noise = noise
        self._random = random

    def arrive(self, now: float, wall_at: float, path: str = "/") -> Verdict:
        """A request for this path arrives, `now` seconds after the first, at this Unix time."""
        service_s = self._service.draw(self._random) if self._service else 0.0
        if self._limit.pages_only and path in _NO_PAGES:
            return Verdict(200, {}, service_s)
        wait_s = self._limiter.admit(now, service_s)
        if wait_s is None:
            return self._refuse(now, wall_at)
        failure = self._noise.strike(self._random) if self._noise else None
        if failure is not None:
            return Verdict(failure.status, {}, failure.inside_s)
        headers: dict[str, str] = {}
        self._tell_quota(now, wall_at, headers)
        return Verdict(200, headers, wait_s + service_s)

    def _refuse(self, now: float, wall_at: float) -> Verdict:
        headers: dict[str, str] = {}
        dated = wall_at - WALL_AT_START  # announcements count their dates from there
        until = self._limit.refusal.announce(dated, self._limiter.wait_s(now), headers)
        self._tell_quota(now, wall_at, headers)
        if self._limit.challenge:
            headers["cf-mitigated"] = "challenge"
        return Verdict(self._limit.refusal.status, headers, 0.0, True, None if until is None else until - dated)

    def _tell_quota(self, now: float, wall_at: float, headers: dict[str, str]) -> None:
        if self._limit.dialect and isinstance(self._limiter, TellsQuota):
            announce_quota(self._limit.dialect, self._limiter.quota(now), wall_at - WALL_AT_START, headers)
