"""The pace of one domain: who may send now, and what each answer changes. Pure: told the time, told what happened.

This is the shell around a strategy. It keeps the rules that no strategy can override: spacing between request starts,
requests under way, nothing during a block, one trial request after it, one event per block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from amble.core.answer import Answer
from amble.core.outcome import Outcome, outcome_of
from amble.core.pacing.block import Block
from amble.core.pacing.bounds import Bounds
from amble.core.pacing.events import (
    BlockClosed,
    BlockOpened,
    CircuitClosed,
    CircuitHalfOpened,
    CircuitOpened,
    Event,
    PermitLost,
)
from amble.core.pacing.latency import EWMA_SHARE, HANGS_S, remember
from amble.core.pacing.overdue import overdue_at
from amble.core.pacing.permit import ISSUED, LOST, SETTLED, Permit
from amble.core.pacing.quota_window import QuotaWindow
from amble.core.pacing.state import NEVER, SILENT, TOLD, PaceState
from amble.core.pacing.strategies.base import ALONE_S
from amble.core.quota import Quota
from amble.errors import AlreadySettled

# By plain names, like the states of a permit.
SUCCESS, LIMITED, FAILED, IGNORED = Outcome
FIRST_TRIAL_S = 1.0  # after the circuit opened on failures alone
OFTEN_GROWTH, OFTEN_FOR_S = 1.35, 60.0  # of the pauses of a site that only fails, for so long
_TELLING = frozenset({403, 429})  # statuses below 500 that may say something about the pace


class Pace(PaceState):
    """One domain. Not safe for threads by itself: the caller holds the lock of its shard."""

    __slots__ = ("shared",)

    def __init__(self, domain: str, bounds: Bounds, now: float) -> None:
        super().__init__(domain, bounds, now)
        self.shared: Pace | None = None  # the pace of the address that it shares with other domains

    # -- asking

    def reserve(self, now: float) -> Permit | float:
        """A permit to send at once; or the instant before which it is no use to ask again.

        While all slots are taken that instant is when the oldest permit counts as lost: ask again at any settling.
        """
        not_before, trouble = self.last_start + self.gap_s, self.trouble
        if trouble is not None and trouble.blocked_until > not_before:
            not_before = trouble.blocked_until
        if now < not_before:
            return not_before
        block = None
        if trouble is not None:
            block = trouble.block
            if trouble.quota is not None and now < (spent_until := trouble.quota.spent_until(self.in_flight)):
                return spent_until  # or sooner, when one under way turns out to have been counted
        if self.flying is not None and now >= self.flying[0].sent_at + HANGS_S and self._hangs(now):
            if self.machine is not None:
                self.machine.block(self.domain, self.blocked_until)
            return self.blocked_until
        if self.leaving is not None and self.gap_s > 0 and now < (lost_at := self._lost_at(self.leaving)):
            self.leaving.awaited = True  # when it leaves is when the gap begins
            return lost_at
        while (flying := self.flying) is not None and (
            len(flying) >= self.parallel or self.strategy.alone or (block and block.probes_out >= self._probes_max())
        ):
            oldest = flying[0]
            if self.strategy.alone and now >= oldest.sent_at + ALONE_S:
                self.strategy.end_alone()
                self._respace()
                continue
            if now < (free_at := self._free_at(oldest)):
                return min(free_at, self._look_at(oldest, now))
            self._lose(oldest)
        shared = None
        if self.shared is not None:
            got = self.shared.reserve(now)
            if isinstance(got, float):
                return got
            shared = got
        if self.machine is not None and (refused_until := self._refused_by_others(self.machine, now)) is not None:
            if shared is not None and self.shared is not None:
                self.shared.cancel(shared)
            return refused_until
        self.seq += 1
        in_flight = 1 if flying is None else len(flying) + 1
        permit = Permit(
            self.domain, self.seq, now, self.last_start, 0 if trouble is None else trouble.epoch, self.gap_s,
            self.source, in_flight, block is not None, self.parallel,
        )  # fmt: skip
        if shared is not None:
            permit.shared, permit.holder = shared, self.shared
        if flying is None:
            self.flying = [permit]
        else:
            flying.append(permit)
        if block is not None:
            if self.circuit == "open":
                self._tell(CircuitHalfOpened(self.domain, "trial sent"))
            block.probes_out += 1
        self.last_start = now
        if self.bounds.random_delay_s or self.strategy.counts_sends:
            self._start(permit)
        return permit

    @property
    def due_at(self) -> float:
        """When to ask again, as far as is known before anything is settled: with every slot taken, when the first of
        them counts as lost."""
        flying = self.flying
        if flying is None or (len(flying) < self.parallel and not self.strategy.alone):
            return self.not_before
        return max(self.not_before, self._free_at(flying[0]))

    @property
    def look_at(self) -> float:
        """The same, but for those who want to know of a server that hangs: when the first of them may be overdue."""
        flying = self.flying
        if flying is None or (len(flying) < self.parallel and not self.strategy.alone):
            return self.not_before
        return max(self.not_before, min(flying[0].sent_at + HANGS_S, self._free_at(flying[0])))

    def ready(self, now: float) -> bool:
        """Whether the domain itself holds nothing up; its address still may."""
        if now < self.not_before or (self.leaving is not None and self.gap_s > 0):
            return False
        block, in_flight = self.block, self.in_flight
        if in_flight and self.strategy.alone:
            return False
        return in_flight < self.parallel and not (in_flight and block and block.probes_out >= self._probes_max())

    def expect(self, permit: Permit) -> None:
        """Whoever has this permit will say when its request has left; until then a domain with a gap gives no other.

        Two that connect side by side could leave together, however far apart they set out [P1].
        """
        self.leaving = permit
        if self.machine is not None and self._is_spaced:
            self.machine.expect(self.domain, permit.sent_at)
        if permit.shared is not None and permit.holder is not None:
            permit.holder.expect(permit.shared)

    def sent(self, permit: Permit, now: float) -> None:
        """The request left only now: what comes after it is spaced from here."""
        permit.sent_at = now
        if self.leaving is permit:
            self.leaving = None
        if self.machine is not None and (permit.gap_s > 0 or self._is_spaced):
            self.machine.sent(self.domain, now)
        if permit.shared is not None and permit.holder is not None:
            permit.holder.sent(permit.shared, now)
        if permit.seq != self.seq:
            for later in self.flying or ():
                if later.seq > permit.seq:  # should it be given back, this is the start before it
                    later.previous_at = max(later.previous_at, now)
        if now > self.last_start:
            self.last_start = now

    def cancel(self, permit: Permit) -> None:
        """Nothing was sent: the slot is given back as if it had never been taken."""
        if permit.state is not ISSUED:
            return
        permit.state = SETTLED
        if permit.shared is not None and permit.holder is not None:
            permit.holder.cancel(permit.shared)
        self._land(permit)
        if self.machine is not None:
            self.machine.cancel(self.domain, permit.sent_at)
        self.strategy.on_cancel(permit)
        if permit.seq == self.seq:
            self.seq -= 1
            self.last_start = permit.previous_at
            self.jitter_s = 0.0
        self._respace()

    def lose_flying(self) -> None:
        """Whoever has a permit will never say what came of it."""
        while self.flying:
            self._lose(self.flying[0])

    def give_back(self, permit: Permit) -> None:
        """The request is over, and what came of it says nothing here: an address learns from none of its domains."""
        if permit.state is ISSUED:
            permit.state = SETTLED
            self._land(permit)

    # -- learning

    def settle(self, permit: Permit, answer: Answer, now: float) -> Sequence[Event]:
        """Take in the answer to one permit, exactly once. Returns what changed."""
        if permit.state is SETTLED:
            raise AlreadySettled(
                f"permit {permit.seq} of {self.domain} was settled before",
                hint="settle each permit once; ask for a new permit before each retry",
            )
        if permit.state is ISSUED:
            self._land(permit)
        permit.state = SETTLED
        status, failure, elapsed_s, retry_after_s, quota, challenge = answer
        trouble, outcome = self.trouble, SUCCESS
        until_was = NEVER if trouble is None else trouble.blocked_until
        # Nearly every answer is a page, or that there is none, of a domain that never said anything else.
        if trouble or failure or challenge or status is None or status >= 500 or status in _TELLING:
            outcome = self._judge(answer)
        if elapsed_s is not None and outcome is not IGNORED:
            self.latency_ring = remember(self.latency_ring, elapsed_s)
            was_s = self.latency_s
            self.latency_s = elapsed_s if was_s is None else was_s + EWMA_SHARE * (elapsed_s - was_s)
        if retry_after_s is not None:
            self._asked_to_wait(retry_after_s, now)
        if outcome is SUCCESS:
            self._succeeded(permit, elapsed_s, now)
        elif outcome is LIMITED:
            self._limited(permit, answer, now)
        elif outcome is FAILED:
            self._failed(permit, now)
        used_up_s = 0.0
        if quota is not None:
            used_up_s = self._obey(quota, permit.sent_at, now)
        trouble = self.trouble
        if trouble is not None:
            if quota is None and trouble.quota is not None:
                trouble.quota.answered_without(now)
            if trouble.blocked_until > until_was:
                if retry_after_s is not None or used_up_s:
                    self._tell_pause(answer, used_up_s, until_was, now)
                if self.machine is not None:
                    self.machine.block(self.domain, trouble.blocked_until)
        self._respace()
        delay_s, told_s = self.strategy.delay_s, self.told_delay_s
        if delay_s != told_s and abs(delay_s - told_s) > TOLD * told_s:
            self._tell_pace()
            if self.strategy.learned:
                self._trouble().unsaved = True  # how much more it bears is dearly learned, too
        events, self.events = self.events, SILENT
        return events

    def _judge(self, answer: Answer) -> Outcome:
        status, failure, _, retry_after_s, _, challenge = answer
        trouble = self._trouble()
        trouble.note_status(status)
        if challenge:
            return LIMITED
        if status == 403 and trouble.forbids(self.successes):
            return LIMITED
        if status == 503 and (retry_after_s is not None or trouble.overloads()):
            return LIMITED
        return outcome_of(status, failure)

    def _succeeded(self, permit: Permit, elapsed_s: float | None, now: float) -> None:
        trouble = self.trouble
        self.successes += 1
        if trouble is not None:
            if permit.epoch != trouble.epoch:
                return  # sent before the block was known: says nothing about what holds now
            trouble.succeed(now)
        self.seen_at = permit.sent_at
        if trouble is not None and (block := trouble.block) is not None:
            block.probe_successes += 1
            if block.probe_successes >= self._probes_max():
                self._close(block, permit, now)
            return
        hold_s = self.strategy.on_ok(permit, elapsed_s, self.latency_s, len(self.flying or ()), now)
        if hold_s > 0:
            self._block_until(now + hold_s)

    def _limited(self, permit: Permit, answer: Answer, now: float) -> None:
        trouble = self._trouble()
        block = trouble.block
        trouble.limited += 1
        trouble.limited_at = now
        if permit.epoch != trouble.epoch:
            # One event per block: refusals of requests sent before it was known belong to it.
            if block is not None:
                block.refused(permit.sent_at, answer.retry_after_s, failing=_is_failure(answer))
            return
        trouble.success_streak = 0
        trouble.error_streak += 1
        trouble.unsaved = True
        if trouble.quota is not None:
            trouble.quota.refused()
        if block is None:
            block = self._open(permit, now)
        else:
            block.probe_failed()
        first = not block.limited
        block.limited = True
        block.refused(permit.sent_at, answer.retry_after_s, failing=_is_failure(answer))
        pause_s = self.strategy.on_block(block, now) if first else self.strategy.on_refused(block, now)
        reopened = block.tripped
        if reopened:
            pause_s = self._longer_s(block, now) if block.failing else max(pause_s, self._longer_s(block, now))
        block.pause_s = pause_s
        if answer.retry_after_s is None:
            self._stay_away(block.pause_s, now)
            self._count_failure(permit, now)  # a directed Retry-After alone does not trip the breaker
        wait_s = self.blocked_until - now
        if reopened:
            self._tell(CircuitOpened(self.domain, wait_s, trouble.error_streak, "trial refused"))
        self._tell(BlockOpened(self.domain, wait_s, answer.retry_after_s, trouble.error_streak, answer.reason))
        self._tell_pace()

    def _failed(self, permit: Permit, now: float) -> None:
        trouble = self._trouble()
        block = trouble.block
        trouble.failures += 1
        if permit.epoch != trouble.epoch:
            return
        trouble.success_streak = 0
        trouble.error_streak += 1
        self.strategy.on_failed(permit, now)
        if block is not None:
            block.probe_failed()
            block.last_at = max(block.last_at, permit.sent_at)
            block.pause_s = self._longer_s(block, now)
            self._stay_away(block.pause_s, now)
            if block.tripped:
                wait_s = self.blocked_until - now
                self._tell(CircuitOpened(self.domain, wait_s, trouble.error_streak, "trial failed"))
        self._count_failure(permit, now)

    def _count_failure(self, permit: Permit, now: float) -> None:
        """Feed the breaker; open the circuit when too much fails."""
        trouble = self._trouble()
        reason = trouble.fail(self.bounds.settings, self.successes, self.gap_s, now)
        block = trouble.block
        if reason is None:
            self._hangs(now)
        elif block is None or not block.tripped:
            self._trip(block or self._open(permit, now), reason, now)

    def _hangs(self, now: float) -> bool:
        """Open the circuit where too many answers are overdue; whether that was so. What is overdue counts while it is
        still under way: whoever waits for it waits longer than it takes to know."""
        if self.block is not None or self.flying is None:
            return False
        instant, permit = self._overdue_at()
        if permit is None or now < instant:
            return False
        trouble = self._trouble()
        trouble.success_streak = 0
        self.strategy.on_failed(permit, now)
        count, failed = self.bounds.settings.consecutive_fail_threshold, trouble.fail_streak
        reason = (
            f"{count} failures in a row, {count - failed} of them overdue" if failed else f"{count} answers overdue"
        )
        self._trip(self._open(permit, now), reason, now, overdue=count - failed)
        return True

    def _overdue_at(self) -> tuple[float, Permit | None]:
        """When so many answers are overdue that the circuit opens, and the request that makes it so many."""
        count = max(1, self.bounds.settings.consecutive_fail_threshold - self.troubles.fail_streak)
        return overdue_at(self.flying or (), count, self.latency_ring, self.epoch, self.seen_at)

    def _look_at(self, oldest: Permit, now: float) -> float:
        """When to look whether the server hangs."""
        if self.block is not None:
            return math.inf
        soonest = oldest.sent_at + HANGS_S
        return soonest if now < soonest else self._overdue_at()[0]

    def _trip(self, block: Block, reason: str, now: float, overdue: int = 0) -> None:
        block.tripped = True
        # A site that is down comes back at any moment; one that refuses has said that it wants to be left alone.
        first_s = min(FIRST_TRIAL_S, self._shut_s) if block.failing else self._shut_s
        block.pause_s = max(block.pause_s, first_s)
        self._stay_away(block.pause_s, now)
        streak = self._trouble().error_streak + overdue
        self._tell(CircuitOpened(self.domain, self.blocked_until - now, streak, reason))

    def take_events(self) -> Sequence[Event]:
        """What happened while asking, not yet handed to anybody: a permit was lost, a circuit opened or is on trial."""
        events, self.events = self.events, SILENT
        return events

    def _obey(self, quota: Quota, sent_at: float, now: float) -> float:
        """Spend what is left; where nothing is, wait for more. Returns seconds in which to send nothing."""
        trouble = self._trouble()
        window = trouble.quota
        if window is None:
            window = trouble.quota = QuotaWindow()
        in_flight = self.in_flight
        window.told(quota, sent_at, in_flight, now)
        if window.remaining - in_flight < 1:
            wait_s = window.until - now
            self._asked_to_wait(wait_s, now)
            return wait_s
        self.strategy.on_quota(window.gap_s)
        return 0.0

    # -- blocks

    def pardon(self, now: float) -> Sequence[Event]:
        """What failed here lately was nobody's fault but the network's: as if it had not happened [F9]."""
        trouble = self.trouble
        if trouble is not None:
            trouble.pardon()
            block = trouble.block
            if block is not None and not block.limited:
                trouble.block = None
                trouble.epoch += 1
                if self.machine is not None:
                    self.machine.pardon(self.domain, trouble.blocked_until, block.until_before)
                trouble.blocked_until = block.until_before
                self.strategy.on_outage(now - block.first_at)
                self._tell(CircuitClosed(self.domain, now - block.opened_at, "it was the network"))
        self._respace()
        events, self.events = self.events, SILENT
        return events

    def _open(self, permit: Permit, now: float) -> Block:
        trouble = self._trouble()
        trouble.epoch += 1
        block = trouble.block = Block(
            now, permit.sent_at, permit.seq, permit.in_flight, trouble.blocked_until, self.latency_s
        )  # fmt: skip
        return block

    def _close(self, block: Block, probe: Permit, now: float) -> None:
        trouble = self._trouble()
        trouble.block = None
        if block.limited:
            self.strategy.on_close(block, probe, now)
            trouble.unsaved = True
            blocked_s = now - block.opened_at
            self._tell(BlockClosed(self.domain, blocked_s, self.strategy.delay_s, self.strategy.note))
            self._tell_pace()
        else:
            self.strategy.on_outage(now - block.first_at)
        if block.tripped:
            trouble.forget_failures()
            self._tell(CircuitClosed(self.domain, now - block.opened_at, "trial succeeded"))

    @property
    def _shut_s(self) -> float:
        return self.bounds.settings.open_state_duration

    def _longer_s(self, block: Block, now: float) -> float:
        """The pause after a trial that failed: twice the last one, up to the longest, and never shorter. In the first
        minute of a site that only fails they grow more slowly, so that about a quarter is added to its outage."""
        if self.tries_often(now):
            longer_s = min(OFTEN_GROWTH * block.pause_s, self._shut_s)
        else:
            longer_s = min(2 * block.pause_s, self.bounds.settings.open_state_duration_max)
        return max(block.pause_s, longer_s)

    def tries_often(self, now: float) -> bool:
        """Whether the site has only just begun to fail, and nothing else: then trials come often."""
        block = self.block
        return block is not None and block.failing and now - block.opened_at < OFTEN_FOR_S

    def _probes_max(self) -> int:
        block = self.block
        tripped = block is not None and block.tripped
        return self.bounds.settings.half_open_probes if tripped else 1

    # -- bookkeeping

    def _start(self, permit: Permit) -> None:
        """Where starts matter to the gap after them."""
        if self.bounds.random_delay_s:
            self.jitter_s = self.bounds.random() * self.bounds.random_delay_s
        self.strategy.on_send(permit)
        self._respace()

    def _land(self, permit: Permit) -> None:
        flying = self.flying or []
        if self.leaving is permit:
            self.leaving = None
            if self.machine is not None:
                self.machine.left(self.domain)
        if len(flying) <= 1:
            self.flying = None
        else:
            flying.remove(permit)
        if permit.shared is not None and permit.holder is not None:
            permit.holder.give_back(permit.shared)
        if permit.probe and (block := self.block) is not None and permit.epoch == self.epoch:
            block.probes_out -= 1

    def _lost_at(self, permit: Permit) -> float:
        return permit.sent_at + self.bounds.settings.permit_timeout

    def _free_at(self, oldest: Permit) -> float:
        """When the place of the oldest request is free at the latest, or nobody waits for it any more."""
        lost_at = self._lost_at(oldest)
        return min(lost_at, oldest.sent_at + ALONE_S) if self.strategy.alone else lost_at

    def _lose(self, permit: Permit) -> None:
        permit.state = LOST
        self._land(permit)
        self._tell(PermitLost(self.domain, permit.seq, "not settled in time"))


def _is_failure(answer: Answer) -> bool:
    """Whether a refusal may as well be a site that is down."""
    return answer.status is not None and answer.status >= 500 and not answer.challenge


__all__ = ["NEVER", "SILENT", "Pace"]
