"""P1 across a restart: a later run keeps its distance to what an earlier one may just have sent."""

from __future__ import annotations

import pytest

from amble.core.frontier.visit import Visit
from amble.core.robots.verdict import RobotsRow
from tests.core.frontier.story import OK, Story, page

A, B = "http://a.test/x", "http://b.test/x"


def resumed(*rows: RobotsRow, url: str = A, fixed_delay: float = 1.0, age_s: float = 5.0) -> Story:
    story = Story([A, B], {A: page(B), B: OK}, fixed_delay=fixed_delay, follow_links=True)
    scope = story.plan.scope
    story = Story([], {A: page(B), B: OK}, fixed_delay=fixed_delay, follow_links=True)
    story.plan.scope = scope
    story.frontier.book.load([(row, age_s) for row in rows], 0.0)
    story.resume(Visit(url, task=url))
    return story.run()


def test_a_resumed_domain_begins_with_its_delay_of_silence() -> None:
    assert resumed().asked[0].at >= 1.0


def test_so_does_one_that_the_later_run_finds_by_itself_but_it_loses_no_time_by_that() -> None:
    story = resumed(fixed_delay=3.0)
    first_at_b = min(asked.at for asked in story.asked if "b.test" in asked.url)
    assert 3.0 <= first_at_b == next(asked.at for asked in story.asked if asked.url == A) + story.took_s


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("age_s", [5.0, 90_000.0], ids=["fresh", "to be asked for again"])
def test_the_crawl_delay_of_either_origin_is_kept_from_the_first_request_on(scheme: str, age_s: float) -> None:
    row = RobotsRow(f"{scheme}://a.test", 200, b"User-agent: *\nCrawl-delay: 9")
    story = resumed(row, age_s=age_s)
    assert next(asked.at for asked in story.asked if "a.test" in asked.url) >= 9.0
