"""The pace of one domain: who may send now, and what each answer changes. Pure: told the time, told what happened.

This is the shell around a strategy. It keeps the rules that no strategy can override: spacing between request starts,
requests under way, nothing during a block, one trial request after it, one event per block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from amble.core.answer import Answer
from amble.core.outcome import Failure, Outcome, outcome_of
from amble.core.pacing.block import Block
from amble.core.pacing.bounds import Bounds
from amble.core.pacing.events import (
    BlockClosed,
    BlockOpened,
    CircuitClosed,
    CircuitOpened,
    ConcurrencyChanged,
    Event,
    PaceChanged,
    PermitLost,
)
from amble.core.pacing.latency import Latency
from amble.core.pacing.permit import Permit, PermitState, Source
from amble.core.pacing.strategies import make_strategy
from amble.core.pacing.window import FailureWindow
from amble.errors import AlreadySettled

NEVER = -math.inf
SILENT: Sequence[Event] = ()

_TOLD = 0.1  # a delay that moved by less than this share is not worth an event
_LAST_10, _LAST_20 = (1 << 10) - 1, (1 << 20) - 1


class Pace:
    """One domain. Not safe for threads by itself: the caller holds the lock of its shard."""

    __slots__ = (
        "block",
        "blocked_until",
        "bounds",
        "crawl_delay_s",
        "domain",
        "epoch",
        "error_streak",
        "events",
        "fail_streak",
        "failures",
        "flying",
        "gap_s",
        "jitter_s",
        "last_start",
        "last_success",
        "latency",
        "limited",
        "not_before",
        "parallel",
        "quota_gap_s",
        "recent_403",
        "recent_503",
        "seq",
        "since",
        "source",
        "strategy",
        "success_streak",
        "successes",
        "told_delay_s",
        "unsaved",
        "window",
    )

    def __init__(self, domain: str, bounds: Bounds, now: float) -> None:
        self.domain = domain
        self.bounds = bounds
        self.strategy = make_strategy(bounds.strategy, bounds.settings)
        self.since = now
        self.crawl_delay_s: float | None = None
        self.last_start = NEVER
        self.last_success = NEVER
        self.blocked_until = NEVER
        self.not_before = NEVER
        self.gap_s = self.jitter_s = self.quota_gap_s = 0.0
        self.source = Source.NONE
        self.parallel = bounds.parallel
        self.seq = self.epoch = 0
        self.flying: list[Permit] | None = None  # issued and not settled, oldest first
        self.block: Block | None = None
        self.window: FailureWindow | None = None
        self.latency: Latency | None = None
        self.successes = self.limited = self.failures = 0
        self.success_streak = self.error_streak = self.fail_streak = 0
        self.recent_403 = self.recent_503 = 0  # one bit per answer, the newest lowest
        self.told_delay_s = self.strategy.delay_s
        self.unsaved = False
        self.events: Sequence[Event] = SILENT  # not yet handed to the caller
        self.set_crawl_delay(None)

    # -- asking

    def reserve(self, now: float) -> Permit | float:
        """A permit to send at once; or the instant before which it is no use to ask again.

        While all slots are taken that instant is when the oldest permit counts as lost: ask again at any settling.
        """
        if now < self.not_before:
            return self.not_before
        flying, block = self.flying, self.block
        if flying is not None and (len(flying) >= self.parallel or (block and block.probes_out >= self._probes_max())):
            oldest = flying[0]
            lost_at = oldest.sent_at + self.bounds.settings.permit_timeout
            if now < lost_at:
                return lost_at
            self._lose(oldest)
            return self.reserve(now)
        self.seq += 1
        in_flight = 1 if flying is None else len(flying) + 1
        permit = Permit(
            self.seq, now, self.last_start, self.epoch, self.gap_s, self.source, in_flight, block is not None
        )
        if flying is None:
            self.flying = [permit]
        else:
            flying.append(permit)
        if block is not None:
            block.probes_out += 1
        self.last_start = now
        if self.bounds.random_delay_s:
            self.jitter_s = self.bounds.random() * self.bounds.random_delay_s
        self.strategy.on_send(permit)
        self._respace()
        return permit

    def sent(self, permit: Permit, now: float) -> None:
        """The request left only now: what comes after it is spaced from here."""
        permit.sent_at = now
        if permit.seq == self.seq and now > self.last_start:
            self.last_start = now
            self._respace()

    def cancel(self, permit: Permit) -> None:
        """Nothing was sent: the slot is given back as if it had never been taken."""
        if permit.state is not PermitState.ISSUED:
            return
        permit.state = PermitState.SETTLED
        self._land(permit)
        self.strategy.on_cancel(permit)
        if permit.seq == self.seq:
            self.seq -= 1
            self.last_start = permit.previous_at
            self.jitter_s = 0.0
        self._respace()

    def resume_silently(self, now: float) -> None:
        """Start as if a request had just been sent: an earlier run may have sent one."""
        self.last_start = now
        self.told_delay_s = self.strategy.delay_s
        self._respace()

    # -- learning

    def settle(self, permit: Permit, answer: Answer, now: float) -> Sequence[Event]:
        """Take in the answer to one permit, exactly once. Returns what changed."""
        if permit.state is PermitState.SETTLED:
            raise AlreadySettled(
                f"permit {permit.seq} of {self.domain} was settled before",
                hint="settle each permit once; ask for a new permit before each retry",
            )
        if permit.state is PermitState.ISSUED:
            self._land(permit)
        permit.state = PermitState.SETTLED
        outcome = self._judge(answer)
        if answer.elapsed_s is not None and outcome is not Outcome.IGNORED:
            latency = self.latency
            if latency is None:
                latency = self.latency = Latency()
            latency.add(answer.elapsed_s)
        if answer.retry_after_s is not None:
            # Jitter only upward: never inside the time the server named.
            wait_s = answer.retry_after_s * (1 + 0.02 * self.bounds.random()) + 0.02
            self.blocked_until = max(self.blocked_until, now + wait_s)
        if outcome is Outcome.SUCCESS:
            self._succeeded(permit, answer, now)
        elif outcome is Outcome.LIMITED:
            self._limited(permit, answer, now)
        elif outcome is Outcome.FAILED:
            self._failed(permit, now)
        if answer.quota is not None:
            self._obey_quota(answer, now)
        elif self.quota_gap_s:
            self.quota_gap_s = 0.0
        self._respace()
        if abs(self.strategy.delay_s - self.told_delay_s) > _TOLD * self.told_delay_s:
            self._tell_pace()
        events, self.events = self.events, SILENT
        return events

    def set_crawl_delay(self, crawl_delay_s: float | None) -> None:
        """What robots.txt asks for; None where it asks for nothing and the default holds."""
        asked_s = self.bounds.settings.default_crawl_delay if crawl_delay_s is None else crawl_delay_s
        self.crawl_delay_s = asked_s or None
        self.strategy.limit_to(max(self.bounds.gap_s, asked_s), bursts=not asked_s)
        self._respace()

    @property
    def in_flight(self) -> int:
        return 0 if self.flying is None else len(self.flying)

    def idle_since(self) -> float:
        """When anything last happened here."""
        return max(self.since, self.last_start, self.last_success)

    def evictable(self, now: float) -> bool:
        """Nothing would be forgotten: no request under way, no block, no delay still running."""
        return self.flying is None and self.block is None and now >= self.not_before

    @property
    def circuit(self) -> str:
        """closed, open, or half_open as soon as a trial request is out."""
        if self.block is None or not self.block.tripped:
            return "closed"
        return "half_open" if self.block.probes_out or self.block.probe_successes else "open"

    # -- the arms of settle

    def _judge(self, answer: Answer) -> Outcome:
        status = answer.status
        if self.recent_403 or status == 403:
            self.recent_403 = (self.recent_403 << 1 | (status == 403)) & _LAST_20
        if self.recent_503 or status == 503:
            self.recent_503 = (self.recent_503 << 1 | (status == 503)) & _LAST_10
        if answer.challenge:
            return Outcome.LIMITED
        if status == 403 and self.successes > 20 and self.recent_403.bit_count() >= 3:
            return Outcome.LIMITED
        if status == 503 and (answer.retry_after_s is not None or self.recent_503.bit_count() >= 2):
            return Outcome.LIMITED
        if status is not None and status < 400 and answer.failure is None:
            return Outcome.SUCCESS
        return outcome_of(status, answer.failure)

    def _succeeded(self, permit: Permit, answer: Answer, now: float) -> None:
        self.successes += 1
        if permit.epoch != self.epoch:
            return  # sent before the block was known: says nothing about what holds now
        self.success_streak += 1
        self.error_streak = self.fail_streak = 0
        self.last_success = now
        if self.window is not None:
            self.window.add(False, now)
        block = self.block
        if block is not None:
            block.probe_successes += 1
            if block.probe_successes >= self._probes_max():
                self._close(block, permit, now)
            return
        hold_s = self.strategy.on_ok(permit, answer.elapsed_s, self.in_flight, now)
        if hold_s > 0:
            self.blocked_until = max(self.blocked_until, now + hold_s)

    def _limited(self, permit: Permit, answer: Answer, now: float) -> None:
        self.limited += 1
        block, directed = self.block, answer.retry_after_s is not None
        if permit.epoch != self.epoch:
            # One event per block: refusals of requests sent before it was known belong to it.
            if block is not None:
                block.refused(permit.sent_at, answer.retry_after_s)
            return
        self.success_streak = 0
        self.error_streak += 1
        self.unsaved = True
        if block is None:
            block = self._open(permit, now)
        else:
            block.failed_probes += 1
            block.probe_successes = 0
        first = not block.limited
        block.limited = True
        block.refused(permit.sent_at, answer.retry_after_s)
        block.pause_s = self.strategy.on_block(block, now) if first else self.strategy.on_refused(block, now)
        if not directed:
            self._stay_away(block.pause_s, now)
            self._count_failure(now)  # a directed Retry-After alone does not trip the breaker
        wait_s = self.blocked_until - now
        reason = _reason(answer)
        self._tell(BlockOpened(self.domain, wait_s, answer.retry_after_s, self.error_streak, reason))
        self._tell_pace()

    def _failed(self, permit: Permit, now: float) -> None:
        self.failures += 1
        if permit.epoch != self.epoch:
            return
        self.success_streak = 0
        self.error_streak += 1
        self.strategy.on_failed(permit, now)
        block = self.block
        if block is not None:
            block.failed_probes += 1
            block.probe_successes = 0
            block.pause_s = min(2 * block.pause_s, self.bounds.settings.open_state_duration_max)
            self._stay_away(block.pause_s, now)
            if block.tripped:
                self._tell(CircuitOpened(self.domain, block.pause_s, self.error_streak, "trial failed"))
        self._count_failure(now, permit)

    def _count_failure(self, now: float, permit: Permit | None = None) -> None:
        """Feed the breaker; open the circuit when too much fails."""
        settings = self.bounds.settings
        self.fail_streak += 1
        if self.window is None:
            buckets = math.ceil(settings.stats_window / settings.stats_bucket)
            self.window = FailureWindow(buckets, settings.stats_bucket, now)
            # Domains that never fail need no window: what they did before their first failure is filled in.
            self.window.seed(self.successes, self.since, now)
        self.window.add(True, now)
        if self.block is not None and self.block.tripped:
            return
        total, failed = self.window.counts(now)
        if self.fail_streak >= settings.consecutive_fail_threshold:
            self._trip(permit, f"{self.fail_streak} failures in a row", now)
        elif total >= settings.min_samples_to_trip and failed >= settings.error_rate_threshold * total:
            self._trip(permit, f"{failed} of {total} answers failed", now)

    def _trip(self, permit: Permit | None, reason: str, now: float) -> None:
        block = self.block
        if block is None:
            assert permit is not None  # only a limited answer comes without, and then a block is open
            block = self._open(permit, now)
        block.tripped = True
        block.pause_s = max(block.pause_s, self.bounds.settings.open_state_duration)
        self._stay_away(block.pause_s, now)
        self._tell(CircuitOpened(self.domain, self.blocked_until - now, self.error_streak, reason))

    # -- blocks

    def _open(self, permit: Permit, now: float) -> Block:
        self.epoch += 1
        self.block = Block(now, permit.sent_at, permit.seq, permit.in_flight)
        return self.block

    def _close(self, block: Block, probe: Permit, now: float) -> None:
        self.block = None
        if block.limited:
            self.strategy.on_close(block, probe, now)
            self.unsaved = True
            closed = BlockClosed(self.domain, now - block.opened_at, self.strategy.delay_s, self.strategy.note)
            self._tell(closed)
            self._tell_pace()
        else:
            self.strategy.on_outage(now - block.first_at)
        if block.tripped:
            if self.window is not None:
                self.window.clear()
            self._tell(CircuitClosed(self.domain, now - block.opened_at, "trial succeeded"))

    def _stay_away(self, pause_s: float, now: float) -> None:
        # Jitter only upward, so that many domains released together do not return in step.
        self.blocked_until = max(self.blocked_until, now + pause_s * (1 + 0.1 * self.bounds.random()))

    def _probes_max(self) -> int:
        assert self.block is not None
        return self.bounds.settings.half_open_probes if self.block.tripped else 1

    def _obey_quota(self, answer: Answer, now: float) -> None:
        quota = answer.quota
        if quota is None:
            return
        in_flight = self.in_flight
        if quota.remaining <= in_flight - 1 or quota.remaining < 1:
            self.blocked_until = max(self.blocked_until, now + quota.reset_s)
            return
        self.strategy.on_quota(quota, in_flight)
        self.quota_gap_s = 1 / (0.98 * quota.rate(in_flight))

    # -- bookkeeping

    def _land(self, permit: Permit) -> None:
        flying = self.flying
        assert flying is not None
        if len(flying) == 1:
            self.flying = None
        else:
            flying.remove(permit)
        if permit.probe and self.block is not None and permit.epoch == self.epoch:
            self.block.probes_out -= 1

    def _lose(self, permit: Permit) -> None:
        permit.state = PermitState.LOST
        self._land(permit)
        self._tell(PermitLost(self.domain, permit.seq, "not settled in time"))

    def _respace(self) -> None:
        """Work out the next possible start from everything that may bind it."""
        bounds, strategy = self.bounds, self.strategy
        gap_s, source = bounds.gap_s, bounds.source
        if self.crawl_delay_s is not None and self.crawl_delay_s >= gap_s:
            gap_s, source = self.crawl_delay_s, Source.CRAWL_DELAY
        if strategy.gap_s > gap_s:
            gap_s, source = strategy.gap_s, Source.LEARNED
        if self.quota_gap_s > gap_s:
            gap_s, source = self.quota_gap_s, Source.QUOTA
        self.gap_s = gap_s = gap_s + self.jitter_s
        self.source = source
        not_before = self.last_start + gap_s
        self.not_before = not_before if not_before > self.blocked_until else self.blocked_until
        if strategy.delay_s > bounds.settings.base_delay + bounds.settings.concurrency_step or (
            self.parallel != bounds.parallel or strategy.parallel is not None
        ):
            self._recommend()

    def _recommend(self) -> None:
        """One request fewer at a time for each step the delay lies over its baseline; given back when it falls."""
        settings = self.bounds.settings
        baseline_s = max(settings.base_delay, self.crawl_delay_s or 0.0)
        steps = math.floor((self.strategy.delay_s - baseline_s) / settings.concurrency_step)
        parallel = max(1, self.bounds.parallel - max(0, steps))
        if self.strategy.parallel is not None:
            parallel = min(parallel, self.strategy.parallel)
        if parallel != self.parallel:
            was, self.parallel = self.parallel, parallel
            self._tell(ConcurrencyChanged(self.domain, parallel, was, f"delay {self.strategy.delay_s:.1f} s"))

    def _tell(self, event: Event) -> None:
        self.events = (*self.events, event)

    def _tell_pace(self) -> None:
        delay_s = self.strategy.delay_s
        if delay_s != self.told_delay_s:
            self._tell(PaceChanged(self.domain, delay_s, self.told_delay_s, self.error_streak, self.strategy.note))
            self.told_delay_s = delay_s

    def __repr__(self) -> str:
        state = f" {self.circuit}" if self.circuit != "closed" else ""
        blocked = " blocked" if self.block else ""
        return (
            f"<Pace {self.domain} {self.strategy.name} delay={self.strategy.delay_s:.2f}s"
            f" floor={self.strategy.floor_s:.2f}s in_flight={self.in_flight}/{self.parallel}{blocked}{state}>"
        )


def _reason(answer: Answer) -> str:
    if answer.challenge:
        return "challenge page"
    asked = "" if answer.retry_after_s is None else f", Retry-After {answer.retry_after_s:.0f} s"
    return f"HTTP {answer.status}{asked}" if answer.status else str(answer.failure or Failure.HTTP_RATE_LIMITED)
