"""The fixed strategy: one delay, whatever happens; its random part lengthens gaps and never shortens them."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.answer import Answer
from amble.core.pacing.settings import PacingSettings
from tests.core.pacing.story import BROKEN, LIMITED, OK, Story, limited


def starts_of(story: Story, count: int) -> list[float]:
    return [story.visit().sent_at for _ in range(count)]


def test_requests_start_a_constant_delay_apart() -> None:
    assert starts_of(Story("fixed"), 5) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert starts_of(Story("fixed", fixed_delay=2.5), 3) == [0.0, 2.5, 5.0]


@pytest.mark.parametrize("answer", [OK, Answer(200, elapsed_s=60.0), BROKEN, LIMITED, limited(5.0)], ids=str)
def test_no_answer_changes_the_delay(answer: Answer) -> None:
    story = Story("fixed", fixed_delay=2.5)
    story.visits(30, answer)
    assert story.pace.strategy.delay_s == 2.5
    assert not story.pace.strategy.learned


def test_a_limit_is_left_alone_for_a_growing_while_all_the_same() -> None:
    """Nothing is sent in a block; the shell keeps to that whatever the strategy."""
    story = Story("fixed", fixed_delay=2.0)
    waits = []
    for _ in range(4):
        permit = story.visit(LIMITED)
        story.pace.cancel(story.next())
        waits.append(story.now - permit.sent_at)
    assert waits == pytest.approx([2, 4, 8, 16])


def test_a_random_part_is_drawn_anew_for_each_gap() -> None:
    draws = iter([0.0, 0.5, 0.99, 0.25, 0.0])
    story = Story("fixed", random=lambda: next(draws), random_delay=2.0)
    gaps = [later - earlier for earlier, later in pairwise(starts_of(story, 5))]
    assert gaps == pytest.approx([1.0, 2.0, 2.98, 1.5])


@given(st.integers(0, 2**32), st.floats(0, 10), st.floats(0.01, 10))
def test_every_gap_lies_between_the_delay_and_the_delay_with_its_random_part(
    seed: int, delay_s: float, random_s: float
) -> None:
    story = Story("fixed", random=Random(seed).random, fixed_delay=delay_s, random_delay=random_s, max_rate="unlimited")
    for earlier, later in pairwise(starts_of(story, 20)):
        assert delay_s - 1e-9 <= later - earlier <= delay_s + random_s + 1e-9


@pytest.mark.parametrize(("minimum_s", "crawl_delay_s", "gap_s"), [(0.0, None, 1.0), (3.0, None, 3.0), (3.0, 5.0, 5.0)])
def test_the_shell_may_be_slower_than_the_fixed_delay(
    minimum_s: float, crawl_delay_s: float | None, gap_s: float
) -> None:
    story = Story("fixed", min_crawl_delay=minimum_s, crawl_delay_s=crawl_delay_s)
    assert starts_of(story, 3) == [0.0, gap_s, 2 * gap_s]


def test_settings_say_the_delay() -> None:
    assert PacingSettings(pacing="fixed").fixed_delay == 1.0
