"""The sliding window of failures: what it counts, what it forgets, in fixed memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.pacing.window import FailureWindow


def test_it_counts_answers_and_failures() -> None:
    window = FailureWindow(15, 2.0, 0.0)
    window.add(True, 0.0)
    window.add(False, 1.0)
    window.add(False, 5.0, count=2)
    assert window.counts(5.0) == (4, 1)
    assert window.error_rate(5.0) == 0.25


def test_an_empty_window_has_no_failures() -> None:
    assert FailureWindow(15, 2.0, 0.0).error_rate(0.0) == 0.0


EXPIRY = [
    # now    counts: one failure at 0 s, one success at 20 s, buckets of 2 s, window of 30 s
    (20.0, (2, 1)),
    (29.9, (2, 1)),
    (30.0, (1, 0)),
    (49.9, (1, 0)),
    (50.0, (0, 0)),
    (1e9, (0, 0)),
]


@pytest.mark.parametrize(("now", "counts"), EXPIRY)
def test_what_is_older_than_the_window_is_forgotten(now: float, counts: tuple[int, int]) -> None:
    window = FailureWindow(15, 2.0, 0.0)
    window.add(True, 0.0)
    window.add(False, 20.0)
    assert window.counts(now) == counts


def test_clearing_forgets_everything() -> None:
    window = FailureWindow(15, 2.0, 0.0)
    window.add(True, 0.0)
    window.clear()
    assert window.counts(0.0) == (0, 0)
    window.add(True, 1.0)
    assert window.counts(1.0) == (1, 1)


@pytest.mark.parametrize(
    ("successes", "over_s"), [(10, 0.0), (10, 1.0), (10, 29.0), (10, 30.0), (7, 500.0), (1, 20.0), (0, 20.0)]
)
def test_successes_from_before_the_window_are_filled_in(successes: int, over_s: float) -> None:
    window = FailureWindow(15, 2.0, 100.0)
    window.seed(successes, over_s, 100.0)
    assert window.counts(100.0) == (successes, 0)


def test_what_was_filled_in_expires_evenly() -> None:
    window = FailureWindow(15, 2.0, 130.0)
    window.seed(15, 29.0, 130.0)
    assert [window.counts(now)[0] for now in (130.0, 132.0, 140.0, 150.0, 158.0, 160.0)] == [15, 14, 10, 5, 1, 0]


class Log:
    """The window by the book: every answer with its bucket."""

    def __init__(self, buckets: int, bucket_s: float, began: float) -> None:
        self.buckets, self.bucket_s, self.began = buckets, bucket_s, began
        self.rows: list[tuple[int, bool]] = []

    def counts(self, now: float) -> tuple[int, int]:
        oldest = self.bucket(now) - self.buckets + 1
        recent = [failed for bucket, failed in self.rows if bucket >= oldest]
        return len(recent), sum(recent)

    def bucket(self, now: float) -> int:
        return int((now - self.began + 1e-6) // self.bucket_s)


STEPS = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 1.9, 2.0, 7.0, 31.0, 500.0]), st.booleans()), max_size=60)


@given(STEPS, st.integers(1, 8), st.floats(0, 1e6))
def test_it_agrees_with_a_full_log(steps: Sequence[tuple[float, bool]], buckets: int, start: float) -> None:
    window, log, now = FailureWindow(buckets, 2.0, start), Log(buckets, 2.0, start), start
    for step_s, failed in steps:
        now += step_s
        window.add(failed, now)
        log.rows.append((log.bucket(now), failed))
        assert window.counts(now) == log.counts(now)
