"""How long a domain will take, from its pace alone; and how numbers are said."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from amble.core.pacing.pace import Pace
from amble.core.pacing.registry import Registry
from amble.core.pacing.settings import PacingSettings
from amble.report.expect import PLAYED_MAX, expect
from amble.report.words import duration, marked, safe, text_table

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pace(crawl_delay_s: float | None = None, **settings: Any) -> Pace:
    made = Registry(PacingSettings(**settings), lambda: 0.5).pace("a.test", 0.0, NOON)
    made.set_crawl_delay(crawl_delay_s)
    return made


FIXED: dict[str, Any] = {"pacing": "fixed", "max_rate": None}


@pytest.mark.parametrize(
    ("story", "made", "requests", "latency_s", "seconds", "why"),
    [
        ("nothing to do", pace(**FIXED, fixed_delay=1), 0, 0.1, 0.0, "default"),
        ("one request is one answer", pace(**FIXED, fixed_delay=1), 1, 0.1, 0.1, "default"),
        ("a gap less than requests", pace(**FIXED, fixed_delay=1), 11, 0.1, 10.1, "default"),
        ("answers longer than gaps, one at a time", pace(**FIXED, fixed_delay=0.1, max_parallel_per_domain=1), 10, 1.0,
         10.0, "default"),
        ("answers longer than gaps, five at a time", pace(**FIXED, fixed_delay=0, max_parallel_per_domain=5), 101, 1.0,
         21.0, "none"),
        ("a random part adds its half", pace(**FIXED, fixed_delay=1, random_delay=1), 11, 0.0, 15.0, "default"),
        ("a crawl delay", pace(10, **FIXED, fixed_delay=1), 11, 0.0, 100.0, "robots"),
        ("a crawl delay that the strategy comes down to", pace(0.3), 1_001, 0.0, 300.0, "robots"),
        ("our own highest rate", pace(max_rate=2), 1_001, 0.0, 500.0, "max_rate"),
        ("more than is played", pace(max_rate=2), 10 * PLAYED_MAX + 1, 0.0, 5.0 * PLAYED_MAX, "max_rate"),
        ("a rule", pace(rules={"a.test": {"max_rate": 1}}), 101, 0.0, 100.0, "rule"),
        ("a rule for others", pace(rules={"b.test": {"max_rate": 1}}, max_rate=2), 101, 0.0, 50.0, "max_rate"),
    ],
)  # fmt: skip
def test_the_time_that_requests_take(
    story: str, made: Pace, requests: int, latency_s: float, seconds: float, why: str
) -> None:
    found = expect(made, requests, latency_s)
    assert found.seconds == pytest.approx(seconds, rel=0.02, abs=0.01), story
    assert found.why == why, story


def test_a_forecast_does_not_touch_the_pace() -> None:
    made = pace()
    before = repr(made)
    expect(made, 100, 0.1)
    assert repr(made) == before
    assert made.seq == 0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"), (0.0124, "12 ms"), (0.0996, "0.10 s"),
        (0.254, "0.25 s"), (0.999, "1.0 s"), (2, "2.0 s"), (9.96, "10 s"), (45, "45 s"), (59.7, "1 min"),
        (200, "3 min 20 s"), (3_599.6, "1 h"), (11_400, "3 h 10 min"), (86_399, "24 h"), (100_000, "1 d 4 h"),
    ],
)  # fmt: skip
def test_durations_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_text_of_strangers_is_harmless() -> None:
    """[E7]"""
    evil = "a\x1b[2J\u202eb\x9b\r\n<b>&\"'"
    assert safe(evil) == "a\\x1b[2J\\u202eb\\x9b\\x0d\\x0a<b>&\"'"
    assert marked(evil) == "a\\x1b[2J\\u202eb\\x9b\\x0d\\x0a&lt;b&gt;&amp;&quot;&#x27;"
    assert len(text_table(("a", "b"), [("x\n", "y\r")]).splitlines()) == 2
