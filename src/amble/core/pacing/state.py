"""What is known of one domain and what binds it now: the state that a pace decides on. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from amble.core.answer import Answer
from amble.core.pacing.block import Block
from amble.core.pacing.bounds import Bounds
from amble.core.pacing.events import BlockOpened, CircuitOpened, ConcurrencyChanged, Event, PaceChanged, Paused
from amble.core.pacing.permit import Permit, Source
from amble.core.pacing.strategies import make_strategy
from amble.core.pacing.trouble import Trouble

NEVER = -math.inf
SILENT: Sequence[Event] = ()

TOLD = 0.1  # a delay or a pause that moved by less than this share is not worth an event

LEARNED, QUOTA = Source.LEARNED, Source.QUOTA

_CALM = Trouble()  # what a domain without trouble shows


class PaceState:
    """One domain as it stands; `Pace` is what acts on it."""

    __slots__ = (
        "block",
        "blocked_until",
        "bounds",
        "domain",
        "epoch",
        "events",
        "flying",
        "gap_s",
        "jitter_s",
        "last_start",
        "latency_ring",
        "latency_s",
        "leaving",
        "parallel",
        "quota_gap_s",
        "quota_until",
        "seen_at",
        "seq",
        "source",
        "strategy",
        "success_streak",
        "successes",
        "told_delay_s",
        "trouble",
        "unsaved",
    )

    def __init__(self, domain: str, bounds: Bounds, now: float) -> None:
        self.domain = domain
        self.bounds = bounds
        self.strategy = make_strategy(bounds.strategy, bounds.settings)
        self.seen_at = now  # start of the last request that succeeded; before there was one, when the domain was met
        self.last_start = NEVER
        self.blocked_until = NEVER
        self.gap_s = self.jitter_s = self.quota_gap_s = 0.0
        self.quota_until = NEVER  # the window ends that the quota was told for
        self.source = Source.NONE
        self.parallel = bounds.parallel
        self.seq = self.epoch = 0
        self.flying: list[Permit] | None = None  # issued and not settled, oldest first
        self.leaving: Permit | None = None  # the last one issued, while its request is still on its way out
        self.block: Block | None = None
        self.trouble: Trouble | None = None
        self.latency_s: float | None = None
        self.latency_ring = b""
        self.successes = self.success_streak = 0
        self.told_delay_s = self.strategy.delay_s
        self.unsaved = False
        self.events: Sequence[Event] = SILENT  # not yet handed to the caller
        self.set_crawl_delay(None)

    def set_crawl_delay(self, crawl_delay_s: float | None) -> None:
        """What robots.txt asks for; None where it asks for nothing and the default holds."""
        self.bounds = self.bounds.under(crawl_delay_s)
        self.strategy.limit_to(self.bounds.gap_s, bursts=self.bounds.crawl_delay_s is None)
        self._respace()

    def leave_alone(self, until: float) -> None:
        """An earlier run was to leave the domain alone until then."""
        self.blocked_until = max(self.blocked_until, until)
        self._outlast_block(until)

    def _outlast_block(self, until: float) -> None:
        """What a server asked for holds on where the block it came in turns out to be nobody's fault."""
        if self.block is not None:
            self.block.until_before = max(self.block.until_before, until)

    # -- looking

    @property
    def not_before(self) -> float:
        """The instant of the next start, as far as time alone decides it."""
        return max(self.last_start + self.gap_s, self.blocked_until)

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
    def last_success(self) -> float | None:
        return self.seen_at if self.successes else None

    @property
    def circuit(self) -> str:
        """closed, open, or half_open as soon as a trial request is out."""
        if self.block is None or not self.block.tripped:
            return "closed"
        return "half_open" if self.block.probes_out or self.block.probe_successes else "open"

    def idle_since(self) -> float:
        """When anything last happened here."""
        return max(self.seen_at, self.last_start)

    def evictable(self, now: float) -> bool:
        """Nothing would be forgotten: no request under way, no block, no delay still running."""
        return self.flying is None and self.block is None and now >= self.not_before

    # -- what binds

    def _respace(self) -> None:
        """Work out the gap to the next start from everything that may bind it, and how many may be under way."""
        bounds, strategy = self.bounds, self.strategy
        gap_s, source = bounds.gap_s, bounds.source
        if strategy.gap_s > gap_s:
            gap_s, source = strategy.gap_s, LEARNED
        if self.quota_gap_s > gap_s:
            gap_s, source = self.quota_gap_s, QUOTA
        if self.jitter_s:
            gap_s += self.jitter_s
        self.gap_s, self.source = gap_s, source
        if strategy.delay_s >= bounds.crowded_from_s or strategy.parallel or self.parallel != bounds.parallel:
            self._recommend()

    def _recommend(self) -> None:
        """One request fewer at a time for each step the delay lies over its baseline; given back when it falls."""
        bounds, delay_s = self.bounds, self.strategy.delay_s
        steps = math.floor((delay_s - bounds.baseline_s) / bounds.settings.concurrency_step)
        parallel = max(1, bounds.parallel - max(0, steps))
        if self.strategy.parallel is not None:
            parallel = min(parallel, self.strategy.parallel)
        if parallel != self.parallel:
            was, self.parallel = self.parallel, parallel
            self._tell(ConcurrencyChanged(self.domain, parallel, was, f"delay {delay_s:.1f} s"))

    # -- bookkeeping

    def _trouble(self) -> Trouble:
        if self.trouble is None:
            self.trouble = Trouble()
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
        if wait_s > (1 + TOLD) * max(0.0, until_was - now, *told_s):
            by_quota = used_up_s > (answer.retry_after_s or 0.0)
            reason = f"quota used up for {used_up_s:.0f} s" if by_quota else answer.reason
            self._tell(Paused(self.domain, wait_s, reason))

    def __repr__(self) -> str:
        blocked = " blocked" if self.block else ""
        circuit = f" {self.circuit}" if self.circuit != "closed" else ""
        return (
            f"<Pace {self.domain} {self.strategy.name} delay={self.strategy.delay_s:.2f}s"
            f" floor={self.strategy.floor_s:.2f}s in_flight={self.in_flight}/{self.parallel}{blocked}{circuit}>"
        )
