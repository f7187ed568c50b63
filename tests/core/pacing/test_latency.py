"""Response times per domain: a moving average and a percentile, in fixed memory."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.answer import Answer
from amble.core.outcome import Failure
from amble.core.pacing.latency import KEPT, hangs_after_s, percentile_s, remember
from tests.core.pacing.story import Story


def ring_of(samples: list[float]) -> bytes:
    ring = b""
    for elapsed_s in samples:
        ring = remember(ring, elapsed_s)
    return ring


def test_without_samples_there_is_no_percentile() -> None:
    assert percentile_s(b"") is None


@given(st.lists(st.floats(0.001, 1_000), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 1.0]))
def test_the_percentile_is_that_of_the_last_64_within_three_percent(samples: list[float], share: float) -> None:
    ranked = sorted(samples[-KEPT:])
    exact_s = ranked[math.ceil(share * len(ranked)) - 1]
    assert percentile_s(ring_of(samples), share) == pytest.approx(exact_s, rel=0.03)


@pytest.mark.parametrize("elapsed_s", [0.0, -1.0, 1e-9, 0.001])
def test_times_too_short_for_the_scale_count_as_its_lower_end(elapsed_s: float) -> None:
    assert percentile_s(ring_of([elapsed_s])) == pytest.approx(0.001)


def test_times_too_long_for_the_scale_count_as_its_upper_end() -> None:
    assert percentile_s(ring_of([1e9])) == pytest.approx(0.001 * math.exp(255 / 18))


def test_memory_is_fixed() -> None:
    assert len(ring_of([0.1] * 1_000)) == KEPT


def test_a_pace_averages_the_times_of_its_answers() -> None:
    """A fifth of the newest; an answer that says nothing of the server is left out."""
    story = Story("fixed")
    assert story.pace.latency_s is None
    averages: list[float | None] = []
    for answer in (
        Answer(200, elapsed_s=1.0),
        Answer(200, elapsed_s=2.0),
        Answer(500, elapsed_s=2.2),
        Answer(failure=Failure.CANCELLED, elapsed_s=900.0),
        Answer(200),
    ):
        story.visit(answer)
        averages.append(story.pace.latency_s)
    assert averages == pytest.approx([1.0, 1.2, 1.4, 1.4, 1.4])
    assert len(story.pace.latency_ring) == 3


PATIENCE: list[tuple[str, list[float], float | None]] = [
    # story                                answers so far, in s     time for the headers, in s
    ("nobody has answered yet", [], None),
    ("nine answers say nothing yet", [0.1] * 9, None),
    ("ten do: a quick site has five seconds", [0.1] * 10, 5.0),
    ("a slower one has twenty times its usual", [0.6] * 10, 12.0),
    ("what hung before is not what is usual", [0.1] * 12 + [5.0] * 8, 5.0),
    ("where most of it takes long, that is usual", [0.1] * 12 + [5.0] * 20, 100.0),
]


@pytest.mark.parametrize(("samples", "expected_s"), [row[1:] for row in PATIENCE], ids=[r[0] for r in PATIENCE])
def test_how_long_a_try_may_wait_for_its_headers(samples: list[float], expected_s: float | None) -> None:
    assert hangs_after_s(ring_of(samples)) == (None if expected_s is None else pytest.approx(expected_s, rel=0.03))
