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


@pytest.mark.parametrize(
    ("here", "password"),
    [
        ({}, None),
        ({"http_proxy": "http://p:1", "http_proxy_username": "me", "http_proxy_password": "x"}, "x"),
        ({"http_proxy": "http://q:1", "http_proxy_username": "me", "http_proxy_password": "x"}, None),
        ({"http_proxy": "http://p:1", "http_proxy_username": "you", "http_proxy_password": "x"}, None),
    ],
    ids=["none here", "for this login", "for another proxy", "for another login"],
)
def test_a_password_is_not_stored_and_goes_to_no_other_proxy(here: dict[str, str], password: str | None) -> None:
    login = {"http_proxy": "http://p:1", "http_proxy_username": "me", "http_proxy_password": "old"}
    stored = Settings.of(login).given()
    assert "old" not in str(stored)
    found = Settings.taken_up(stored, Settings.of(here)).fetching.http_proxy_password
    assert (found.get_secret_value() if found else None) == password
