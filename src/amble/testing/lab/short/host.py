"""A site of the short groups, described before anybody asks: its limit, its latency, its outages, its pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from amble.testing.lab.announce import Dialect, Refusal
from amble.testing.lab.limiters import Limiter
from amble.testing.lab.servers import LogNormal

FANOUT = 8  # pages that each page links to
SILENT = Refusal()


@dataclass(frozen=True, slots=True)
class Downtime:
    """The site is down between two instants of its clock: what is under way is cut off, what comes meets a 503."""

    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True)
class ShortHost:
    """One site. All its instants are on its own clock, which shows `clock_s` when it is first asked."""

    name: str
    part: str  # what it is compared with within its group
    pages: int
    limiter: Callable[[], Limiter]
    latency: LogNormal  # of each answer; the network takes no time, as on loopback
    clock_s: float = 0.0
    refusal: Refusal = SILENT
    dialect: Dialect | None = None
    downtimes: tuple[Downtime, ...] = ()
    tells_downtime: bool = False  # its 503 says when it will be back

    def downtime(self, now: float) -> Downtime | None:
        """The outage that the site is in."""
        return next((one for one in self.downtimes if one.from_s <= now < one.to_s), None)

    def cut_off(self, now: float, answered_at: float) -> float | None:
        """When an outage cuts off a request that arrived now and would be answered then."""
        return next((one.from_s for one in self.downtimes if now < one.from_s < answered_at), None)
