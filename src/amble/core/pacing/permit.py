"""The right to send one request, and what was true when it was issued. Pure."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Protocol


class Source(StrEnum):
    """What set the gap before a request: the rule a receipt names."""

    CRAWL_DELAY = "crawl_delay"  # robots.txt, or the default in its place
    MINIMUM = "minimum"  # min_crawl_delay or a rule's delay
    MAX_RATE = "max_rate"
    LEARNED = "learned"  # the strategy's delay
    QUOTA = "quota"  # the server's own RateLimit headers
    NONE = "none"


class PermitState(IntEnum):
    ISSUED = 0
    SETTLED = 1
    LOST = 2  # not settled in time; its slot was given to others


# By plain names: to look one up in its class takes longer than all else of a permit (Python 3.11).
ISSUED, SETTLED, LOST = PermitState


class Holder(Protocol):
    """Who gave a permit and takes it back."""

    domain: str

    def expect(self, permit: Permit) -> None: ...
    def sent(self, permit: Permit, now: float) -> None: ...
    def cancel(self, permit: Permit) -> None: ...
    def give_back(self, permit: Permit) -> None: ...


class Permit:
    """Issued by a pace, settled exactly once. Evidence carries its date: the epoch and the gap it was issued under."""

    __slots__ = (
        "at_once_max",
        "awaited",
        "domain",
        "epoch",
        "gap_s",
        "holder",
        "in_flight",
        "previous_at",
        "probe",
        "sent_at",
        "seq",
        "shared",
        "source",
        "state",
    )

    def __init__(
        self,
        domain: str,
        seq: int,
        sent_at: float,
        previous_at: float,
        epoch: int,
        gap_s: float,
        source: Source,
        in_flight: int,
        probe: bool,
        at_once_max: int = 1,
    ) -> None:
        self.domain = domain
        self.seq = seq
        self.sent_at = sent_at
        self.previous_at = previous_at  # start of the request before it; -inf for the first
        self.epoch = epoch
        self.gap_s = gap_s  # gap required between the two
        self.source = source
        self.in_flight = in_flight  # this one included
        self.probe = probe  # the trial request of a half-open block
        self.at_once_max = at_once_max  # as many might be under way then, this one included
        self.shared: Permit | None = None  # that of the address, where many domains share one
        self.holder: Holder | None = None  # the address that gave it, though the domain may move meanwhile
        self.state: PermitState = ISSUED
        self.awaited = False  # somebody was refused because this one had not left yet

    def __repr__(self) -> str:
        probe = " probe" if self.probe else ""
        return f"<Permit {self.seq}{probe} {self.state.name.lower()} sent_at={self.sent_at:.3f} gap={self.gap_s:.3f}s>"
