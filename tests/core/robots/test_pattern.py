"""How paths are spelled and when a pattern matches one."""

from __future__ import annotations

import pytest
from hypothesis import example, given

from amble.core.robots.match import escape, escape_path, path_in, path_of
from amble.core.urls import normalize, parse
from tests.core.robots.grammar import patterns, urls
from tests.core.robots.oracle import matches


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://a.test/x/y?q=1#z", "/x/y?q=1"),
        ("http://a.test", "/"),
        ("http://a.test?q", "/?q"),
        ("http://a.test;p", "/;p"),
        ("http://a.test#/x", "/"),
        ("http://a.test/x?to=http://b.test/", "/x?to=http://b.test/"),
        ("//a.test/x", "/x"),
        ("a.test/x", "/x"),
        ("", "/"),
        ("http://a.test/x\0y", "/x"),
    ],
)
def test_rules_speak_of_path_and_query(url: str, path: str) -> None:
    assert path_of(url) == path


@given(urls)
def test_a_path_always_starts_with_a_slash(url: str) -> None:
    path = path_of(url)
    assert path.startswith("/")
    assert "#" not in path


@given(urls)
@example("http://a.test?q=/x")
@example("http://a.test:80/x")
@example("https:///a.test/x")
@example("http://u:p@a.test\\x#/y")
def test_what_has_passed_the_gate_needs_no_search_for_its_path(url: str) -> None:
    passed = normalize(url)
    parts = parse(passed) if isinstance(passed, str) else None
    assert parts is None or f"{parts.protocol}//{parts.host}{path_in(parts.href)}" == parts.href


@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        (b"/plain*$", "/plain*$"),
        ("/é".encode(), "/%C3%A9"),
        (b"/%c3%a9", "/%C3%A9"),
        (b"/%C3%A9", "/%C3%A9"),
        (b"/100%", "/100%"),
        (b"/%zz%a", "/%zz%a"),
        (b"/%%aa", "/%%AA"),
        (b"/\xff%f\xe9", "/%FF%f%E9"),
        (b"/a%2fb", "/a%2Fb"),  # the octet stays escaped: %2F is not a slash
    ],
)
def test_patterns_have_one_spelling(value: bytes, pattern: str) -> None:
    assert escape(value) == pattern


@given(patterns)
def test_spelling_again_changes_nothing(value: bytes) -> None:
    once = escape(value)
    assert once.isascii()
    assert escape(once.encode()) == once == escape_path(once)


def test_a_path_is_spelled_as_the_pattern_for_the_same_octets() -> None:
    assert escape_path("/%e3%83%84") == escape("/ツ".encode()) == escape_path("/ツ")


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/fish", "/fish.html", True),
        ("/fish", "/catfish", False),
        ("/fish", "/Fish", False),
        ("/fish$", "/fish", True),
        ("/fish$", "/fish/", False),
        ("/fish*", "/fish", True),
        ("/*.php", "/x/y.php?z", True),
        ("/*.php$", "/x/y.php", True),
        ("/*.php$", "/x/y.php?z", False),
        ("/*.php$", "/x.php/y.php", True),
        ("/a*bc*c", "/abc", False),
        ("/a*bc*c", "/abcc", True),
        ("/ab*b$", "/ab", False),
        ("*", "/", True),
        ("*$", "/x", True),
        ("/*$", "/x", True),
        ("$", "/", False),
        ("/$x", "/$x", True),
        ("/x$$", "/x$", True),
        ("/x$$", "/x", False),
        ("", "/x", True),
        ("x", "/x", False),
        ("/**a**", "/ba", True),
    ],
)
def test_star_and_dollar(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected
