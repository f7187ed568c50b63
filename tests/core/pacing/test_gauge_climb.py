"""The first climb: the limit that a refusal at its end betrays, against limiters that are really climbed into."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.pacing.strategies.gauge_climb import _KEPT, Climb, Guess, climbed
from amble.testing.lab.limiters import TokenBucket


def betrayed(
    limiter: TokenBucket, *, began: float = 0.0, hold_s: float = 0.0, rate: float = 5.0
) -> tuple[Guess, float]:
    """Climb from 4/s to the first refusal, perhaps held up once on the way; what is concluded, and the rate then."""
    now, sent, rate = began, 0, 4.0
    climb = Climb(began, 0)
    while limiter.admit(now - began, 0.0) is not None:
        sent += 1
        climb.accept(now)
        rate = climbed(rate)
        now += 1.0 / rate + (hold_s if sent == 20 else 0.0)
    return climb.guess(sent, now, rate), rate


@pytest.mark.parametrize("began", [0.0, 7_654_321.0], ids=["clock at 0", "up for three months"])
@pytest.mark.parametrize("limit", [3.0, 5.0, 8.0, 12.0, 20.0])
def test_a_bucket_with_most_of_a_seconds_credit_is_found_at_the_first_refusal(limit: float, began: float) -> None:
    guess, rate = betrayed(TokenBucket(limit, max(5.0, 0.6 * limit)), began=began)
    assert rate > 1.15 * limit, "the climb overshoots, so its rate alone says little"
    assert guess.limit == pytest.approx(limit, rel=0.2)
    assert guess.most >= 0.97 * guess.limit


def test_a_climb_that_was_held_up_betrays_as_much() -> None:
    """When each request was sent is known, so a wait on the way changes nothing."""
    for hold_s in (0.0, 0.7, 3.0):
        guess, _ = betrayed(TokenBucket(8.0, 8.0), hold_s=hold_s)
        assert guess.limit == pytest.approx(8.0, rel=0.35)


@pytest.mark.parametrize("limit", [7.0, 12.0, 20.0])
def test_a_site_without_credit_is_guessed_too_low_and_known_to_be_in_doubt(limit: float) -> None:
    guess, rate = betrayed(TokenBucket(limit, 1.0))
    assert guess.limit < 0.9 * limit
    assert 0.99 * limit <= guess.most <= 1.01 * rate
    assert guess.doubt > 0.1


@given(st.floats(5.0, 60.0), st.floats(1.0, 3.0))
def test_the_true_limit_of_a_bucket_is_never_above_the_most(limit: float, credit: float) -> None:
    guess, rate = betrayed(TokenBucket(limit, max(1.0, credit * limit / 2)))
    assert 0.4 * rate <= guess.limit + 1e-6 <= 2 * rate
    assert guess.most >= 0.97 * min(limit, 2 * rate)


def test_few_instants_are_kept_however_long_it_takes() -> None:
    climb = Climb(0.0, 0)
    for number in range(5_000):
        climb.accept(0.1 * number)
        assert len(climb._sent) <= _KEPT
    assert climb.guess(5_000, 500.0, 10.0).limit == pytest.approx(10.0, rel=0.05)


@given(st.floats(0.1, 200.0))
def test_the_climb_only_goes_up_and_never_doubles_on_fewer_than_four_answers(rate: float) -> None:
    rates = [rate, climbed(rate), climbed(climbed(rate))]
    for lower, higher in pairwise(rates):
        assert lower < higher <= lower * 2 ** (1 / 4) * (1 + 1e-12)
