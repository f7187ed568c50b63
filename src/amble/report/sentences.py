"""What is said of a domain's pace: each sentence beside the condition under which it is true. Pure.

The first sentence of a table whose condition holds is said; the last of each group holds where none before it does.
"""

# ruff: noqa: E501 - a sentence a line, so that each stands beside its condition

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from amble.core.pacing.permit import Source
from amble.core.pacing.phase import PacePhase
from amble.report.budget import Cause

FINDING, AT_LIMIT, WAITING, DOWN = PacePhase.FINDING, PacePhase.AT_LIMIT, PacePhase.WAITING, PacePhase.DOWN
DOWN_FROM = 2  # failures in a row at the end; one is one broken page


class Facts(NamedTuple):
    """What is known of a domain when a sentence is chosen."""

    phase: PacePhase
    rule: Source  # what set the gap
    strategy: str
    requests: int
    refusals: int = 0
    failures: int = 0
    cause: Cause | None = None  # where most of the time went
    gap_s: float = 0.0
    default_gap_s: float = 0.0  # `default_crawl_delay`
    in_flight_max: int = 1
    parallel: int = 1  # how many at once it gets
    parallel_max: int = 1  # how many the settings allow

    @property
    def never_answered(self) -> bool:
        return self.requests > 0 and self.failures == self.requests

    @property
    def is_default_delay(self) -> bool:
        """Whether the gap is the one for sites that state none."""
        return self.default_gap_s > 0 and abs(self.gap_s - self.default_gap_s) < 1e-6

    @property
    def is_limited(self) -> bool:
        """Whether it is known that the site bears no more."""
        return self.refusals > 0 or self.phase is AT_LIMIT

    def is_at(self, strategy: str) -> bool:
        """Whether the constant that a strategy begins or ends with sets its gap."""
        return self.strategy == strategy and self.phase is PacePhase.SET

    @property
    def fills_its_slots(self) -> bool:
        return self.in_flight_max >= self.parallel


class Sentence(NamedTuple):
    text: str  # may name facts in braces
    holds: Callable[[Facts], bool]


def first_true(sentences: Sequence[Sentence], facts: Facts) -> str:
    said = next(sentence.text for sentence in sentences if sentence.holds(facts))
    return said.format_map(facts._asdict())


def phase_of_receipts(
    rule: Source, strategy: str, *, learned: bool, refusals: int, failed_last: int, waits: bool
) -> PacePhase:
    """The phase in which a crawl that is over left a domain. `failed_last`: failures in a row at its end; `waits`: it
    was to be left alone for longer."""
    if failed_last >= DOWN_FROM:
        return DOWN
    if waits:
        return WAITING
    if rule is not Source.LEARNED:
        return PacePhase.SET
    if learned or refusals:
        return AT_LIMIT if strategy != "fixed" else PacePhase.SET
    return FINDING if strategy in ("gauge", "aimd") else PacePhase.SET


# -- what sets the gap, as `why` says it

BINDS = (
    Sentence("the default_crawl_delay of our settings", lambda f: f.rule is Source.CRAWL_DELAY and f.is_default_delay),
    Sentence("the crawl delay that robots.txt asks for", lambda f: f.rule is Source.CRAWL_DELAY),
    Sentence("our own fixed_delay", lambda f: f.rule is Source.LEARNED and f.strategy == "fixed"),
    Sentence("the pace tried so far: no limit was met yet", lambda f: f.rule is Source.LEARNED and f.phase is FINDING),
    Sentence("our own base_delay", lambda f: f.rule is Source.LEARNED and f.is_at("linear")),
    Sentence("our own max_rps", lambda f: f.rule is Source.LEARNED and f.is_at("aimd")),
    Sentence("the delay that was learned here", lambda f: f.rule is Source.LEARNED and f.is_limited),
    Sentence("the pace reached so far", lambda f: f.rule is Source.LEARNED),
    Sentence("the quota that the server states", lambda f: f.rule is Source.QUOTA),
    Sentence("min_crawl_delay or a rule of ours", lambda f: f.rule is Source.MINIMUM),
    Sentence("our own max_rate", lambda f: f.rule is Source.MAX_RATE),
    Sentence("nothing but the server's answers", lambda f: True),
)

# -- why the slowest domain took its time, as the summary of a crawl says it

BECAUSE = (
    Sentence("it never answered", lambda f: f.never_answered),
    Sentence("it stopped answering", lambda f: f.phase is DOWN),
    Sentence("default_crawl_delay sets that gap", lambda f: f.rule is Source.CRAWL_DELAY and f.is_default_delay),
    Sentence("its robots.txt asks for that gap", lambda f: f.rule is Source.CRAWL_DELAY),
    Sentence("min_crawl_delay or a rule sets that gap", lambda f: f.rule is Source.MINIMUM),
    Sentence("max_rate allows no more, and some requests were refused", lambda f: f.rule is Source.MAX_RATE and f.is_limited),
    Sentence("max_rate allows no more; raise it only where you may", lambda f: f.rule is Source.MAX_RATE),
    Sentence("its RateLimit headers allow no more", lambda f: f.rule is Source.QUOTA),
    Sentence("fixed_delay sets that gap", lambda f: f.rule is Source.LEARNED and f.strategy == "fixed"),
    Sentence("still finding the pace: no refusal yet", lambda f: f.rule is Source.LEARNED and f.phase is FINDING),
    Sentence("it answered no faster without refusing", lambda f: f.rule is Source.LEARNED and f.refusals > 0),
    Sentence("base_delay sets that gap", lambda f: f.rule is Source.LEARNED and f.is_at("linear")),
    Sentence("at the pace learned before, or from its response times; nothing was refused",
             lambda f: f.rule is Source.LEARNED and f.phase is AT_LIMIT),
    Sentence("it was finding its pace most of the time; nothing was refused", lambda f: f.rule is Source.LEARNED),
    Sentence("it asked to be left alone", lambda f: f.phase is WAITING),
    Sentence("its own response times", lambda f: True),
)  # fmt: skip

# -- what would help, as `why` says it

HINTS = (
    Sentence("it never answered: is its address right, and can it be reached from here?", lambda f: f.never_answered),
    Sentence("it stopped answering; go on with the job later: amble resume",
             lambda f: f.phase is DOWN and f.cause in (Cause.BLOCK, Cause.LATENCY, Cause.IDLE)),
    Sentence("most of the time went into robots.txt and sitemaps; discover = false visits the seeds alone",
             lambda f: f.cause is Cause.DISCOVERY),
    Sentence("our own default_crawl_delay binds: lower it, if the site agrees",
             lambda f: f.cause is Cause.CRAWL_DELAY and f.is_default_delay),
    Sentence("only the owner of the site can shorten its Crawl-delay; fetch less: update_stale, or a narrower set of seeds",
             lambda f: f.cause is Cause.CRAWL_DELAY),
    Sentence("our own fixed_delay binds: shorten it, if the site agrees",
             lambda f: f.cause is Cause.LEARNED and f.strategy == "fixed"),
    Sentence("this is what the site bears: it refused {refusals} of {requests} requests; ask its owner for more, or crawl at"
             " a quieter hour", lambda f: f.cause is Cause.LEARNED and f.refusals > 0),
    Sentence("still finding the pace: no refusal yet; a longer crawl gets faster",
             lambda f: f.cause is Cause.LEARNED and f.phase is FINDING),
    Sentence("our own base_delay binds, which pacing = linear never undercuts",
             lambda f: f.cause is Cause.LEARNED and f.is_at("linear")),
    Sentence("the pace was learned in an earlier crawl or from its response times; nothing was refused this time",
             lambda f: f.cause is Cause.LEARNED and f.phase is AT_LIMIT),
    Sentence("it was finding its pace most of the time; nothing was refused", lambda f: f.cause is Cause.LEARNED),
    Sentence("the site states its quota; ask its owner for a larger one", lambda f: f.cause is Cause.QUOTA),
    Sentence("our own limit held it most of the time, and the site refused {refusals} of {requests} requests: raise nothing",
             lambda f: f.cause is Cause.OUR_LIMITS and f.refusals > 0),
    Sentence("our own max_rate binds: raise it, if the site agrees",
             lambda f: f.cause is Cause.OUR_LIMITS and f.rule is Source.MAX_RATE and not f.is_limited),
    Sentence("our own min_crawl_delay or rule binds: lower it, if the site agrees",
             lambda f: f.cause is Cause.OUR_LIMITS and f.rule is Source.MINIMUM and not f.is_limited),
    Sentence("our own limit held it most of the time; at the end something else did", lambda f: f.cause is Cause.OUR_LIMITS),
    Sentence("the site refused {refusals} of {requests} requests: a lower max_rate meets fewer refusals",
             lambda f: f.cause is Cause.BLOCK and f.refusals > f.failures),
    Sentence("{failures} of {requests} requests failed, each followed by a pause; error_type and http_status of the pages"
             " say why", lambda f: f.cause is Cause.BLOCK),
    Sentence("nothing was there to be sent: its pages were still to be found, other domains had all connections"
             " (max_total_connections), or the crawl was paused", lambda f: f.cause is Cause.IDLE),
    Sentence("one request was all there was", lambda f: f.requests == 1),
    Sentence("it gets {parallel} at once and not {parallel_max}: it refused more, or its delay is long",
             lambda f: f.fills_its_slots and f.parallel < f.parallel_max),
    Sentence("{parallel} at once are all in use: a higher max_parallel_per_domain would help, if the site bears it",
             lambda f: f.fills_its_slots and not f.is_limited and not f.failures),
    Sentence("the site takes its time to answer, or has few pages to ask for at once; nothing here would make it faster",
             lambda f: True),
)  # fmt: skip
