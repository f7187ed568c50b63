"""What the short groups found, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amble.testing.lab.short.groups import GROUPS, ShortJob, ShortLine, part_lines, short_line
from amble.testing.lab.short.score import ShortScore

HEAD = (
    f"{'':<24}{'hosts':>6}{'goodput':>9}{'>=':>5}{'p10':>6}{'refusals':>10}{'<=':>4}{'last page':>11}{'oracle':>8}"
    f"{'lost':>6}{'trials/min':>12}{'recovery':>10}{'broken':>8}"
)


def short_table(rule: str, results: Sequence[tuple[ShortJob, ShortScore]]) -> Iterator[str]:
    """One rule on the groups that were played, each with its parts."""
    yield f"{rule}, short hosts: goodput is the oracle's time to the last page over ours; refusals per 1000 pages"
    yield HEAD
    for name, group in GROUPS.items():
        scores = [score for job, score in results if job.group == name and job.rule == rule]
        if scores:
            line = short_line(group, scores)
            yield _row(line) + (f"  MISSED {', '.join(line.missed)}" if line.missed else "  ok")
            yield from (_row(part, indent=2) for part in part_lines(scores))


def _row(line: ShortLine, indent: int = 0) -> str:
    return (
        f"{' ' * indent + line.name:<24}{line.hosts:>6}{line.goodput:>9.3f}{_some(line.goodput_min, '.2f'):>5}"
        f"{line.goodput_p10:>6.2f}{line.refusals:>10.1f}{_some(line.refusals_max, '.0f'):>4}{line.last_page_s:>9.1f} s"
        f"{line.oracle_s:>6.1f} s{line.lost:>6}{_some(line.trials_a_minute, '.1f'):>12}"
        f"{_some(line.recovery_s, '.1f', ' s'):>10}{line.violations:>8}"
    )


def _some(value: float | None, spec: str, unit: str = "") -> str:
    return "" if value is None else format(value, spec) + unit


def short_comparison(rules: Sequence[str], results: Sequence[tuple[ShortJob, ShortScore]]) -> Iterator[str]:
    """All rules side by side: goodput and refusals per 1000 pages in each group."""
    yield "short hosts: goodput / refusals per 1000 pages"
    yield f"{'':<24}" + "".join(f"{rule:>14}" for rule in rules)
    for name, group in GROUPS.items():
        each = [[score for job, score in results if (job.rule, job.group) == (rule, name)] for rule in rules]
        if all(each):
            lines = [short_line(group, scores) for scores in each]
            yield f"{name:<24}" + "".join(f"{line.goodput:.2f} /{line.refusals:>7.0f}".rjust(14) for line in lines)
