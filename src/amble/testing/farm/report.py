"""What the judge found, site by site and in all; as values to assert on and as a table to read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class OutageReport(NamedTuple):
    """What a client did while a site was down, and how soon it was back after."""

    lasted_s: float
    requests: int  # during it
    recovered_s: float | None  # from its end to the next page got; None: there was none


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReport:
    """One host. Times are seconds since the first request at the farm."""

    host: str
    pages: int  # that a complete crawl gets
    got: int
    again: int  # got once more, or more often than that
    missing: tuple[str, ...]
    requests: int
    refusals: int
    inside_retry_after: int
    under_crawl_delay: int
    disallowed: int
    before_robots: int  # asked before robots.txt had been answered
    robots_fetches: int
    robots_again: int  # asked for once more, though it had been answered
    in_flight_max: int
    spacing_min_s: float | None
    started_s: float
    finished_s: float  # when the last page was got for the first time
    ideal_s: float
    outages: tuple[OutageReport, ...] = ()

    @property
    def violations(self) -> int:
        """Rules broken, whatever they are; refusals are not among them."""
        return (
            self.inside_retry_after + self.under_crawl_delay + self.disallowed + self.before_robots + self.robots_again
        )

    @property
    def efficiency(self) -> float:
        """Pages a second over the oracle's, from the first request at this host on."""
        return _efficiency(self.got, self.pages, self.ideal_s, self.finished_s - self.started_s)

    @property
    def during_outage(self) -> int:
        return sum(outage.requests for outage in self.outages)


@dataclass(frozen=True, slots=True)
class Report:
    """The whole farm."""

    by_host: Mapping[str, SiteReport]  # all sites, and the other names that were asked
    in_flight_max: int  # over all hosts
    lasted_s: float  # from the first request to the last page got for the first time

    def __getitem__(self, host: str) -> SiteReport:
        return self.by_host[host]

    @property
    def hosts(self) -> Collection[SiteReport]:
        return self.by_host.values()

    @property
    def pages(self) -> int:
        return sum(one.pages for one in self.hosts)

    @property
    def got(self) -> int:
        return sum(one.got for one in self.hosts)

    @property
    def again(self) -> int:
        return sum(one.again for one in self.hosts)

    @property
    def requests(self) -> int:
        return sum(one.requests for one in self.hosts)

    @property
    def refusals(self) -> int:
        return sum(one.refusals for one in self.hosts)

    @property
    def refusals_per_1000(self) -> float:
        return 1000.0 * self.refusals / max(1, self.got)

    @property
    def violations(self) -> int:
        return sum(one.violations for one in self.hosts)

    @property
    def ideal_s(self) -> float:
        """What the oracle needs: sites are crawled side by side, so the slowest decides."""
        return max((one.ideal_s for one in self.hosts), default=0.0)

    @property
    def efficiency(self) -> float:
        """Pages a second, over the oracle's. The credit of full buckets can carry it a little above 1."""
        return _efficiency(self.got, self.pages, self.ideal_s, self.lasted_s)

    @property
    def efficiency_mean(self) -> float:
        """The mean over the hosts that have an oracle: one straggler weighs no more than any other."""
        each = [one.efficiency for one in self.hosts if one.ideal_s]
        return sum(each) / max(1, len(each))

    def finished_s(self, hosts: Iterable[str]) -> float:
        """When the last of these hosts had given its last page."""
        return max(self[host].finished_s for host in hosts)

    def table(self) -> Iterator[str]:
        """One line for each host, those with broken rules marked, and one for all."""
        yield (
            f"{'':<28}{'pages':>11}{'again':>7}{'requests':>10}{'refused':>9}{'at once':>9}{'closest':>10}"
            f"{'done':>9}{'ideal':>9}"
        )
        for one in self.hosts:
            closest = "-" if one.spacing_min_s is None else f"{one.spacing_min_s:.3f} s"
            yield (
                f"{one.host:<28}{f'{one.got}/{one.pages}':>11}{one.again:>7}{one.requests:>10}{one.refusals:>9}"
                f"{one.in_flight_max:>9}{closest:>10}{one.finished_s:>7.1f} s{one.ideal_s:>7.1f} s{_broken(one)}"
            )
        yield (
            f"{'all':<28}{f'{self.got}/{self.pages}':>11}{self.again:>7}{self.requests:>10}{self.refusals:>9}"
            f"{self.in_flight_max:>9}{'':>10}{self.lasted_s:>7.1f} s{self.ideal_s:>7.1f} s"
        )
        yield (
            f"refusals per 1000 pages {self.refusals_per_1000:.1f}, efficiency {self.efficiency:.2f} "
            f"(mean of hosts {self.efficiency_mean:.2f}), rules broken {self.violations}"
        )


def slowdown(alone: Report, beside: Report, hosts: Iterable[str]) -> float:
    """How much longer these hosts took beside others than alone: 1.0 is no longer at all."""
    names = list(hosts)
    return beside.finished_s(names) / max(alone.finished_s(names), 1e-9)


def _efficiency(got: int, pages: int, ideal_s: float, took_s: float) -> float:
    return got / max(1, pages) * ideal_s / max(took_s, 1e-9)


def _broken(one: SiteReport) -> str:
    found = {
        "inside Retry-After": one.inside_retry_after,
        "under crawl delay": one.under_crawl_delay,
        "disallowed": one.disallowed,
        "before robots.txt": one.before_robots,
        "robots.txt again": one.robots_again,
    }
    return "".join(f"  {count} {name}" for name, count in found.items() if count)
