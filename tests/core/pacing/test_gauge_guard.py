"""The latency guard: slower answers because of us are a reason to slow down, a site slow by itself is not."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from random import Random

import pytest

from amble.core.answer import Answer
from amble.core.pacing.events import Event, PaceChanged
from amble.core.pacing.permit import Permit, Source
from amble.core.pacing.strategies import Gauge
from amble.core.pacing.strategies.gauge_guard import LatencyGuard
from tests.core.pacing.story import Story


class Watch:
    """A guard that is told of one answer after the other, a tenth of a second apart."""

    def __init__(self, baseline_s: float = 0.1, now: float = 86_400.0) -> None:
        self.guard = LatencyGuard.begin(baseline_s, 20)
        self.now, self.seq = now, 20

    def sees(self, count: int, latency_s: float, in_flight: int, step_s: float = 0.1) -> bool:
        slow = False
        for _ in range(count):
            self.seq += 1
            self.now += step_s
            sent_at = self.now - latency_s
            permit = Permit("a.test", self.seq, sent_at, self.now - 1, 0, 0.1, Source.LEARNED, in_flight, probe=False)
            slow = self.guard.observe(permit, latency_s, self.now)
        return slow


def test_usual_response_times_are_no_reason() -> None:
    watch = Watch()
    assert not watch.sees(100, 0.1, 8)
    assert not watch.guard.overloaded
    assert not watch.guard.queueing
    assert watch.guard.queue < 0.5


LEVELS = [
    # story                                     times   in flight  slow   queueing  overloaded
    ("a little slower", 1.3, 8, False, False, False),
    ("half again as slow", 1.6, 8, True, True, False),
    ("twice as slow, many under way", 2.5, 8, True, True, True),
    ("five times as slow, many under way", 5.0, 8, True, True, True),
    ("five times as slow, three under way", 5.0, 3, True, True, False),
]


@pytest.mark.parametrize(
    ("times", "in_flight", "slow", "queueing", "overloaded"),
    [row[1:] for row in LEVELS],
    ids=[row[0] for row in LEVELS],
)
def test_what_counts_as_a_queue_of_ours(
    times: float, in_flight: int, slow: bool, queueing: bool, overloaded: bool
) -> None:
    watch = Watch()
    watch.sees(60, 0.1, in_flight)
    assert watch.sees(30, 0.1 * times, in_flight) is slow
    assert watch.guard.queueing is queueing
    assert watch.guard.overloaded is overloaded


def test_with_two_under_way_neither_waits_for_the_other() -> None:
    watch = Watch()
    watch.sees(60, 0.1, 2)
    for times in (2, 5, 50):
        watch.sees(100, 0.1 * times, 2)
        assert not watch.guard.overloaded


def test_one_slow_answer_is_not_enough() -> None:
    watch = Watch()
    watch.sees(60, 0.1, 8)
    watch.sees(1, 10.0, 8)
    assert not watch.guard.overloaded


def test_a_handful_of_answers_is_not_enough() -> None:
    watch = Watch()
    watch.sees(10, 0.5, 8)
    assert not watch.guard.overloaded
    watch.sees(10, 0.5, 8)
    assert watch.guard.overloaded


@pytest.mark.parametrize("seed", range(5))
def test_a_site_whose_answers_vary_widely_is_not_overloaded(seed: int) -> None:
    random, watch = Random(seed), Watch()
    for _ in range(500):
        watch.sees(1, 0.1 * math.exp(random.gauss(0.0, 0.5)), 8)
        assert not watch.guard.overloaded


def test_the_baseline_follows_an_idle_site() -> None:
    """With two under way none waits for the others: what they take is what the site takes."""
    watch = Watch()
    watch.sees(300, 0.2, 1)
    watch.sees(60, 0.2, 8)
    assert not watch.guard.queueing


def test_relief_is_nine_tenths_of_what_the_site_serves_after_a_pause() -> None:
    watch = Watch()
    watch.sees(60, 0.1, 8)
    watch.sees(40, 0.5, 8, step_s=0.1)  # ten answers a second, however fast we ask
    relief = watch.guard.relieve(20.0, watch.seq, 8, watch.now)
    assert relief.rate == pytest.approx(9.0)
    assert 0 < relief.drain_s <= 0.51
    assert relief.reason == "responses slow down: letting the queue drain"


@pytest.mark.parametrize("uptime_s", [0.0, 1_000.0, 1e7])
def test_what_the_site_serves_is_measured_from_its_first_answer_not_from_the_clocks_zero(uptime_s: float) -> None:
    """A cut within the first twenty answers, on a machine that has been up for a while."""
    watch = Watch(now=uptime_s)
    watch.sees(11, 0.5, 8)  # ten a second
    assert watch.guard.overloaded
    assert watch.guard.relieve(20.0, watch.seq, 8, watch.now).rate == pytest.approx(9.0, rel=1e-6)


def test_relief_never_speeds_up() -> None:
    watch = Watch()
    watch.sees(60, 0.1, 8)
    watch.sees(40, 0.5, 8, step_s=0.01)
    assert watch.guard.relieve(5.0, watch.seq, 8, watch.now).rate == pytest.approx(4.5)


def test_answers_to_requests_from_before_the_cut_are_not_looked_at() -> None:
    watch = Watch()
    watch.sees(60, 0.1, 8)
    watch.sees(40, 0.5, 8)
    watch.guard.relieve(10.0, watch.seq + 8, 8, watch.now)
    assert not watch.sees(8, 0.5, 8)  # those under way
    assert not watch.guard.overloaded


def test_four_cuts_that_change_nothing_mean_that_the_site_is_slow_by_itself() -> None:
    watch = Watch()
    watch.sees(60, 0.1, 8)
    rate, reasons = 10.0, []
    for _ in range(5):
        watch.sees(40, 0.5, 8)
        assert watch.guard.overloaded
        relief = watch.guard.relieve(rate, watch.seq, 8, watch.now)
        rate = relief.rate
        reasons.append(relief.reason)
    assert reasons == ["responses slow down: letting the queue drain"] * 4 + ["the site is slow by itself"]
    assert relief.rate == pytest.approx(9.0)  # nine tenths of the rate before the first cut
    assert relief.drain_s == 0.0
    watch.sees(40, 0.5, 8)
    assert not watch.guard.overloaded  # the new baseline


def test_cuts_that_helped_are_not_counted_against_the_site() -> None:
    watch = Watch()
    watch.sees(60, 0.1, 8)
    for _ in range(12):
        watch.sees(40, 0.5, 8)
        relief = watch.guard.relieve(10.0, watch.seq, 8, watch.now)
        assert relief.reason == "responses slow down: letting the queue drain"
        watch.sees(40, 0.1, 8)  # the queue drained


def test_the_baseline_is_kept_for_the_next_run() -> None:
    watch = Watch(0.25)
    saved = watch.guard.save()
    assert saved["baseline_s"] == pytest.approx(0.25)
    assert LatencyGuard.load(saved) is not None
    for broken in ({}, {"baseline_s": 0.0}, {"baseline_s": -1.0}, {"baseline_s": math.inf}, {"baseline_s": math.nan}):
        assert LatencyGuard.load(broken) is None


# -- with a domain around it


class Crowded(Story):
    """A domain with many requests under way; notes when the guard held everything back, and until when."""

    def __init__(self, now: float) -> None:
        super().__init__("gauge", now=now, max_rate=100.0, max_parallel_per_domain=64)
        self.drains: list[tuple[float, float]] = []

    def settle(self, permit: Permit, answer: Answer) -> Sequence[Event]:
        until = self.pace.blocked_until
        events = super().settle(permit, answer)
        if self.pace.blocked_until > until:
            self.drains.append((self.now, self.pace.blocked_until))
        return events


def crawl(
    latency_s: Callable[[float, int], float], until: float, began: float = 0.0
) -> tuple[Crowded, list[tuple[float, float, int]]]:
    """Requests overlap; each takes what the site says. Returns (sent at, latency, in flight) of each."""
    story = Crowded(began)
    flying: list[tuple[float, int, Permit, float]] = []
    rows: list[tuple[float, float, int]] = []
    while story.now < until:
        got = story.pace.reserve(story.now)
        if isinstance(got, Permit):
            took_s = latency_s(story.now, story.pace.in_flight)
            rows.append((story.now, took_s, story.pace.in_flight))
            heapq.heappush(flying, (story.now + took_s, got.seq, got, took_s))
        elif flying and flying[0][0] <= got:
            story.now, _, permit, took_s = heapq.heappop(flying)
            story.settle(permit, Answer(200, elapsed_s=took_s))
        else:
            story.now = got
    return story, rows


def reasons(story: Story) -> list[str]:
    return [event.reason for event in story.events if isinstance(event, PaceChanged)]


def test_a_site_that_queues_our_requests_is_asked_less() -> None:
    """Four at a time, 0.2 s each: 20 a second. More only wait, and the guard sees them waiting."""
    story, rows = crawl(lambda now, in_flight: 0.2 * max(1.0, in_flight / 4), 300.0)
    assert "responses slow down: letting the queue drain" in reasons(story)
    settled = [latency_s for sent_at, latency_s, _ in rows if sent_at > 100.0]
    assert sorted(settled)[len(settled) // 2] <= 0.7  # little more than three times unloaded
    assert len(settled) / 200.0 >= 10.0
    assert isinstance(story.pace.strategy, Gauge)
    assert story.pace.strategy.phase == "track"


def test_a_site_that_slows_down_among_its_first_answers_is_not_left_for_a_minute() -> None:
    """Six a second, one after the other, on a machine that has been up for a day."""
    story, rows = crawl(lambda now, in_flight: max(0.1, in_flight / 6), 86_460.0, began=86_400.0)
    assert "responses slow down: letting the queue drain" in reasons(story)
    assert max(event.delay_s for event in story.events if isinstance(event, PaceChanged)) < 1.0
    assert len(rows) >= 200


def test_while_the_queue_drains_nothing_is_sent() -> None:
    story, rows = crawl(lambda now, in_flight: 0.2 * max(1.0, in_flight / 4), 300.0)
    starts = [sent_at for sent_at, _, _ in rows]
    assert story.drains
    for began, ends in story.drains:
        assert not [start for start in starts if began < start < ends]
        assert ends - began > 1.0 / 100.0


def test_a_site_that_becomes_slow_by_itself_is_not_starved() -> None:
    """From 60 s on every answer takes a second instead of a tenth, however few are under way."""
    story, rows = crawl(lambda now, in_flight: 0.1 if now < 60.0 else 1.0, 600.0)
    assert "the site is slow by itself" in reasons(story)
    assert len([row for row in rows if row[0] > 500.0]) / 100.0 >= 2.0
