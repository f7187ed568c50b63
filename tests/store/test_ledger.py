"""The ledger: who may be claimed, in which order, and that the sums are right."""

from __future__ import annotations

import math
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from amble.store.ledger import Ledger, Run, Taken
from amble.store.rows import BUNDLE_TASKS_MAX, Bundle
from amble.store.seam import TaskDone, TaskState


def bundle(number: int, domain: str = "a", tasks: int = 3, depth: int = 0, priority: float = 0.5) -> Bundle:
    return Bundle(number, 1, domain, TaskState.WAITING, depth, priority, tasks)


def places(taken: list[Taken]) -> list[tuple[int, int]]:
    return [(run.bundle, place) for _, _, run in taken for place in range(run.start, run.stop)]


def test_breadth_first_then_priority_then_first_found() -> None:
    ledger = Ledger()
    for new in (
        bundle(1, depth=2),
        bundle(2, depth=1, priority=0.2),
        bundle(3, depth=1, priority=0.9),
        bundle(4, depth=1, priority=0.9),
    ):
        ledger.found(new)
    assert [number for number, _ in places(ledger.take(12, None, None))] == [3, 3, 3, 4, 4, 4, 2, 2, 2, 1, 1, 1]


def test_priorities_without_number_or_measure_cost_and_break_nothing() -> None:
    """Every URL with a priority of its own, some of them absurd."""
    ledger = Ledger()
    for number in range(1, 20_001):
        priority = [number / 20_001, math.nan, math.inf, -5.0][number % 4]
        ledger.found(bundle(number, tasks=1, priority=priority))
    assert len(set(places(ledger.take(30_000, None, None)))) == 20_000


def test_a_claim_may_end_inside_a_bundle() -> None:
    ledger = Ledger()
    ledger.found(bundle(1, tasks=10))
    assert places(ledger.take(4, None, None)) == [(1, 0), (1, 1), (1, 2), (1, 3)]
    assert places(ledger.take(3, None, None)) == [(1, 4), (1, 5), (1, 6)]
    assert ledger.waiting == {"a": 3}
    assert places(ledger.take(99, None, None)) == [(1, 7), (1, 8), (1, 9)]
    assert ledger.waiting == {}
    assert ledger.take(1, None, None) == []


@given(
    st.integers(1, 2**40),
    st.integers(0, BUNDLE_TASKS_MAX),
    st.integers(0, BUNDLE_TASKS_MAX),
    st.none() | st.integers(0, 100),
)
def test_a_run_is_packed_without_loss(number: int, start: int, stop: int, attempts: int | None) -> None:
    run = Run(number, start, stop, attempts)
    assert Run.unpacked(run.packed()) == run
    assert run.packed() < 2**63


def test_a_long_queue_is_served_in_order_and_takes_little_memory() -> None:
    """C10: a million tasks of one host, two to a bundle."""
    tracemalloc.start()
    ledger = Ledger()
    for number in range(1, 100_001):
        ledger.found(bundle(number, tasks=2))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 20 * 100_000
    claimed = [number for _ in range(1_000) for number, _ in places(ledger.take(200, None, None))]
    assert claimed == [number for number in range(1, 100_001) for _ in range(2)]


def test_every_domain_has_its_turn() -> None:
    ledger = Ledger()
    for number, domain in enumerate("abc", 1):
        ledger.found(bundle(number, domain, tasks=10))
    turns = [domain for _ in range(6) for domain, _, _ in ledger.take(2, 2, None)]
    assert turns == ["a", "b", "c", "a", "b", "c"]


def test_only_the_domains_asked_for() -> None:
    ledger = Ledger()
    for number, domain in enumerate("abc", 1):
        ledger.found(bundle(number, domain))
    assert [domain for domain, _, _ in ledger.take(9, 2, ["c", "nowhere", "a"])] == ["c", "a"]
    assert ledger.waiting == {"a": 1, "b": 3, "c": 1}


BUNDLES = st.tuples(
    st.sampled_from("abc"),
    st.integers(1, 6),
    st.integers(0, 2),
    st.sampled_from([0.1, 0.5]),
    st.sampled_from(TaskState),
)
CLAIMS = st.tuples(st.integers(0, 9), st.none() | st.integers(1, 4), st.none() | st.sets(st.sampled_from("abcd")))


@given(st.lists(BUNDLES | CLAIMS, max_size=40), st.lists(st.sampled_from(TaskState), max_size=60))
def test_nothing_is_claimed_twice_and_the_sums_are_always_right(
    steps: list[tuple[object, ...]], ends: list[TaskState]
) -> None:
    """L1: accepted = queued + running + deferred + final."""
    ledger = Ledger()
    accepted, claimed, unclaimed = 0, list[tuple[int, int]](), set[tuple[int, int]]()
    for number, step in enumerate(steps):
        if len(step) == 5:
            domain, tasks, depth, priority, state = step
            new = Bundle(number, 1, str(domain), state, depth, priority, tasks)  # type: ignore[arg-type]
            ledger.found(new)
            accepted += new.tasks
            if state is TaskState.WAITING:
                unclaimed |= {(number, place) for place in range(new.tasks)}
        else:
            n, per_domain, domains = step
            taken = places(ledger.take(n, per_domain, domains))  # type: ignore[arg-type]
            assert len(taken) <= n  # type: ignore[operator]
            claimed += taken
            unclaimed -= set(taken)
        assert len(set(claimed)) == len(claimed)
        assert ledger.counts().waiting == len(unclaimed) == sum(ledger.waiting.values())
        assert ledger.counts().accepted == accepted
    for _, state in zip(claimed, ends, strict=False):
        ledger.settled(TaskDone(1, "https://a.test/", state))
        assert ledger.counts().accepted == accepted
        assert ledger.counts().running >= 0
