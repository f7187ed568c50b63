"""The first climb: the limit that a refusal at its end betrays, against limiters that are really climbed into."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.pacing.strategies.gauge_climb import climbed, limit_under
from amble.testing.lab.limiters import TokenBucket


def rate_at_the_first_refusal(limiter: TokenBucket) -> float:
    now, rate = 0.0, 2.0
    while limiter.admit(now, 0.0) is not None:
        rate = climbed(rate)
        now += 1.0 / rate
    return rate


@pytest.mark.parametrize("limit", [2.0, 3.0, 5.0, 8.0, 12.0, 20.0])
def test_a_bucket_of_a_second_is_found_at_the_first_refusal(limit: float) -> None:
    rate = rate_at_the_first_refusal(TokenBucket(limit, max(5.0, limit)))
    assert rate > 1.4 * limit, "the climb overshoots, so its rate alone says little"
    assert limit_under(rate) == pytest.approx(limit, rel=0.2)


@given(st.floats(2.0, 100.0))
def test_a_later_refusal_means_a_higher_limit_and_never_one_above_the_rate(rate: float) -> None:
    assert 0.3 * rate <= limit_under(rate) + 1e-6 < rate
    assert limit_under(rate) <= limit_under(1.1 * rate)


@given(st.floats(0.1, 200.0))
def test_the_climb_only_goes_up_and_never_doubles_on_fewer_than_four_answers(rate: float) -> None:
    assert rate < climbed(rate) <= rate * 2 ** (1 / 4) * (1 + 1e-12)
