"""Any order of asking, sending, settling, giving back, losing and waiting, against a reference that only keeps a log.

Checked at every step, for every strategy: P1 spacing, P2 requests under way, P3 nothing in a block but its trials, P4
what ends a block and that Retry-After holds, P6 and P7, finite delays, permits settled once, and no deadlock.
"""

from __future__ import annotations

import math
from random import Random
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from amble.core.answer import Answer
from amble.core.outcome import Failure, Outcome, outcome_of
from amble.core.pacing.bounds import Bounds
from amble.core.pacing.events import BlockClosed, CircuitClosed
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Permit, PermitState
from amble.core.pacing.settings import PacingSettings, StrategyName
from amble.core.quota import Quota
from amble.errors import AlreadySettled
from tests.core.pacing.story import OK

TINY_S = 1e-6
HANGS_S = 5.0  # no answer is overdue before
FAILURES = 4  # in a row, open the circuit
TIMEOUT_S = 60.0
ROUNDING_S = 1e-6  # of sums of seconds
OFTEN = [OK, OK, OK, Answer(429), Answer(429, retry_after_s=40.0), Answer(429, retry_after_s=0.5), Answer(500)]
SELDOM = [
    Answer(200, elapsed_s=9.0),
    Answer(404),
    Answer(403),
    Answer(503),
    Answer(503, retry_after_s=7.0),
    Answer(301, retry_after_s=12.0),
    Answer(200, challenge=True),
    Answer(failure=Failure.NETWORK_TIMEOUT, elapsed_s=30.0),
    Answer(failure=Failure.CANCELLED),
    Answer(200, elapsed_s=0.1, quota=Quota(0, 20.0)),
    Answer(200, elapsed_s=0.1, quota=Quota(3, 20.0, 10, 60)),
]
ANSWERS = st.sampled_from(OFTEN) | st.sampled_from(SELDOM)


class Reference:
    """A log of what happened, and what may be concluded from it without knowing how a pace works."""

    def __init__(self, parallel: int) -> None:
        self.parallel = parallel
        self.now = 0.0
        self.started: dict[int, float] = {}  # id of a permit -> start of its request
        self.born: dict[int, int] = {}  # id of a permit -> blocks known when it was issued
        self.named_until = -math.inf  # as long as any server ever asked for
        self.blocks = 0
        self.blocked = False

    def issued(self, permit: Permit, under_way: list[Permit], gap_s: float, trials: int) -> None:
        last = max(self.started.values(), default=-math.inf)
        assert self.now - last >= gap_s - TINY_S, f"P1: {self.now - last} s after the last start, {gap_s} s asked for"
        assert len(under_way) < self.parallel, f"P2: {len(under_way)} under way already"
        assert self.now >= self.named_until, "P3: inside a Retry-After"
        assert not self.blocked or self.trials_out(under_way) < trials, "P3: more trials than the budget"
        assert permit.probe is self.blocked
        self.started[id(permit)] = self.now
        self.born[id(permit)] = self.blocks

    def hung(self, waiting: list[Permit], failed: int) -> None:
        """The circuit opened though nothing was settled."""
        overdue = [permit for permit in waiting if self.now - self.started[id(permit)] >= HANGS_S - TINY_S]
        assert failed + len(overdue) >= FAILURES, f"{failed} failures and {len(overdue)} overdue answers are too few"
        self.blocks += 1
        self.blocked = True

    def trials_out(self, under_way: list[Permit]) -> int:
        """Requests sent in the present block."""
        return sum(self.born[id(permit)] == self.blocks for permit in under_way) if self.blocked else 0

    def answered(self, permit: Permit, answer: Answer, blocked: bool, closed: bool) -> None:
        if answer.retry_after_s is not None:
            self.named_until = max(self.named_until, self.now + answer.retry_after_s)
        fresh = self.born[id(permit)] == self.blocks
        if closed:
            good = outcome_of(answer.status, answer.failure) is Outcome.SUCCESS and not answer.challenge
            assert self.blocked, "a block closed that was not open"
            assert fresh, "P4: a block closed by a request from before it"
            assert good, f"P4: a block closed by {answer}"
        if answer.status == 429 and fresh:
            assert blocked, "a fresh refusal opened no block"
        if not fresh:
            assert blocked is self.blocked, "one event per block: a stale answer opened or closed one"
        self.blocks += blocked and not self.blocked
        self.blocked = blocked


class PaceMachine(RuleBasedStateMachine):
    strategy: ClassVar[StrategyName]

    @initialize(
        seed=st.integers(0, 2**16),
        parallel=st.sampled_from([1, 2, 3, 5]),
        trials=st.integers(1, 3),
        minimum_s=st.sampled_from([0.0, 0.3]),
        random_s=st.sampled_from([0.0, 0.0, 0.7]),
        crawl_delay_s=st.sampled_from([None, None, 0.2, 3.0]),
        max_rate=st.sampled_from([None, 2.0, 8.0]),
    )
    def begin(
        self,
        seed: int,
        parallel: int,
        trials: int,
        minimum_s: float,
        random_s: float,
        crawl_delay_s: float | None,
        max_rate: float | None,
    ) -> None:
        chosen = PacingSettings(
            pacing=self.strategy,
            max_parallel_per_domain=parallel,
            half_open_probes=trials,
            min_crawl_delay=minimum_s,
            random_delay=random_s,
            max_rate=max_rate,
            permit_timeout=TIMEOUT_S,
            success_probe_threshold=3,
            delay_step=3.0,
            consecutive_fail_threshold=FAILURES,
            min_samples_to_trip=6,
        )
        self.settings = chosen
        self.pace = Pace("a.test", Bounds(chosen, None, Random(seed).random), 0.0)
        self.log = Reference(parallel)
        self.permits: list[Permit] = []  # not settled, as far as we know
        self.sent: set[int] = set()
        self.gone: list[Permit] = []  # settled or given back; kept so that no other gets their id
        self.crawl_delay_s = crawl_delay_s or 0.0
        self.pace.set_crawl_delay(crawl_delay_s)

    # -- what may happen

    @rule(step_s=st.sampled_from([0.0, 0.01, 0.3, 1.0, 5.0, 20.0, 61.0, 400.0]))
    def wait(self, step_s: float) -> None:
        self.log.now += step_s

    @rule(count=st.integers(1, 3))
    def ask_patiently(self, count: int) -> None:
        for _ in range(count):
            self.log.now = max(self.log.now, self.pace.not_before)
            self.asked()

    @rule()
    def ask(self) -> None:
        self.asked()

    @rule(times=st.integers(1, 4), answer=ANSWERS)
    def visit(self, times: int, answer: Answer) -> None:
        for _ in range(times):
            self.log.now = max(self.log.now, self.pace.not_before)
            got = self.asked()
            if isinstance(got, Permit):
                self.settled(got, answer)

    def asked(self) -> Permit | float:
        now, gap_s = self.log.now, max(self.least_gap_s(), self.pace.strategy.gap_s)
        trials = 1 if self.pace.circuit == "closed" else self.settings.half_open_probes
        waiting = [permit for permit in self.permits if permit.state is PermitState.ISSUED]
        streak = self.pace.troubles.fail_streak
        got = self.pace.reserve(now)
        if not self.log.blocked and self.pace.block is not None:
            self.log.hung(waiting, streak)
        under_way = [permit for permit in self.permits if permit.state is PermitState.ISSUED]
        if isinstance(got, float):
            assert now < got < math.inf, f"at {now}: told to come back at {got}"
            if now >= self.pace.not_before:
                full = len(under_way) >= self.pace.parallel or (under_way and self.pace.strategy.alone)
                assert full or self.log.trials_out(under_way) >= trials, "a free slot was refused"
            return got
        self.log.issued(got, under_way, gap_s, trials)
        assert got.sent_at == now
        self.permits.append(got)
        return got

    @precondition(lambda self: self.permits)
    @rule(which=st.integers(0, 100))
    def send(self, which: int) -> None:
        permit = self.permits[which % len(self.permits)]
        if permit.state is PermitState.ISSUED and id(permit) not in self.sent:
            self.pace.sent(permit, self.log.now)
            self.sent.add(id(permit))
            self.log.started[id(permit)] = self.log.now

    @precondition(lambda self: self.permits)
    @rule(which=st.integers(0, 100))
    def give_back(self, which: int) -> None:
        permit = self.permits[which % len(self.permits)]
        if id(permit) in self.sent:
            return
        self.permits.remove(permit)
        self.gone.append(permit)
        if permit.state is PermitState.ISSUED:
            del self.log.started[id(permit)]
        self.pace.cancel(permit)

    @precondition(lambda self: self.permits)
    @rule(which=st.integers(0, 100), answer=ANSWERS)
    def settle(self, which: int, answer: Answer) -> None:
        self.settled(self.permits[which % len(self.permits)], answer)

    def settled(self, permit: Permit, answer: Answer) -> None:
        self.permits.remove(permit)
        self.gone.append(permit)
        fresh = self.log.born[id(permit)] == self.log.blocks
        learned = self.pace.strategy.save(), self.pace.troubles.error_streak
        events = self.pace.settle(permit, answer, self.log.now)
        closed = any(isinstance(event, BlockClosed | CircuitClosed) for event in events)
        self.log.answered(permit, answer, self.pace.block is not None, closed)
        if not fresh and answer.quota is None:
            after = self.pace.strategy.save(), self.pace.troubles.error_streak
            assert after == learned, "a stale answer taught something"
        with pytest.raises(AlreadySettled):
            self.pace.settle(permit, answer, self.log.now)

    @rule(crawl_delay_s=st.sampled_from([None, 0.0, 0.2, 3.0]))
    def robots(self, crawl_delay_s: float | None) -> None:
        self.crawl_delay_s = crawl_delay_s or 0.0
        self.pace.set_crawl_delay(crawl_delay_s)

    # -- what must hold

    def least_gap_s(self) -> float:
        chosen = self.settings
        return max(self.crawl_delay_s, chosen.min_crawl_delay, 1 / chosen.max_rate if chosen.max_rate else 0.0)

    @invariant()
    def numbers_are_sane(self) -> None:
        if not hasattr(self, "pace"):
            return
        strategy, now = self.pace.strategy, self.log.now
        assert 0 <= strategy.delay_s < math.inf
        assert 0 <= strategy.gap_s < math.inf
        assert 0 <= strategy.floor_s < math.inf
        assert self.pace.blocked_until >= self.log.named_until, "P4: a Retry-After was shortened"
        assert self.pace.not_before >= self.pace.blocked_until
        lost = [permit for permit in self.permits if permit.state is PermitState.LOST]
        assert all(now - permit.sent_at >= TIMEOUT_S - ROUNDING_S for permit in lost)
        assert self.pace.in_flight == sum(permit.state is PermitState.ISSUED for permit in self.permits)

    @invariant()
    def linear_keeps_its_order(self) -> None:
        if hasattr(self, "pace") and self.strategy == "linear":
            strategy = self.pace.strategy
            assert 0 <= strategy.floor_s <= strategy.delay_s <= 60.0, "P6"
            assert strategy.delay_s >= self.settings.base_delay, "P6"

    @invariant()
    def slots_follow_the_delay(self) -> None:
        if hasattr(self, "pace"):
            strategy, base = self.pace.strategy, self.settings.max_parallel_per_domain
            steps = math.floor((strategy.delay_s - max(0.5, self.crawl_delay_s)) / 5.0)
            slots = max(1, base - max(0, steps))
            assert self.pace.parallel == min(slots, strategy.parallel or slots), "P7"

    def teardown(self) -> None:
        """No deadlock: from any state something is sent in finite time, and successes end any block."""
        if not hasattr(self, "pace"):
            return
        for _ in range(self.settings.half_open_probes + 1):
            self.settled(self.next_permit(), OK)
        assert self.pace.block is None, f"successes did not end the block: {self.pace!r}"

    def next_permit(self) -> Permit:
        for _ in range(2 * len(self.permits) + 4):  # each may be looked at before it counts as lost
            got = self.asked()
            if isinstance(got, Permit):
                return got
            self.log.now = got
        raise AssertionError(f"deadlock: {self.pace!r}")


class Gauge(PaceMachine):
    strategy = "gauge"


class Linear(PaceMachine):
    strategy = "linear"


class Aimd(PaceMachine):
    strategy = "aimd"


class Fibonacci(PaceMachine):
    strategy = "fibonacci"


class Fixed(PaceMachine):
    strategy = "fixed"


HALF = settings(max_examples=max(1, settings().max_examples // 2))
TestGauge, TestLinear, TestAimd = Gauge.TestCase, Linear.TestCase, Aimd.TestCase
TestFibonacci, TestFixed = Fibonacci.TestCase, Fixed.TestCase
TestGauge.settings = TestLinear.settings = TestAimd.settings = TestFibonacci.settings = TestFixed.settings = HALF
