"""Limits can be described, combined and sent to another process."""

from __future__ import annotations

import pickle
from random import Random

import pytest

from amble.testing.farm.limits import (
    Build,
    announcing,
    bucket,
    challenging,
    changing,
    in_flight,
    penalty_box,
    refusing,
    sliding,
    together,
    window,
)

YES, NO = 0.0, None

BUILDS: dict[str, tuple[Build, float]] = {
    # limit, what an oracle needs for 60 pages
    "bucket": (bucket(3.0), 20.0),
    "window": (window(2.0, 10.0), 30.0),
    "sliding": (sliding(2.0, 10.0), 30.0),
    "in flight": (in_flight(2, 0.5), 15.0),
    "penalty box": (penalty_box(bucket(3.0), 5.0), 20.0),
    "changing": (changing(bucket(3.0), bucket(6.0), 10.0), 15.0),
    "together": (together(in_flight(2, 0.5), bucket(3.0)), 20.0),
}


@pytest.mark.parametrize(("build", "ideal_s"), BUILDS.values(), ids=BUILDS)
def test_a_limit_survives_the_journey_to_another_process(build: Build, ideal_s: float) -> None:
    for limit in (refusing(build, "date", 503), announcing(build), challenging(build)):
        sent = pickle.loads(pickle.dumps(limit))
        assert (sent.refusal, sent.dialect, sent.challenge) == (limit.refusal, limit.dialect, limit.challenge)
        assert sent.ideal_s(60) == limit.ideal_s(60) == pytest.approx(ideal_s)


def test_every_site_that_is_built_has_a_limiter_of_its_own() -> None:
    build = bucket(1.0, 1.0)
    first, second = build(Random(1)), build(Random(1))
    assert first.admit(0.0, 0.0) == YES
    assert first.admit(0.0, 0.0) is NO
    assert second.admit(0.0, 0.0) == YES


def test_limits_together_refuse_what_either_refuses_and_charge_nothing_for_it() -> None:
    both = together(in_flight(2, 1.0), bucket(2.0, 3.0))(Random(1))
    rows = [
        # arrival, answer
        (0.0, YES),
        (0.1, YES),
        (0.2, NO),  # two in flight; the third token stays in the bucket
        (0.3, NO),
        (1.05, YES),
        (1.06, NO),  # again two in flight
        (1.2, YES),
        (2.3, YES),
        (2.31, YES),
        (2.32, NO),
    ]
    assert [both.admit(at, 1.0) for at, _ in rows] == [answer for _, answer in rows]


def test_limits_together_wait_for_the_last() -> None:
    both = together(in_flight(1, 1.0), bucket(0.5, 1.0))(Random(1))
    both.admit(0.0, 1.0)
    assert both.wait_s(0.5) == pytest.approx(1.5)
    assert both.wait_s(1.5) == pytest.approx(0.5)
