"""What was learned of a domain, in few bytes: for the many that a run may come to and mostly does not. Pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from amble.core.pacing.learned import Learned


class Layout(NamedTuple):
    """Which numbers the bytes hold; one for all domains of a strategy."""

    strategy: str
    names: tuple[str, ...]
    numbers: Struct


class Packed(NamedTuple):
    layout: Layout
    data: bytes


@lru_cache(maxsize=1_000)
def _layout(strategy: str, names: tuple[str, ...]) -> Layout:
    return Layout(strategy, names, Struct(f"<{4 + len(names)}d"))


def pack(learned: Learned) -> Packed:
    layout = _layout(learned.strategy, tuple(learned.numbers))
    blocked_at = learned.blocked_until_at
    data = layout.numbers.pack(
        learned.adaptive_delay_seconds,
        learned.adaptive_delay_floor_seconds,
        learned.learned_at.timestamp(),
        math.nan if blocked_at is None else blocked_at.timestamp(),
        *learned.numbers.values(),
    )
    return Packed(layout, data)


def unpack(domain: str, packed: Packed) -> Learned:
    strategy, names, numbers = packed.layout
    delay_s, floor_s, learned_at, blocked_at, *values = numbers.unpack(packed.data)
    return Learned(
        domain=domain,
        strategy=strategy,
        adaptive_delay_seconds=delay_s,
        adaptive_delay_floor_seconds=floor_s,
        learned_at=datetime.fromtimestamp(learned_at, UTC),
        numbers=dict(zip(names, values, strict=True)),
        blocked_until_at=None if math.isnan(blocked_at) else datetime.fromtimestamp(blocked_at, UTC),
    )
