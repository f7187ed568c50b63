"""What a domain takes in memory, its name left out: little as long as it only gave plain answers."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime

import pytest

from amble.core.answer import Answer
from amble.core.pacing.permit import Permit
from amble.core.pacing.registry import Registry
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.strategies.gauge import Gauge
from amble.core.pacing.strategies.gauge_found import NOTHING
from tests.core.pacing.story import LIMITED, OK, no_jitter

DOMAINS = 1_000
APART_S = 15.0
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
NEVER_LIMITED = (OK, OK, OK, OK)

ROWS: list[tuple[str, tuple[Answer, ...], int]] = [
    # story                  answers              bytes at most
    ("asked a few times", NEVER_LIMITED, 460),
    ("limited once", (OK, LIMITED, OK, OK), 1_450),
]


def asked(answers: tuple[Answer, ...], names: list[str]) -> Registry:
    registry = Registry(PacingSettings(max_rate=None), no_jitter)
    for number, answer in enumerate(answers):
        for place, name in enumerate(names):
            now = 1_000.0 + APART_S * (number + place / len(names))
            pace = registry.pace(name, now, NOON)
            permit = pace.reserve(now)
            assert isinstance(permit, Permit)
            pace.settle(permit, answer, now + 0.1)
    return registry


@pytest.mark.parametrize(("answers", "bytes_max"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_domain_takes_little_memory(answers: tuple[Answer, ...], bytes_max: int) -> None:
    names = [f"www.site-{number}.example" for number in range(DOMAINS)]
    asked(answers, names[:10])  # what all domains share is there before the count begins
    tracemalloc.start()
    registry = asked(answers, names)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(registry) == DOMAINS
    assert used / DOMAINS < bytes_max


def test_what_only_trouble_brings_with_it_is_not_there_without() -> None:
    pace = next(iter(asked(NEVER_LIMITED, ["a.test"])))
    assert pace.trouble is None
    assert isinstance(pace.strategy, Gauge)
    assert pace.strategy._found is NOTHING
