"""The gauge strategy: measures the site's limit, runs a little under it, and probes over it rarely. Pure.

At every block the server's limiter is exhausted. So accepted requests divided by time, from release to release, *is*
the limit, for token buckets and windows alike. This file sends and grows; `gauge_track` estimates when a block
closes; `gauge_guard` watches the response times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from amble.core.pacing.block import Block
from amble.core.pacing.permit import Permit
from amble.core.pacing.phase import PacePhase
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.strategies.base import ALONE_S, LONGEST_PAUSE_S, Strategy
from amble.core.pacing.strategies.gauge_climb import Climb, climbed
from amble.core.pacing.strategies.gauge_found import NOTHING, Found
from amble.core.pacing.strategies.gauge_guard import LatencyGuard
from amble.core.pacing.strategies.gauge_slots import Slots
from amble.core.pacing.strategies.gauge_track import FEW, MARGIN, NO_GUESS, Evidence, Track

FIRST_DELAY_S = 0.25
OPENING, OPENING_GAP_S = 5, 0.1  # so many answers, one at a time, so far apart at the least, before the climb
SHORTEST_PAUSE_S = 0.4
RELEASED = 0.3  # into the last pause of a site that does not say how long it refuses
QUOTA_STEP = 2.0
STRICT_SHARE, STRICT_BLOCK_S = 0.7, 2.2  # of the rate; a longer block is a window
CAP_SHARE = 2.0  # of what so many slots carry; no higher rate need be tried
UNDER_CAP = 1.19  # growth per answer where a cap on requests at once protects the site; doubles in four
STARVED = 1 / 0.7  # a request this much later than allowed shows that there was nothing to send
LATE_SHARE, LATE_MOST = 0.05, 0.3  # of the newest request in the average; of the delay that is made up for
CROWDED = 3  # with fewer requests under way none of them can be waiting for the others
HEADERLESS_ANSWERS = 50  # so many answers without quota headers end the trust in them
# A site was down, and did not mean us, where it failed for so long and for so many requests' time at a rate it bore.
DOWN_S, DOWN_TOLD_S, DOWN_REQUESTS, DOWN_AFTER, DOWN_OVER = 1.0, 2.2, 3, 6, 1.25
DOWN_SHARE, LONG_DOWN_SHARE, LONG_DOWN_S = 0.8, 0.4, 10.0  # of the rate, to go on climbing from
WINDOWS, ALIKE = 3, 1  # so often down after as many requests, give or take one: a window that is used up


class Gauge(Strategy):
    __slots__ = (
        "_epoch_at",
        "_found",
        "_gap_min_s",
        "_late_s",
        "_settings",
    )

    name: ClassVar[str] = "gauge"

    def __init__(self, settings: PacingSettings) -> None:
        super().__init__()
        self._settings = settings
        self._gap_min_s = 0.0  # the shell's; no shorter delay need be tried
        self._epoch_at: float | None = None  # the measured span begins: the first send, then each release
        self._found = NOTHING
        self._late_s = 0.0  # how much later than allowed requests start, on average, by our own fault
        self.delay_s, self.alone, self.gap_s = FIRST_DELAY_S, True, OPENING_GAP_S

    def _own(self) -> Found:
        """What was found out here, to add to it."""
        if self._found is NOTHING:
            self._found = Found()
        return self._found

    @property
    def rate(self) -> float:
        return 1.0 / self.delay_s

    @property
    def limit(self) -> float | None:
        """The site's limit as measured, in requests per second."""
        return self._found.track.limit if self._found.track else None

    @property
    def phase(self) -> str:
        if self._found.headerless is not None:
            return "headers"
        return "track" if self._found.track else "start"

    @property
    def pace_phase(self) -> PacePhase:
        return PacePhase.FINDING if self.phase == "start" else super().pace_phase

    @property
    def floor_s(self) -> float:
        return 1.0 / self._found.track.limit if self._found.track else 0.0

    @property
    def learned(self) -> bool:
        return self._found.track is not None

    def limit_to(self, gap_s: float, bursts: bool) -> None:
        self._gap_min_s = gap_s
        if self.delay_s < gap_s:
            self.propose(gap_s, "crawl delay")
        elif self.alone:
            self.gap_s = max(OPENING_GAP_S, gap_s)

    def end_alone(self) -> None:
        self.alone = False
        self.gap_s = self.delay_s  # the same object: the many that are asked a few times are to take little memory

    def on_ok(
        self, permit: Permit, latency_s: float | None, usual_s: float | None, in_flight: int, now: float
    ) -> float:
        if self._epoch_at is None:
            self._epoch_at = permit.sent_at
        if self.alone:
            if permit.seq < OPENING and now - self._epoch_at < ALONE_S:
                return 0.0
            self.end_alone()
        found = self._found
        if found.headerless is not None:
            found.headerless += 1
            if found.headerless > HEADERLESS_ANSWERS:
                found.headerless = None
            return 0.0
        guard = found.guard
        slow = guard is not None and latency_s is not None and guard.observe(permit, latency_s, now)
        if slow and guard is not None and guard.overloaded:
            return self._relieve(guard, permit, in_flight, now)
        if found.track is not None:
            found.track.pages += 1
        elif permit.seq - found.epoch_seq >= OPENING:  # what is asked a few times only pays for none
            if found.climb is None:
                found = self._own()
                found.climb = Climb(self._epoch_at, permit.seq - found.epoch_seq - 1)
            found.climb.accept(permit.sent_at)
        if found.slots is not None:
            found.slots.accept(permit.in_flight)
            self.parallel = found.slots.cap
        elif permit.in_flight > 1:
            self._own().slots = Slots()
        if guard is None and latency_s is not None and permit.in_flight >= CROWDED:
            self._own().guard = LatencyGuard.begin(usual_s or latency_s, permit.seq)
        # A request sent later than it might have been proves nothing about a higher rate.
        if self._in_time(permit) and not (slow and guard and guard.queueing):
            self._grow(usual_s or latency_s or 1.0, now)
        return 0.0

    def on_quota(self, gap_s: float) -> None:
        self._own().headerless = 0
        # A header may be wrong: a higher rate is approached in steps.
        self._set_rate(min(1 / gap_s, QUOTA_STEP * self.rate), "quota headers")

    def on_block(self, block: Block, now: float) -> float:
        found = self._own()
        block.rate = self.rate
        found.headerless = None
        self.note = "limited"
        if self.alone:
            self.end_alone()
        pause_s = max(SHORTEST_PAUSE_S, 2 * self.delay_s)
        if found.slots is None:
            found.slots = Slots()
        queueing = found.guard is not None and found.guard.queueing  # where answers slow down, slots are not the limit
        if found.slots.cap is not None or not queueing:
            needed = self._carried(block) * (block.latency_s or 0.0)
            block.explained = found.slots.refuse(block.in_flight, block.seq, needed)
            self.parallel = found.slots.cap
        if found.track is None or block.explained:
            return pause_s
        return max(pause_s, min(found.track.expected_block_s(now), LONGEST_PAUSE_S))

    def _carried(self, block: Block) -> float:
        """The rate that the site is known to bear."""
        if self._found.track is not None:
            return self._found.track.limit
        since_s = block.first_at - (block.first_at if self._epoch_at is None else self._epoch_at)
        return min(block.rate, max(0, block.seq - self._found.epoch_seq - 1) / since_s) if since_s > 0 else 0.0

    def on_refused(self, block: Block, now: float) -> float:
        if block.explained and self._found.slots is not None:
            block.explained = False  # even a request that was alone was refused
            self._found.slots.give_up(block.seq)
            self.parallel = None
        factor = 2.0 if block.failed_probes < 4 else 3.0
        return min(factor * block.pause_s, LONGEST_PAUSE_S)

    def on_close(self, block: Block, probe: Permit, now: float) -> None:
        evidence, release_at = self._evidence(block)
        found = self._own()
        if block.explained:
            rate, reason = block.rate, "limit of requests at once"
        elif self._was_down(block, evidence):
            if found.track is not None:
                rate = (1 - MARGIN) * found.track.limit
            else:
                rate = (DOWN_SHARE if evidence.blocked_s < LONG_DOWN_S else LONG_DOWN_SHARE) * block.rate
            reason = "the site was down"
        elif self._grants_nothing(evidence):
            found.strict = True
            rate, reason = STRICT_SHARE * block.rate, "no credit: climbing anew from a lower rate"
        else:
            if found.track is None:
                found.track = Track.begin(evidence, now, self._settings.refusal_price)
            else:
                found.track.close(evidence, now)
            rate, reason = (1 - MARGIN) * found.track.limit, found.track.reason
        self._epoch_at, found.epoch_seq, found.climb = release_at, probe.seq - 1, None
        self._set_rate(rate, reason)
        if found.guard is not None:
            found.guard.pause()
        if found.track is not None:
            found.track.restart(gap_s=max(0.0, probe.sent_at - release_at), now=now)
            found.track.rate_low = self.rate

    def _evidence(self, block: Block) -> tuple[Evidence, float]:
        """What a block says, and when the site was ready for more: as it said, or, where trials failed, some time into
        the pause after the last of them."""
        release_at = block.last_at if block.release_at is None else block.release_at
        if block.failed_probes and block.release_at is None:
            release_at += RELEASED * block.pause_s
        accepted = max(0, block.seq - self._found.epoch_seq - 1)
        climb, guess = self._found.climb, NO_GUESS
        if climb is not None:
            guess = climb.guess(accepted, block.first_at, block.rate)
        evidence = Evidence(
            accepted=accepted,
            span_s=max(release_at - (block.first_at if self._epoch_at is None else self._epoch_at), 1e-3),
            blocked_s=round(max(0.0, release_at - block.first_at), 6),  # servers name whole seconds; floats do not
            rate=block.rate,
            failed_probes=block.failed_probes,
            directed=block.release_at is not None,
            guess=guess,
            strict=self._found.strict,
        )
        return evidence, release_at

    def _grants_nothing(self, evidence: Evidence) -> bool:
        """Whether the first few requests were too many already: there is no credit to use up, so that the next refusal
        of a climb will show the limit itself."""
        first = self._found.track is None and not self._found.strict
        return first and evidence.accepted < FEW and evidence.blocked_s <= STRICT_BLOCK_S

    def _was_down(self, block: Block, evidence: Evidence) -> bool:
        """Whether the site did nothing but fail, for too long to be a limit, at a rate that it is known to bear: then
        its limit is what it was before. Three times after as many requests each it is a window that says 503."""
        found = self._own()
        blocked_s, track = evidence.blocked_s, found.track
        if not block.failing or (track is None and evidence.accepted < DOWN_AFTER):
            return False
        if blocked_s < (DOWN_TOLD_S if evidence.directed else DOWN_S) or block.rate * blocked_s < DOWN_REQUESTS:
            return False
        if track is not None and block.rate > DOWN_OVER * track.limit:
            return False
        found.downs = (*found.downs, evidence.accepted)[-WINDOWS:]
        return len(found.downs) < WINDOWS or max(found.downs) - min(found.downs) > ALIKE

    def on_outage(self, pause_s: float) -> None:
        if self._epoch_at is not None:
            self._epoch_at += pause_s
        if self._found.climb is not None:
            self._found.climb = None

    def save(self) -> dict[str, float]:
        track, guard = self._found.track, self._found.guard
        numbers = track.save() if track else {}
        if guard is not None:
            numbers |= guard.save()
        return numbers

    def load(self, numbers: Mapping[str, float], *, trust: float, now: float) -> None:
        found = self._own()
        track = found.track = Track.load(numbers, trusted=trust >= 1.0, now=now)
        found.guard = LatencyGuard.load(numbers)
        if track:
            self.alone = False
            self._set_rate((1 - MARGIN) * track.limit, "learned earlier")
            track.rate_low = self.rate

    def _in_time(self, permit: Permit) -> bool:
        """Whether there was something to send when this request might have been sent. A busy machine is late all the
        same, if only by little; what it is late on average, the gaps are made shorter by."""
        took_s = permit.sent_at - permit.previous_at
        if took_s > STARVED * (self.delay_s if self.delay_s > permit.gap_s else permit.gap_s):
            return False
        self._late_s += LATE_SHARE * (took_s - permit.gap_s - self._late_s)
        return True

    def _grow(self, usual_s: float, now: float) -> None:
        rate, track = 1.0 / self.delay_s, self._found.track
        if track is None and self.parallel is not None:
            carried = CAP_SHARE * self.parallel / usual_s
            self._set_rate(min(UNDER_CAP * rate, max(rate, carried)), "as fast as the requests at once allow")
        elif track is None:
            self._set_rate(climbed(rate), "no refusal since" if self._found.epoch_seq else "no limit met yet")
        else:
            grown = track.grown(rate, now)
            if grown != rate:
                self._set_rate(grown, "probing above the limit" if track.beyond else "close to the limit")

    def _relieve(self, guard: LatencyGuard, permit: Permit, in_flight: int, now: float) -> float:
        """The site queues our requests: slow down to what it serves and let the queue drain."""
        relief = guard.relieve(self.rate, permit.seq + in_flight, in_flight, now)
        found = self._own()
        found.climb = None
        if found.track is None:
            found.track = Track(relief.rate / (1 - MARGIN), now)
        else:
            found.track.unsettle(relief.rate / (1 - MARGIN), now)
        self._set_rate(relief.rate, relief.reason)
        found.track.rate_low = min(found.track.rate_low, self.rate)
        return relief.drain_s

    def _set_rate(self, rate: float, reason: str) -> None:
        delay_s = 1.0 / rate
        if delay_s > self._settings.max_adaptive_delay:
            delay_s = self._settings.max_adaptive_delay
        if delay_s < self._gap_min_s:
            delay_s = self._gap_min_s
        self.delay_s = delay_s
        gap_s = delay_s - self._late_s if self._late_s < LATE_MOST * delay_s else (1 - LATE_MOST) * delay_s
        self.gap_s = gap_s if gap_s > self._gap_min_s else self._gap_min_s
        self.note = reason
