"""The pace of one domain: who may send now, and what each answer changes. Pure: told the time, told what happened.

This is the shell around a strategy. It keeps the rules that no strategy can override: spacing between request starts,
requests under way, nothing during a block, one trial request after it, one event per block.
"""

from __future__ import annotations

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
from amble.core.pacing.latency import EWMA_SHARE, remember
from amble.core.pacing.permit import Permit, PermitState
from amble.core.pacing.state import NEVER, SILENT, TOLD, PaceState
from amble.core.pacing.trouble import Trouble
from amble.core.quota import LONGEST_RESET_S, Quota
from amble.errors import AlreadySettled

# Enum members by a plain name: looking them up in their class costs more than all else on the way of an answer.
ISSUED, SETTLED, LOST = PermitState
SUCCESS, LIMITED, FAILED, IGNORED = Outcome
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
        not_before = self.last_start + self.gap_s
        if self.blocked_until > not_before:
            not_before = self.blocked_until
        if now < not_before:
            return not_before
        if self.leaving is not None and self.gap_s > 0 and now < (lost_at := self._lost_at(self.leaving)):
            self.leaving.awaited = True  # when it leaves is when the gap begins
            return lost_at
        block = self.block
        while (flying := self.flying) is not None and (
            len(flying) >= self.parallel or (block and block.probes_out >= self._probes_max())
        ):
            oldest = flying[0]
            if now < (lost_at := self._lost_at(oldest)):
                return lost_at
            self._lose(oldest)
        shared = None
        if self.shared is not None:
            got = self.shared.reserve(now)
            if isinstance(got, float):
                return got
            shared = got
        self.seq += 1
        in_flight = 1 if flying is None else len(flying) + 1
        permit = Permit(
            self.domain, self.seq, now, self.last_start, self.epoch, self.gap_s, self.source, in_flight,
            block is not None,
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
        if flying is None or len(flying) < self.parallel:
            return self.not_before
        return max(self.not_before, self._lost_at(flying[0]))

    def ready(self, now: float) -> bool:
        """Whether the domain itself holds nothing up; its address still may."""
        if now < self.not_before or (self.leaving is not None and self.gap_s > 0):
            return False
        block, in_flight = self.block, self.in_flight
        return in_flight < self.parallel and not (in_flight and block and block.probes_out >= self._probes_max())

    def expect(self, permit: Permit) -> None:
        """Whoever has this permit will say when its request has left; until then a domain with a gap gives no other.

        Two that connect side by side could leave together, however far apart they set out [P1].
        """
        self.leaving = permit
        if permit.shared is not None and permit.holder is not None:
            permit.holder.expect(permit.shared)

    def sent(self, permit: Permit, now: float) -> None:
        """The request left only now: what comes after it is spaced from here."""
        permit.sent_at = now
        if self.leaving is permit:
            self.leaving = None
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
        self.strategy.on_cancel(permit)
        if permit.seq == self.seq:
            self.seq -= 1
            self.last_start = permit.previous_at
            self.jitter_s = 0.0
        self._respace()

    def give_back(self, permit: Permit) -> None:
        """The request is over, and what came of it says nothing here: an address learns from none of its domains."""
        if permit.state is ISSUED:
            permit.state = SETTLED
            self._land(permit)

    def resume_silently(self, now: float) -> None:
        """Start as if a request had just been sent: an earlier run may have sent one."""
        self.last_start = now
        self.told_delay_s = self.strategy.delay_s
        self._respace()

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
        _, _, elapsed_s, retry_after_s, quota, _ = answer
        outcome, until_was = self._judge(answer), self.blocked_until
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
            used_up_s = self._obey(quota, now)
        elif self.quota_gap_s and now >= self.quota_until:
            self.quota_gap_s = 0.0  # until then it holds, whatever a page of another kind leaves out
        if (retry_after_s is not None or used_up_s) and self.blocked_until > until_was:
            self._tell_pause(answer, used_up_s, until_was, now)
        self._respace()
        if abs(self.strategy.delay_s - self.told_delay_s) > TOLD * self.told_delay_s:
            self._tell_pace()
            self.unsaved = self.unsaved or self.strategy.learned  # how much more it bears is dearly learned, too
        events, self.events = self.events, SILENT
        return events

    def _judge(self, answer: Answer) -> Outcome:
        status, failure, _, retry_after_s, _, challenge = answer
        trouble = self.trouble
        if trouble is None:
            if failure is None and not challenge and status is not None and status < 500 and status not in _TELLING:
                return SUCCESS  # a page, or that there is none
            trouble = self.trouble = Trouble()
        trouble.note_status(status)
        if challenge:
            return LIMITED
        if status == 403 and trouble.forbids(self.successes):
            return LIMITED
        if status == 503 and (retry_after_s is not None or trouble.overloads()):
            return LIMITED
        return outcome_of(status, failure)

    def _succeeded(self, permit: Permit, elapsed_s: float | None, now: float) -> None:
        self.successes += 1
        if permit.epoch != self.epoch:
            return  # sent before the block was known: says nothing about what holds now
        self.success_streak += 1
        self.seen_at = permit.sent_at
        if self.trouble is not None:
            self.trouble.succeed(now)
        block = self.block
        if block is not None:
            block.probe_successes += 1
            if block.probe_successes >= self._probes_max():
                self._close(block, permit, now)
            return
        hold_s = self.strategy.on_ok(permit, elapsed_s, self.latency_s, self.in_flight, now)
        if hold_s > 0:
            self.blocked_until = max(self.blocked_until, now + hold_s)

    def _limited(self, permit: Permit, answer: Answer, now: float) -> None:
        trouble, block = self._trouble(), self.block
        trouble.limited += 1
        trouble.limited_at = now
        if permit.epoch != self.epoch:
            # One event per block: refusals of requests sent before it was known belong to it.
            if block is not None:
                block.refused(permit.sent_at, answer.retry_after_s)
            return
        self.success_streak = 0
        trouble.error_streak += 1
        self.unsaved = True
        if block is None:
            block = self._open(permit, now)
        else:
            block.probe_failed()
        first = not block.limited
        block.limited = True
        block.refused(permit.sent_at, answer.retry_after_s)
        pause_s = self.strategy.on_block(block, now) if first else self.strategy.on_refused(block, now)
        reopened = block.tripped
        block.pause_s = max(pause_s, self._longer_s(block)) if reopened else pause_s
        if answer.retry_after_s is None:
            self._stay_away(block.pause_s, now)
            self._count_failure(permit, now)  # a directed Retry-After alone does not trip the breaker
        wait_s = self.blocked_until - now
        if reopened:
            self._tell(CircuitOpened(self.domain, wait_s, trouble.error_streak, "trial refused"))
        self._tell(BlockOpened(self.domain, wait_s, answer.retry_after_s, trouble.error_streak, answer.reason))
        self._tell_pace()

    def _failed(self, permit: Permit, now: float) -> None:
        trouble, block = self._trouble(), self.block
        trouble.failures += 1
        if permit.epoch != self.epoch:
            return
        self.success_streak = 0
        trouble.error_streak += 1
        self.strategy.on_failed(permit, now)
        if block is not None:
            block.probe_failed()
            block.pause_s = self._longer_s(block)
            self._stay_away(block.pause_s, now)
            if block.tripped:
                wait_s = self.blocked_until - now
                self._tell(CircuitOpened(self.domain, wait_s, trouble.error_streak, "trial failed"))
        self._count_failure(permit, now)

    def _count_failure(self, permit: Permit, now: float) -> None:
        """Feed the breaker; open the circuit when too much fails."""
        trouble = self._trouble()
        reason = trouble.fail(self.bounds.settings, self.successes, self.gap_s, now)
        block = self.block
        if reason is None or (block is not None and block.tripped):
            return
        if block is None:
            block = self._open(permit, now)
        block.tripped = True
        block.pause_s = max(block.pause_s, self.bounds.settings.open_state_duration)
        self._stay_away(block.pause_s, now)
        self._tell(CircuitOpened(self.domain, self.blocked_until - now, trouble.error_streak, reason))

    def _obey(self, quota: Quota, now: float) -> float:
        """Spread what is left; where nothing is, wait for more. Returns seconds in which to send nothing."""
        in_flight = self.in_flight + 1  # with the one just answered, which the server has counted
        if quota.remaining <= in_flight - 1 or quota.remaining < 1:
            self._asked_to_wait(quota.reset_s, now)
            return quota.reset_s
        self.strategy.on_quota(quota, in_flight)
        self.quota_gap_s = min(1 / (0.98 * quota.rate(in_flight)), LONGEST_RESET_S)
        self.quota_until = now + quota.reset_s
        return 0.0

    # -- blocks

    def pardon(self, now: float) -> Sequence[Event]:
        """What failed here lately was nobody's fault but the network's: as if it had not happened [F9]."""
        if self.trouble is not None:
            self.trouble.pardon()
        block = self.block
        if block is not None and not block.limited:
            self.block = None
            self.epoch += 1
            self.blocked_until = block.until_before
            self.strategy.on_outage(now - block.first_at)
            self._tell(CircuitClosed(self.domain, now - block.opened_at, "it was the network"))
        self._respace()
        events, self.events = self.events, SILENT
        return events

    def _open(self, permit: Permit, now: float) -> Block:
        self.epoch += 1
        self.block = Block(now, permit.sent_at, permit.seq, permit.in_flight, self.blocked_until)
        return self.block

    def _close(self, block: Block, probe: Permit, now: float) -> None:
        self.block = None
        if block.limited:
            self.strategy.on_close(block, probe, now)
            self.unsaved = True
            blocked_s = now - block.opened_at
            self._tell(BlockClosed(self.domain, blocked_s, self.strategy.delay_s, self.strategy.note))
            self._tell_pace()
        else:
            self.strategy.on_outage(now - block.first_at)
        if block.tripped:
            self._trouble().forget_failures()
            self._tell(CircuitClosed(self.domain, now - block.opened_at, "trial succeeded"))

    def _asked_to_wait(self, asked_s: float, now: float) -> None:
        # Jitter only upward: never inside the time the server named.
        wait_s = asked_s * (1 + 0.02 * self.bounds.random()) + 0.02
        self.blocked_until = max(self.blocked_until, now + wait_s)
        self._outlast_block(now + wait_s)
        self.unsaved = True  # on a redirect, too: the next run must keep to it

    def _stay_away(self, pause_s: float, now: float) -> None:
        # Jitter only upward, so that many domains released together do not return in step.
        self.blocked_until = max(self.blocked_until, now + pause_s * (1 + 0.1 * self.bounds.random()))

    def _longer_s(self, block: Block) -> float:
        """The pause after a trial that failed: twice the last one, up to the longest, and never shorter."""
        return max(block.pause_s, min(2 * block.pause_s, self.bounds.settings.open_state_duration_max))

    def _probes_max(self) -> int:
        tripped = self.block is not None and self.block.tripped
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
        if len(flying) <= 1:
            self.flying = None
        else:
            flying.remove(permit)
        if permit.shared is not None and permit.holder is not None:
            permit.holder.give_back(permit.shared)
        if permit.probe and self.block is not None and permit.epoch == self.epoch:
            self.block.probes_out -= 1

    def _lost_at(self, permit: Permit) -> float:
        return permit.sent_at + self.bounds.settings.permit_timeout

    def _lose(self, permit: Permit) -> None:
        permit.state = LOST
        self._land(permit)
        self._tell(PermitLost(self.domain, permit.seq, "not settled in time"))


__all__ = ["NEVER", "SILENT", "Pace"]
