"""No strategy learns a longer delay than `max_adaptive_delay`, whatever it meets."""

from __future__ import annotations

import pytest

from amble.core.answer import Answer
from amble.core.pacing.settings import StrategyName
from tests.core.pacing.story import BROKEN, LIMITED, NEVER_TRIPS, OK, STRATEGIES, Story, limited

LONGEST_S = 4.0
TROUBLES: dict[str, list[Answer]] = {
    "refused again and again": [LIMITED] * 30,
    "refused for long": [OK, limited(500.0)] * 10,
    "few pages between refusals": [OK, OK, LIMITED, LIMITED] * 15,
    "errors": [BROKEN] * 30,
    "slower and slower": [Answer(200, elapsed_s=0.1 * 1.3**power) for power in range(40)],
}


def hardest(story: Story, answers: list[Answer]) -> float:
    """The longest delay while these answers come, and some good ones after them."""
    longest_s = story.pace.strategy.delay_s
    for answer in [*answers, OK, OK]:
        story.visit(answer)
        longest_s = max(longest_s, story.pace.strategy.delay_s)
    return longest_s


@pytest.mark.parametrize("answers", TROUBLES.values(), ids=TROUBLES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_longest_delay_binds_every_strategy(strategy: StrategyName, answers: list[Answer]) -> None:
    # The slowest rate of aimd and the constant delay are settings of their own; here they do not come first.
    story = Story(strategy, max_adaptive_delay=LONGEST_S, min_rps=0.01, **NEVER_TRIPS)
    assert hardest(story, answers) <= LONGEST_S


@pytest.mark.parametrize(
    ("strategy", "trouble"),
    [("gauge", "few pages between refusals"), ("linear", "refused again and again"), ("aimd", "errors"),
     ("fibonacci", "slower and slower")],
)  # fmt: skip
def test_without_it_they_would_have_learned_a_longer_one(strategy: StrategyName, trouble: str) -> None:
    story = Story(strategy, max_adaptive_delay=600.0, min_rps=0.01, **NEVER_TRIPS)
    assert hardest(story, TROUBLES[trouble]) > LONGEST_S


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_an_earlier_run_learned_is_bound_by_it_too(strategy: StrategyName) -> None:
    story = Story(strategy, max_adaptive_delay=LONGEST_S, min_rps=0.01)
    story.pace.strategy.load({"delay_s": 50.0, "rate": 0.02, "limit": 0.02, "confirmed": 3}, trust=1.0, now=0.0)
    assert story.pace.strategy.delay_s <= LONGEST_S


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_the_site_asks_for_holds_beyond_it(strategy: StrategyName) -> None:
    story = Story(strategy, max_adaptive_delay=LONGEST_S, crawl_delay_s=20.0)
    first, second = story.visit(), story.visit()
    assert second.sent_at - first.sent_at >= 20.0
