"""When a transaction is due, and what goes into it: told the time, so nothing here waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.store.gathering import Gathering, Parcel
from amble.store.seam import Batch, PageLinks, PageRow, TaskRow
from amble.store.writer import WriterLimits

LIMITS = WriterLimits(
    batch_size=10, pause_s=0.5, linger_s=1.0, batch_bytes_max=8_000, held_pages_max=200, held_bytes_max=20_000
)
AT_ONCE = -inf


def pages(count: int, body: str | None = None) -> Batch:
    return Batch(pages=[PageRow(f"https://a.test/{number}", body=body) for number in range(count)])


def stored(parcels: Iterable[Parcel]) -> list[int]:
    """Pages in each batch."""
    return [len(batch.pages) for parcel in parcels for batch in parcel.batches]


@pytest.mark.parametrize(
    ("story", "last_at", "handed_over", "due_at"),
    [
        ("nothing is held", None, [], None),
        ("few pages wait for company", None, [(5.0, 3)], 6.0),
        ("the oldest has waited longest", None, [(5.0, 3), (5.4, 3)], 6.0),
        ("enough pages, and nothing was stored yet", None, [(5.0, 10)], AT_ONCE),
        ("enough pages, soon after the last transaction", 4.9, [(5.0, 10)], 5.4),
        ("enough pages, long after the last transaction", 3.0, [(5.0, 10)], 3.5),
        ("far more than enough, soon after the last", 4.9, [(5.0, 10), (5.1, 30)], 5.4),
        ("few pages do not wait for the pause alone", 4.9, [(5.0, 9)], 6.0),
        ("a quarter of the room is taken", 4.9, [(5.0, 50)], AT_ONCE),
    ],
)
def test_when_a_transaction_is_due(
    story: str, last_at: float | None, handed_over: Sequence[tuple[float, int]], due_at: float | None
) -> None:
    held = Gathering(LIMITS)
    if last_at is not None:
        held.add(pages(1), last_at, urgent=True)
        held.release(held.take(last_at))
    for now, count in handed_over:
        held.add(pages(count), now)
    assert held.due_at() == (pytest.approx(due_at) if due_at is not None else None)


@pytest.mark.parametrize(
    ("story", "handed_over", "due_at"),
    [
        ("what is wanted soon waits a moment for company", [(5.0, True)], 5.05),
        ("whatever waits already is written with it", [(5.0, False), (5.1, True)], 5.15),
        ("a second does not put off the first", [(5.0, True), (5.02, True)], 5.05),
        ("nor does what can wait", [(5.0, True), (5.02, False)], 5.05),
        ("it does not put off what is due sooner", [(5.0, False), (5.98, True)], 6.0),
    ],
)
def test_what_the_next_run_must_know_is_due_soon(
    story: str, handed_over: Sequence[tuple[float, bool]], due_at: float
) -> None:
    held = Gathering(LIMITS)
    is_news = [held.add(pages(1), now, soon=soon)[1] for now, soon in handed_over]
    assert held.due_at() == pytest.approx(due_at)
    assert is_news[0]
    held.take(due_at)
    assert held.due_at() is None
    held.add(pages(1), 7.0)
    assert held.due_at() == 8.0


def test_what_is_wanted_soon_is_not_forgotten_behind_a_full_transaction() -> None:
    held = Gathering(LIMITS)
    for _ in range(6):
        held.add(pages(10), 5.0)
    held.add(pages(1), 5.0, soon=True)
    held.take(5.0)
    assert held.due_at() == pytest.approx(5.05)


@pytest.mark.parametrize(
    "batch",
    [pages(4, "b" * 2_000), Batch(discovered=[TaskRow(1, "https://a.test/x", "a.test")] * 5_000)],
    ids=["bodies fill a transaction", "small rows take a quarter of the room"],
)
def test_what_is_large_does_not_wait(batch: Batch) -> None:
    held = Gathering(LIMITS)
    held.release(held.take(5.0))
    held.add(batch, 5.0)
    assert held.due_at() == AT_ONCE


def test_what_is_urgent_takes_everything_before_it_along_and_nothing_after_it_hurries() -> None:
    held = Gathering(LIMITS)
    held.add(pages(2), 5.0)
    held.add(Batch(), 5.1, urgent=True)
    assert held.due_at() == AT_ONCE
    assert stored(held.take(5.1)) == [2, 0]
    held.add(pages(2), 5.2)
    assert held.due_at() == 6.2


def test_a_store_that_closes_stores_everything_and_then_nothing() -> None:
    held = Gathering(LIMITS)
    held.add(pages(2), 5.0)
    held.is_closing = True
    assert held.due_at() == AT_ONCE
    assert stored(held.take(5.0)) == [2]
    assert held.due_at() == AT_ONCE
    assert held.take(5.0) == []


def test_the_writer_is_woken_when_it_would_look_too_late_and_not_for_every_page() -> None:
    held = Gathering(LIMITS)
    held.release(held.take(5.0))
    woken = [held.add(pages(1), 5.0)[1] for _ in range(60)]
    assert [number for number, is_news in enumerate(woken, 1) if is_news] == [1, 10, *range(50, 61)]


def test_batches_of_one_parcel_have_one_promise_and_those_of_another_their_own() -> None:
    held = Gathering(LIMITS)
    parcels = [held.add(pages(1), 5.0)[0] for _ in range(12)]
    assert len(set(map(id, parcels[:10]))) == 1
    assert len(set(map(id, parcels[10:]))) == 1
    assert parcels[0].future is not parcels[10].future


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3_000), st.booleans()), max_size=60),
    st.integers(1, 200),
)
def test_nothing_is_lost_doubled_or_divided_and_room_comes_back(
    handed_over: list[tuple[int, int, bool]], batch_size: int
) -> None:
    limits = WriterLimits(batch_size=batch_size, batch_bytes_max=8_000, held_pages_max=200, held_bytes_max=20_000)
    held, taken, now = Gathering(limits), list[Batch](), 0.0
    batches = [pages(count, "b" * body_bytes) for count, body_bytes, _ in handed_over]
    for batch, (_, _, is_taken) in zip(batches, handed_over, strict=True):
        now += 0.1
        held.add(batch, now)
        if is_taken:
            parcels = held.take(now)
            taken += [batch for parcel in parcels for batch in parcel.batches]
            # A transaction is over its limits by the last parcel alone, a parcel by its last batch.
            assert sum(parcel.pages for parcel in parcels[:-1]) < 50
            assert sum(parcel.body_bytes for parcel in parcels[:-1]) < 8_000
            assert all(sum(map(len_of, parcel.batches[:-1])) < 12.5 for parcel in parcels)
            held.release(parcels)
    while parcels := held.take(now):
        taken += [batch for parcel in parcels for batch in parcel.batches]
        held.release(parcels)
    assert taken == batches
    assert held.due_at() is None
    assert held.has_room


def len_of(batch: Batch) -> int:
    return len(batch.pages)


@pytest.mark.parametrize(
    ("batch", "count"), [(pages(20), 10), (pages(1, "b" * 2_000), 10)], ids=["too many pages", "too many bytes"]
)
def test_there_is_room_until_too_much_is_held_whether_it_waits_or_is_being_written(batch: Batch, count: int) -> None:
    held = Gathering(LIMITS)
    for _ in range(count):
        assert held.has_room
        held.add(batch, 5.0)
    assert not held.has_room
    parcels = held.take(5.0)
    assert not held.has_room
    held.release(parcels)
    assert held.has_room


@pytest.mark.parametrize(
    ("one", "fill"),
    [
        (pages(1), 200),
        (Batch(discovered=[TaskRow(1, "https://a.test/x", "a.test")] * 25), 200),
        (Batch(page_links=[PageLinks(1, "https://a.test/", 250, "")]), 200),
    ],
    ids=["pages", "tasks, each a part of a page", "the links of a page, which come packed"],
)
def test_what_weighs_little_fills_little(one: Batch, fill: int) -> None:
    held = Gathering(LIMITS)
    for count in range(fill):
        assert held.has_room, count
        held.add(one, 0.0)
    assert not held.has_room
