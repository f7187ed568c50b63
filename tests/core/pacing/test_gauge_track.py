"""What gauge concludes when a block closes: the first one, later ones, punishments; and how it climbs in between."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.pacing.strategies.gauge_climb import Guess
from amble.core.pacing.strategies.gauge_track import Evidence, Track


def seen(accepted: int, span_s: float, rate: float = 10.0, **more: Any) -> Evidence:
    known: dict[str, Any] = {"blocked_s": 0.0, "failed_probes": 0, "directed": False}
    return Evidence(accepted=accepted, span_s=span_s, rate=rate, **(known | more))


BETRAYED = 6.0

BEGINS = [
    # story                                 evidence                                         limit (rate 10/s)
    ("over at once: what the climb betrays", seen(20, 8.0), BETRAYED),
    ("told to come back in a second: the same", seen(20, 8.0, blocked_s=1.0, directed=True), BETRAYED),
    ("told to come back in three: the same", seen(20, 8.0, blocked_s=3.0, directed=True), BETRAYED),
    ("refused at once: seven tenths", seen(5, 5.0), 7.0),
    ("... no credit there: a little under what was refused", seen(20, 5.0, strict=True), 0.88 * 9.5),
    ("... after few, too", seen(3, 5.0, strict=True), 0.88 * 9.5),
    ("... but two have not climbed at all", seen(2, 5.0, strict=True), 7.0),
    ("a trial was refused: what was measured", seen(20, 5.0, failed_probes=1), 4.0),
    ("... but not over seven tenths", seen(45, 5.0, failed_probes=1), 7.0),
    ("... nor under three tenths", seen(5, 5.0, failed_probes=1), 3.0),
    ("... or a tenth after two of them", seen(1, 5.0, failed_probes=2), 1.0),
    ("longer than five: what was measured", seen(20, 20.0, blocked_s=5.1), 1.0),
    ("... but not next to nothing", seen(1, 20.0, blocked_s=5.1), 0.5),
    ("... announced: half-way to what the climb betrays", seen(20, 20.0, blocked_s=5.1, directed=True), BETRAYED**0.5),
    ("... also where that is next to nothing", seen(1, 20.0, blocked_s=5.1, directed=True), (0.5 * BETRAYED) ** 0.5),
    ("... but never under what was measured", seen(160, 20.0, blocked_s=5.1, directed=True), 8.0),
    ("twenty, announced: what was measured", seen(20, 40.0, blocked_s=20.0, directed=True), 0.5),
    ("twenty, silent: half-way between", seen(20, 40.0, blocked_s=20.0), math.sqrt(0.5 * 0.8 * BETRAYED)),
    ("twenty, silent, nothing accepted", seen(0, 40.0, blocked_s=20.0), math.sqrt(0.001 * 0.8 * BETRAYED)),
]


@pytest.mark.parametrize(("evidence", "limit"), [row[1:] for row in BEGINS], ids=[row[0] for row in BEGINS])
def test_what_the_first_block_says(evidence: Evidence, limit: float) -> None:
    track = Track.begin(evidence._replace(guess=Guess(BETRAYED, 9.5)), 100.0)
    assert track.limit == pytest.approx(limit)
    assert track.confirmed == 0
    assert 30 <= track.period <= 400


def test_a_guess_is_tested_later_the_dearer_a_refusal_and_sooner_the_more_it_is_in_doubt() -> None:
    sure, doubtful = (seen(20, 8.0, guess=Guess(6.0, most)) for most in (6.5, 15.0))
    cheap, dear = (Track.begin(sure, 0.0, price).period for price in (0.0, 5.0))
    assert cheap < Track.begin(sure, 0.0).period < dear
    assert Track.begin(doubtful, 0.0, 5.0).period < dear


TOLD_A_SECOND = {"blocked_s": 1.0, "directed": True}
FLOWS = [
    # story                                                evidence                                          limit
    ("no credit: what flowed, not what the pause lost", seen(6, 2.0, strict=True, **TOLD_A_SECOND), 0.97 * 5.0),
    ("... but not over what was refused", seen(20, 2.0, strict=True, **TOLD_A_SECOND), 0.97 * 10.0),
    ("... of two, nothing can be said", seen(2, 2.0, strict=True, **TOLD_A_SECOND), 5.0),
    ("... nor where nobody said for how long", seen(3, 2.0, strict=True, blocked_s=1.0), 5.0),
    ("credit: what was accepted from release to release", seen(12, 2.0, **TOLD_A_SECOND), 6.0),
]


@pytest.mark.parametrize(("evidence", "limit"), [row[1:] for row in FLOWS], ids=[row[0] for row in FLOWS])
def test_a_pause_rounded_up_counts_for_nothing_where_no_credit_is_granted(evidence: Evidence, limit: float) -> None:
    track = Track(8.0, 100.0)
    track.close(evidence, 110.0)
    assert track.limit == pytest.approx(limit)


def climb(track: Track, seconds: float) -> list[float]:
    """The rate after each page of a cycle in which nothing is refused."""
    now, rate, rates = 0.0, 0.96 * track.limit, []
    while now < seconds:
        now += 1 / rate
        track.pages += 1
        rate = track.grown(rate, now)
        rates.append(rate)
    return rates


def test_where_a_refusal_is_dear_the_first_guess_is_left_more_slowly() -> None:
    """Told to stay away for three seconds, thirty requests' time, against one second, which rounding explains."""
    guess = Guess(6.0, 12.0)
    cheap, dear = (Track.begin(seen(20, 8.0, blocked_s=s, directed=True, guess=guess), 0.0) for s in (1.0, 3.0))
    assert cheap.limit == dear.limit
    assert climb(cheap, 6.0)[-1] > 1.03 * cheap.limit
    assert climb(dear, 6.0)[-1] < 1.025 * dear.limit


def test_three_seconds_again_are_a_punishment_and_no_measure() -> None:
    """Two directed blocks of one length: nine tenths of what flowed in between, and no probing for a while."""
    track = Track.begin(seen(20, 8.0, blocked_s=3.0, directed=True), 0.0)
    track.restart(0.0, 0.0)
    track.rate_low = 9.0
    track.close(seen(90, 12.0, blocked_s=3.0, directed=True), 12.0)
    assert track.limit == pytest.approx(0.925 * 10.0)
    track.restart(0.0, 12.0)
    track.pages = 10_000
    assert track.grown(9.0, 12.0 + 44.0) == 9.0
    # Again within that time, at a rate that was punished for before: then it is a window, and what it lets through.
    track.close(seen(60, 12.0, blocked_s=3.0, directed=True), 30.0)
    assert track.limit == pytest.approx(5.0, rel=0.3)


def tracking(limit: float = 10.0, *, low: float = 9.6, confirmed: int = 0, gap_s: float = 0.0) -> Track:
    track = Track(limit, 0.0)
    track.restart(gap_s, 0.0)
    track.rate_low = low
    track.confirmed = confirmed
    return track


LATE = {"blocked_s": 1.0}  # long enough that nothing but the measure counts

CLOSES: list[tuple[str, Track, Evidence, float, int]] = [
    # story                                     known          evidence                                limit  confirmed
    ("the measure is the limit", tracking(), seen(100, 10.0, 10.4, **LATE), 10.0, 1),
    ("... also when it is lower", tracking(), seen(60, 10.0, 10.4, **LATE), 6.0, 1),
    ("... but not over 97 % of the refused rate", tracking(), seen(120, 10.0, 10.4, **LATE), 0.97 * 10.4, 1),
    ("... nor under three tenths of it", tracking(), seen(10, 10.0, 10.4, **LATE), 3.0, 0),
    ("few accepted: little is known", tracking(), seen(3, 0.5, 10.0), 7.0, 0),
    ("few accepted: not under a half", tracking(), seen(0, 10.0, 10.0), 5.0, 0),
    ("few accepted: not over three quarters", tracking(), seen(5, 0.1, 10.0), 7.5, 0),
    ("a short span after a gap counts half of it", tracking(2.0, gap_s=1.0), seen(4, 5.0, 2.0), 1.0, 0),
    ("too few to be sure", tracking(), seen(8, 1.0, 10.4, **LATE), 8.0, 0),
    ("a wide climb is not sure by itself", tracking(low=5.0), seen(60, 10.0, 10.4, **LATE), 6.0, 0),
    ("a wide climb over the limit: it rose", tracking(low=5.0), seen(150, 10.0, 20.0, **LATE), 15.0, 0),
    (
        "a wide climb that measures low: the sure value stands",
        tracking(low=5.0, confirmed=2),
        seen(95, 10.0, 14.0, **LATE),
        10.0,
        0,
    ),
    (
        "over at once: lean towards the refused rate",
        tracking(),
        seen(60, 10.0, 10.4, blocked_s=0.5, failed_probes=1),
        7.5,
        1,
    ),
    ("one lonely refusal after a long run is jitter", tracking(), seen(60, 10.0, 10.4), 0.96 * 10.4, 1),
]


@pytest.mark.parametrize(
    ("track", "evidence", "limit", "confirmed"), [row[1:] for row in CLOSES], ids=[row[0] for row in CLOSES]
)
def test_what_a_later_block_says(track: Track, evidence: Evidence, limit: float, confirmed: int) -> None:
    track.close(evidence, 100.0)
    assert track.limit == pytest.approx(limit)
    assert track.confirmed == confirmed
    assert track.reason == "limit measured"


def closed(track: Track, evidence: Evidence, now: float = 100.0) -> Track:
    track.close(evidence, now)
    track.rate_low = 0.96 * track.limit
    return track


def test_spans_that_agree_are_averaged() -> None:
    track = closed(tracking(), seen(100, 10.0, 10.4, **LATE))
    closed(track, seen(90, 10.0, 10.4, **LATE))
    assert track.limit == pytest.approx(9.5)
    closed(track, seen(80, 10.0, 10.0, **LATE))
    assert track.limit == pytest.approx(9.0)


def test_a_span_that_disagrees_stands_alone() -> None:
    track = closed(tracking(), seen(100, 10.0, 10.4, **LATE))
    closed(track, seen(60, 10.0, 10.4, **LATE))
    assert track.limit == pytest.approx(6.0)


def test_when_the_limit_rose_older_spans_say_nothing_any_more() -> None:
    track = closed(tracking(), seen(100, 10.0, 10.4, **LATE))
    track.rate_low = 5.0
    closed(track, seen(149, 10.0, 20.0, **LATE))
    assert track.limit == pytest.approx(14.9)
    assert track.confirmed == 0


def test_only_the_last_four_spans_are_kept() -> None:
    track = tracking()
    for accepted in (100, 100, 100, 80, 80, 80, 80):
        closed(track, seen(accepted, 10.0, 10.4, **LATE))
    assert track.limit == pytest.approx(8.0)


def test_the_period_grows_while_the_limit_is_confirmed() -> None:
    track, periods = tracking(), []
    for _ in range(6):
        closed(track, seen(100, 10.0, 10.4, **LATE))
        periods.append(track.period)
    assert periods == [100, 200, 400, 800, 900, 900]
    closed(track, seen(70, 10.0, 10.4, **LATE))
    assert track.period == 100  # moved by more than five percent
    closed(track, seen(2, 10.0, 10.4, **LATE))
    assert track.period == 30  # not sure any more


@pytest.mark.parametrize(("limit", "longest"), [(0.5, 180), (2.0, 180), (5.0, 450), (50.0, 1_000)])
def test_the_longest_period_is_a_minute_and_a_half_within_bounds(limit: float, longest: int) -> None:
    track = tracking(limit, low=limit)
    for _ in range(10):
        closed(track, seen(round(40 * limit) or 20, round(40 * limit) / limit or 20 / limit, 1.04 * limit, **LATE))
    assert track.period == longest


def test_leaning_is_learned_from_whether_it_paid() -> None:
    """A lean that brought no more is not tried again for a while."""
    at_once: dict[str, Any] = {"blocked_s": 0.5, "failed_probes": 1}
    track = closed(tracking(), seen(60, 10.0, 10.4, **at_once))
    assert track.limit == pytest.approx(7.5)  # leaned on a measure of 6
    closed(track, seen(60, 10.0, 7.8, **at_once))
    assert track.limit == pytest.approx(6.0)  # no better: not leaned on again


@pytest.mark.parametrize(
    ("cycle", "share", "expected"),
    [("first", 1.05, 1.05), ("first", 0.95, 0.95), ("first", 0.85, 1.25 * 0.85), ("later", 1.05, 0.9 * 1.2)],
    ids=["agrees from above", "agrees from below", "disagrees", "no guess to agree with"],
)
def test_where_the_first_guess_and_the_first_measure_agree_there_is_nothing_to_lean_for(
    cycle: str, share: float, expected: float
) -> None:
    """Both say the same, found out in two ways; leaning would run over the limit and cost a refusal."""
    track = Track.begin(seen(200, 80.0), 0.0)
    guess = track.limit
    if cycle == "later":
        track = tracking(guess)
    track.rate_low = 0.96 * guess
    track.close(seen(1_000, 1_000 / (share * guess), 1.2 * guess, failed_probes=1), 100.0)
    assert track.limit == pytest.approx(expected * guess)


# -- climbing


@pytest.mark.parametrize(("pages", "share"), [(0, 0.96), (15, 1.0), (30, 1.04)])
def test_through_the_margin_in_one_period(pages: int, share: float) -> None:
    track = tracking()
    track.pages = pages
    assert track.grown(9.6, 50.0) == pytest.approx(share * 10.0)
    assert not track.beyond


CLIMBS = [
    # story                      pages   now  grown from 10.4
    ("past the period", 41, 50.0, 1.04 * 10.4),
    ("too soon after the release", 41, 3.0, 10.4),
    ("not ten pages yet", 31, 50.0, 1.04 * 10.4),
]


@pytest.mark.parametrize(("pages", "now", "rate"), [row[1:] for row in CLIMBS], ids=[row[0] for row in CLIMBS])
def test_over_the_limit_step_by_step(pages: int, now: float, rate: float) -> None:
    track = tracking()
    track.pages = pages
    assert track.grown(10.4, now) == pytest.approx(rate)


def test_steps_are_ten_pages_and_two_seconds_apart() -> None:
    track = tracking()
    track.pages = 31
    assert track.grown(10.4, 50.0) > 10.4
    track.pages = 40
    assert track.grown(10.4, 60.0) == 10.4  # nine pages
    track.pages = 41
    assert track.grown(10.4, 51.9) == 10.4  # not two seconds
    assert track.grown(10.4, 52.0) > 10.4


def test_steps_are_slower_where_blocks_are_long() -> None:
    track = tracking()
    for _ in range(2):
        closed(track, seen(100, 50.0, 10.4, blocked_s=12.0))
    track.restart(0.0, 100.0)
    track.pages = track.period + 1
    assert track.grown(3.0, 110.0) > 3.0
    track.pages += 10
    assert track.grown(3.0, 112.9) == 3.0  # a quarter of 12 s
    assert track.grown(3.0, 113.0) > 3.0


# -- punishments


def test_a_long_block_after_a_rate_that_was_fine_is_a_punishment() -> None:
    """100 requests in 10 s were fine; then a minute's ban. The limit is not 100 in 70 s."""
    track = tracking()
    track.close(seen(100, 70.0, 10.4, blocked_s=60.0), 1_000.0)
    assert track.limit == pytest.approx(8.5)
    assert track.reason == "penalty box: no probing for a while"


def test_after_a_punishment_nothing_is_probed_for_fifteen_times_its_length() -> None:
    track = tracking()
    track.close(seen(100, 70.0, 10.4, blocked_s=60.0), 1_000.0)
    track.restart(0.0, 1_000.0)
    track.pages = 5_000
    assert track.grown(8.16, 1_899.0) == 8.16
    assert track.grown(8.16, 1_901.0) > 8.16


def test_two_announced_blocks_of_one_length_are_punishments() -> None:
    """What is left of a window varies; a punishment does not."""
    track = tracking()
    track.close(seen(100, 40.0, 10.4, blocked_s=30.0, directed=True), 100.0)
    track.rate_low = 9.6
    track.close(seen(80, 40.0, 10.4, blocked_s=30.1, directed=True), 200.0)
    assert track.limit == pytest.approx(0.85 * 80 / 9.9)
    assert track.reason == "penalty box: no probing for a while"


def test_a_block_of_nineteen_seconds_is_none() -> None:
    track = tracking()
    track.close(seen(100, 29.0, 10.4, blocked_s=19.0), 100.0)
    assert track.limit == pytest.approx(100 / 29.0)


# -- from response times


def test_an_estimate_from_response_times_is_held_with_less_confidence() -> None:
    track = tracking(confirmed=5)
    track.pages = 77
    track.unsettle(4.0, 100.0)
    assert (track.limit, track.confirmed, track.period, track.pages) == (4.0, 0, 100, 0)


# -- the next run


@pytest.mark.parametrize(("confirmed", "period"), [(0, 30), (1, 200), (2, 200), (3, 872), (9, 872)])
def test_what_was_confirmed_often_is_probed_seldom(confirmed: int, period: int) -> None:
    track = Track.load({"limit": 10.0, "confirmed": float(confirmed)}, trusted=True, now=0.0)
    assert track is not None
    assert track.period == period


MINUTES: list[tuple[str, dict[str, float], bool]] = [
    # story                                          saved                                                  believed
    ("measured from the clock's zero", {"limit": 0.012, "confirmed": 0.0, "delay_s": 60.0}, False),
    ("a block has shown it", {"limit": 0.012, "confirmed": 0.0, "block_0_s": 80.0}, True),
    ("two measures agreed", {"limit": 0.012, "confirmed": 1.0}, True),
    ("another strategy learned it", {"delay_s": 80.0}, True),
    ("no slower than gauge itself asks", {"limit": 0.02, "confirmed": 0.0}, True),
]


@pytest.mark.parametrize(("saved", "believed"), [row[1:] for row in MINUTES], ids=[row[0] for row in MINUTES])
def test_less_than_a_request_a_minute_is_believed_only_where_something_shows_it(
    saved: dict[str, float], believed: bool
) -> None:
    assert (Track.load(saved, trusted=True, now=0.0) is not None) is believed


def test_a_loaded_track_waits_as_long_for_its_first_step_as_a_new_one() -> None:
    """The clock has been running for a day when it is loaded."""
    track = Track.load({"limit": 10.0, "confirmed": 0.0}, trusted=True, now=86_400.0)
    assert track is not None
    track.pages = track.period + 1
    assert track.grown(10.4, 86_402.9) == 10.4
    assert track.grown(10.4, 86_403.1) > 10.4


def test_known_lengths_of_blocks_are_kept() -> None:
    track = closed(tracking(), seen(100, 10.0, 10.4, blocked_s=4.0))
    closed(track, seen(100, 10.0, 10.4, blocked_s=6.0))
    again = Track.load(track.save(), trusted=True, now=0.0)
    assert again is not None
    assert again.expected_block_s(0.0) == track.expected_block_s(200.0) == pytest.approx(2.0)


# -- anything at all

EVIDENCE = st.builds(
    lambda accepted, flowing_s, blocked_s, rate, failed, directed: Evidence(
        accepted, max(flowing_s + blocked_s, 1e-3), blocked_s, rate, failed, directed
    ),
    st.integers(0, 10_000),
    st.floats(0, 10_000),
    st.sampled_from([0.0, 0.5, 1.0, 30.0, 30.1, 3_600.0]) | st.floats(0, 10_000),
    st.floats(1 / 60, 1_000),
    st.integers(0, 10),
    st.booleans(),
)


@given(EVIDENCE, st.lists(st.tuples(EVIDENCE, st.floats(0, 100), st.floats(0.5, 1.0)), max_size=8))
def test_no_evidence_leads_to_a_limit_that_is_none(first: Evidence, later: list[tuple[Evidence, float, float]]) -> None:
    """Always a positive number, and never over the rate that was refused, nor over what was known before."""
    now = 1_000.0
    track = Track.begin(first, now)
    assert 0 < track.limit <= max(2 * first.rate, first.accepted / first.span_s)
    for evidence, gap_s, low in later:
        was = track.limit
        track.restart(gap_s, now)
        track.rate_low = low * evidence.rate
        track.close(evidence, now)
        assert 0 < track.limit <= max(evidence.rate, was), evidence
        assert 30 <= track.period <= 1_000
        assert 0 <= track.expected_block_s(now) < math.inf
        now += 5_000.0
