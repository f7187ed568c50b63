"""Settings that defend themselves, and what the environment may say."""

from __future__ import annotations

from typing import Any

import pytest

from amble.errors import SettingsError
from amble.fetcher import Fetcher, FetcherSettings, proxy_from_environment


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"http_timeout": 0}, "http_timeout"),
        ({"http_timeout": float("nan")}, "http_timeout"),
        ({"http_timeout": float("inf")}, "http_timeout"),
        ({"connect_timeout_s": -1}, "connect_timeout_s"),
        ({"max_response_bytes": 0}, "max_response_bytes"),
        ({"max_response_bytes": 10**12}, "max_response_bytes"),
        ({"max_total_connections": 0}, "max_total_connections"),
        ({"user_agent": "x\r\nX-Evil: y"}, "user_agent"),
        ({"user_agent": ""}, "user_agent"),
        ({"user_agent": "é"}, "user_agent"),
        ({"from_address": "a\nb"}, "from_address"),
        ({"http_proxy": "socks5://a:1"}, "http_proxy"),
        ({"http_proxy": "http://user:pw@a:1"}, "http_proxy"),
        ({"http_proxy": "http://a:99999"}, "http_proxy"),
        ({"http_proxy": "http://a"}, "http_proxy"),
        ({"http_proxy_username": "me"}, "http_proxy"),
        ({"http_proxy": "http://a:1", "http_proxy_password": "x"}, "http_proxy_username"),
        ({"http_timout": 3}, "http_timeout"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(wanted: dict[str, Any], named: str) -> None:
    """E2."""
    with pytest.raises(SettingsError) as refused:
        FetcherSettings(**wanted)
    assert named in str(refused.value)
    assert refused.value.hint


def test_a_password_is_not_shown() -> None:
    wanted: dict[str, Any] = {
        "http_proxy": "http://a:1",
        "http_proxy_username": "me",
        "http_proxy_password": "hush",
    }
    assert "hush" not in repr(FetcherSettings(**wanted))


def test_a_ca_file_must_exist() -> None:
    with pytest.raises(SettingsError):
        Fetcher(FetcherSettings(ca_file="no/such/file.pem"))


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("http://Proxy.test:8080/", "http://proxy.test:8080"),
        ("a:1", "http://a:1"),
        ("http://[::1]:1", "http://[::1]:1"),
    ],
)
def test_proxies_are_written_in_one_way(written: str, kept: str) -> None:
    assert FetcherSettings(http_proxy=written).http_proxy == kept


@pytest.mark.parametrize(
    ("host", "goes_around"),
    [
        ("a.test", True),
        ("x.a.test", True),
        ("xa.test", False),
        ("b.test", True),
        ("y.b.test", True),
        ("a.test.evil", False),
        ("10.0.0.1", True),
    ],
)
def test_who_goes_around_the_proxy(host: str, goes_around: bool) -> None:
    wanted: dict[str, Any] = {"http_proxy": "http://p:1", "no_proxy": "a.test,.B.test 10.0.0.1"}
    settings = FetcherSettings(**wanted)
    assert (settings.proxy_for(host) is None) is goes_around


@pytest.mark.parametrize(
    ("environ", "settings"),
    [
        ({}, {}),
        ({"no_proxy": "a"}, {}),
        ({"http_proxy": ""}, {}),
        ({"http_proxy": "http://p:1"}, {"http_proxy": "http://p:1"}),
        ({"https_proxy": "p:1"}, {"http_proxy": "http://p:1"}),
        ({"HTTP_PROXY": "http://evil:1"}, {}),
        (
            {"HTTPS_PROXY": "http://u%40x:p%3Aw@p:1", "NO_PROXY": "a, b"},
            {
                "http_proxy": "http://p:1",
                "http_proxy_username": "u@x",
                "http_proxy_password": "p:w",
                "no_proxy": "a, b",
            },
        ),
    ],
    ids=["nothing", "no_proxy alone", "empty", "http", "https without scheme", "httpoxy", "with a login"],
)
def test_the_environment_becomes_settings(environ: dict[str, str], settings: dict[str, Any]) -> None:
    """D7."""
    assert proxy_from_environment(environ) == settings
    FetcherSettings(**settings)
