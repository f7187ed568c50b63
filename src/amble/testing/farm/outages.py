"""When a site is down, and how that looks from outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from amble.testing.farm.exchange import Response, html
from amble.testing.lab.announce import WALL_AT_START, Refusal

How = Literal["reset", "hang", "error", "maintenance"]


@dataclass(frozen=True, slots=True)
class Outage:
    """Down between two instants, in seconds since the site was first asked."""

    from_s: float
    to_s: float
    how: How = "reset"
    told: Refusal | None = None  # how a site under maintenance says when it will be back
    cuts_off: bool = False  # what is under way as it begins is cut off

    def response(self, now: float, wall_at: float = 0.0) -> Response | None:
        """What a request meets during the outage; None outside of it. What it is told not to be asked before counts
        from its arrival."""
        if not self.from_s <= now < self.to_s:
            return None
        if self.how == "error":
            response = html("<h1>Bad gateway</h1>", 502)
        elif self.how == "maintenance":
            response = html("<h1>Down for maintenance</h1>", 503)
            if self.told is not None:
                dated = wall_at - WALL_AT_START  # announcements count their dates from there
                until = self.told.announce(dated, self.to_s - now, response.headers)
                response.not_before = None if until is None else until - dated
        else:
            response = Response(broken=self.how)
        response.outage = True
        return response


def flapping(
    period_s: float, until_s: float, *, first_s: float | None = None, how: How = "reset"
) -> tuple[Outage, ...]:
    """Up for half of each period, then down for the other half, until it stays up [F7]."""

    def spans() -> Iterator[Outage]:
        down = period_s / 2
        while down < until_s:
            yield Outage(down, min(down + period_s / 2, until_s), how)
            down += period_s

    return tuple(spans())
