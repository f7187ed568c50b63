"""How a running crawl looks: its progress as lines of at most so many columns."""

from __future__ import annotations

from amble.control.progress import DomainProgress, JobProgress
from amble.report.words import safe

Lines = list[tuple[str, str]]  # text, colour

_HEADS = ("delay", "set by", "now", "queue", "p95", "next", "left")
_WIDTHS = (7, 12, 5, 7, 7, 7, 8)
_NAME_MIN = 18


def one_line(progress: JobProgress) -> str:
    """For where there is no terminal."""
    beside = f", {progress.workers} workers" if progress.workers else ""
    held = f", {progress.phase}{': ' if progress.held else ''}{safe(progress.held)}" if _is_held(progress) else ""
    crowded = [domain.pace.domain for domain in progress.domains if domain.pace.others_ask]
    others = f",{others_line(crowded)}" if crowded else ""
    return (
        f"{progress.seconds:7.1f} s  {progress.final} of {progress.accepted} URLs, {progress.under_way} under way,"
        f" {pages_per_s(progress):.1f} pages/s, {size(progress.body_bytes)}, {progress.limited} x 429"
        f"{beside}{held}{others}"
    )


def block(progress: JobProgress, into: str, columns: int, rows: int) -> Lines:
    """A head, the counts, and the domains that take longest; never wider or higher than the terminal."""
    lines: Lines = [("", ""), *_head(progress, into, columns)]
    room = min(12, rows - len(lines) - 4)
    busy = [domain for domain in progress.domains if domain.queued or domain.pace.in_flight]
    if room >= 1 and busy:
        lines += _table(busy[:room], columns)
        more = progress.domains_known - len(busy[:room])
        if more > 0:
            lines.append((f" and {more} more domain{'s' if more > 1 else ''}"[: columns - 1], "dim"))
    crowded = [domain.pace.domain for domain in progress.domains if domain.pace.others_ask]
    if crowded:
        lines.append((others_line(crowded)[: columns - 1], "yellow"))
    return lines[: rows - 1]  # what scrolled off could not be drawn over


def others_line(domains: list[str]) -> str:
    """That other processes of this machine keep to the pace of a domain with us."""
    more = f" and {len(domains) - 1} more" if len(domains) > 1 else ""
    return f" another amble is asking {safe(domains[0])}{more}, too"


def _head(progress: JobProgress, into: str, columns: int) -> Lines:
    share = f" ({100 * progress.final // progress.accepted} %)" if progress.accepted else ""
    left = f"about {duration(progress.eta_s)} left" if progress.eta_s is not None else ""
    counts = [
        f"{progress.final} of {progress.accepted} URLs{share}",
        f"{pages_per_s(progress):.1f} pages/s",
        size(progress.body_bytes),
        f"{progress.limited} x 429",
        f"{progress.under_way} under way",
        *([f"{progress.workers} workers"] if progress.workers else []),
        *([f"{progress.failed} failed"] if progress.failed else []),
        *([f"{progress.deferred} deferred"] if progress.deferred else []),
        *([left] if left else []),
    ]
    held = f": {safe(progress.held)}" if progress.held else ""
    title = f"job {progress.job_id}: {progress.phase}{held}, {duration(progress.seconds)}, into {safe(into)}"
    colour = "yellow" if _is_held(progress) else "bold"
    return [(title[: columns - 1], colour), *((line, "") for line in _wrap(counts, columns - 1))]


def _wrap(parts: list[str], columns: int) -> list[str]:
    """Parts with commas, on as many lines as it takes."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}, {part}" if lines[-1] else part
        if len(longer) > columns and lines[-1]:
            lines.append(part)
        else:
            lines[-1] = longer
    return [line[:columns] for line in lines]


def _table(domains: list[DomainProgress], columns: int) -> Lines:
    """As many columns as there is room for, from the left."""
    shown = len(_WIDTHS)
    while shown > 1 and _NAME_MIN + sum(_WIDTHS[:shown]) > columns - 1:
        shown -= 1
    name_width = max(8, min(40, columns - 1 - sum(_WIDTHS[:shown])))
    name_width = min(name_width, max(_NAME_MIN, *(len(safe(domain.pace.domain)) + 1 for domain in domains)))
    lines = [(_row("domain", _HEADS[:shown], name_width), "dim")]
    lines += [
        (_row(safe(domain.pace.domain), _cells(domain)[:shown], name_width), _colour(domain)) for domain in domains
    ]
    return [(line[: columns - 1], colour) for line, colour in lines]


def _row(name: str, cells: tuple[str, ...], name_width: int) -> str:
    shortened = name if len(name) < name_width else f"{name[: name_width - 2]}~"
    return shortened.ljust(name_width) + "".join(
        cell[: width - 1].rjust(width) for cell, width in zip(cells, _WIDTHS, strict=False)
    )


def _cells(domain: DomainProgress) -> tuple[str, ...]:
    pace = domain.pace
    return (
        seconds(pace.delay_s),
        _set_by(domain),
        f"{pace.in_flight}/{pace.parallel}",
        str(domain.queued),
        seconds(pace.latency_p95_s),
        "now" if pace.next_in_s <= 0 else seconds(pace.next_in_s),
        duration(domain.eta_s),
    )


def _set_by(domain: DomainProgress) -> str:
    if domain.pace.circuit != "closed":
        return "failing"
    return "blocked" if domain.pace.blocked_s > 0 else domain.pace.source


def _colour(domain: DomainProgress) -> str:
    return {"failing": "red", "blocked": "yellow"}.get(_set_by(domain), "")


def _is_held(progress: JobProgress) -> bool:
    return progress.phase in ("paused", "stopping") or progress.phase.startswith("waiting for ")


def pages_per_s(progress: JobProgress) -> float:
    return progress.pages / max(progress.seconds, 1e-3)


def size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}s" if value < 10 else f"{value:.0f}s"


def duration(value: float) -> str:
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3_600}:{whole % 3_600 // 60:02d} h"
