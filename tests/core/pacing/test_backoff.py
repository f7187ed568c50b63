"""When a URL is tried again: the series, their caps, the bounds of the jitter, and the domain's own timing."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.pacing.backoff import exponential_s, fibonacci_s, retry_at, retry_wait_s
from amble.core.pacing.settings import PacingSettings
from tests.core.pacing.story import no_jitter


@pytest.mark.parametrize(
    ("longest_s", "waits_s"),
    [
        (600.0, [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 600, 600]),
        (4.0, [1, 1, 2, 3, 4, 4, 4]),
        (0.5, [0.5, 0.5, 0.5]),
    ],
)
def test_the_fibonacci_series_up_to_its_cap(longest_s: float, waits_s: list[float]) -> None:
    assert [fibonacci_s(attempt, longest_s) for attempt in range(1, len(waits_s) + 1)] == waits_s


@pytest.mark.parametrize(
    ("base_s", "longest_s", "waits_s"),
    [(0.2, 600.0, [0.2, 0.4, 0.8, 1.6, 3.2]), (1.0, 5.0, [1, 2, 4, 5, 5]), (3.0, 2.0, [2, 2])],
)
def test_the_doubling_series_up_to_its_cap(base_s: float, longest_s: float, waits_s: list[float]) -> None:
    waits = [exponential_s(attempt, base_s, longest_s) for attempt in range(1, len(waits_s) + 1)]
    assert waits == pytest.approx(waits_s)


@given(st.integers(1, 10**6), st.floats(0.001, 86_400), st.floats(0.001, 86_400))
def test_no_attempt_is_too_many_for_the_series(attempt: int, base_s: float, longest_s: float) -> None:
    assert 0 < fibonacci_s(attempt, longest_s) <= longest_s
    assert 0 < exponential_s(attempt, base_s, longest_s) <= longest_s


@pytest.mark.parametrize("backoff", ["fibonacci", "exponential"])
def test_a_url_has_its_tries_and_no_more(backoff: str) -> None:
    chosen: dict[str, Any] = {"retry_backoff": backoff, "max_retries": 3}
    settings = PacingSettings(**chosen)
    assert [retry_wait_s(attempt, settings, no_jitter) is not None for attempt in (1, 2, 3, 4)] == [
        True,
        True,
        True,
        False,
    ]


def test_without_retries_there_is_no_next_time() -> None:
    settings = PacingSettings(max_retries=0)
    assert retry_wait_s(1, settings, no_jitter) is None
    assert retry_at(1, 100.0, 500.0, settings, no_jitter) is None


@given(st.integers(1, 5), st.integers(0, 2**32))
def test_full_jitter_is_uniform_between_nothing_and_the_bound(attempt: int, seed: int) -> None:
    """F7: failures of one moment do not return in step."""
    settings = PacingSettings(retry_backoff="exponential", retry_base_delay=0.2, max_retry_backoff_seconds=5.0)
    wait_s = retry_wait_s(attempt, settings, Random(seed).random)
    assert wait_s is not None
    assert 0 <= wait_s < exponential_s(attempt, 0.2, 5.0)


def test_full_jitter_reaches_both_ends_of_its_bounds() -> None:
    settings = PacingSettings(
        retry_backoff="exponential", retry_base_delay=1.0, max_retry_backoff_seconds=5.0, max_retries=9
    )
    assert retry_wait_s(3, settings, no_jitter) == 0.0
    assert retry_wait_s(3, settings, lambda: 0.75) == 3.0
    assert retry_wait_s(9, settings, lambda: 0.75) == 3.75


@pytest.mark.parametrize(
    ("domain_not_before", "at"),
    [(100.0, 103.0), (102.9, 103.0), (103.1, 103.1), (500.0, 500.0), (float("-inf"), 103.0)],
    ids=["domain is free", "domain is free first", "domain is later", "domain is blocked for long", "never asked"],
)
def test_the_later_of_the_two_timings_wins(domain_not_before: float, at: float) -> None:
    """Fibonacci's fourth wait is 3 s; a domain that may be asked only later decides."""
    assert retry_at(4, 100.0, domain_not_before, PacingSettings(), no_jitter) == at
