"""What was learned survives being packed, whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from amble.core.pacing.learned import Learned
from amble.core.pacing.packed import pack, unpack

numbers = st.floats(0.0, 1e9)
_FIRST, _LAST = (datetime(year, 1, 1, tzinfo=UTC).replace(tzinfo=None) for year in (2000, 2100))
instants = st.datetimes(_FIRST, _LAST, timezones=st.just(UTC))


@given(
    st.sampled_from(["gauge", "linear", "fixed"]),
    numbers,
    numbers,
    instants,
    st.dictionaries(st.sampled_from(["limit", "confirmed", "block_0_s", "baseline_s"]), numbers),
    st.none() | instants,
)
def test_packing_loses_nothing(
    strategy: str,
    delay_s: float,
    floor_s: float,
    learned_at: datetime,
    more: dict[str, float],
    blocked_at: datetime | None,
) -> None:
    learned = Learned("a.test", strategy, delay_s, floor_s, learned_at, more, blocked_at)
    again = unpack("a.test", pack(learned))
    assert abs(again.learned_at - learned_at) <= timedelta(microseconds=1)  # a double holds no more
    if blocked_at is not None and again.blocked_until_at is not None:
        assert abs(again.blocked_until_at - blocked_at) <= timedelta(microseconds=1)
    assert (again.blocked_until_at is None) == (blocked_at is None)
    assert (again.strategy, again.adaptive_delay_seconds, again.adaptive_delay_floor_seconds, again.numbers) == (
        strategy, delay_s, floor_s, more,
    )  # fmt: skip


def test_domains_of_one_strategy_share_their_layout() -> None:
    one, two = (pack(Learned("a.test", "gauge", 1.0, n, datetime.now(UTC), {"limit": n})) for n in (1.0, 2.0))
    assert one.layout is two.layout
