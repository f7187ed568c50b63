"""Plays one scenario with one rule and says how good it was: goodput against the ideal, rejects, broken promises."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import NamedTuple

from amble.testing.lab.controller import Client, Controller, Rule
from amble.testing.lab.scenarios import Scenario
from amble.testing.lab.servers import Server
from amble.testing.lab.simulate import Run, recovery_s, simulate

PATIENCE = 50.0  # a client this many times slower than the ideal one is stopped, and judged by what it got
PATIENCE_MIN_S = 3600.0
CLOCK_STARTS = 1e3, 1e7  # seconds that a machine may have been up when a crawl begins


class Score(NamedTuple):
    """One run, judged."""

    goodput: float  # 1.0: as good as a client that knows the limit
    rejects: float  # per 1000 pages
    recovery_s: float | None  # after a change of limit
    in_time: bool  # the recovery was
    inside_retry_after: int
    under_crawl_delay: int
    over_in_flight: int
    over_max_rate: int

    @property
    def violations(self) -> int:
        return self.inside_retry_after + self.under_crawl_delay + self.over_in_flight + self.over_max_rate


def ideal_s(scenario: Scenario, server: Server) -> float:
    """Seconds the ideal client needs, which keeps to the client's own settings too."""
    client = scenario.client
    trip_s = server.round_trip.mean_s + (server.service.mean_s if server.service else 0.0)
    slowest_s = max(1.0 / client.max_rate, trip_s / client.max_in_flight, client.crawl_delay_s or 0.0)
    return max(server.ideal_s(scenario.pages), scenario.pages * slowest_s)


def goodput(run: Run, ideal_s: float) -> float:
    """Good pages a second over the ideal client's, at most 1: the credit of a first burst is no merit."""
    good = run.done - run.slow
    return min(1.0, good / max(run.lasted_s, 1e-9) * ideal_s / run.pages)


def play(scenario: Scenario, rule: Rule, seed: int, *, trace: bool = False) -> tuple[Run, float]:
    """Run a scenario; returns what the server saw and the ideal client's seconds."""
    saved: object = None
    if scenario.second_run:
        client = somewhen(scenario.client, f"{seed} first {scenario.name}")
        first = rule(client, Random(f"{seed} first client"))
        _crawl(scenario, client, first, seed + 1_000_000, False)
        saved = first.save()
    client = somewhen(scenario.client, f"{seed} {scenario.name}")
    controller = rule(client, Random(f"{seed} client"))
    if saved is not None:
        controller.load(saved)
    return _crawl(scenario, client, controller, seed, trace or scenario.change is not None)


def somewhen(client: Client, seed: str) -> Client:
    """The client with its clock at any instant: none that a machine shows means anything."""
    return replace(client, starts_at=Random(f"clock {seed}").uniform(*CLOCK_STARTS))


def _crawl(scenario: Scenario, client: Client, controller: Controller, seed: int, trace: bool) -> tuple[Run, float]:
    server = scenario.build(Random(f"{seed} {scenario.name}"))
    best_s = ideal_s(scenario, server)
    until_s = PATIENCE * best_s + PATIENCE_MIN_S
    run = simulate(controller, server, scenario.pages, client, slow_s=scenario.slow_s, until_s=until_s, trace=trace)
    return run, best_s


def judge(scenario: Scenario, rule: Rule, seed: int) -> Score:
    """Play one scenario and score it."""
    run, best_s = play(scenario, rule, seed)
    recovered: float | None = None
    if scenario.change and run.trace is not None:
        recovered = recovery_s(run.trace, scenario.change.at, scenario.change.rate)
    limit_s = scenario.change.within_s if scenario.change else math.inf
    return Score(
        goodput(run, best_s),
        run.rejects_per_1000,
        recovered,
        recovered is None or recovered <= limit_s,
        run.inside_retry_after,
        run.under_crawl_delay,
        run.over_in_flight,
        run.over_max_rate,
    )
