"""Two commits crawl the same web in turn: only what ran next to each other in time is compared.

The speed of a machine changes from day to day, and with its neighbours from minute to minute: the ratio within a pair
stays, so the median of the ratios is what is believed, and how far they lie apart says how much.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from amble.testing.farm import FarmProcess, Site
from bench._checkout import Checkout
from bench._crawl_once import Cost, crawl_once
from bench._scenarios import THROUGHPUT, Scenario

WANTED = 0.98
RUN_TIMEOUT_S = 300.0
PAIR_HEAD = "| web | pair | old | new | ratio |\n|---|---|---|---|---|"
HEAD = "| web | pairs | median | middle half | all | wanted |\n|---|---|---|---|---|---|"


class Pair(NamedTuple):
    """One run of each, one after the other."""

    old: Cost
    new: Cost

    @property
    def ratio(self) -> float:
        """Pages per CPU-second of the new over those of the old."""
        return speed(self.new) / speed(self.old)

    @property
    def complete(self) -> bool:
        return self.old.complete and self.new.complete


def speed(cost: Cost) -> float:
    return float(cost.account["pages"] / cost.account["crawl_cpu_s"])


def shortened(sites: list[Site], share: float) -> list[Site]:
    """So much of a web: of its sites, or where there is only one, of its pages."""
    if len(sites) > 1:
        return sites[: max(1, round(share * len(sites)))]
    return [replace(site, pages=replace(site.pages, count=max(1, round(share * site.pages.count)))) for site in sites]


def run_pairs(
    scenario: Scenario, old: Checkout, new: Checkout, pairs: int, share: float, ends_at: float
) -> Iterator[Pair]:
    """Old, new, old, new; no pair begins after `ends_at`, but one there is always."""
    with FarmProcess(shortened(scenario.sites(), share)) as farm:
        for number in range(pairs):
            if number and time.monotonic() >= ends_at:
                return
            yield Pair(*(crawl_once(scenario, farm, checkout=which, timeout_s=RUN_TIMEOUT_S) for which in (old, new)))


def pair_line(name: str, number: int, pair: Pair) -> str:
    sides = (f"{speed(cost):,.0f}{'' if cost.complete else ' (incomplete)'}" for cost in pair)
    return f"| {name} | {number} | {' | '.join(sides)} | {pair.ratio:.3f} |"


def summary(scenario: Scenario, ratios: Sequence[float]) -> str:
    if not ratios:
        return f"| {scenario.says} | 0 | - | - | - | {WANTED} |"
    quarters = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else [ratios[0]] * 3
    return (
        f"| {scenario.says} | {len(ratios)} | **{statistics.median(ratios):.3f}** | "
        f"{quarters[0]:.3f} to {quarters[2]:.3f} | {min(ratios):.3f} to {max(ratios):.3f} | {WANTED} |"
    )


def compare(
    names: Sequence[str], old: Checkout, new: Checkout, *, pairs: int, share: float, minutes: float,
    say: Callable[[str], None],
) -> bool:  # fmt: skip
    """Tells every pair as soon as it is there, then the medians; whether every run got every page.

    The time that is allowed is shared out evenly over the webs that are still to come.
    """
    ends_at = time.monotonic() + 60 * minutes
    lines, complete = [HEAD], True
    say(f"pages per CPU-second, old: {old.name}, new: {new.name}\n\n{PAIR_HEAD}")
    for done, name in enumerate(names):
        scenario, ratios, now = THROUGHPUT[name], [], time.monotonic()
        turn_ends_at = now + (ends_at - now) / (len(names) - done)
        for number, pair in enumerate(run_pairs(scenario, old, new, pairs, share, turn_ends_at), 1):
            say(pair_line(name, number, pair))
            complete &= pair.complete
            if pair.complete:  # who leaves pages out has less to do
                ratios.append(pair.ratio)
        lines.append(summary(scenario, ratios))
    say("\n".join(["", *lines]))
    return complete
