"""A small crawl uses one process, and so does one that one process can keep up with."""

from __future__ import annotations

import pytest

from amble.workers.demand import AT_ONCE, Demand, Sharing

Looks = list[tuple[int, int, float, float, int]]


@pytest.mark.parametrize(
    ("story", "looks"),
    [
        # queued, made, now, used_s, workers: each is worth three seconds of work
        ("a millisecond each, and 6,000 wait", [(9_000, 0, 0.0, 0.0, 0), (6_001, 900, 1.0, 0.9, 2)]),
        ("a millisecond each, and fewer wait", [(9_000, 0, 0.0, 0.0, 0), (5_999, 900, 1.0, 0.9, 0)]),
        ("enough for three", [(9_000, 0, 0.0, 0.0, 0), (9_001, 900, 1.0, 0.9, 3)]),
        ("enough for nine, of which there may be four", [(9_000, 0, 0.0, 0.0, 0), (27_001, 900, 1.0, 0.9, 4)]),
        ("few that take long are much work", [(900, 0, 0.0, 0.0, 0), (601, 90, 1.0, 0.9, 2)]),
        ("its pace leaves it idle", [(90_000, 0, 0.0, 0.0, 0), (90_000, 400, 1.0, 0.4, 0), (90_000, 800, 2.0, 0.8, 0)]),
        ("idle at first, busy later", [(90_000, 0, 0.0, 0.0, 0), (90_000, 400, 9.0, 0.4, 0),
                                       (90_000, 900, 10.0, 1.0, 4)]),
        ("nothing was made, so nobody knows", [(90_000, 0, 0.0, 0.0, 0), (90_000, 0, 1.0, 1.0, 0)]),
        ("what waits at the end does not last", [(9_000, 0, 0.0, 0.0, 0), (90, 8_910, 9.0, 9.0, 0)]),
    ],
)  # fmt: skip
def test_how_many_it_is_worth(story: str, looks: Looks) -> None:
    demand = Demand(Sharing(worth_s=3.0, busy_min=0.5, every_s=1.0), workers_max=4)
    for queued, made, now, used_s, workers in looks:
        assert demand.workers(queued, made, now, used_s) == workers, (story, now)


def test_it_is_judged_over_a_second_at_least() -> None:
    demand = Demand(Sharing(every_s=1.0), workers_max=2)
    assert demand.is_due(5.0)
    demand.workers(9_000, 0, 5.0, 0.0)
    assert [demand.is_due(now) for now in (5.0, 5.9, 6.0)] == [False, False, True]


def test_it_may_be_told_not_to_wait() -> None:
    demand = Demand(AT_ONCE, workers_max=2)
    assert demand.is_due(0.0)
    assert demand.workers(0, 0, 0.0, 0.0) == 2
