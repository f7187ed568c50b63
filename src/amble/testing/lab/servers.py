"""A server: a limiter, a way to refuse, a latency, some noise. Told when requests arrive, answers with verdicts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Protocol, runtime_checkable

from amble.testing.lab.announce import Dialect, Refusal, announce_quota
from amble.testing.lab.limiters import Limiter, Quota

TIMED_OUT = 0  # the status of a request that was never answered


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Times as networks show them: a median, and a tail to the right (p99 at 1.8 times the median by default)."""

    median_s: float
    sigma: float = 0.25

    def draw(self, random: Random) -> float:
        return random.lognormvariate(math.log(self.median_s), self.sigma)

    @property
    def mean_s(self) -> float:
        return self.median_s * math.exp(self.sigma**2 / 2)


class Verdict(NamedTuple):
    """What the server did with one request, seen from inside it."""

    status: int
    headers: dict[str, str]
    inside_s: float  # from the arrival until the answer leaves
    refused: bool  # by the limiter; noise is not a refusal
    not_before: float | None  # the server asked not to be called before this instant


@runtime_checkable
class TellsQuota(Protocol):
    """A limiter that can say how much it has left."""

    def quota(self, now: float) -> Quota: ...


ROUND_TRIP = LogNormal(0.08)
NOTHING: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Noise:
    """Trouble that is no limit: a share of admitted requests fails alone, as 503, 500, or with no answer at all."""

    share: float = 0.01
    timeout_s: float = 10.0

    def strike(self, random: Random) -> Verdict | None:
        if random.random() >= self.share:
            return None
        status = random.choice((503, 500, TIMED_OUT))
        return Verdict(status, NOTHING, self.timeout_s if status == TIMED_OUT else 0.0, False, None)


class Server:
    """One site as its clients meet it."""

    def __init__(
        self,
        limiter: Limiter,
        random: Random,
        *,
        refusal: Refusal | None = None,
        round_trip: LogNormal = ROUND_TRIP,
        service: LogNormal | None = None,
        dialect: Dialect | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.limiter = limiter
        self.refusal = refusal or Refusal()
        self.round_trip = round_trip
        self.service = service
        self.dialect = dialect
        self.noise = noise
        self._random = random
        self._log_trip_s = math.log(round_trip.median_s)

    def trip_s(self) -> float:
        """One round trip on the network: half of it there, half back."""
        return self._random.lognormvariate(self._log_trip_s, self.round_trip.sigma)

    def arrive(self, now: float) -> Verdict:
        """A request arrives."""
        service_s = self.service.draw(self._random) if self.service else 0.0
        delay_s = self.limiter.admit(now, service_s)
        if delay_s is None:
            return self._refuse(now)
        if self.noise and (failure := self.noise.strike(self._random)):
            return failure
        headers = NOTHING
        if self.dialect:
            headers = {}
            self._tell_quota(now, headers)
        return Verdict(200, headers, delay_s + service_s, False, None)

    def ideal_s(self, pages: int) -> float:
        """Seconds an ideal client needs: the limiter's, for the pages and for the requests that noise spoils."""
        share = self.noise.share if self.noise else 0.0
        return self.limiter.ideal_s(math.ceil(pages / (1.0 - share)))

    def _refuse(self, now: float) -> Verdict:
        headers: dict[str, str] = {}
        not_before = self.refusal.announce(now, self.limiter.wait_s(now), headers)
        if self.dialect:
            self._tell_quota(now, headers)
        return Verdict(self.refusal.status, headers, 0.0, True, not_before)

    def _tell_quota(self, now: float, headers: dict[str, str]) -> None:
        if self.dialect and isinstance(self.limiter, TellsQuota):
            announce_quota(self.dialect, self.limiter.quota(now), now, headers)
