"""Results as tables in Markdown and as plots in SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from bench._scenarios import POLITENESS, THROUGHPUT
from bench.peers.contest import Result
from bench.peers.crawlers import CRAWLERS

_BAR, _LABEL, _WIDTH = 22, 190, 720


def tables(results: Sequence[Result]) -> Iterator[str]:
    """A table for each scenario that was run."""
    for name, scenario in (THROUGHPUT | POLITENESS).items():
        rows = [result for result in results if result.scenario == name]
        if not rows:
            continue
        yield f"\n### {scenario.says}\n"
        yield from _throughput(rows) if name in THROUGHPUT else _politeness(rows)


def _throughput(rows: Sequence[Result]) -> Iterator[str]:
    yield "| | pages got | pages per CPU-second | CPU | wall | RSS |\n|---|---|---|---|---|---|"
    for row in sorted(rows, key=lambda row: -row.pages_per_cpu_s):
        late = "" if row.ended else ", cut off"
        yield (
            f"| {_named(row)} | {row.got:,} ({row.share:.0%}{late}) | {row.pages_per_cpu_s:,.0f} | {row.cpu_s:.1f} s | "
            f"{row.wall_s:.1f} s | {row.rss_mb:.0f} MB |"
        )


def _politeness(rows: Sequence[Result]) -> Iterator[str]:
    yield (
        "| | pages got | efficiency | refusals (per 1000 pages) | inside Retry-After | under Crawl-delay | "
        "before robots.txt | wall |\n|---|---|---|---|---|---|---|---|"
    )
    for row in sorted(rows, key=lambda row: (-round(row.share, 2), row.refusals)):
        late = "" if row.ended else ", cut off"
        yield (
            f"| {_named(row)} | {row.got:,} ({row.share:.0%}{late}) | {row.efficiency:.2f} | "
            f"{row.refusals:,} ({1000 * row.refusals / max(1, row.got):,.0f}) | {row.inside_retry_after:,} | "
            f"{row.under_crawl_delay:,} | {row.before_robots:,} | {row.wall_s:.0f} s |"
        )


def _named(row: Result) -> str:
    return f"**{row.crawler}**" if row.crawler == "amble" else row.crawler


def settings(results: Sequence[Result]) -> Iterator[str]:
    """How each was set."""
    ran = {result.crawler: result.version for result in results}
    for crawler in CRAWLERS:
        if crawler.name in ran:
            yield f"- {crawler.name} {ran[crawler.name]}: {crawler.says}."


def plot(title: str, values: Sequence[tuple[str, float]]) -> str:
    """Horizontal bars, the longest first."""
    ordered = sorted(values, key=lambda pair: -pair[1])
    most = max((value for _, value in ordered), default=1.0) or 1.0
    height = 40 + _BAR * len(ordered)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" '
        f'font-size="13"><rect width="100%" height="100%" fill="#fff"/><text x="10" y="20">{escape(title)}</text>'
    ]
    for at, (name, value) in enumerate(ordered):
        y = 32 + at * _BAR
        long = (_WIDTH - _LABEL - 80) * value / most
        colour = "#2b7a4b" if name == "amble" else "#9aa5b1"
        lines.append(
            f'<text x="{_LABEL - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{_LABEL}" y="{y}" width="{long:.1f}" height="{_BAR - 6}" fill="{colour}"/>'
            f'<text x="{_LABEL + long + 6:.1f}" y="{y + 14}">{value:,.0f}</text>'
        )
    return "\n".join([*lines, "</svg>\n"])
