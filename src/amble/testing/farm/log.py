"""What happened at the farm: one entry for each request, in the order in which they were read."""

from __future__ import annotations

from dataclasses import dataclass, field

# What clients send that a judge may want to see; the rest is forgotten.
OF_INTEREST = (
    "accept", "accept-encoding", "authorization", "connection", "cookie", "from", "if-modified-since", "if-none-match",
    "proxy-authorization", "range", "referer",
)  # fmt: skip


@dataclass(slots=True)
class Entry:
    """One request. Instants are monotonic, as every process on this machine counts them."""

    host: str
    target: str
    arrived: float
    status: int | None  # None: no answer was given
    in_flight: int  # at this host when it was read, this one included
    connection: int
    agent: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    ended: float | None = None  # the last byte was about to be handed to the kernel, or the connection went
    complete: bool = False  # the whole answer was sent
    refused: bool = False
    not_before: float | None = None
    outage: bool = False
    body_bytes: int = 0

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def is_robots(self) -> bool:
        return self.path == "/robots.txt"
