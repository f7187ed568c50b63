"""A small crawl uses one process, and so does one that one process can keep up with."""

from __future__ import annotations

import pytest

from amble.workers.demand import Demand, Sharing


@pytest.mark.parametrize(
    ("story", "looks"),
    [
        ("busy for a second while enough waits", [(200, 0.0, 0.0, False), (300, 1.0, 0.6, True)]),
        ("judged over a second at least", [(200, 0.0, 0.0, False), (200, 0.9, 0.9, False), (200, 1.0, 0.9, True)]),
        ("its pace leaves it idle", [(900, 0.0, 0.0, False), (900, 1.0, 0.4, False), (900, 2.0, 0.8, False)]),
        ("idle at first, busy later", [(900, 0.0, 0.0, False), (900, 9.0, 0.4, False), (900, 10.0, 1.0, True)]),
        ("little waits, however busy", [(199, 0.0, 0.0, False), (199, 1.0, 1.0, False), (199, 2.0, 2.0, False)]),
        ("what it did while little waited does not count", [(900, 0.0, 0.0, False), (9, 1.0, 1.0, False),
                                                            (900, 1.5, 1.0, False), (900, 2.5, 1.1, False)]),
    ],
)  # fmt: skip
def test_when_it_is_large(story: str, looks: list[tuple[int, float, float, bool]]) -> None:
    demand = Demand(Sharing(queued_min=200, busy_min=0.5, every_s=1.0))
    for queued, now, used_s, large in looks:
        assert demand.is_large(queued, now, used_s) is large, (story, now)


def test_it_may_be_told_not_to_wait() -> None:
    assert Demand(Sharing(queued_min=0, busy_min=0.0)).is_large(0, 0.0, 0.0)
