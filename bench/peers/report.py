"""Results as tables in Markdown: one for each web, and the headline over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill

from bench._scenarios import POLITENESS, SHORT, THROUGHPUT
from bench.peers.contest import Result, timeout_s
from bench.peers.crawlers import CRAWLERS

US = "amble"


_TERMS = """
In the webs without limits amble has `pacing = fixed`, `fixed_delay = 0`, `max_rate = unlimited`, `threads = 1`; in the
others `max_rate = unlimited` and its own strategy; everything else as shipped. Only amble stores what it gets. Pages
are counted once, by the log of the farm. Processor time and memory are those of the process, the start of the
interpreter included. Efficiency is the speed of an oracle that knows every limit, as a share: got / all x ideal /
taken; of crawlers that give up early, or that ignore the crawl delay, it says little. Who is not done in time is cut
off:
"""


def text(results: Sequence[Result], circumstances: str) -> str:
    """Everything that is told of a run."""
    limits = ", ".join(f"{name} {timeout_s(name):.0f} s" for name in _run(results))
    terms = fill(f"{_TERMS.strip()} {limits}.", 120)
    return "\n".join([f"{circumstances}.", "", *_settings(results), "", terms, *_tables(results)])


def _run(results: Iterable[Result]) -> list[str]:
    ran = {result.scenario for result in results}
    return [name for name in THROUGHPUT | POLITENESS | SHORT if name in ran]


def _settings(results: Sequence[Result]) -> Iterator[str]:
    """How each was set."""
    ran = {result.crawler: result.version for result in results}
    for crawler in CRAWLERS:
        if crawler.name in ran:
            yield f"- {crawler.name} {ran[crawler.name]}: {crawler.says}."


def _tables(results: Sequence[Result]) -> Iterator[str]:
    for name in _run(results):
        rows = [result for result in results if result.scenario == name]
        if name in THROUGHPUT:
            yield f"\n### {THROUGHPUT[name].says}\n\n![pages per CPU-second, {name}]({plot_name(name)})\n"
            yield from _throughput(rows)
        elif name in SHORT:
            yield f"\n### {SHORT[name].says}\n"
            yield from _short(rows)
        elif name != "alone":  # which is a column of the one beside the slow host
            yield f"\n### {POLITENESS[name].says}\n"
            yield from _politeness(rows, {row.crawler: row for row in results if row.scenario == "alone"})


def plot_name(scenario: str) -> str:
    return f"bench-{scenario}.svg"


def _throughput(rows: Sequence[Result]) -> Iterator[str]:
    ours = next((row.pages_per_cpu_s for row in rows if row.crawler == US), None)
    yield "| | pages got | pages per CPU-second | amble's is | CPU | wall | RSS |\n|---|---|---|---|---|---|---|"
    for row in sorted(rows, key=lambda row: -row.pages_per_cpu_s):
        times = ours / row.pages_per_cpu_s if ours and row.got and row.crawler != US else None
        ratio = "" if times is None else f"{times:.1f} x" if times >= 1 else f"{times:.2f} x"
        yield (
            f"| {_named(row)} | {_got(row)} | {row.pages_per_cpu_s:,.0f} | {ratio} | {row.cpu_s:.1f} s | "
            f"{row.wall_s:.1f} s | {row.rss_mb:.0f} MB |"
        )


def _politeness(rows: Sequence[Result], alone: dict[str, Result]) -> Iterator[str]:
    beside = bool(alone) and any(row.scenario == "isolation" for row in rows)
    more, line = (" fast hosts done, alone |", "---|") if beside else ("", "")
    yield (
        "| | pages got | efficiency | refusals (per 1000 pages) | inside Retry-After | under Crawl-delay | "
        f"before robots.txt | wall |{more}\n|---|---|---|---|---|---|---|---|{line}"
    )
    for row in sorted(rows, key=lambda row: (-round(row.share, 2), row.under_crawl_delay, row.refusals)):
        fast = f" {_fast(row)}, {_fast(alone[row.crawler])} |" if beside else ""
        yield (
            f"| {_named(row)} | {_got(row)} | {row.efficiency:.2f} | {row.refusals:,} ({_per_1000(row)}) | "
            f"{row.inside_retry_after:,} | {row.under_crawl_delay:,} | {row.before_robots:,} | "
            f"{row.wall_s:.0f} s |{fast}"
        )


def _short(rows: Sequence[Result]) -> Iterator[str]:
    yield (
        "| | pages got | goodput / oracle | in the laboratory | refusals (per 1000 pages) | inside Retry-After | wall |"
        "\n|---|---|---|---|---|---|---|"
    )
    for row in sorted(rows, key=lambda row: -row.goodput):
        played = "" if row.laboratory is None else f"{row.laboratory:.2f}"
        yield (
            f"| {_named(row)} | {_got(row)} | {row.goodput:.2f} | {played} | {row.refusals:,} ({_per_1000(row)}) | "
            f"{row.inside_retry_after:,} | {row.wall_s:.0f} s |"
        )


def _fast(row: Result) -> str:
    return f"{row.fast_s:.1f} s" if row.ended else "cut off"


def _got(row: Result) -> str:
    return f"{row.got:,} ({row.share:.0%}{'' if row.ended else ', cut off'})"


def _per_1000(row: Result) -> str:
    return f"{1000 * row.refusals / max(1, row.got):,.0f}"


def _named(row: Result) -> str:
    return f"**{row.crawler}**" if row.crawler == US else row.crawler


# --- The headline -----------------------------------------------------------------------------------------------------


def headline(results: Sequence[Result], circumstances: str) -> str:
    """A line for each crawler over all webs."""
    by_crawler = {
        crawler.name: {result.scenario: result for result in results if result.crawler == crawler.name}
        for crawler in CRAWLERS
    }
    lines = [
        "| | pages per CPU-second, 1 host | 200 hosts | 10,000 hosts, share in 60 s | most memory | "
        "hidden limits: pages got, refusals per 1000 | crawl delays broken |\n|---|---|---|---|---|---|---|"
    ]
    for name, rows in by_crawler.items():
        if rows:
            lines.append(_headline(f"**{name}**" if name == US else name, rows))
    return "\n".join([*lines, "", f"{circumstances}."])


def _headline(name: str, rows: dict[str, Result]) -> str:
    one, many, crowd = (rows.get(scenario) for scenario in THROUGHPUT)
    hidden, slow = rows.get("hidden"), rows.get("isolation")
    fast = [row for row in (one, many, crowd) if row is not None]
    return (
        "| "
        + " | ".join(
            [
                name,
                f"{one.pages_per_cpu_s:,.0f}" if one else "-",
                f"{many.pages_per_cpu_s:,.0f}" if many else "-",
                f"{crowd.pages_per_cpu_s:,.0f}, {crowd.share:.0%}" if crowd else "-",
                f"{max(row.rss_mb for row in fast):.0f} MB" if fast else "-",
                f"{hidden.share:.0%}, {_per_1000(hidden)}" if hidden else "-",
                f"{slow.under_crawl_delay}" if slow else "-",
            ]
        )
        + " |"
    )
