"""The seen-set: nothing forgotten, nothing invented, small and fast."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amble.core import seen
from amble.core.seen import SeenAt, SeenSet, Shard


def urls(count: int, at: int = 0) -> list[str]:
    return [f"https://site{i % 97}.example/path/{i}/page.html" for i in range(at, at + count)]


def test_a_url_is_new_once() -> None:
    known = SeenSet()
    assert known.add("https://a.test/")
    assert not known.add("https://a.test/")
    assert "https://a.test/" in known
    assert "https://b.test/" not in known


@pytest.fixture
def few_max(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packs all but the first five."""
    monkeypatch.setattr(seen, "_FEW_MAX", 5)


@pytest.mark.usefixtures("few_max")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(0, 400), max_size=80), max_size=12))
def test_batches_and_single_urls_agree_with_a_plain_set(batches: list[list[int]]) -> None:
    known, model = SeenSet(), set[str]()
    for batch in batches:
        texts = [f"https://a.test/{number}" for number in batch]
        known.add_many(texts[::2])
        model.update(texts[::2])
        for text in texts:
            assert known.add(text) == (text not in model)
            model.add(text)
        assert all(text in known for text in model)
        assert not any(f"https://b.test/{number}" in known for number in batch)
        assert len(known) == len(model)


@pytest.mark.usefixtures("few_max")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(-(2**62), 2**62)), max_size=800))
def test_times_agree_with_a_plain_dict(rows: list[tuple[int, int]]) -> None:
    known, model = SeenAt(), dict[str, int]()
    for number, time_us in rows:
        known.put_many([f"https://a.test/{number}"], [time_us])
        model[f"https://a.test/{number}"] = time_us
    assert {url: known.get(url) for url in model} == model
    assert known.get("https://b.test/") is None
    assert len(known) == len(model)


def test_nothing_is_lost_while_shards_grow() -> None:
    known = SeenSet(urls(60_000))
    more = urls(60_000, at=60_000)
    assert all(known.add(url) for url in more)
    assert not any(known.add(url) for url in urls(60_000))
    assert not any(known.add(url) for url in more)
    assert len(known) == 120_000


@pytest.mark.usefixtures("few_max")
def test_every_size_stays_within_seventeen_bytes_a_url() -> None:
    known, worst = SeenSet(), 0.0
    for at in range(0, 200_000, 2_000):
        known.add_many(urls(2_000, at))
        if at >= 100_000:  # below that the first arrays weigh more than what is in them
            worst = max(worst, known.nbytes / len(known))
    assert worst <= 17


def test_hashes_that_fall_on_one_slot_are_told_apart() -> None:
    """Every hash lands on the last slots of a shard, so that probing wraps around, in the first array and in others."""
    hashes = [slots * (i + 1) - 1 for slots in (31, 47, 71) for i in range(0, 300, 7)]
    shard = Shard(valued=True)
    assert [shard.put(key, -key) for key in hashes] == [key not in hashes[:i] for i, key in enumerate(hashes)]
    assert [shard.get(key) for key in hashes] == [-key for key in hashes]
    assert shard.get(31 * 5000 - 1) is None
    assert shard.count == len(set(hashes))


@pytest.mark.parametrize("few_max", [0, 10])
def test_the_hash_zero_is_a_hash_like_any_other(monkeypatch: pytest.MonkeyPatch, few_max: int) -> None:
    monkeypatch.setattr(seen, "hash", lambda _: 0, raising=False)
    monkeypatch.setattr(seen, "_FEW_MAX", few_max)
    known = SeenSet()
    assert "https://a.test/" not in known
    assert known.add("https://a.test/")
    assert "https://a.test/" in known
    assert not known.add("https://a.test/")


def test_times_are_kept_and_replaced() -> None:
    times = SeenAt()
    all_urls = urls(5_000)
    times.put_many(all_urls, range(5_000))
    times.put_many(all_urls[:10], [-7] * 10)
    assert times.get(all_urls[3]) == -7
    assert times.get(all_urls[4_321]) == 4_321
    assert times.get("https://unknown.test/") is None
    assert len(times) == 5_000


@pytest.mark.usefixtures("few_max")
def test_a_hash_lies_near_its_home_however_many_there_are() -> None:
    known = SeenSet(urls(200_000))
    steps = [
        (slot - key % shard.slots) % shard.slots
        for shard in known._shards
        for slot, key in enumerate(shard.keys)
        if key
    ]
    assert len(steps) == 200_000 - 5
    assert sum(steps) / len(steps) < 2  # 1.5 where everything is three quarters full


def test_a_shard_of_ten_million_grows_by_few_hashes_at_once() -> None:
    assert 10_000_000 / seen._SHARDS < 5_000  # 0.3 us each
