"""One simulated site: what it answers to each path, how it limits its visitors, and how it fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from amble.core.outcome import Failure
from amble.testing.lab.announce import Dialect, announce_quota
from amble.testing.lab.limiters import FixedWindow, Limiter
from amble.testing.lab.servers import TellsQuota
from amble.testing.simulation.network import Keeps
from amble.testing.simulation.retry_after import Form, announce
from amble.testing.simulation.robots import RobotsFile, Says

# Faults of a single exchange, after it was sent; those before are the network's.
BROKEN = {
    "reset": Failure.NETWORK_RESET,
    "timeout": Failure.NETWORK_TIMEOUT,
    "truncated": Failure.NETWORK_RESET,
    "garbage": Failure.NETWORK_PROTOCOL_ERROR,
    "undecodable": Failure.CONTENT_DECODE_ERROR,
    "too_large": Failure.CONTENT_TOO_LARGE,
}
STATUSES = {"500": 500, "502": 502, "503": 503, "403": 403, "challenge": 403, "410": 410}
TIMEOUT_S = 30.0


class Reply(NamedTuple):
    """What a site answers, seen from inside it."""

    status: int | None = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    failure: Failure | None = None
    note: str = ""  # which fault or rare branch this was
    inside_s: float = 0.0
    reset_s: float = 0.0  # until its quota, if it tells of one, is whole again
    left: int | None = None  # of it, where nothing comes back before


HTML = ("Content-Type", "text/html; charset=utf-8")


def moved(target: str, note: str, status: int = 302) -> Reply:
    return Reply(status, b"", (("Location", target),), note=note)


@dataclass(slots=True)
class Site:
    """A host. Two of its origins, http and https, share everything but their robots.txt's address."""

    host: str
    address: str
    random: Random
    pages: dict[str, Reply] = field(default_factory=dict)
    robots: list[tuple[float, RobotsFile]] = field(default_factory=list)  # (from when on, what it says)
    says: Says = "rules"
    robots_target: str = ""
    limiter: Limiter | None = None
    refusal_status: int = 429
    form: Form = "silent"
    dialect: Dialect | None = None
    faults: tuple[str, ...] = ()
    faults_share: float = 0.0
    outages: tuple[tuple[float, float, str], ...] = ()
    trouble: str | None = None  # what befalls every request, and always will
    trouble_schemes: tuple[str, ...] = ("http", "https")
    trouble_spares_robots: bool = False
    keeps: Keeps = "nothing"  # which connections stay open after an answer
    silences: tuple[float, ...] = ()  # instants at which the connections that are open fall silent
    refuses_share: float = 0.0  # of the requests on new connections: refused unread, as HTTP/2 may
    calm_after: float = 3_600.0  # no fault strikes after this: what is alive then must end
    robots_asked: int = 0

    @property
    def is_fine(self) -> bool:
        """Whether nothing ever befalls it, so that what fails there is not its own fault."""
        whole = self.says in ("rules", "missing", "forbidden")
        return whole and not (self.faults or self.outages or self.trouble or self.silences or self.refuses_share)

    def strike(self, now: float, scheme: str, path: str) -> str | None:
        """The fault that befalls this exchange, if one does."""
        if self.trouble and scheme in self.trouble_schemes:
            return None if path == "/robots.txt" and self.trouble_spares_robots else self.trouble
        for begins, ends, fault in self.outages:
            if begins <= now < ends:
                return fault
        if self.faults and now < self.calm_after and self.random.random() < self.faults_share:
            return self.random.choice(self.faults)
        return None

    def arrive(self, path: str, now: float, etag: str | None, fault: str | None) -> Reply:
        inside_s = 0.0
        if self.limiter is not None:
            waits_s = self.limiter.admit(now, 0.05)
            if waits_s is None:
                return self._refuse(now)
            inside_s = waits_s
        if fault in BROKEN:
            return Reply(None, b"<a href=/lost>", failure=BROKEN[fault], note=fault, inside_s=inside_s)
        if fault in STATUSES:
            extra = (("cf-mitigated", "challenge"),) if fault == "challenge" else ()
            return Reply(STATUSES[fault], b"no", (HTML, *extra), note=fault, inside_s=inside_s)
        if fault == "busy":
            headers = announce(self.form, now, 20.0, self.random)
            return Reply(503, b"busy", tuple(headers.items()), note="503 with Retry-After", inside_s=inside_s)
        reply = self._robots(now, etag) if path == "/robots.txt" else self._page(path, etag)
        quota: dict[str, str] = {}
        limiter: object = self.limiter
        reset_s, left = 0.0, None
        if self.dialect and isinstance(limiter, TellsQuota):
            if isinstance(limiter, FixedWindow):  # elsewhere some comes back before the reset
                left = limiter.quota(now).left
            reset_s = limiter.quota(now).reset_s
            if self.dialect == "x-epoch" and "Date" in dict(reply.headers):
                reset_s += now  # what such a page tells was written down when its site began
            announce_quota(self.dialect, limiter.quota(now), now, quota)
        return reply._replace(headers=(*reply.headers, *quota.items()), inside_s=inside_s, reset_s=reset_s, left=left)

    def _page(self, path: str, etag: str | None) -> Reply:
        reply = self.pages.get(path, NOT_FOUND)
        if etag is not None and ("ETag", etag) in reply.headers:
            return Reply(304, b"", (("ETag", etag),), note="page 304")
        if reply.note == "says 304" and etag is None and self.random.random() < 0.5:
            return Reply(304, note="304 unasked")
        return reply

    def _refuse(self, now: float) -> Reply:
        assert self.limiter is not None
        headers = announce(self.form, now, self.limiter.wait_s(now), self.random)
        return Reply(self.refusal_status, b"slow down", (HTML, *headers.items()), note=f"limit, {self.form}")

    def _robots(self, now: float, etag: str | None) -> Reply:
        self.robots_asked += 1
        file = [known for since, known in self.robots if since <= now][-1]
        if self.says == "missing":
            return Reply(404, note="robots 404")
        if self.says == "forbidden":
            return Reply(403, note="robots 403")
        if self.says == "broken" or (self.says == "shaky" and self.robots_asked <= 2):
            return Reply(503, note=f"robots {self.says}")
        if self.says == "limited" and self.robots_asked == 1:
            return Reply(429, b"", (("Retry-After", "40"),), note="robots 429")
        if self.says in ("away", "far", "chain", "loop", "page"):
            return moved(self.robots_target, f"robots redirected: {self.says}")
        if etag == file.etag:
            return Reply(304, note="robots 304")
        note = "robots changed" if file.version > 1 else "robots"
        return Reply(200, file.body(), (("Content-Type", "text/plain"), ("ETag", file.etag)), note=note)


NOT_FOUND = Reply(404, b"not here", (HTML,), note="404")
