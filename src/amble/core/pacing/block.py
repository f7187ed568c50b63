"""A time in which a domain is left alone: one event, however many answers told us so. Pure."""

from __future__ import annotations

import math


class Block:
    """Opened by a limit or by the breaker, then half-open: a trial request decides whether it closes."""

    __slots__ = (
        "explained",
        "failed_probes",
        "failing",
        "first_at",
        "in_flight",
        "last_at",
        "latency_s",
        "limited",
        "opened_at",
        "pause_s",
        "probe_successes",
        "probes_out",
        "rate",
        "release_at",
        "seq",
        "tripped",
        "until_before",
    )

    def __init__(
        self,
        opened_at: float,
        first_at: float,
        seq: int,
        in_flight: int,
        until_before: float = -math.inf,
        latency_s: float | None = None,
    ) -> None:
        self.opened_at = opened_at
        self.first_at = first_at  # when the first refused request was sent
        self.last_at = first_at  # when the last refused one was
        self.release_at: float | None = None  # the end of Retry-After, counted from the send
        self.seq = seq  # of the first refused request
        self.in_flight = in_flight  # when it was sent, itself included
        self.latency_s = latency_s  # of the answers before it
        self.failing = True  # every refusal in it was a failure of the server or of the network
        self.explained = False  # by a cause other than the rate, which then need not be cut
        self.rate = 0.0  # the strategy's rate at that moment
        self.pause_s = 0.0
        self.failed_probes = 0
        self.probes_out = 0
        self.probe_successes = 0
        self.limited = False  # the server asked for less
        self.until_before = until_before  # how long the domain is to be left alone in any case
        self.tripped = False  # the breaker is open: the server fails

    def probe_failed(self) -> None:
        self.failed_probes += 1
        self.probe_successes = 0

    def refused(self, sent_at: float, retry_after_s: float | None, *, failing: bool) -> None:
        """One more request was refused; those sent before the block was known are part of it."""
        self.failing = self.failing and failing
        self.last_at = max(self.last_at, sent_at)
        if retry_after_s is not None:
            released_at = sent_at + retry_after_s
            self.release_at = released_at if self.release_at is None else max(self.release_at, released_at)
