"""Answers of a worker go out together where there are many, and are not held up where there are few."""

from __future__ import annotations

import pytest

from amble.workers.process import GATHER_MAX, is_enough


@pytest.mark.parametrize(
    ("story", "under_way", "goes_at"),
    [
        ("the only one", 0, 1),
        ("another is slow", 1, 1),
        ("eight at once: as many as are still awaited", 7, 4),
        ("hundreds: as many as are worth a message", 300, GATHER_MAX),
    ],
)
def test_few_wait_for_few(story: str, under_way: int, goes_at: int) -> None:
    """`under_way` when the first of them is answered; each that is answered is no more."""
    answers = 1
    while not is_enough(answers, under_way):
        answers, under_way = answers + 1, under_way - 1
    assert answers == goes_at, story
