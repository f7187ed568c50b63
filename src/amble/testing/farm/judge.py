"""Judges a client by the server's log alone: what was got, what was refused, which rules were broken."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from amble.testing.farm.directory import Directory
from amble.testing.farm.log import Entry
from amble.testing.farm.oracle import ideal_s
from amble.testing.farm.report import OutageReport, Report, SiteReport
from amble.testing.farm.site import Site


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What is put down to measurement, and not to the client."""

    spacing_s: float = 0.005  # a gap may seem this much shorter than it was
    # A Retry-After counts from this long after its last byte was sent: until then a request may have been on its way.
    known_after_s: float = 0.05
    noticed_s: float = 0.05  # a client that gave up was gone this long before the farm saw it


def judge(
    log: Sequence[Entry], sites: Iterable[Site], tolerance: Tolerance | None = None, *, max_rate: float | None = None
) -> Report:
    """The verdict. `max_rate` is the cap that the client's own settings put on it, for the oracle to keep to, too."""
    directory = Directory(sites)
    began = min((entry.arrived for entry in log), default=0.0)
    by_host: dict[str, list[Entry]] = {site.name: [] for site in directory.all()}
    for entry in sorted(log, key=lambda entry: entry.arrived):
        by_host.setdefault(entry.host, []).append(entry)
    tolerance = tolerance or Tolerance()
    found = {
        host: _judge_host(host, entries, directory.find(host), began, tolerance, max_rate)
        for host, entries in by_host.items()
    }
    lasted_s = max((one.finished_s for one in found.values()), default=0.0)
    return Report(found, in_flight_max(log, tolerance.noticed_s), lasted_s)


def _judge_host(
    host: str,
    entries: list[Entry],
    site: Site | None,
    began: float,
    tolerance: Tolerance,
    max_rate: float | None,
) -> SiteReport:
    expected = set(site.paths()) if site is not None and site.name == host else set()
    got = _got(entries, expected)
    crawl_delay_s = site.robots.crawl_delay_s if site and site.robots else None
    first = {entry.target: entry.ended or 0.0 for entry in reversed(got)}
    return SiteReport(
        host=host,
        pages=len(expected),
        got=len(first),
        again=len(got) - len(first),
        missing=tuple(sorted(expected - first.keys())),
        requests=len(entries),
        refusals=sum(entry.refused for entry in entries),
        inside_retry_after=inside_retry_after(entries, tolerance.known_after_s),
        under_crawl_delay=under_crawl_delay(entries, crawl_delay_s, tolerance.spacing_s),
        disallowed=_disallowed(entries, site),
        before_robots=before_robots(entries),
        robots_fetches=sum(entry.is_robots for entry in entries),
        robots_again=max(0, len(_robots_answers(entries)) - 1),
        in_flight_max=in_flight_max(entries, tolerance.noticed_s),
        spacing_min_s=min((b.arrived - a.arrived for a, b in pairwise(entries)), default=None),
        started_s=entries[0].arrived - began if entries else 0.0,
        finished_s=max(first.values(), default=began) - began,
        ideal_s=ideal_s(site, len(expected), max_rate=max_rate) if site and expected else 0.0,
        outages=tuple(_outages(entries, site)) if site and entries else (),
    )


def _got(entries: list[Entry], expected: set[str]) -> list[Entry]:
    return [
        entry
        for entry in entries
        if entry.complete and entry.status in (200, 304) and entry.method == "GET" and entry.target in expected
    ]


def inside_retry_after(entries: Sequence[Entry], known_after_s: float) -> int:
    """Requests of one host that came in spite of a Retry-After whose answer had been sent."""
    asked = [
        (entry.ended + known_after_s, entry.not_before)
        for entry in entries
        if entry.not_before is not None and entry.complete and entry.ended is not None
    ]
    asked.sort()
    count, until, next_one = 0, -math.inf, 0
    for entry in entries:
        while next_one < len(asked) and asked[next_one][0] < entry.arrived:
            until = max(until, asked[next_one][1])
            next_one += 1
        count += entry.arrived < until
    return count


def under_crawl_delay(entries: Sequence[Entry], crawl_delay_s: float | None, tolerance_s: float) -> int:
    """Requests of one host that came too soon after the one before; robots.txt is one of them."""
    if crawl_delay_s is None:
        return 0
    shortest_s = crawl_delay_s - tolerance_s
    return sum(later.arrived - earlier.arrived < shortest_s for earlier, later in pairwise(entries))


def _robots_answers(entries: Sequence[Entry]) -> list[Entry]:
    """The answers to robots.txt that settle what is allowed; a limit or a failure does not (RFC 9309 2.3.1)."""
    return [
        entry
        for entry in entries
        if entry.is_robots and entry.complete and entry.status not in (None, 429) and (entry.status or 0) < 500
    ]


def before_robots(entries: Sequence[Entry]) -> int:
    """Requests of one host that came before its robots.txt had been answered."""
    answers = _robots_answers(entries)
    known = min((entry.ended or math.inf for entry in answers), default=math.inf)
    return sum(entry.arrived < known and not entry.is_robots for entry in entries)


def _disallowed(entries: Sequence[Entry], site: Site | None) -> int:
    if site is None or site.robots is None:
        return 0
    return sum(map(site.robots.forbids, (entry.target for entry in entries)))


def _outages(entries: Sequence[Entry], site: Site) -> Iterable[OutageReport]:
    first_at = entries[0].arrived
    for outage in site.outages:
        begins, ends = first_at + outage.from_s, first_at + outage.to_s
        met = sum(entry.outage and begins <= entry.arrived < ends for entry in entries)
        back = next((e.ended for e in entries if e.arrived >= ends and e.complete and e.status == 200), None)
        yield OutageReport(outage.to_s - outage.from_s, met, None if back is None else back - ends)


def in_flight_max(log: Iterable[Entry], noticed_s: float = 0.0) -> int:
    """The most requests that were under way at once: arrived, and their last byte not yet sent.

    By these instants and not by what the farm saw when it read: it may read late what was sent too soon.
    """
    changes: Counter[float] = Counter()
    for entry in log:
        changes[entry.arrived] += 1
        if entry.ended is not None:
            changes[entry.ended if entry.complete else max(entry.arrived, entry.ended - noticed_s)] -= 1
    most = now = 0
    for instant in sorted(changes):
        now += changes[instant]
        most = max(most, now)
    return most
