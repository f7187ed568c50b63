"""One crawler on one web: its process measured, its manners judged by the sites' own log."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from amble.testing.farm import FarmProcess
from amble.testing.farm.short import HOSTS, Drawn, host_of
from amble.testing.lab.controllers import STRATEGIES
from amble.testing.lab.short.score import judge_short
from bench._scenarios import SHORT, Scenario, run_measured
from bench.peers.crawlers import Crawler, Place

# What a page costs shows long before. Hidden limits: twice what the oracle needs, and more; the crowd: in a minute.
TIMEOUTS_S = {"one": 40.0, "many": 40.0, "crowd": 60.0, "hidden": 45.0, "isolation": 50.0, "alone": 20.0, "shop": 240.0}
SHORT_TIMEOUT_S = 400.0  # their oracle needs up to 300 s


@dataclass(frozen=True, slots=True)
class Result:
    """What one run came to. Numbers about manners are counted by the farm."""

    crawler: str
    version: str
    scenario: str
    pages: int
    got: int
    requests: int
    refusals: int
    efficiency: float
    inside_retry_after: int
    under_crawl_delay: int
    before_robots: int
    cpu_s: float
    wall_s: float
    rss_mb: float
    ended: bool  # by itself, within the time it was given
    fast_s: float  # when the last host without a crawl delay had given its last page
    goodput: float = 0.0  # the oracle's time over ours, the mean over the hosts
    laboratory: float | None = None  # the same of our strategy on the same hosts in virtual time

    @property
    def pages_per_cpu_s(self) -> float:
        return self.got / self.cpu_s if self.cpu_s else 0.0

    @property
    def share(self) -> float:
        return self.got / max(1, self.pages)


def run(crawler: Crawler, version: str, scenario: Scenario, farm: FarmProcess, home: Path) -> Result:
    """Let a crawler have a farm to itself."""
    farm.clear()
    with tempfile.TemporaryDirectory(prefix="amble-peers-") as folder:
        command = crawler.command(Place(farm, scenario, Path(folder), home))
        used = run_measured(command, given="\n".join(farm.roots()), timeout_s=timeout_s(scenario.name))
    report = farm.judge()
    return Result(
        crawler.name,
        version,
        scenario.name,
        report.pages,
        report.got,
        report.requests,
        report.refusals,
        report.efficiency,
        sum(one.inside_retry_after for one in report.hosts),
        sum(one.under_crawl_delay for one in report.hosts),
        sum(one.before_robots for one in report.hosts),
        used.cpu_s,
        used.wall_s,
        used.rss_mb,
        used.status == 0,
        report.finished_s(site.name for site in farm.sites if not (site.robots and site.robots.crawl_delay_s)),
        report.efficiency_mean,
        laboratory(scenario.name) if crawler.name == "amble" else None,
    )


def timeout_s(scenario: str) -> float:
    return TIMEOUTS_S.get(scenario, SHORT_TIMEOUT_S)


def laboratory(scenario: str, hosts: int = HOSTS, seed: int = 0) -> float | None:
    """The mean goodput of our strategy on the same hosts in virtual time."""
    if scenario not in SHORT:
        return None
    rule = STRATEGIES["gauge"]
    return fmean(judge_short(host_of(Drawn(scenario, number, seed)), rule, seed).goodput for number in range(hosts))
