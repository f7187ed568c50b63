"""The short groups: what is drawn in each, what must be reached there, and what a number of scores make of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import fmean
from typing import NamedTuple

from amble.testing.lab.controllers import STRATEGIES
from amble.testing.lab.peers import PEERS
from amble.testing.lab.short.draws import (
    MIXED,
    SHORT,
    TOLD,
    Draw,
    Size,
    any_kind,
    at_once,
    bucket,
    cap_and_bucket,
    changing,
    flapping,
    outage,
    queue,
    window,
    window_with_headers,
)
from amble.testing.lab.short.host import ShortHost
from amble.testing.lab.short.oracle import oracle_s
from amble.testing.lab.short.score import ShortScore, judge_short

ORACLE_S = 8.0, 300.0  # what the oracle finishes sooner or later than that is no short crawl
CHANGING = Size(40, 220, 10.0, 40.0)
SHOP = Size(300, 800, 10.0, 25.0)


@dataclass(frozen=True, slots=True)
class Group:
    """A kind of short hosts, and the targets for the mean goodput and the refusals per 1000 pages."""

    name: str
    draw: Draw
    size: Size = SHORT
    goodput_min: float | None = None
    refusals_max: float | None = None

    def host(self, number: int, seed: int) -> ShortHost:
        """The host with this number; every seed draws others."""
        dice = Random(f"{seed} {self.name} {number}")
        while True:
            host = self.draw(dice, self.size)
            if ORACLE_S[0] <= oracle_s(host) <= ORACLE_S[1]:
                return host


GROUPS = {
    group.name: group
    for group in (
        Group("short-buckets", bucket, goodput_min=0.91, refusals_max=12),
        Group("short-windows-told", partial(window, hows=TOLD), goodput_min=0.84),
        Group("short-windows-silent", partial(window, hows=("silent",)), goodput_min=0.76),
        Group("short-windows-headers", window_with_headers, goodput_min=0.93, refusals_max=0),
        Group("short-windows-floored", partial(window_with_headers, dialects=("floored",))),
        Group("short-caps", at_once, goodput_min=0.86),
        Group("short-queues", queue, goodput_min=0.95),
        Group("short-outages-told", partial(outage, told=True), goodput_min=0.88),
        Group("short-outages-silent", partial(outage, told=False), goodput_min=0.80),
        Group("short-flapping", flapping, goodput_min=0.50),
        Group("short-changing", changing, CHANGING, goodput_min=0.60),
        Group("short-cap-and-bucket", cap_and_bucket, SHOP, goodput_min=0.71),
        Group("short-random", any_kind, MIXED, goodput_min=0.80),
    )
}


class ShortJob(NamedTuple):
    """One crawl to do, by names, so that it can be handed to another process."""

    rule: str
    group: str
    number: int
    seed: int
    guesses_first: bool = False


def do_short(job: ShortJob) -> tuple[ShortJob, ShortScore]:
    host = GROUPS[job.group].host(job.number, job.seed)
    rule = {**STRATEGIES, **PEERS}[job.rule]
    return job, judge_short(host, rule, job.seed, guesses_first=job.guesses_first)


def seeds_of(commit: str, count: int) -> list[int]:
    """Seeds drawn from a commit's id: nobody can have tuned on them before it was made."""
    return [Random(f"{commit} {number}").randrange(2**32) for number in range(count)]


@dataclass(frozen=True, slots=True)
class ShortLine:
    """One rule on one group, or on a part of it."""

    name: str
    hosts: int
    goodput: float
    goodput_p10: float
    refusals: float  # per 1000 pages, over all hosts together
    last_page_s: float
    oracle_s: float
    lost: int  # hosts of which not every page was got
    violations: int
    trials_a_minute: float | None
    recovery_s: float | None
    goodput_min: float | None = None
    refusals_max: float | None = None

    @property
    def missed(self) -> tuple[str, ...]:
        """Which targets; they are given with two digits, and to the refusal, and so are the means."""
        missed = []
        if self.goodput_min is not None and round(self.goodput, 2) < self.goodput_min:
            missed.append("goodput")
        if self.refusals_max is not None and round(self.refusals) > self.refusals_max:
            missed.append("refusals")
        if self.lost:
            missed.append("pages")
        if self.violations:
            missed.append("violations")
        return tuple(missed)


def short_line(group: Group, scores: Sequence[ShortScore]) -> ShortLine:
    return _line(group.name, scores, group.goodput_min, group.refusals_max)


def part_lines(scores: Sequence[ShortScore]) -> list[ShortLine]:
    """A line for each part of a group, if it has more than one."""
    parts = sorted({score.part for score in scores})
    if len(parts) < 2:
        return []
    return [_line(part, [score for score in scores if score.part == part]) for part in parts]


def _line(
    name: str, scores: Sequence[ShortScore], goodput_min: float | None = None, refusals_max: float | None = None
) -> ShortLine:
    ordered = sorted(score.goodput for score in scores)
    return ShortLine(
        name,
        len(scores),
        fmean(ordered),
        ordered[len(ordered) // 10],
        1000.0 * sum(score.refused for score in scores) / max(1, sum(score.done for score in scores)),
        fmean(score.last_page_s for score in scores),
        fmean(score.oracle_s for score in scores),
        sum(score.incomplete for score in scores),
        sum(score.violations for score in scores),
        _mean(scores, lambda score: score.trials_a_minute),
        _mean(scores, lambda score: score.recovery_s),
        goodput_min,
        refusals_max,
    )


def _mean(scores: Sequence[ShortScore], measure: Callable[[ShortScore], float | None]) -> float | None:
    measured = [value for value in map(measure, scores) if value is not None]
    return fmean(measured) if measured else None
