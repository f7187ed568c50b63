"""What gauge has found out about a site by more than a few answers: the parts of what it knows, made when needed. Pure.

Most domains of a large crawl are asked a few times only. Of them nothing is found out, and they share `NOTHING`.
"""

from __future__ import annotations

from amble.core.pacing.strategies.gauge_climb import Climb
from amble.core.pacing.strategies.gauge_guard import LatencyGuard
from amble.core.pacing.strategies.gauge_slots import Slots
from amble.core.pacing.strategies.gauge_track import Track


class Found:
    __slots__ = ("climb", "downs", "epoch_seq", "guard", "headerless", "slots", "strict", "track")

    def __init__(self) -> None:
        self.track: Track | None = None  # None while nothing is known of the limit (the START phase)
        self.climb: Climb | None = None
        self.slots: Slots | None = None
        self.guard: LatencyGuard | None = None
        self.epoch_seq = 0  # the last request before the measured span
        self.downs: tuple[int, ...] = ()  # requests accepted before each of the last times it was down
        self.strict = False  # the site has been found to grant no credit
        self.headerless: int | None = None  # answers since the last quota headers, while these set the pace


NOTHING = Found()  # never written to: see `Gauge._own`
