"""Whether every request kept its distance: the receipts of a file, checked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from duckdb import DuckDBPyConnection

ROUNDING_S = 0.001


@dataclass(frozen=True, slots=True)
class Violation:
    domain: str
    url: str
    required_gap_s: float
    actual_gap_s: float
    rule: str


@dataclass(frozen=True, slots=True)
class Audit:
    """What the receipts say."""

    requests: int
    domains: int
    smallest_margin_s: float | None  # of all gaps, how much longer than required the tightest was
    violations: tuple[Violation, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def as_text(self) -> str:
        lines = [f"{self.requests} requests to {self.domains} domains"]
        if self.smallest_margin_s is not None:
            lines.append(f"smallest margin over the required gap: {self.smallest_margin_s * 1000:.1f} ms")
        lines.append(f"{len(self.violations)} violations" if self.violations else "no rule was broken")
        lines += [
            f"  {each.domain}: {each.actual_gap_s:.3f} s instead of {each.required_gap_s:.3f} s ({each.rule})"
            for each in self.violations[:20]
        ]
        return "\n".join(lines)


def audit(connection: DuckDBPyConnection) -> Audit:
    """Check every receipt: was the gap before the request as long as the rule in force required?"""
    totals = connection.execute(
        """
        SELECT count(*), count(DISTINCT domain), min(actual_gap_s - required_gap_s)
        FROM amble.requests
        """
    ).fetchall()[0]
    broken = connection.execute(
        """
        SELECT domain, url, required_gap_s, actual_gap_s, rule
        FROM amble.requests
        WHERE actual_gap_s < required_gap_s - ?
        ORDER BY actual_gap_s - required_gap_s
        """,
        [ROUNDING_S],
    ).fetchall()
    return Audit(totals[0], totals[1], totals[2], tuple(Violation(*row) for row in broken))
