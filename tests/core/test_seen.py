"""The seen-set: nothing forgotten, nothing invented, small and fast."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amble.core import seen
from amble.core.seen import SeenAt, SeenSet


def urls(count: int, at: int = 0) -> list[str]:
    return [f"https://site{i % 97}.example/path/{i}/page.html" for i in range(at, at + count)]


def test_a_url_is_new_once() -> None:
    known = SeenSet()
    assert known.add("https://a.test/")
    assert not known.add("https://a.test/")
    assert "https://a.test/" in known
    assert "https://b.test/" not in known


def test_of_equal_urls_in_a_batch_the_first_is_new() -> None:
    known = SeenSet(["https://b.test/"])
    batch = ["https://a.test/", "https://b.test/", "https://a.test/", "https://c.test/"]
    assert known.add_many(batch).tolist() == [True, False, False, True]
    assert len(known) == 3


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 400), max_size=80), max_size=12))
def test_batches_and_single_urls_agree_with_a_plain_set(batches: list[list[int]]) -> None:
    known, model = SeenSet(), set[str]()
    for batch in batches:
        texts = [f"https://a.test/{number}" for number in batch]
        expected = [text not in model and text not in texts[:i] for i, text in enumerate(texts)]
        assert known.add_many(texts).tolist() == expected
        model.update(texts)
        assert all(text in known for text in model)
        assert len(known) == len(model)


def test_nothing_is_lost_while_shards_grow() -> None:
    known = SeenSet()
    first, second = urls(60_000), urls(60_000, at=60_000)
    assert known.add_many(first).all()
    assert known.add_many(second).all()
    assert not known.add_many(first).any()
    assert not any(known.add(url) for url in second)
    assert len(known) == 120_000


def test_every_size_stays_within_seventeen_bytes_a_url() -> None:
    known, worst = SeenSet(), 0.0
    for at in range(0, 200_000, 2_000):
        known.add_many(urls(2_000, at))
        if at >= 20_000:  # below that the first arrays weigh more than what is in them
            worst = max(worst, known.nbytes / len(known))
    assert worst <= 17


def test_hashes_that_fall_on_one_slot_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every URL lands on the last slots of one shard, so that probing wraps around and growing wraps around too."""
    numbers = {f"https://a.test/{i}": 31 * (i + 1) - 1 for i in range(300)}
    monkeypatch.setattr(seen, "hash_of", numbers.__getitem__)
    known, times = SeenSet(), SeenAt()
    for i, url in enumerate(numbers):
        assert known.add(url)
        times.put_many([url], [i])
    assert all(url in known for url in numbers)
    assert [times.get(url) for url in numbers] == list(range(300))


def test_the_hash_zero_is_a_hash_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "hash", lambda _: 0, raising=False)
    known = SeenSet()
    assert known.add("https://a.test/")
    assert "https://a.test/" in known
    assert not known.add_many(["https://a.test/"]).any()


def test_times_are_kept_and_replaced() -> None:
    times = SeenAt()
    all_urls = urls(5_000)
    times.put_many(all_urls, range(5_000))
    times.put_many(all_urls[:10], [-7] * 10)
    assert times.get(all_urls[3]) == -7
    assert times.get(all_urls[4_321]) == 4_321
    assert times.get("https://unknown.test/") is None
    assert len(times) == 5_000


def test_adding_is_linear() -> None:
    def cost_s(count: int) -> float:
        batches = [urls(100, at) for at in range(0, count, 100)]
        known = SeenSet()
        began = time.process_time()
        for batch in batches:
            known.add_many(batch)
        return time.process_time() - began

    once, twice = (min(cost_s(count) for _ in range(5)) for count in (50_000, 100_000))
    assert twice / once < 3.5  # four times, were it quadratic
