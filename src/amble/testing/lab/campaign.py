"""Which rules meet which servers, how often, and what the rows of the table make of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, median
from typing import NamedTuple

from amble.testing.lab.controller import Rule
from amble.testing.lab.controllers import STRATEGIES
from amble.testing.lab.peers import PEERS
from amble.testing.lab.randoms import random_server
from amble.testing.lab.scenarios import Row, Scenario, rows
from amble.testing.lab.score import Score, judge

RANDOM = "random"
# Servers nobody tuned on: p10 and median of the goodput, median and p90 of the rejects.
RANDOM_TARGETS = {"goodput p10": 0.80, "goodput median": 0.93, "rejects median": 9.0, "rejects p90": 25.0}


class Job(NamedTuple):
    """One run to do, by names, so that it can be handed to another process."""

    rule: str
    scenario: str
    seed: int


def all_rules() -> dict[str, Rule]:
    return {**STRATEGIES, **PEERS}


@cache
def all_rows() -> tuple[Row, ...]:
    return rows()


@cache
def _scenarios() -> dict[str, Scenario]:
    return {s.name: s for row in all_rows() for s in row.scenarios}


def random_name(number: int) -> str:
    return f"{RANDOM} {number}"


def scenario(name: str) -> Scenario:
    """A scenario by its name; `random 17` is the random server with that number."""
    if name.startswith(f"{RANDOM} "):
        return random_server(int(name.removeprefix(f"{RANDOM} ")))
    return _scenarios()[name]


def do(job: Job) -> tuple[Job, Score]:
    return job, judge(scenario(job.scenario), all_rules()[job.rule], job.seed)


def jobs(rules: Iterable[str], chosen: Sequence[Row], seeds: Sequence[int], randoms: int) -> Iterator[Job]:
    """Every run of a campaign, the random servers with one seed each: there are many of them."""
    for rule in rules:
        for row in chosen:
            for one in row.scenarios:
                yield from (Job(rule, one.name, seed) for seed in seeds)
        yield from (Job(rule, random_name(number), 0) for number in range(randoms))


@dataclass(frozen=True, slots=True)
class Line:
    """One rule on one row: the means, the worst of its scenarios, and what became of the promises."""

    name: str
    goodput: float
    rejects: float
    goodput_worst: float
    rejects_worst: float
    recovery_s: float | None
    violations: int
    missed: tuple[str, ...]  # which targets


def line(row: Row, scores: Mapping[str, Sequence[Score]]) -> Line:
    """Fold the scores of a row's scenarios (by name) into a line."""
    each = [scores[one.name] for one in row.scenarios]
    flat = [score for one in each for score in one]
    goodput, rejects = fmean(s.goodput for s in flat), fmean(s.rejects for s in flat)
    recoveries = [s.recovery_s for s in flat if s.recovery_s is not None]
    violations = sum(s.violations for s in flat)
    missed = []
    # The targets are given with two digits, and to the reject; so are the means.
    if row.goodput_min is not None and round(goodput, 2) < row.goodput_min:
        missed.append("goodput")
    if row.rejects_max is not None and round(rejects) > row.rejects_max:
        missed.append("rejects")
    if not all(s.in_time for s in flat):
        missed.append("recovery")
    if violations:
        missed.append("violations")
    return Line(
        row.name,
        goodput,
        rejects,
        min(fmean(s.goodput for s in one) for one in each),
        max(fmean(s.rejects for s in one) for one in each),
        max(recoveries, default=None),
        violations,
        tuple(missed),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies, by linear interpolation."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True, slots=True)
class RandomLine:
    """One rule on the random servers."""

    count: int
    measured: dict[str, float]
    violations: int
    missed: tuple[str, ...]


def random_line(scores: Sequence[Score]) -> RandomLine:
    goodputs, rejects = [s.goodput for s in scores], [s.rejects for s in scores]
    measured = {
        "goodput p10": percentile(goodputs, 0.1),
        "goodput median": median(goodputs),
        "rejects median": median(rejects),
        "rejects p90": percentile(rejects, 0.9),
    }
    violations = sum(s.violations for s in scores)
    missed = [k for k, v in measured.items() if "goodput" in k and round(v, 2) < RANDOM_TARGETS[k]]
    missed += [k for k, v in measured.items() if "rejects" in k and round(v) > RANDOM_TARGETS[k]]
    if violations:
        missed.append("violations")
    return RandomLine(len(scores), measured, violations, tuple(missed))


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a campaign found out about one rule."""

    rule: str
    lines: tuple[Line, ...]
    randoms: RandomLine | None

    @property
    def goodput(self) -> float:
        """The mean over the rows."""
        return fmean(one.goodput for one in self.lines) if self.lines else math.nan

    @property
    def rejects(self) -> float:
        """The median over the rows."""
        return median(one.rejects for one in self.lines) if self.lines else math.nan

    @property
    def missed(self) -> int:
        return sum(bool(one.missed) for one in self.lines) + bool(self.randoms and self.randoms.missed)


def report(rule: str, chosen: Sequence[Row], results: Iterable[tuple[Job, Score]]) -> Report:
    """Fold the results of one rule."""
    scores: dict[str, list[Score]] = {}
    for job, score in results:
        if job.rule == rule:
            scores.setdefault(job.scenario, []).append(score)
    randoms = [s for name, many in scores.items() if name.startswith(f"{RANDOM} ") for s in many]
    lines = tuple(line(row, scores) for row in chosen)
    return Report(rule, lines, random_line(randoms) if randoms else None)
