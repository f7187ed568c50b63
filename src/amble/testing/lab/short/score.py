"""Plays one short host and judges it: goodput, refusals, the last page, and what outages cost."""

from __future__ import annotations

from bisect import bisect_left
from random import Random
from typing import NamedTuple

from amble.testing.lab.controller import Client, Rule
from amble.testing.lab.score import somewhen
from amble.testing.lab.short.crawl import ShortCrawl, ShortRun
from amble.testing.lab.short.host import ShortHost
from amble.testing.lab.short.oracle import AT_ONCE, oracle_s

PATIENCE, PATIENCE_MIN_S = 20.0, 600.0  # a crawl so many times slower than the oracle is stopped
RATE_OVER_S = 3.0  # a rate is counted over so long
RECOVERED = 0.75  # of the rate before an outage


class ShortScore(NamedTuple):
    """One crawl of one host, judged."""

    host: str
    part: str
    goodput: float  # the oracle's seconds to the last page over ours, times the share of the pages that we got
    done: int
    incomplete: bool  # pages were given up, or the crawl was stopped
    refused: int
    last_page_s: float
    oracle_s: float
    violations: int
    trials_a_minute: float | None  # requests into its outages, for each minute that these lasted
    recovery_s: float | None  # from the end of its only outage until pages came nearly as fast as before


def play_short(host: ShortHost, rule: Rule, seed: int, *, guesses_first: bool = False) -> ShortRun:
    """Crawl the host with this rule."""
    client = somewhen(Client(max_in_flight=AT_ONCE), f"{seed} {host.name}")
    controller = rule(client, Random(f"{seed} {host.name} client"))
    crawl = ShortCrawl(host, controller, client, Random(f"{seed} {host.name}"), guesses_first=guesses_first)
    return crawl.play(PATIENCE * oracle_s(host) + PATIENCE_MIN_S)


def judge_short(host: ShortHost, rule: Rule, seed: int, *, guesses_first: bool = False) -> ShortScore:
    """Crawl it and compare with the oracle."""
    run, best_s = play_short(host, rule, seed, guesses_first=guesses_first), oracle_s(host)
    took_s = run.last_page_s if run.done + run.lost == run.pages else run.lasted_s
    return ShortScore(
        host.name,
        host.part,
        run.done / run.pages * best_s / max(took_s, best_s),
        run.done,
        run.done < run.pages,
        run.refused,
        took_s,
        best_s,
        run.violations,
        trials_a_minute(host, run),
        recovery_s(host, run),
    )


def trials_a_minute(host: ShortHost, run: ShortRun) -> float | None:
    """How often the site was asked while it was down, and the crawl still under way."""
    spans = [(one.from_s - host.clock_s, one.to_s - host.clock_s) for one in host.downtimes]
    lasted_s = sum(max(0.0, min(ends, run.lasted_s) - begins) for begins, ends in spans)
    asked = sum(arrival.kind == "down" for arrival in run.arrivals)
    return 60.0 * asked / lasted_s if lasted_s > 0 else None


def recovery_s(host: ShortHost, run: ShortRun) -> float | None:
    """Until over the next seconds three quarters of the pages come that came over the last seconds before an outage.

    Where the crawl ends first, until then.
    """
    if len(host.downtimes) != 1:
        return None
    begins, ends = (instant - host.clock_s for instant in (host.downtimes[0].from_s, host.downtimes[0].to_s))
    pages = [arrival.at for arrival in run.arrivals if arrival.kind == "page"]
    before = bisect_left(pages, begins) - bisect_left(pages, begins - RATE_OVER_S)
    first = bisect_left(pages, ends)
    for number in range(first, len(pages)):
        come = bisect_left(pages, pages[number] + RATE_OVER_S) - number
        if come >= RECOVERED * before:
            return pages[number] - ends
    return max(0.0, run.lasted_s - ends)
