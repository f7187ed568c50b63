"""The settings as one: flat names, one owner each, the page that documents them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from amble.core.answer import Answer
from amble.core.pacing.bounds import Bounds, Rulebook
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Permit
from amble.core.pacing.settings import PacingSettings
from amble.errors import SettingsError
from amble.settings import Settings, fields
from amble.settings_page import page

ROOT = Path(__file__).resolve().parent.parent


def test_the_page_of_settings_is_the_one_the_settings_make() -> None:
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == page(), "run python -m amble.settings_page"


def test_every_setting_has_one_owner_and_a_description() -> None:
    names = [name for _, name, _ in fields()]
    assert len(names) == len(set(names))
    assert [name for _, name, info in fields() if not info.description] == []


def test_flat_names_reach_their_part() -> None:
    settings = Settings.of({"max_rate": 3, "http_timeout": 5, "respect_robots_txt": False, "max_crawl_depth": 2})
    assert (settings.pacing.max_rate, settings.fetching.http_timeout) == (3, 5)
    assert (settings.robots.respect_robots_txt, settings.visiting.max_crawl_depth) == (False, 2)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"max_crawl_dept": 2}, "max_crawl_depth"),
        ({"follow_links": False, "max_crawl_depth": 2}, "means nothing"),
        ({"sitemap_paths": ["https://a.test/map.xml"]}, "no path of a site; write it as /sitemap.txt"),
        ({"sitemap_paths": ["//b.test/map.xml"]}, "no path of a site"),
        ({"sitemap_paths": ["/ok", "/two words"]}, "'/two words' is no path"),
        ({"sitemap_paths": ["/map.xml#part"]}, "no path of a site"),
        ({"accept_content_types": ["text/html"], "reject_content_types": ["text/html"]}, "both accepted and rejected"),
        ({"max_redirects": -1}, "max_redirects"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_hint(named: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        Settings.of(named)
    assert refused.value.hint


UNPACED: list[tuple[str, dict[str, Any], float, int]] = [
    # story                                       beside enabled = false                       gap in s   at once
    ("nothing that is ours by default holds",     {},                                          0.0,       100_000),
    ("a minimum holds",                           {"min_crawl_delay": 9},                      9.0,       100_000),
    ("a cap of the rate holds",                   {"max_rate": 2},                             0.5,       100_000),
    ("a cap of requests at once holds",           {"max_parallel_per_domain": 3},              0.0,       3),
    ("a default crawl delay holds",               {"default_crawl_delay": 4},                  4.0,       100_000),
    ("a rule holds",                              {"rules": {"a.test": {"delay": 2, "parallel": 1}}}, 2.0, 1),
    ("a rule for others is for others",           {"rules": {"b.test": {"delay": 2}}},         0.0,       100_000),
    ("a constant delay is a strategy's",          {"pacing": "fixed", "fixed_delay": 7},       0.0,       100_000),
]  # fmt: skip


@pytest.mark.parametrize(("named", "gap_s", "parallel"), [row[1:] for row in UNPACED], ids=[row[0] for row in UNPACED])
def test_without_pacing_what_is_set_beside_it_holds(named: dict[str, Any], gap_s: float, parallel: int) -> None:
    bounds = Rulebook(Settings.of({"enabled": False, **named}).pacing, lambda: 0.5).bounds("a.test")
    assert (bounds.gap_s, bounds.parallel, bounds.strategy) == (gap_s, parallel, "fixed")
    slower = bounds.under(20.0)  # what robots.txt asks for holds in any case
    assert (slower.gap_s, slower.parallel) == (20.0, parallel)


def test_without_pacing_what_the_server_asks_for_holds() -> None:
    pace = Pace("a.test", Bounds(PacingSettings(enabled=False), None, lambda: 0.5), 0.0)
    permits = [pace.reserve(0.0) for _ in range(50)]
    assert all(isinstance(permit, Permit) for permit in permits)
    assert isinstance(permits[0], Permit)
    pace.settle(permits[0], Answer(429, retry_after_s=30.0), 1.0)
    refused = pace.reserve(20.0)
    assert isinstance(refused, float)
    assert refused > 31.0


IDLE: list[tuple[str, dict[str, Any], list[str]]] = [
    ("all of it is of use", {"pacing": "aimd", "initial_rps": 3, "max_rate": 5, "base_delay": 1}, []),
    ("a default is nobody's wish", {"pacing": "linear"}, []),
    (
        "it is for another strategy", {"fixed_delay": 3},
        ["fixed_delay does nothing: it is for fixed, and the strategy is gauge"],
    ),
    (
        "it is for two others", {"pacing": "fixed", "latency_degrade_factor": 3},
        ["latency_degrade_factor does nothing: it is for aimd and fibonacci, and the strategy is fixed"],
    ),
    ("a rule has that strategy", {"fixed_delay": 3, "rules": {"a.test": {"pacing": "fixed"}}}, []),
    (
        "there is no strategy", {"enabled": False, "pacing": "fixed", "fixed_delay": 3},
        ["pacing does nothing: enabled is false", "fixed_delay does nothing: it is for fixed, and enabled is false"],
    ),
    ("a crawl has no shards", {"shards": 4}, ["shards does nothing in a crawl: it is for a limiter of threads"]),
]  # fmt: skip


@pytest.mark.parametrize(("named", "said"), [row[1:] for row in IDLE], ids=[row[0] for row in IDLE])
def test_a_setting_that_does_nothing_is_said(named: dict[str, Any], said: list[str]) -> None:
    """Of a strategy that is not chosen, and `shards` in a crawl."""
    assert Settings.of(named).idle() == said


def test_what_is_said_to_do_nothing_are_the_settings_that_name_a_strategy_themselves() -> None:
    """Save `base_delay`: the rule about requests at once, which all strategies have, goes by it."""
    fields = PacingSettings.model_fields
    every = PacingSettings(
        **{name: info.default for name, info in fields.items() if name != "rules"} | {"enabled": False}
    )
    named = [
        name for name, info in fields.items()
        if re.search(r"\((gauge|linear|aimd|fibonacci|fixed)\)", info.description or "") and name != "base_delay"
    ]  # fmt: skip
    assert [name for name, _ in every.idle()] == ["pacing", *named]


LOGIN = {"http_proxy": "http://p:1", "http_proxy_username": "me", "http_proxy_password": "old"}


@pytest.mark.parametrize(
    "here",
    [
        {"http_proxy": "http://p:1", "http_proxy_username": "me", "http_proxy_password": "x"},
        {"http_proxy": "http://q:1", "http_proxy_username": "you"},
        {"http_proxy": "none", "ca_file": "/here.pem"},
    ],
    ids=["the same proxy", "another proxy", "no proxy"],
)
def test_a_proxy_and_authorities_are_those_of_here_never_those_of_a_file(here: dict[str, str]) -> None:
    stored = Settings.of({**LOGIN, "max_rate": 3, "no_proxy": "*", "allow_private": "10.0.0.0/8"}).given()
    assert "old" not in str(stored)
    found = Settings.taken_up(stored, Settings.of(here))
    assert found.fetching == Settings.of(here).fetching
    assert found.pacing.max_rate == 3


@pytest.mark.parametrize("name", ["http_proxy", "ca_file"])
def test_a_job_that_had_a_proxy_or_authorities_is_not_taken_up_without_a_word_of_them(name: str) -> None:
    stored = Settings.of({"http_proxy": "http://evil.test:1", "ca_file": "evil.pem"}).given()
    other = {"http_proxy": "none", "ca_file": "none"}
    del other[name]
    with pytest.raises(SettingsError, match="never taken from a file") as refused:
        Settings.taken_up(stored, Settings.of(other))
    assert f"--{name.replace('_', '-')}" in (refused.value.hint or "")


def test_what_a_job_keeps_that_differs_from_here_is_known() -> None:
    job = Settings.of({"respect_robots_txt": False, "max_rate": 50, "http_proxy": "http://p:1"})
    assert job.differences(Settings()) == [("max_rate", 50, 8), ("respect_robots_txt", False, True)]


STORED: list[tuple[str, dict[str, Any], dict[str, Any], tuple[str, ...], set[str]]] = [
    ("known", {"max_rate": 3}, {"max_rate": 3}, (), set()),
    ("renamed", {"dns_threads": 4, "max_rate": 3}, {"dns_lookups": 4, "max_rate": 3}, (), set()),
    ("by both names", {"dns_threads": 4, "dns_lookups": 9}, {"dns_lookups": 9}, (), set()),
    ("gone", {"warp_speed": 9, "max_rate": 3}, {"max_rate": 3}, ("warp_speed",), set()),
    ("renamed, out of range", {"dns_threads": 10**9}, {}, (), {"dns_lookups"}),
    ("a value that means nothing", {"max_rate": [], "no_proxy": "*"}, {}, (), {"max_rate"}),
    ("a rule for nobody", {"rules": {"*a.test": {"delay": 1}}, "max_rate": 3}, {"max_rate": 3}, (), {"rules"}),
]


@pytest.mark.parametrize(
    ("stored", "kept", "unknown", "refused"), [row[1:] for row in STORED], ids=[row[0] for row in STORED]
)
def test_what_another_version_stored_is_carried_over_or_to_be_said_anew(
    stored: dict[str, Any], kept: dict[str, Any], unknown: tuple[str, ...], refused: set[str]
) -> None:
    found = Settings.readable(stored)
    assert (found.kept, found.unknown, set(found.refused)) == (kept, unknown, refused)
    if refused:
        with pytest.raises(SettingsError, match="refused today") as error:
            Settings.taken_up(stored)
        assert "amble resume FILE" in (error.value.hint or "")
    else:
        assert Settings.taken_up(stored) == Settings.of(kept)


CLASH = {"min_crawl_delay": 20, "max_crawl_delay": 10}
REPAIRS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("another rule", {"rules": {"*a.test": {}}, "max_rate": 3}, {"rules": '{"*.a.test": {"delay": 1}}'},
     {"rules": {"*.a.test": {"delay": 1}}, "max_rate": 3}),
    ("no rule", {"rules": {"*a.test": {}}}, {"rules": {}}, {"rules": {}}),
    ("one of two that clash", CLASH, {"min_crawl_delay": 5}, {"min_crawl_delay": 5, "max_crawl_delay": 10}),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "repairs", "made"), [row[1:] for row in REPAIRS], ids=[row[0] for row in REPAIRS])
def test_a_job_whose_settings_are_refused_today_is_taken_up_with_repaired_ones(
    stored: dict[str, Any], repairs: dict[str, Any], made: dict[str, Any]
) -> None:
    assert Settings.taken_up(stored, repairs=repairs) == Settings.of(made)


@pytest.mark.parametrize(
    ("stored", "repairs", "said"),
    [
        ({"max_rate": 3}, {"max_rate": 9}, "keeps its max_rate"),
        ({"rules": {"*a.test": {}}, "max_rate": 3}, {"rules": {}, "max_rate": 9}, "keeps its max_rate"),
        ({"rules": {"*a.test": {}}}, {"rules": {"b.*": {}}}, "not understood"),
        (CLASH, {"min_crawl_delay": 15}, "refused today: min_crawl_delay is above max_crawl_delay"),
        ({"max_rate": []}, {"warp_speed": 9}, "unknown setting"),
    ],
)
def test_nothing_but_what_is_refused_is_said_anew(stored: dict[str, Any], repairs: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Settings.taken_up(stored, repairs=repairs)


def test_reports_read_what_they_can_of_the_settings_of_a_job() -> None:
    """They send nothing, so a proxy that nobody named here and a setting that is refused today do not stop them."""
    stored = {"http_proxy": "http://p:1", "rules": {"*a.test": {}}, "max_rate": 3, "warp_speed": 9}
    assert Settings.as_stored(stored) == Settings.of({"max_rate": 3})
    assert Settings.as_stored(CLASH) == Settings()
