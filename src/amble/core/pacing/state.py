"""What is known of one domain and what binds it now: the state that a pace decides on. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from amble.core.answer import Answer
from amble.core.pacing.block import Block
from amble.core.pacing.bounds import Bounds
from amble.core.pacing.events import (
    BlockOpened,
    CircuitOpened,
    ConcurrencyChanged,
    ConcurrencyReason,
    Event,
    PaceChanged,
    Paused,
)
from amble.core.pacing.machine import MachinePace
from amble.core.pacing.permit import Permit, Source
from amble.core.pacing.quota_window import QuotaWindow
from amble.core.pacing.strategies import make_strategy
from amble.core.pacing.trouble import Trouble

NEVER = -math.inf
SILENT: Sequence[Event] = ()

TOLD = 0.1  # a delay or a pause that moved by less than this share is not worth an event

LONGER_QUOTA = 2.0  # a domain's pauses for a quota are told once, until one lasts so many times longer

LEARNED, QUOTA = Source.LEARNED, Source.QUOTA

_CALM = Trouble()  # what a domain without trouble shows


class PaceState:
    """One domain as it stands; `Pace` is what acts on it."""

    __slots__ = (
        "bounds",
        "domain",
        "events",
        "flying",
        "gap_s",
        "jitter_s",
        "last_start",
        "latency_ring",
        "latency_s",
        "leaving",
        "machine",
        "parallel",
        "seen_at",
        "seq",
        "source",
        "strategy",
        "successes",
        "told_delay_s",
        "trouble",
    )

    def __init__(self, domain: str, bounds: Bounds, now: float) -> None:
        self.domain = domain
        self.bounds = bounds
        self.strategy = make_strategy(bounds.strategy, bounds.settings)
        self.seen_at = now  # start of the last request that succeeded; before there was one, when the domain was met
        self.last_start = NEVER
        self.gap_s = self.jitter_s = 0.0
        self.source = Source.NONE
        self.parallel = bounds.parallel
        self.seq = 0
        self.flying: list[Permit] | None = None  # issued and not settled, oldest first
        self.leaving: Permit | None = None  # the last one issued, while its request is still on its way out
        self.machine: MachinePace | None = None  # what other processes are told, and tell us
        self.trouble: Trouble | None = None  # and with it all that follows from more than plain answers
        self.latency_s: float | None = None
        self.latency_ring = b""
        self.successes = 0
        self.told_delay_s = self.strategy.delay_s
        self.events: Sequence[Event] = SILENT  # not yet handed to the caller
        self.set_crawl_delay(None)

    def set_crawl_delay(self, crawl_delay_s: float | None) -> None:
        """What robots.txt asks for; None where it asks for nothing and the default holds."""
        self.bounds = self.bounds.under(crawl_delay_s)
        self.strategy.limit_to(self.bounds.gap_s, bursts=self.bounds.crawl_delay_s is None)
        self._respace(bounds_moved=True)

    def resume_silently(self, now: float) -> None:
        """Start as if a request had just been sent: an earlier run may have sent one."""
        self.last_start = now
        self.told_delay_s = self.strategy.delay_s
        self._respace()

    def leave_alone(self, until: float) -> None:
        """An earlier run was to leave the domain alone until then."""
        if until > self.blocked_until:
            self._block_until(until)
        self._outlast_block(until)

    def _block_until(self, until: float) -> None:
        trouble = self._trouble()
        trouble.blocked_until = max(trouble.blocked_until, until)

    def _outlast_block(self, until: float) -> None:
        """What a server asked for holds on where the block it came in turns out to be nobody's fault."""
        if (block := self.block) is not None:
            block.until_before = max(block.until_before, until)

    def _asked_to_wait(self, asked_s: float, now: float) -> None:
        # Jitter only upward: never inside the time the server named.
        wait_s = asked_s * (1 + 0.02 * self.bounds.random()) + 0.02
        self._block_until(now + wait_s)
        self._outlast_block(now + wait_s)
        self._trouble().unsaved = True  # on a redirect, too: the next run must keep to it

    def _stay_away(self, pause_s: float, now: float) -> None:
        # Jitter only upward, so that many domains released together do not return in step.
        self._block_until(now + pause_s * (1 + 0.1 * self.bounds.random()))

    # -- other processes

    def _refused_by_others(self, machine: MachinePace, now: float) -> float | None:
        """None if no other process keeps this one from starting a request now, which they then know of."""
        if self._is_spaced:
            refused_until = machine.take(self.domain, now, self.gap_s)
            if refused_until is None:
                return None
        else:
            refused_until = machine.blocked_until(self.domain)
            if now >= refused_until:
                return None
        blocked_until = machine.blocked_until(self.domain)
        if blocked_until > max(now, self.blocked_until):
            self.leave_alone(blocked_until)
            self._tell(Paused(self.domain, blocked_until - now, "another process was told to stay away"))
        return refused_until

    @property
    def _is_spaced(self) -> bool:
        """Whether it matters when the last request started."""
        return self.gap_s > 0 or self.strategy.counts_sends

    # -- looking

    @property
    def not_before(self) -> float:
        """The instant of the next start, as far as is known before anything is settled."""
        not_before, trouble = self.last_start + self.gap_s, self.trouble
        if trouble is None:
            return not_before
        not_before = max(not_before, trouble.blocked_until)
        return not_before if trouble.quota is None else max(not_before, trouble.quota.spent_until(self.in_flight))

    @property
    def in_flight(self) -> int:
        return 0 if self.flying is None else len(self.flying)

    @property
    def crawl_delay_s(self) -> float | None:
        return self.bounds.crawl_delay_s

    @property
    def troubles(self) -> Trouble:
        """What went wrong here, to look at; calm domains share one that is all zeros."""
        return self.trouble or _CALM

    @property
    def block(self) -> Block | None:
        return self.troubles.block

    @property
    def blocked_until(self) -> float:
        return self.troubles.blocked_until

    @property
    def epoch(self) -> int:
        return self.troubles.epoch

    @property
    def quota(self) -> QuotaWindow | None:
        return self.troubles.quota

    @property
    def success_streak(self) -> int:
        return self.successes if self.trouble is None else self.trouble.success_streak

    @property
    def unsaved(self) -> bool:
        """Whether something was learned that was not handed out."""
        return self.troubles.unsaved

    def saved(self) -> None:
        """All that is worth keeping was handed out."""
        if self.trouble is not None:
            self.trouble.unsaved = False

    @property
    def last_success(self) -> float | None:
        return self.seen_at if self.successes else None

    @property
    def circuit(self) -> str:
        """closed, open, or half_open as soon as a trial request is out."""
        block = self.block
        if block is None or not block.tripped:
            return "closed"
        return "half_open" if block.probes_out or block.probe_successes else "open"

    def idle_since(self) -> float:
        """When anything last happened here."""
        return max(self.seen_at, self.last_start)

    def evictable(self, now: float) -> bool:
        """Nothing would be forgotten: no request under way, no block, no delay, no window that is being spent."""
        spends = self.quota is not None and now < self.quota.until
        return self.flying is None and self.block is None and now >= self.not_before and not spends

    # -- what binds

    def _respace(self, *, bounds_moved: bool = False) -> None:
        """Work out the gap to the next start from everything that may bind it, and how many may be under way."""
        bounds, strategy = self.bounds, self.strategy
        gap_s, source = bounds.gap_s, bounds.source
        if strategy.gap_s > gap_s:
            gap_s, source = strategy.gap_s, LEARNED
        trouble = self.trouble
        if trouble is not None and trouble.quota is not None and trouble.quota.gap_s > gap_s:
            gap_s, source = trouble.quota.gap_s, QUOTA
        if self.jitter_s:
            gap_s += self.jitter_s
        self.gap_s, self.source = gap_s, source
        if strategy.delay_s >= bounds.crowded_from_s or strategy.parallel or self.parallel != bounds.parallel:
            self._recommend(bounds_moved)

    def _recommend(self, bounds_moved: bool) -> None:
        """One request fewer at a time for each step the delay lies over its baseline; given back when it falls."""
        bounds, delay_s = self.bounds, self.strategy.delay_s
        steps = math.floor((delay_s - bounds.baseline_s) / bounds.settings.concurrency_step)
        parallel = max(1, bounds.parallel - max(0, steps))
        cap, capped_before = self.strategy.parallel, self.troubles.capped
        capped = cap is not None and cap < parallel
        if cap is not None and capped:
            parallel = cap
        if capped != capped_before:
            self._trouble().capped = capped
        if parallel == self.parallel:
            return
        was, self.parallel = self.parallel, parallel
        fewer = parallel < was  # then what binds now is the reason; else what bound before
        reason = ConcurrencyReason.DELAY_GREW if fewer else ConcurrencyReason.DELAY_FELL
        if bounds_moved:
            reason = ConcurrencyReason.BOUNDS
        elif fewer and capped:
            reason = ConcurrencyReason.CAP_FOUND
        elif not fewer and capped_before:
            reason = ConcurrencyReason.CAP_LIFTED
        self._tell(ConcurrencyChanged(self.domain, parallel, was, reason))

    # -- bookkeeping

    def _trouble(self) -> Trouble:
        if self.trouble is None:
            self.trouble = Trouble(self.successes)
        return self.trouble

    def _tell(self, event: Event) -> None:
        self.events = (*self.events, event)

    def _tell_pace(self) -> None:
        delay_s, was_s = self.strategy.delay_s, self.told_delay_s
        if delay_s != was_s:
            self._tell(PaceChanged(self.domain, delay_s, was_s, self.troubles.error_streak, self.strategy.note))
            self.told_delay_s = delay_s

    def _tell_pause(self, answer: Answer, used_up_s: float, until_was: float, now: float) -> None:
        """Unless it is known already, give or take a little, by what was told of a refusal."""
        told_s = [event.wait_s for event in self.events if isinstance(event, BlockOpened | CircuitOpened)]
        wait_s = self.blocked_until - now
        if wait_s <= (1 + TOLD) * max(0.0, until_was - now, *told_s):
            return
        reason = answer.reason
        if used_up_s > (answer.retry_after_s or 0.0):
            if self.quota is not None:
                if wait_s <= LONGER_QUOTA * self.quota.told_s:
                    return  # one of many windows like those before
                self.quota.told_s = wait_s
            reason = f"quota used up for {used_up_s:.0f} s"
        self._tell(Paused(self.domain, wait_s, reason))

    def __repr__(self) -> str:
        blocked = " blocked" if self.block else ""
        circuit = f" {self.circuit}" if self.circuit != "closed" else ""
        return (
            f"<Pace {self.domain} {self.strategy.name} delay={self.strategy.delay_s:.2f}s"
            f" floor={self.strategy.floor_s:.2f}s in_flight={self.in_flight}/{self.parallel}{blocked}{circuit}>"
        )
