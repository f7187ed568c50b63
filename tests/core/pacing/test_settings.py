"""Every setting of pacing defends itself: range, type, contradictions, names."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args, get_origin

import pytest

from amble.core.pacing.settings import PacingSettings, Rule
from amble.errors import SettingsError

# What lies just inside the range of each number, lowest and highest; just outside is refused.
INSIDE: dict[str, tuple[float, float]] = {
    "max_rate": (1e-9, 100_000),
    "default_crawl_delay": (0, 86_400),
    "min_crawl_delay": (0, 86_400),
    "max_retry_after": (1e-9, 31_536_000),
    "random_delay": (0, 86_400),
    "max_parallel_per_domain": (1, 100_000),
    "max_parallel_per_address": (1, 100_000),
    "min_address_delay": (0, 86_400),
    "permit_timeout": (1, 86_400),
    "error_rate_threshold": (1e-9, 1),
    "min_samples_to_trip": (1, 100_000),
    "consecutive_fail_threshold": (1, 100_000),
    "open_state_duration": (1e-9, 86_400),
    "open_state_duration_max": (1e-9, 86_400),
    "half_open_probes": (1, 100),
    "stats_window": (1, 3_600),
    "stats_bucket": (0.1, 600),
    "concurrency_step": (1e-9, 3_600),
    "refusal_price": (0, 1_000),
    "base_delay": (0, 86_400),
    "max_adaptive_delay": (1e-9, 86_400),
    "delay_step": (1e-9, 3_600),
    "success_probe_threshold": (1, 100_000),
    "initial_rps": (1e-9, 100_000),
    "min_rps": (1e-9, 100_000),
    "max_rps": (1e-9, 100_000),
    "token_bucket_capacity": (1, 1_000),
    "aimd_increase": (1e-9, 100_000),
    "aimd_decrease": (1e-9, 0.999),
    "latency_target": (1e-9, 600),
    "latency_degrade_factor": (1.001, 100),
    "fixed_delay": (0, 86_400),
    "max_retries": (0, 100),
    "retry_base_delay": (1e-9, 3_600),
    "max_retry_backoff_seconds": (1e-9, 86_400),
    "domain_state_ttl": (1, 31_536_000),
    "max_domains": (1, 100_000_000),
    "shards": (1, 4_096),
    "learned_half_trust_after": (1e-9, 3_650),
    "learned_forget_after": (1e-9, 3_650),
    "save_debounce": (0, 86_400),
}
NOT_NUMBERS = {"enabled", "pacing", "rules", "retry_backoff", "share_pace"}

# Settings that must move with another one to the end of its range.
COMPANIONS: dict[str, Any] = {
    "open_state_duration": {"open_state_duration_max": 86_400},
    "open_state_duration_max": {"open_state_duration": 1e-9},
    "stats_window": {"stats_bucket": 1.0},
    "stats_bucket": {"stats_window": 25.0},
    "base_delay": {"max_adaptive_delay": 86_400},
    "max_adaptive_delay": {"base_delay": 0},
    "initial_rps": {"min_rps": 1e-9, "max_rps": 100_000},
    "min_rps": {"initial_rps": 100_000, "max_rps": 100_000},
    "max_rps": {"initial_rps": 1e-9, "min_rps": 1e-9},
    "retry_base_delay": {"max_retry_backoff_seconds": 86_400},
    "max_retry_backoff_seconds": {"retry_base_delay": 1e-9},
    "learned_half_trust_after": {"learned_forget_after": 3_650},
    "learned_forget_after": {"learned_half_trust_after": 1e-9},
}


def test_the_table_names_every_setting() -> None:
    assert set(INSIDE) | NOT_NUMBERS == set(PacingSettings.model_fields)


@pytest.mark.parametrize("name", PacingSettings.model_fields)
def test_every_setting_says_what_it_is_for(name: str) -> None:
    description = PacingSettings.model_fields[name].description
    assert description
    assert "\n" not in description


@pytest.mark.parametrize("name", Rule.model_fields)
def test_every_part_of_a_rule_says_what_it_is_for(name: str) -> None:
    assert Rule.model_fields[name].description


def refusal(**values: Any) -> SettingsError:
    with pytest.raises(SettingsError) as refused:
        PacingSettings(**values)
    return refused.value


@pytest.mark.parametrize("end", [0, 1], ids=["lowest", "highest"])
@pytest.mark.parametrize("name", INSIDE)
def test_the_ends_of_each_range_are_accepted(name: str, end: int) -> None:
    value = INSIDE[name][end]
    companions = dict(COMPANIONS.get(name, {}))
    if name == "stats_window" and end:
        companions["stats_bucket"] = 600.0
    if name == "stats_bucket" and end:
        companions["stats_window"] = 3_600.0
    if name == "min_rps" and not end:
        companions = {}
    if name == "max_rps" and end:
        companions = {}
    values: dict[str, Any] = {name: value, **companions}
    assert getattr(PacingSettings(**values), name) == value


@pytest.mark.parametrize("name", INSIDE)
def test_what_lies_outside_each_range_is_refused(name: str) -> None:
    lowest, highest = INSIDE[name]
    below = (
        lowest - 1e-6
        if 0 < lowest < 1e-6
        else lowest - (1 if PacingSettings.model_fields[name].annotation is int else 0.002)
    )
    for value in (below, highest + 1, -1, -1e300, 1e300, math.nan, math.inf, -math.inf):
        refused = refusal(**{name: value}, **COMPANIONS.get(name, {}))
        assert refused.message.startswith(f"{name} = "), f"{value}: {refused.message}"
        assert refused.hint
        assert refused.hint.startswith(f"{name}: "), f"{value}: {refused.hint}"


WRONG: list[Any] = ["", "fast", "1e", "0x1", [], [1], {}, {"a": 1}, b"\xff", object()]


@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.parametrize("value", WRONG, ids=lambda value: type(value).__name__ + "-" + str(value)[:8])
def test_what_is_no_number_is_refused(name: str, value: Any) -> None:
    assert refusal(**{name: value}).message.startswith(f"{name} = ")


@pytest.mark.parametrize("name", sorted(set(INSIDE) - {"max_rate", "max_parallel_per_address"}))
def test_nothing_but_two_limits_can_be_none(name: str) -> None:
    """No setting is switched off by leaving it empty."""
    assert refusal(**{name: None}).message.startswith(f"{name} = None")


@pytest.mark.parametrize(
    "name", [name for name, field in PacingSettings.model_fields.items() if field.annotation is int]
)
def test_counts_are_whole(name: str) -> None:
    assert refusal(**{name: 2.5}).message.startswith(f"{name} = 2.5")


@pytest.mark.parametrize("value", [2, 2.0, "2", "2.0", " 2 "])
def test_numbers_may_be_written_as_text(value: Any) -> None:
    """As options of SQL and of the command line are."""
    assert PacingSettings(max_rate=value).max_rate == 2.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pacing", "gauge "),
        ("pacing", "Linear"),
        ("pacing", ""),
        ("pacing", 1),
        ("pacing", None),
        ("retry_backoff", "random"),
        ("retry_backoff", None),
        ("enabled", "maybe"),
        ("enabled", None),
        ("rules", 3),
        ("rules", ["a.test"]),
        ("rules", {"a.test": 3}),
        ("max_rate", "Unlimited!"),
    ],
)
def test_words_that_are_not_understood_are_refused(name: str, value: Any) -> None:
    assert name in refusal(**{name: value}).message


def test_a_choice_is_told_with_its_words() -> None:
    for name in ("pacing", "retry_backoff"):
        annotation = PacingSettings.model_fields[name].annotation
        assert get_origin(annotation) is Literal
        message = refusal(**{name: "x"}).message
        assert all(word in message for word in get_args(annotation))


def test_a_rate_may_be_unlimited() -> None:
    assert PacingSettings(max_rate="unlimited").max_rate is None  # type: ignore[arg-type]
    assert PacingSettings(max_rate=None).max_rate is None
    assert PacingSettings().max_rate == 8.0


def test_adaptive_is_another_name_of_gauge() -> None:
    assert PacingSettings(pacing="adaptive").pacing == "gauge"  # type: ignore[arg-type]
    assert PacingSettings().pacing == "gauge"


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"min_rps": 9.0}, "min_rps"),
    ({"max_rps": 1.0}, "initial_rps"),
    ({"initial_rps": 0.1}, "initial_rps"),
    ({"initial_rps": 9.0}, "initial_rps"),
    ({"base_delay": 61.0}, "base_delay"),
    ({"stats_bucket": 31.0}, "stats_bucket"),
    ({"stats_window": 3_600.0, "stats_bucket": 14.0}, "256 buckets"),
    ({"open_state_duration": 301.0}, "open_state_duration"),
    ({"max_retry_backoff_seconds": 0.1}, "retry_base_delay"),
    ({"learned_half_trust_after": 31.0}, "learning"),
    ({"shards": 3}, "shards"),
    ({"pacing": "fixed", "fixed_delay": 1.0, "min_crawl_delay": 2.0}, "fixed_delay"),
]


@pytest.mark.parametrize(("values", "word"), CONTRADICTIONS, ids=[word for _, word in CONTRADICTIONS])
def test_contradictions_are_refused_with_a_hint(values: dict[str, Any], word: str) -> None:
    refused = refusal(**values)
    assert word in refused.message
    assert refused.hint


def test_a_default_that_lies_under_a_stated_minimum_is_no_contradiction() -> None:
    assert PacingSettings(pacing="fixed", min_crawl_delay=2.0).fixed_delay == 1.0


UNKNOWN = [
    ("max_rat", "did you mean 'max_rate'?"),
    ("crawl_delay", "did you mean 'min_crawl_delay'?"),
    ("max_paralel_per_domain", "did you mean 'max_parallel_per_domain'?"),
    ("retries", "did you mean 'max_retries'?"),
    ("latency_target_s", "did you mean 'latency_target'?"),
    ("zzz", f"known settings: {', '.join(sorted(PacingSettings.model_fields))}"),
]


@pytest.mark.parametrize(("unknown", "hint"), UNKNOWN)
def test_an_unknown_name_is_refused_with_the_nearest_one(unknown: str, hint: str) -> None:
    refused = refusal(**{unknown: 1})
    assert refused.message == f"unknown setting {unknown!r}"
    assert refused.hint == hint


def test_a_mistake_in_a_rule_names_the_rule_and_the_word() -> None:
    refused = refusal(rules={"*.shop.example": {"dely": 1}})
    assert "*.shop.example" in refused.message
    assert "unknown setting 'dely'" in refused.message
    assert "did you mean 'delay'?" in str(refused)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, 86_401, "x"])
@pytest.mark.parametrize("name", ["delay", "random_delay"])
def test_durations_of_a_rule_have_ranges_too(name: str, value: Any) -> None:
    assert name in refusal(rules={"a.test": {name: value}}).message


DEFAULTS = [
    # the defaults the strategies are known by: linear, aimd, fibonacci, breaker
    ("base_delay", 0.5),
    ("max_adaptive_delay", 60.0),
    ("delay_step", 1.0),
    ("success_probe_threshold", 20),
    ("concurrency_step", 5.0),
    ("initial_rps", 2.0),
    ("min_rps", 0.25),
    ("max_rps", 8.0),
    ("aimd_increase", 0.25),
    ("aimd_decrease", 0.5),
    ("latency_target", 1.0),
    ("latency_degrade_factor", 2.0),
    ("error_rate_threshold", 0.5),
    ("min_samples_to_trip", 10),
    ("consecutive_fail_threshold", 5),
    ("stats_window", 30.0),
    ("stats_bucket", 2.0),
    ("max_retries", 5),
    ("max_retry_backoff_seconds", 600.0),
    ("shards", 16),
    ("save_debounce", 30.0),
    ("learned_half_trust_after", 7.0),
    ("learned_forget_after", 30.0),
]


@pytest.mark.parametrize(("name", "value"), DEFAULTS)
def test_the_defaults(name: str, value: float) -> None:
    assert getattr(PacingSettings(), name) == value
