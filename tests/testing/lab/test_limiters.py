"""The server models refuse exactly what they claim to refuse."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.testing.lab.limiters import FixedWindow, Gcra, Limiter, SlidingLog, TokenBucket, whole_seconds
from amble.testing.lab.modifiers import Ban, Changing, Shared
from amble.testing.lab.queues import InFlight, LeakyQueue, Overloading

YES, NO = 0.0, None

STORIES: dict[str, tuple[Limiter, float, list[tuple[float, float | None]]]] = {
    # limiter, service time, rows of (arrival, wait inside or None for refused)
    "a bucket gives its burst at once, then drips": (
        TokenBucket(2.0, 2.0),
        0.0,
        [
            (0.0, YES),
            (0.0, YES),
            (0.0, NO),
            (0.4, NO),
            (0.5, YES),
            (0.6, NO),
            (1.0, YES),
            (9.0, YES),
            (9.0, YES),
            (9.0, NO),
        ],
    ),
    "strict GCRA refuses one millisecond too early and forgets the refusal": (
        Gcra(1.0),
        0.0,
        [(0.0, YES), (0.999, NO), (1.0, YES), (2.5, YES), (3.4, NO), (3.5, YES)],
    ),
    "a tolerant GCRA lends in advance": (
        Gcra(1.0, tolerance_s=1.0),
        0.0,
        [(0.0, YES), (0.0, YES), (0.0, NO), (1.0, YES), (1.5, NO)],
    ),
    "a fixed window starts anew at its boundary, wherever we joined it": (
        FixedWindow(0.2, 10.0, phase_s=7.0),
        0.0,
        [(0.0, YES), (0.0, YES), (2.9, NO), (3.0, YES), (3.1, YES), (12.9, NO), (13.0, YES)],
    ),
    "a sliding log frees each place a window after it was taken": (
        SlidingLog(0.2, 10.0),
        0.0,
        [(0.0, YES), (4.0, YES), (9.9, NO), (10.0, YES), (10.1, NO), (14.0, YES), (14.1, NO)],
    ),
    "a leaky queue delays before it refuses": (
        LeakyQueue(1.0, 2),
        0.0,
        [(0.0, 0.0), (0.0, 1.0), (0.0, 2.0), (0.0, NO), (1.0, 2.0), (9.0, 0.0)],
    ),
    "an in-flight limit counts until the service ends": (
        InFlight(2, 1.0),
        1.0,
        [(0.0, YES), (0.5, YES), (0.9, NO), (1.0, YES), (1.2, NO), (1.5, YES)],
    ),
    "workers serve in turn, the queue grows, then the door shuts": (
        Overloading(1, 1.0, depth=2),
        1.0,
        [(0.0, 0.0), (0.0, 1.0), (0.0, 2.0), (0.0, NO), (1.0, 2.0), (9.0, 0.0)],
    ),
    "a ban shuts out even the patient until it ends": (
        Ban(Gcra(1.0), 30.0),
        0.0,
        [(0.0, YES), (0.5, NO), (2.0, NO), (30.4, NO), (30.5, YES)],
    ),
    "knocking at the door of an extending ban starts it anew": (
        Ban(Gcra(1.0), 30.0, extends=True),
        0.0,
        [(0.0, YES), (0.5, NO), (30.4, NO), (30.5, NO), (60.4, NO), (90.5, YES)],
    ),
    "a limit changes on its day": (
        Changing(Gcra(1.0), Gcra(0.25), 10.0),
        0.0,
        [(8.0, YES), (9.0, YES), (10.0, YES), (13.9, NO), (14.0, YES)],
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_what_is_served(story: str) -> None:
    limiter, service_s, arrivals = STORIES[story]
    assert [limiter.admit(at, service_s) for at, _ in arrivals] == pytest.approx([wait_s for _, wait_s in arrivals])


@pytest.mark.parametrize(
    ("limiter", "fill", "wait_s"),
    [
        (TokenBucket(2.0, 3.0), 3, 0.5),
        (Gcra(0.2), 1, 5.0),
        (FixedWindow(0.2, 10.0, phase_s=7.0), 2, 3.0),
        (SlidingLog(0.2, 10.0), 2, 10.0),
        (LeakyQueue(1.0, 2), 3, 1.0),
        (InFlight(2, 1.0), 2, 4.0),
        (Ban(Gcra(1.0), 30.0), 2, 30.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_wait_it_names_is_the_wait_it_means(limiter: Limiter, fill: int, wait_s: float) -> None:
    for _ in range(fill):
        limiter.admit(0.0, 4.0)
    assert limiter.wait_s(0.0) == pytest.approx(wait_s)
    assert limiter.admit(wait_s - 0.01, 4.0) is None or isinstance(limiter, Ban)
    assert limiter.admit(wait_s + 0.001, 4.0) is not None


@given(
    gaps=st.lists(st.floats(0.0, 3.0), min_size=1, max_size=200),
    rate=st.sampled_from([0.5, 1.0, 5.0]),
    window_s=st.sampled_from([1.0, 10.0]),
)
def test_no_stretch_of_time_holds_more_than_the_sliding_log_allows(
    gaps: list[float], rate: float, window_s: float
) -> None:
    limiter = SlidingLog(rate, window_s)
    now, served = 0.0, []
    for gap in gaps:
        now += gap
        if limiter.admit(now, 0.0) is not None:
            served.append(now)
    assert all(sum(at - window_s < other <= at for other in served) <= limiter.limit for at in served)


@given(gaps=st.lists(st.floats(0.0, 3.0), min_size=1, max_size=200), burst=st.integers(1, 10))
def test_a_bucket_never_gives_more_than_burst_and_drip(gaps: list[float], burst: int) -> None:
    limiter = TokenBucket(1.0, burst)
    now, served = 0.0, 0
    for gap in gaps:
        now += gap
        served += limiter.admit(now, 0.0) is not None
    assert served <= burst + now + 1e-6


def test_others_take_their_share() -> None:
    limiter = Shared(TokenBucket(10.0, 20.0), 10.0, 4.0, Random(1))
    served = [limiter.admit(n / 5.0, 0.0) is not None for n in range(5_000)]
    assert sum(served) == pytest.approx(5_000, rel=0.01)  # 5 of the 6 they leave: nearly always served
    refused = [limiter.admit(1000.0 + n / 9.0, 0.0) is None for n in range(9_000)]
    assert sum(refused) > 1_000  # 9 where they leave 6
    assert limiter.ideal_s(600) == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("limiter", "pages", "ideal_s"),
    [
        (TokenBucket(5.0, 50.0), 100, 20.0),
        (Gcra(5.0), 100, 20.0),
        (FixedWindow(0.2, 60.0), 12, 60.0),
        (SlidingLog(2.0, 10.0), 100, 50.0),
        (InFlight(4, 0.5), 80, 10.0),
        (Overloading(4, 0.5, depth=10), 80, 10.0),
        (Ban(Gcra(2.0), 60.0), 20, 10.0),
        (Changing(TokenBucket(10.0, 1.0), TokenBucket(2.5, 1.0), 10.0), 100, 10.0),
        (Changing(TokenBucket(10.0, 1.0), TokenBucket(2.5, 1.0), 10.0), 125, 20.0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, object) else str(value),
)
def test_what_an_ideal_client_needs(limiter: Limiter, pages: int, ideal_s: float) -> None:
    assert limiter.ideal_s(pages) == pytest.approx(ideal_s)


@pytest.mark.parametrize(("wait_s", "seconds"), [(0.0, 1), (0.2, 1), (1.0, 1), (1.01, 2), (59.5, 60)])
def test_an_honest_retry_after_rounds_up(wait_s: float, seconds: int) -> None:
    assert whole_seconds(wait_s) == seconds
