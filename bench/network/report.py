"""Results in lines for the terminal and in a table for the document."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench._document import RESULTS, circumstances, keep
from bench._scenarios import machine
from bench.network.scenarios import SCENARIOS
from bench.network.trial import Result

Facts = Mapping[str, Any]  # of one crawl, by the names of `Result`
_INDENT = " " * 15


def lines(result: Result) -> str:
    """One crawl in a few lines."""
    end = "cut off" if result.status is None else f"exit {result.status}"
    rows = ""
    if result.stored is not None:
        rows = f", {result.stored:,} stored, {result.failed_rows} said to fail, {result.without_row} without row"
        rows += f", {result.foreign} pages from nowhere" if result.foreign else ""
    crossed, _, late_s = result.link.partition(" ")
    return f"\n{_INDENT}".join(
        [
            f"{result.scenario:>14} {result.crawler}: {result.got:,} of {result.wanted:,} good pages{rows}",
            f"first page {result.first_s:.1f} s, last {result.last_s:.1f} s, end {result.wall_s:.1f} s ({end})",
            f"network down said {result.network_down} x; {result.requests:,} requests",
            f"{result.connections:,} connections ({result.per_host:.2f} a host), "
            f"{result.resumed:,} of {result.handshakes:,} handshakes resumed",
            f"{result.cpu_s:.1f} CPU-seconds ({result.pages_per_cpu_s:.0f} pages each), {result.rss_mb:.0f} MB "
            f"in {result.processes} processes",
            *_connects(result),
            f"link: {crossed} packets, latest {float(late_s or 0) * 1000:.0f} ms late",
        ]
    )


def _connects(result: Result) -> list[str]:
    """How long connections took, where there are hosts with more than one address."""
    spans = [f"{kind} {span.median_s:.2f} (at most {span.most_s:.2f})" for kind, span in result.connect_s.items()]
    return [f"connected, s after the name: {', '.join(spans)}"] if len(spans) > 1 else []


# --- For the document ------------------------------------------------------------------------------------------------

FOUND = "network.jsonl"  # a line for each crawl, so that a long list of webs can be crawled in parts
_HEAD = (
    "| web | crawler | good pages | good rows that failed | URLs without a row | first page, s | last, s | end, s "
    "| connections a host | resumed | pages per CPU-s | MB |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def remember(result: Result) -> None:
    """Leave one crawl in the folder of results, and the table of all that lie there."""
    RESULTS.mkdir(exist_ok=True)
    facts = {name: value for name, value in asdict(result).items() if name not in ("output", "connect_s", "link")}
    with (RESULTS / FOUND).open("a") as found:
        print(json.dumps({**facts, "when": circumstances()}), file=found)
    keep("network.md", table(read(RESULTS / FOUND)))


def read(file: Path) -> list[Facts]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def table(found: Iterable[Facts]) -> str:
    """A row for each web and crawler: the median where there were several crawls of one commit."""
    rows: dict[tuple[str, str], list[Facts]] = {}
    for one in found:
        rows.setdefault((str(one["scenario"]), str(one["crawler"])), []).append(one)
    order = {name: place for place, name in enumerate(SCENARIOS)}
    lines = [_row(name, crawler, rows[name, crawler]) for name, crawler in sorted(rows, key=lambda row: order[row[0]])]
    commits = dict.fromkeys(str(one["when"]).partition(". ")[0] for several in rows.values() for one in several)
    return "\n".join([f"{'; '.join(commits)}. {machine()}.\n", _HEAD, *lines])


def _row(name: str, crawler: str, several: Sequence[Facts]) -> str:
    def of(field: str) -> float:
        values = [float(value) for one in several if (value := one[field]) is not None]
        return statistics.median(values) if values else math.nan

    def text(field: str, digits: int = 0) -> str:
        return "-" if math.isnan(of(field)) else f"{of(field):,.{digits}f}"

    cells = [
        f"{name}: {SCENARIOS[name].says}",
        crawler + (f", {len(several)} times" if len(several) > 1 else ""),
        f"{text('got')} of {text('wanted')}",
        text("failed_rows"),
        text("without_row"),
        text("first_s", 1),
        text("last_s", 1),
        "cut off" if any(one["status"] is None for one in several) else text("wall_s", 1),
        f"{of('connections') / max(1.0, of('hosts')):.2f}",
        "-" if not of("handshakes") else f"{of('resumed') / of('handshakes'):.0%}",
        f"{of('got') / max(0.01, of('cpu_s')):.0f}",
        text("rss_mb"),
    ]
    return f"| {' | '.join(cells)} |"
