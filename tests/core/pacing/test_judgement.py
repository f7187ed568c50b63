"""What an answer means among others: 403 and 503 in clusters, challenge pages, noise."""

from __future__ import annotations

import pytest

from amble.core.answer import Answer
from amble.core.pacing.settings import StrategyName
from tests.core.pacing.story import BUSY, FORBIDDEN, LIMITED, NOT_FOUND, OK, STRATEGIES, Story

CHALLENGE = Answer(403, challenge=True)


def first_limit(answers: list[Answer], strategy: StrategyName = "fixed") -> int | None:
    """The number of the answer that opens a block, from 1; None if none does."""
    story = Story(strategy, min_samples_to_trip=100_000, consecutive_fail_threshold=100_000)
    for number, answer in enumerate(answers, 1):
        story.visit(answer)
        if story.pace.block is not None:
            return number
    return None


STORIES: list[tuple[str, list[Answer], int | None]] = [
    # -- 403: three of the last twenty, after more than twenty successes
    ("forbidden from the start", [FORBIDDEN] * 100, None),
    ("too few successes before", [OK] * 20 + [FORBIDDEN] * 40, None),
    ("a sudden cluster after success", [OK] * 21 + [FORBIDDEN] * 3, 24),
    ("two are not enough", [OK] * 21 + [FORBIDDEN] * 2 + [OK] * 30, None),
    ("three among twenty", [OK] * 30 + [FORBIDDEN] + [OK] * 9 + [FORBIDDEN] + [OK] * 8 + [FORBIDDEN], 50),
    ("three among twenty-one", [OK] * 30 + [FORBIDDEN] + [OK] * 9 + [FORBIDDEN] + [OK] * 9 + [FORBIDDEN], None),
    ("now and then, for ever", ([OK] * 10 + [FORBIDDEN]) * 30, None),
    ("forbidden pages are no welcome", [OK] * 15 + [OK, FORBIDDEN] * 5 + [FORBIDDEN] * 20, None),
    # -- 503: a lone one is noise, two in ten are a limit
    ("a lone 503", [OK] * 5 + [BUSY] + [OK] * 30, None),
    ("two 503 in a row", [OK] * 5 + [BUSY] * 2, 7),
    ("two 503 among ten", [OK] * 5 + [BUSY] + [OK] * 8 + [BUSY], 15),
    ("two 503 among eleven", [OK] * 5 + [BUSY] + [OK] * 9 + [BUSY], None),
    ("one in a hundred, for ever", ([OK] * 99 + [BUSY]) * 5, None),
    ("two 503 at once, from the start", [BUSY] * 2, 2),
    # -- others
    ("429", [LIMITED], 1),
    ("a challenge page", [CHALLENGE], 1),
    ("a challenge page that says it is fine", [Answer(200, challenge=True)], 1),
    ("server errors are failures, not limits", [Answer(500)] * 50, None),
    ("client errors are answers", [Answer(400), Answer(401), Answer(404), Answer(410)] * 20, None),
]


@pytest.mark.parametrize(("answers", "number"), [row[1:] for row in STORIES], ids=[row[0] for row in STORIES])
def test_the_answer_that_is_taken_for_a_limit(answers: list[Answer], number: int | None) -> None:
    assert first_limit(answers) == number


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "aimd"])
def test_noise_does_not_change_the_pace(strategy: StrategyName) -> None:
    """One 503 in fifty answers: neither slower nor faster than without."""
    noisy, quiet = Story(strategy), Story(strategy)
    for number in range(400):
        quiet.visit(OK, took_s=0.1)
        noisy.visit(BUSY if number % 50 == 49 else OK, took_s=0.1)
    assert noisy.pace.block is None
    assert noisy.pace.strategy.delay_s == pytest.approx(quiet.pace.strategy.delay_s, rel=0.05)


@pytest.mark.parametrize("answer", [NOT_FOUND, FORBIDDEN, Answer(401), Answer(410)], ids=str)
def test_an_answer_without_a_page_counts_as_an_answer(answer: Answer) -> None:
    story = Story("linear", success_probe_threshold=5)
    story.visits(2, LIMITED)
    story.visit(answer)  # ends the block: the server answered in its own time
    assert story.pace.block is None
    story.visits(5, answer)
    assert story.pace.strategy.delay_s == 1.5


def test_pages_that_are_missing_are_no_trouble() -> None:
    """Most sites lack the usual sitemaps: nothing is kept of that."""
    story = Story("fixed")
    story.visits(3, NOT_FOUND)
    assert (story.pace.successes, story.pace.trouble) == (3, None)
    story.visit(FORBIDDEN)
    assert story.pace.trouble is not None
