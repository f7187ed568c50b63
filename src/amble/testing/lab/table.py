"""What a campaign found, as text: measured against promised for one rule, and all rules side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amble.testing.lab.campaign import RANDOM_TARGETS, Report
from amble.testing.lab.scenarios import Row


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def verdict_table(report: Report, chosen: Sequence[Row]) -> Iterator[str]:
    """One rule, row by row: measured, promised, kept or not."""
    yield f"{report.rule}: goodput against the ideal client, rejects per 1000 pages"
    head = (
        f"{'':<34}{'goodput':>8}{'>=':>6}{'worst':>7}{'rejects':>10}{'<=':>5}{'worst':>7}{'recovery':>10}{'broken':>8}"
    )
    yield head
    for row, one in zip(chosen, report.lines, strict=True):
        mark = f"  MISSED {', '.join(one.missed)}" if one.missed else "  ok"
        recovery = "" if one.recovery_s is None else f"{one.recovery_s:.0f} s"
        yield (
            f"{one.name:<34}{one.goodput:>8.2f}{_number(row.goodput_min, 2):>6}{one.goodput_worst:>7.2f}"
            f"{one.rejects:>10.1f}{_number(row.rejects_max):>5}{one.rejects_worst:>7.1f}{recovery:>10}{one.violations:>8}{mark}"
        )
    if report.randoms:
        found = report.randoms
        mark = f"MISSED {', '.join(found.missed)}" if found.missed else "ok"
        parts = [f"{name} {value:.2f} ({RANDOM_TARGETS[name]:g})" for name, value in found.measured.items()]
        yield f"{found.count} random servers: {', '.join(parts)}, broken {found.violations}  {mark}"
    yield f"all rows: goodput mean {report.goodput:.2f}, rejects median {report.rejects:.0f}; missed: {report.missed}"


def comparison_table(reports: Sequence[Report], chosen: Sequence[Row]) -> Iterator[str]:
    """All rules side by side: goodput and rejects per 1000 pages in each row."""
    yield "goodput / rejects per 1000 pages"
    yield f"{'':<34}" + "".join(f"{one.rule:>14}" for one in reports)
    for number, row in enumerate(chosen):
        cells = (one.lines[number] for one in reports)
        yield f"{row.name:<34}" + "".join(f"{_cell(c.goodput, c.rejects):>14}" for c in cells)
    if all(one.randoms for one in reports):
        cells_random = (one.randoms.measured for one in reports if one.randoms)
        yield f"{'random servers, medians':<34}" + "".join(
            f"{_cell(m['goodput median'], m['rejects median']):>14}" for m in cells_random
        )
    yield f"{'mean / median over rows':<34}" + "".join(f"{_cell(one.goodput, one.rejects):>14}" for one in reports)
    yield f"{'promises broken':<34}" + "".join(f"{broken(one):>14}" for one in reports)


def broken(report: Report) -> int:
    """Requests sent inside a Retry-After, under a crawl delay, or over a cap."""
    return sum(one.violations for one in report.lines) + (report.randoms.violations if report.randoms else 0)


def _cell(goodput: float, rejects: float) -> str:
    many = f"{rejects:.0f}" if rejects < 99_999 else ">99999"
    return f"{goodput:.2f} /{many:>7}"
