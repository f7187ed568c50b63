"""Whom the lines of a robots.txt address."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amble.core.robots.parse import parse, product_token
from tests.core.robots.oracle import allows, rules_for
from tests.core.robots.timing import cpu_s


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("amble/1.0 (+https://example.com/bot)", "amble"),
        ("amble", "amble"),
        ("Foo-Bar_Bot 2.0", "Foo-Bar_Bot"),
        ("Mozilla/5.0 (compatible; ExampleBot/0.1; +https://example.com/bot)", "ExampleBot"),
        ("Mozilla/5.0 (X11; Linux x86_64; compatible; ExampleBot/0.1)", "ExampleBot"),
        ("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla"),
        ("1bot", ""),
        ("", ""),
    ],
)
def test_the_token_is_the_name_in_the_user_agent(user_agent: str, token: str) -> None:
    assert product_token(user_agent) == token
    assert product_token(token) == token


def disallows(body: str, token: str, path: str = "/x") -> bool:
    return not allows(body.encode(), token, f"http://a.test{path}")


@pytest.mark.parametrize(
    ("body", "disallowed"),
    [
        pytest.param("user-agent: amble\ndisallow: /", True, id="named"),
        pytest.param("user-agent: AMBLE\ndisallow: /", True, id="case does not matter"),
        pytest.param("user-agent: amble/2.0\ndisallow: /", True, id="version ignored"),
        pytest.param("user-agent: ambler\ndisallow: /", False, id="another name that begins alike"),
        pytest.param("user-agent: amb\ndisallow: /", False, id="a beginning of the name"),
        pytest.param("user-agent: *\ndisallow: /", True, id="everyone"),
        pytest.param("user-agent: * please\ndisallow: /", True, id="everyone, with words behind the star"),
        pytest.param("user-agent: *x\ndisallow: /", False, id="a star that is part of a word"),
        pytest.param("disallow: /\nuser-agent: amble\nallow: /", False, id="rules before any group"),
        pytest.param("user-agent: *\ndisallow: /\n\nuser-agent: amble\ndisallow:", False, id="ours replaces the other"),
        pytest.param("user-agent: amble\n\nuser-agent: *\ndisallow: /", True, id="empty lines end no group"),
        pytest.param("user-agent: *\ndisallow: /\nuser-agent: amble", False, id="an empty group of ours replaces too"),
        pytest.param("user-agent: amble\nuser-agent: b\ndisallow: /", True, id="several names, one group"),
        pytest.param("user-agent: amble\nallow: /y\nuser-agent: b\ndisallow: /", False, id="a rule ends the names"),
        pytest.param(
            "user-agent: amble\nsitemap: /s\ncrawl-delay: 1\nhost: h\nuser-agent: b\ndisallow: /",
            True,
            id="other lines do not end the names",
        ),
        pytest.param(
            "user-agent: amble\nallow: /x\nuser-agent: b\nallow: /\nuser-agent: amble\ndisallow: /x/",
            False,
            id="groups of one name are merged",
        ),
        pytest.param("user-agent: amble\nuser-agent: *\ndisallow: /", True, id="ours and everyone's in one group"),
    ],
)
def test_which_group_is_ours(body: str, disallowed: bool) -> None:
    assert disallows(body, "amble") is disallowed


def delays_of(body: str, token: str) -> list[bytes]:
    return [line.value for line in parse(body.encode()).group_for(token).extras]


@pytest.mark.parametrize(
    ("token", "delays"), [("slurp", [b"10"]), ("amble", [b"1"]), ("other", [b"2", b"3"]), ("both", [b"4"])]
)
def test_a_delay_is_for_those_named_since_the_last_one(token: str, delays: list[bytes]) -> None:
    """B8: for rules Slurp and everyone else are one group here; the delay of 10 is Slurp's alone."""
    body = """
        user-agent: slurp
        crawl-delay: 10
        user-agent: *
        disallow: /cgi
        crawl-delay: 2
        user-agent: amble
        crawl-delay: 1
        user-agent: both
        user-agent: other-two
        crawl-delay: 4
        user-agent: *
        crawl-delay: 3
    """
    assert delays_of(body, token) == delays


def test_sitemaps_are_for_everyone_wherever_they_stand() -> None:
    body = "sitemap: http://a.test/1\nuser-agent: b\ndisallow: /\nSite-Map: /2\nsitemap:http://a.test/3?x=é"
    assert parse(body.encode()).sitemaps == ["http://a.test/1", "/2", "http://a.test/3?x=é"]


def test_a_name_that_is_not_ascii_is_nobodys() -> None:
    assert not disallows("user-agent: bot\ndisallow: /", "BOT\u212a")
    assert not disallows("user-agent: k\ndisallow: /", "\u212a")  # the Kelvin sign, a k in lower case


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "empty lines": lambda n: b"\n" * n,
    "short unknown lines": lambda n: b"a:\n" * (n // 3),
    "groups": lambda n: b"user-agent:x\ndisallow:/\n" * (n // 25),
    "names": lambda n: b"".join(b"user-agent:%06x\n" % i for i in range(n // 18)),
    "rules": lambda n: b"user-agent:*\n" + b"".join(b"disallow:/*%06x*x\n" % i for i in range(n // 19)),
    "one line": lambda n: b"disallow:/" + b"*a" * (n // 2),
    "escapes": lambda n: b"user-agent:*\ndisallow:/" + b"%aa" * (n // 3),
    "octets": lambda n: (b"user-agent:*\ndisallow:/" + b"\xe3" * 15_000 + b"\n") * (n // 15_000),
    "colons": lambda n: b":" * n,
    "spaces": lambda n: b"a" + b" " * n + b"b c",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_parsing_is_linear_in_the_file(name: str) -> None:
    """B2: ten times the file, nowhere near a hundred times the work."""
    small, large = (HOSTILE[name](size) for size in (50_000, 500_000))
    assert cpu_s(lambda: rules_for(large, "amble"), runs=3) < 40 * max(
        cpu_s(lambda: rules_for(small, "amble"), runs=3), 1e-5
    )
