"""A site while it runs: what it remembers, and in which order it decides about a request."""

from __future__ import annotations

from random import Random

from amble.testing.farm.door import Door
from amble.testing.farm.exchange import Request, Response, html, not_found
from amble.testing.farm.site import Site
from amble.testing.lab.servers import TIMED_OUT


class Host:
    """One name of the farm, from its first request on."""

    def __init__(self, name: str, site: Site, first_at: float) -> None:
        self.name = name
        self.site = site
        self.first_at = first_at  # monotonic; the site's own time counts from here
        self.in_flight = 0
        self.memory: dict[str, int] = {}
        self._door = Door(site.limit, site.latency, site.noise, Random(f"{site.seed} {name}"))
        self._now = 0.0

    def answer(self, request: Request, wall_at: float) -> Response:
        """What this request meets: an outage, the door, or the site."""
        # Limiters want their arrivals in order; two connections may be read in another order than they spoke in.
        self._now = max(self._now, request.arrived - self.first_at)
        request.now, request.memory = self._now, self.memory
        for outage in self.site.outages:
            down = outage.response(self._now, wall_at)
            if down is not None:
                if down.not_before is not None:
                    down.not_before += request.arrived
                return down
        verdict = self._door.arrive(self._now, wall_at, request.path)
        if verdict.status == 200:
            response = self.site.answer(request) or not_found()
        else:
            response = self._turn_away(verdict.status, challenge="cf-mitigated" in verdict.headers)
        response.headers |= verdict.headers
        response.wait_s += verdict.inside_s
        response.refused = verdict.refused
        if verdict.not_before_s is not None:
            response.not_before = request.arrived + verdict.not_before_s
        for outage in self.site.outages:
            if outage.cuts_off and self._now < outage.from_s < self._now + response.wait_s:
                return Response(broken="reset", wait_s=outage.from_s - self._now)
        return response

    def _turn_away(self, status: int, *, challenge: bool) -> Response:
        if status == TIMED_OUT:
            return Response(broken="hang")
        if challenge:
            return html("<!doctype html><title>Just a moment...</title><p>Checking that you are human.</p>", status)
        return html(f"<!doctype html><title>{status}</title><h1>Not now</h1>", status)

    def __repr__(self) -> str:
        return f"<Host {self.name} in_flight={self.in_flight} now={self._now:.3f}s>"
