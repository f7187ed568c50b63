"""Rules per domain pattern: which one holds, and what it changes."""

from __future__ import annotations

from typing import Any

import pytest

from amble.core.pacing.bounds import Bounds, Rulebook
from amble.core.pacing.permit import Source
from amble.core.pacing.settings import PacingSettings
from amble.errors import SettingsError
from tests.core.pacing.story import no_jitter

RULES = {
    "*": {"delay": 1.0},
    "*.example": {"delay": 2.0},
    "*.shop.example": {"delay": 3.0},
    "big.shop.example": {"delay": 4.0},
    "Shop.Example.": {"delay": 5.0},
    "10.0.0.1:8080": {"delay": 6.0},
    "*.bücher.test": {"delay": 7.0},
}


def bounds(domain: str, **settings: Any) -> Bounds:
    return Rulebook(PacingSettings(**settings), no_jitter).bounds(domain)


@pytest.mark.parametrize(
    ("domain", "delay_s"),
    [
        ("other.test", 1.0),
        ("a.example", 2.0),
        ("example", 1.0),  # a pattern covers what lies below it, not the name itself
        ("a.shop.example", 3.0),
        ("a.b.shop.example", 3.0),
        ("big.shop.example", 4.0),  # the exact name before the longest pattern
        ("a.big.shop.example", 3.0),
        ("shop.example", 5.0),  # written in capitals, with the dot of the root
        ("notshop.example", 2.0),
        ("10.0.0.1:8080", 6.0),
        ("10.0.0.1", 1.0),
        ("a.xn--bcher-kva.test", 7.0),  # domains are kept in their ASCII form
        ("[::1]", 1.0),
    ],
)
def test_the_most_specific_rule_wins(domain: str, delay_s: float) -> None:
    assert bounds(domain, rules=RULES).gap_s == delay_s


@pytest.mark.parametrize(
    ("domain", "delay_s"),
    [
        ("shop.example:8080", 5.0),  # a rule without a port is for all of them
        ("a.shop.example:8080", 3.0),
        ("big.shop.example:81", 4.0),
        ("10.0.0.1:8080", 6.0),  # one with a port, for that port
        ("10.0.0.1:81", 1.0),
        ("[::1]:8080", 1.0),
        ("localhost:1", 1.0),
    ],
)
def test_a_rule_without_a_port_covers_every_port(domain: str, delay_s: float) -> None:
    assert bounds(domain, rules=RULES).gap_s == delay_s


def test_without_a_matching_rule_the_settings_hold() -> None:
    general = bounds("a.test", rules={"b.test": {"delay": 9.0}}, min_crawl_delay=0.3, max_rate=2.0)
    assert general.gap_s == 0.5


CHANGES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    # story                                settings                    rule                     bounds
    ("delay", {}, {"delay": 3.0}, {"gap_s": 3.0, "source": Source.MINIMUM}),
    ("delay, but the minimum always holds", {"min_crawl_delay": 5.0}, {"delay": 3.0}, {"gap_s": 5.0}),
    ("a faster rate than in general", {}, {"max_rate": 20.0}, {"gap_s": 0.05, "source": Source.MAX_RATE}),
    ("a slower rate than in general", {}, {"max_rate": 0.5}, {"gap_s": 2.0, "source": Source.MAX_RATE}),
    ("no rate at all", {}, {"max_rate": "unlimited"}, {"gap_s": 0.0, "source": Source.NONE}),
    ("other things leave the rate alone", {}, {"parallel": 2}, {"gap_s": 0.125, "parallel": 2}),
    ("random part", {"random_delay": 1.0}, {"random_delay": 0.0}, {"random_delay_s": 0.0}),
    ("strategy", {}, {"pacing": "fixed"}, {"strategy": "fixed"}),
    ("strategy by its other name", {"pacing": "fixed"}, {"pacing": "adaptive"}, {"strategy": "gauge"}),
    ("an empty rule changes nothing", {"pacing": "aimd"}, {}, {"gap_s": 0.125, "parallel": 8, "strategy": "aimd"}),
]


@pytest.mark.parametrize(
    ("settings", "rule", "expected"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES]
)
def test_what_a_rule_changes(settings: dict[str, Any], rule: dict[str, Any], expected: dict[str, Any]) -> None:
    found = bounds("a.test", rules={"a.test": rule}, **settings)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("settings", "source"),
    [
        ({"max_rate": "unlimited"}, Source.NONE),
        ({"max_rate": 4.0}, Source.MAX_RATE),
        ({"max_rate": 4.0, "min_crawl_delay": 0.2}, Source.MAX_RATE),
        ({"max_rate": 4.0, "min_crawl_delay": 0.25}, Source.MINIMUM),
        ({"max_rate": 4.0, "min_crawl_delay": 3.0}, Source.MINIMUM),
    ],
)
def test_what_sets_the_gap_is_named(settings: dict[str, Any], source: Source) -> None:
    assert bounds("a.test", **settings).source is source


@pytest.mark.parametrize(
    "pattern", ["", "*.", "**", "a.*.test", "*a.test", "http://a.test/", "a.test/x", "a b.test", "*.a b"]
)
def test_a_pattern_that_matches_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(SettingsError) as refused:
        bounds("a.test", rules={pattern: {"delay": 1.0}})
    assert refused.value.hint is not None
    assert "*.shop.example" in refused.value.hint


def test_domains_of_one_rule_share_its_bounds() -> None:
    book = Rulebook(PacingSettings(rules=RULES), no_jitter)  # type: ignore[arg-type]
    assert book.bounds("a.shop.example") is book.bounds("b.shop.example")
    assert book.bounds("x.test") is book.bounds("y.test")
