"""The settings as one: flat names, one owner each, the page that documents them."""

from __future__ import annotations

from pathlib import Path

import pytest

from amble.core.answer import Answer
from amble.core.pacing.bounds import Bounds
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


def test_without_pacing_only_what_the_server_asks_for_holds() -> None:
    bounds = Bounds(PacingSettings(enabled=False, max_rate=1, min_crawl_delay=9), None, lambda: 0.5)
    pace = Pace("a.test", bounds, 0.0)
    permits = [pace.reserve(0.0) for _ in range(50)]
    assert all(isinstance(permit, Permit) for permit in permits)
    assert isinstance(permits[0], Permit)
    pace.settle(permits[0], Answer(429, retry_after_s=30.0), 1.0)
    refused = pace.reserve(20.0)
    assert isinstance(refused, float)
    assert refused > 31.0


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


@pytest.mark.parametrize(
    ("stored", "kept", "dropped"),
    [
        ({"max_rate": 3}, {"max_rate": 3}, ()),
        ({"dns_threads": 4, "max_rate": 3}, {"dns_lookups": 4, "max_rate": 3}, ()),
        ({"dns_threads": 4, "dns_lookups": 9}, {"dns_lookups": 9}, ()),
        ({"warp_speed": 9, "max_rate": 3}, {"max_rate": 3}, ("warp_speed",)),
        ({"dns_threads": 10**9}, {}, ("dns_threads",)),
        ({"max_rate": [], "no_proxy": "*"}, {}, ("max_rate",)),
    ],
    ids=["known", "renamed", "by both names", "gone", "renamed, out of range", "a value that means nothing"],
)
def test_what_another_version_stored_is_carried_over_or_left_out(
    stored: dict[str, object], kept: dict[str, object], dropped: tuple[str, ...]
) -> None:
    assert Settings.readable(stored) == (kept, dropped)
    assert Settings.taken_up(stored) == Settings.of(kept)
