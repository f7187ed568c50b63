"""What gauge knows of a site's limit: estimated when a block closes, climbed slowly in between. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from amble.core.pacing.strategies.gauge_climb import Guess

MARGIN = 0.04  # run this much under the estimate
WIDTH, FIRST_WIDTH = 2 * MARGIN, 0.2  # climbed through in a period; after the first block, which only guessed
FIRST_PERIOD = 30  # pages from one probe of the limit to the next: while unsure,
SHORT_PERIOD = 100  # once confident,
LOADED_PERIOD = 200  # when loaded from an earlier run
SHORT_BLOCK_S, LONG_BLOCK_S = 5.0, 20.0
AGREE = 1.5  # spans whose rates differ by less than this factor are averaged
FEW = 6  # fewer accepted requests than this measure nothing by themselves:
FEW_LEAST, FEW_MOST = 0.5, 0.75  # at such a block, the limit lies between these shares of the rate
AGREED = 0.1  # a guess and a measurement that differ by less than this are both right
SPANS_KEPT = 4
GROWTH_LEAST, FIRST_STEP = 1.04, 1.15  # beyond the period; a guess is wrong by an unknown amount
STRICT_LIMIT, STRICT_PERIOD = 0.88, 200  # of the refused rate, where there is no credit; pages until it is tested
FLOWED_FEWEST, FLOWED_SHARE = 3, 0.97  # accepted requests that measure its limit; of what they measure
DOUBT_SHARE, DOUBT_LEAST, DOUBT_MOST = 0.1, 0.02, 0.1  # what a guess is likely to be too low by
WORTH_LEAST, WORTH_MOST = 30, 400  # pages of the first period
SHORTEST_BLOCK_S = 0.4
LEAN_FIRST, LEAN_LEAST, LEAN_MOST = 0.9, 0.5, 0.96
LONELY, LONELY_SHARE = 30, 0.96
ROUNDED_UP_S, ROUNDED_UP_REQUESTS = 1.5, 4
SAME_LENGTH_S = 0.3  # two directed blocks this equal are of one fixed length
SHORTEST_STEP_S, STEP_SHARE = 2.0, 0.25
LEAN_HOLD = 6  # blocks for which a lean that failed is not tried again
LEAST = 1e-6  # a limit of a request in days is none
BELIEVED = 1 / 60  # a lower one than this is believed only where a block has shown it
PUNISHING_S, PUNISHING_REQUESTS = 2.2, 8  # a date rounds up by less than two seconds
PUNISHED_STEPS = 2  # a step lasts so many times what a refusal costs
WARY_S = 8.0  # where being refused is dear, climb through the margin in this time
PENALTY_QUIET = 15  # after a penalty, no probing for so many times its length


NO_GUESS = Guess(0.0, 0.0)


class Evidence(NamedTuple):
    """One closed block: what was accepted since the last one, over which time, and how the block went."""

    accepted: int
    span_s: float
    blocked_s: float
    rate: float  # our rate when it opened
    failed_probes: int
    directed: bool  # the server said how long
    guess: Guess = NO_GUESS  # what the first climb betrays
    strict: bool = False  # the site is known to grant no credit

    @property
    def rounded_up(self) -> bool:
        """A Retry-After of a second, at several requests a second: what rounding up leaves of hardly any wait."""
        return self.directed and self.blocked_s <= ROUNDED_UP_S and self.rate * self.blocked_s >= ROUNDED_UP_REQUESTS

    @property
    def punishing(self) -> bool:
        """Told to stay away for longer than rounding explains, and for many requests' time: being refused is dear."""
        return self.directed and self.blocked_s > PUNISHING_S and self.rate * self.blocked_s >= PUNISHING_REQUESTS

    @property
    def lonely(self) -> bool:
        """One refusal after a long quiet run, over at once: jitter rather than exhaustion."""
        return self.accepted >= LONELY and not self.failed_probes and (self.rounded_up or self.blocked_s == 0)


class Track:
    """The estimate of one site's limit, in requests per second."""

    __slots__ = (
        "_blocks_s",
        "_cycle_at",
        "_gap_s",
        "_growth",
        "_growth_least",
        "_lean",
        "_lean_hold",
        "_leaned_on",
        "_long_rate",
        "_punished_s",
        "_quiet_until",
        "_spans",
        "_step_at",
        "_step_pages",
        "_width",
        "beyond",
        "confirmed",
        "limit",
        "pages",
        "period",
        "rate_low",
        "reason",
    )

    def __init__(self, limit: float, now: float) -> None:
        self.limit = limit
        self.confirmed = 0  # closings in a row that agreed
        self.period = FIRST_PERIOD
        self.rate_low = limit  # the lowest rate since the last release
        self.pages = 0
        self.beyond = False  # past the period: climbing over the estimate
        self.reason = "limit estimated"
        self._spans: tuple[tuple[float, float], ...] = ()
        self._blocks_s: tuple[float, ...] = ()
        self._gap_s = 0.0  # from release to our first request after it
        self._growth = self._growth_least = GROWTH_LEAST
        self._lean = LEAN_FIRST
        self._lean_hold = 0
        self._leaned_on: float | None = None  # the measured rate that was overridden in the present cycle
        self._step_pages = 0
        self._step_at = now
        self._cycle_at = now
        self._quiet_until = -math.inf  # no probing upward before
        self._width = WIDTH
        self._punished_s = 0.0  # how long the first refusal cost us, where that was a lot
        self._long_rate: float | None = None  # what the last long block measured

    @classmethod
    def begin(cls, evidence: Evidence, now: float, refusal_price: float = 2.0) -> Track:
        """The first block: the climb was steep, so its own rate says more than the span."""
        rate, measured = evidence.rate, evidence.accepted / evidence.span_s
        guess = evidence.guess.limit or 0.7 * rate
        if evidence.blocked_s >= LONG_BLOCK_S and not evidence.directed:
            limit = math.sqrt(max(measured, 1e-3) * 0.8 * guess)
        elif evidence.blocked_s > SHORT_BLOCK_S:
            limit = max(measured, 0.05 * rate)
            if evidence.directed and evidence.blocked_s < LONG_BLOCK_S:
                # The rest of a window, or a punishment? What flowed is right for the one, the climb for the other.
                limit = max(limit, math.sqrt(limit * guess))
        elif evidence.failed_probes and not evidence.directed:
            least = (0.3 if evidence.failed_probes == 1 else 0.1) * rate
            limit = min(0.7 * rate, max(measured, least))
        elif evidence.accepted < (FLOWED_FEWEST if evidence.strict else FEW):
            limit = 0.7 * rate  # refused at once: there was no credit to use up
        elif evidence.strict:  # so the limit lies between this rate and the one before
            limit = STRICT_LIMIT * min(evidence.guess.most or rate, rate)
        else:
            limit = min(guess, evidence.guess.most or guess)
        track = cls(limit, now)
        if evidence.blocked_s <= SHORT_BLOCK_S:
            if evidence.punishing:
                track.period = max(FIRST_PERIOD, int(WARY_S * limit))
                track._punished_s = evidence.blocked_s
            elif evidence.strict:
                track.period = STRICT_PERIOD
            else:
                track._width, track._growth_least = FIRST_WIDTH, FIRST_STEP
                track.period = _worth(limit, evidence, refusal_price)
        track._remember(evidence, measured)
        return track

    def close(self, evidence: Evidence, now: float) -> None:
        """A later block: the limiter was exhausted at both ends of the span, so accepted / time is the limit."""
        was, span_s = self.limit, evidence.span_s
        guessed, self._width, self._growth_least = self._width > WIDTH, WIDTH, GROWTH_LEAST
        if span_s < 10 * self._gap_s:
            # Short span: the time before our first request was partly unused.
            span_s = max(span_s - self._gap_s / 2, span_s / 2)
        measured = evidence.accepted / span_s
        narrow = self.rate_low >= 0.75 * evidence.rate
        self._judge_lean(evidence, measured)
        self.reason = "limit measured"
        penalised = self._penalty(evidence, measured, narrow, now)
        if penalised is not None:
            self.limit, self.reason = penalised, "penalty box: no probing for a while"
            self.period = self._longest_period()
            self._remember(evidence, measured)
            return
        flowed = self._flowed(evidence)
        if flowed > measured:
            self.limit, self.reason = flowed, "limit measured between two refusals"
            self._spans = ()
            self.confirmed = 1
        elif evidence.accepted < FEW:
            few = (evidence.accepted + 0.5) / span_s
            self.limit = min(max(few, FEW_LEAST * evidence.rate), FEW_MOST * evidence.rate)
            self._spans = ()
            self.confirmed = 0
        else:
            self._measure(evidence, narrow, guessed)
        self._choose_period(was)
        self._remember(evidence, measured)

    def restart(self, gap_s: float, now: float) -> None:
        """A new cycle from the release on."""
        self._gap_s = gap_s
        self.pages = self._step_pages = 0
        self.beyond = False
        self._growth = self._growth_least
        self._cycle_at = self._step_at = now

    def unsettle(self, limit: float, now: float) -> None:
        """The estimate came from the response times, not from a block: hold it with less confidence."""
        self.limit = limit
        self.confirmed = 0
        self.period = SHORT_PERIOD
        self.restart(self._gap_s, now)

    def grown(self, rate: float, now: float) -> float:
        """The rate after one more page: up through the margin in one period, then over it in growing steps."""
        if now < self._quiet_until:
            return rate
        if self.pages <= self.period:
            return self.limit * (1 - MARGIN + self._width * self.pages / self.period)
        if now - self._cycle_at <= 3:
            return rate
        if self.pages - self._step_pages >= 10 and now - self._step_at >= self._step_s():
            self.beyond = True
            self._step_pages, self._step_at = self.pages, now
            rate *= self._growth
            self._growth = min(1.25, 1.02 * self._growth + 0.005)
        return rate

    def _step_s(self) -> float:
        """Long blocks mean a long window: it shows that a step was too far only when it is used up, so go slowly."""
        if self._punished_s:
            return PUNISHED_STEPS * self._punished_s
        return max(SHORTEST_STEP_S, STEP_SHARE * min(self._blocks_s)) if len(self._blocks_s) == 2 else SHORTEST_STEP_S

    def expected_block_s(self, now: float) -> float:
        """How long this site's blocks last at least, once two are known."""
        if len(self._blocks_s) < 2:
            return 0.0
        return min(self._blocks_s) * (1.05 if now < self._quiet_until else 0.5)

    def save(self) -> dict[str, float]:
        numbers = {"limit": self.limit, "confirmed": float(self.confirmed)}
        return numbers | {f"block_{index}_s": length_s for index, length_s in enumerate(self._blocks_s)}

    @classmethod
    def load(cls, numbers: Mapping[str, float], *, trusted: bool, now: float) -> Track | None:
        delay_s = numbers.get("delay_s", 0.0)  # all there is when another strategy learned it
        limit = numbers.get("limit", 1 / delay_s if delay_s > 0 else 0.0)
        if not LEAST <= limit < math.inf:
            return None
        confirmed = int(numbers.get("confirmed", 0)) if trusted else 0
        if "limit" in numbers and limit < BELIEVED and not confirmed and "block_0_s" not in numbers:
            return None  # an earlier version measured some sites that never refused anything from the clock's zero
        track = cls(limit * (0.97 if confirmed else 0.85), now)
        track.confirmed = confirmed
        if confirmed:
            track.period = track._longest_period() if confirmed >= 3 else LOADED_PERIOD
        track._blocks_s = tuple(numbers[name] for name in ("block_0_s", "block_1_s") if numbers.get(name, -1.0) >= 0)
        return track

    def _measure(self, evidence: Evidence, narrow: bool, guessed: bool) -> None:
        was, rate = self.limit, evidence.rate
        plain = evidence.accepted / evidence.span_s
        agreed = guessed and abs(plain / was - 1) < AGREED  # two ways to find it out: nothing to lean for
        rising = not narrow and plain > 1.08 * was
        if rising:
            self._spans = ()
        self._spans = (*self._spans, (float(evidence.accepted), evidence.span_s))[-SPANS_KEPT:]
        accepted, estimate, agreeing = self._average()
        confident = accepted >= 10 and (narrow or agreeing >= 2) and not rising
        leaning = self._lean * rate
        over_soon = evidence.blocked_s <= 0.06 * evidence.span_s
        if leaning > estimate and over_soon and not agreed and (self._lean_hold <= 0 or rising):
            self._leaned_on = estimate
            estimate = min(leaning, (2.0 if rising else 1.25) * estimate)
        if rate <= 1.05 * was and evidence.lonely:
            estimate = max(estimate, LONELY_SHARE * rate)
        limit = min(estimate, 0.97 * rate)
        if self.confirmed and not narrow and 0.93 * was <= limit < was:
            limit = was  # a wide climb measures low; the confirmed value stands
        floor = 0.3 * min(rate, was)
        if limit < floor:
            limit, confident = floor, False
        self.limit = limit
        self.confirmed = self.confirmed + 1 if confident else 0

    def _judge_lean(self, evidence: Evidence, measured: float) -> None:
        """Limiters that refuse on jitter alone make every span measure low; then the rate at the block says more.

        How far to lean towards that rate is itself learned from whether leaning paid off.
        """
        self._lean_hold -= 1
        if self._leaned_on is None:
            return
        if evidence.rounded_up:
            measured = evidence.accepted / max(evidence.span_s - evidence.blocked_s, 1e-3)
        if evidence.accepted < FEW or measured <= 1.03 * self._leaned_on:
            self._lean = max(LEAN_LEAST, 0.9 * self._lean)
            self._lean_hold = LEAN_HOLD
        else:
            self._lean = min(LEAN_MOST, self._lean + 0.02)
        self._leaned_on = None

    def _average(self) -> tuple[float, float, int]:
        """(accepted, rate, spans) over the newest spans that agree with the newest."""
        newest = self._spans[-1][0] / self._spans[-1][1]
        total, time_s, agreeing = 0.0, 0.0, 0
        for accepted, span_s in reversed(self._spans):
            if not newest / AGREE <= accepted / span_s <= newest * AGREE:
                break
            total, time_s, agreeing = total + accepted, time_s + span_s, agreeing + 1
        return total, total / time_s, agreeing

    def _penalty(self, evidence: Evidence, measured: float, narrow: bool, now: float) -> float | None:
        """A long block after a rate that was fine is a punishment, not a measure of the limit."""
        blocked_s = evidence.blocked_s
        again = evidence.directed and bool(self._blocks_s) and abs(blocked_s - self._blocks_s[-1]) <= SAME_LENGTH_S
        # The second of one length within the quiet time was no punishment: that rate could not have been too much.
        if blocked_s < LONG_BLOCK_S and not (again and evidence.punishing and now >= self._quiet_until):
            return None
        flowing_s = evidence.span_s - blocked_s - (self._gap_s if self._gap_s >= LONG_BLOCK_S else 0.0)
        limit = None
        outside = evidence.accepted / flowing_s if flowing_s > 1e-3 else math.inf
        if again:
            # The rest of a window varies, a punishment does not: how long it lasts says nothing about the limit.
            flowed = min(max(outside, 0.35 * evidence.rate), evidence.rate)  # few accepted measure nothing
            # The longer it lasts, the less a second one is worth the risk.
            limit = max(0.85, 1 - 0.025 * blocked_s) * (flowed if narrow else 0.8 * evidence.rate)
        elif 0.5 * self.limit <= outside <= 1.15 * self.limit and measured < 0.65 * outside:
            limit = 0.85 * min(self.limit, outside)
        elif self._long_rate is not None and measured < 0.5 * evidence.rate:
            ratio = measured / self._long_rate if self._long_rate else math.inf
            if not 0.6 < ratio < 1.6:
                limit = max(measured, 0.65 * evidence.rate)
        if limit is not None:
            self._quiet_until = now + PENALTY_QUIET * blocked_s
        return limit

    def _flowed(self, evidence: Evidence) -> float:
        """What a site without credit served while it served us: of a pause rounded up to a second it has kept one
        request for us, not a second's worth. 0 where that is not known."""
        flowing_s = evidence.span_s - evidence.blocked_s - self._gap_s
        if not (evidence.strict and evidence.directed) or evidence.accepted < FLOWED_FEWEST or flowing_s <= 0:
            return 0.0
        if evidence.blocked_s > PUNISHING_S:
            return 0.0
        return FLOWED_SHARE * min(evidence.rate, (evidence.accepted - 1) / flowing_s)

    def _choose_period(self, was: float) -> None:
        if not self.confirmed:
            self.period = FIRST_PERIOD
        elif abs(self.limit / was - 1) < 0.05:
            self.period = min(max(SHORT_PERIOD, 2 * self.period), self._longest_period())
        else:
            self.period = SHORT_PERIOD

    def _longest_period(self) -> int:
        return int(min(max(90 * self.limit, 180), 1000))

    def _remember(self, evidence: Evidence, measured: float) -> None:
        self._blocks_s = (*self._blocks_s, evidence.blocked_s)[-2:]
        if evidence.blocked_s >= LONG_BLOCK_S:
            self._long_rate = measured


def _worth(limit: float, evidence: Evidence, refusal_price: float) -> int:
    """Pages until a guess is worth testing: the test costs a refusal and its pause, and gains on as many pages to come
    as there were what the guess is likely to be too low by."""
    cost = limit * max(evidence.blocked_s, SHORTEST_BLOCK_S) + refusal_price
    gain = min(max(DOUBT_SHARE * evidence.guess.doubt, DOUBT_LEAST), DOUBT_MOST)
    return int(min(max(cost / gain, WORTH_LEAST), WORTH_MOST))
