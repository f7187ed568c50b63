"""What a robots.txt means however it is spelled, and whom its lines about use address."""

from __future__ import annotations

import pytest

from amble.core.robots.match import decode_unreserved, escape_path
from amble.core.robots.policy import Terms, read_policy

URL = "https://a.test/robots.txt"


@pytest.mark.parametrize(
    ("rule", "path", "allowed"),
    [
        ("/foo/bar/%62%61%7A", "/foo/bar/baz", False),
        ("/foo/bar/baz", "/foo/bar/%62%61%7A", False),
        ("/foo/bar/%62%61%7a", "/foo/bar/%62%61%7A", False),
        ("/%7Ejoe", "/~joe", False),
        ("/a%2Db%5f", "/a-b_", False),
        ("/a%2Fb", "/a/b", True),  # a slash in a name is no slash between names
        ("/a%2Ab", "/axb", True),  # nor a star in a name a wildcard
        ("/a%2Ab", "/a%2ab", False),
        ("/%E3%83%84", "/%e3%83%84", False),
    ],
)
def test_a_percent_encoded_path_is_the_path_it_means(rule: str, path: str, allowed: bool) -> None:
    """RFC 9309 2.2.2."""
    policy = read_policy(f"User-agent: *\nDisallow: {rule}\n".encode(), URL, Terms("amble"))
    assert (policy.refusal(decode_unreserved(escape_path(path))) is None) is allowed


@pytest.mark.parametrize("line", ["Content-Signal: ai-train=no", "Content-Usage: train-ai=n"])
def test_lines_about_use_before_the_first_group_count_for_everyone(line: str) -> None:
    text = f"{line}\nUser-agent: *\nDisallow: /x\nUser-agent: amble\nDisallow: /y\n"
    policy = read_policy(text.encode(), URL, Terms("amble", "ai-train"))
    assert policy.refusal("/page") is not None
    assert policy.usage.lines == (line,)


def test_a_content_signal_may_name_a_path() -> None:
    text = b"User-agent: *\nContent-Signal: /art ai-train=no\nContent-Signal: /art/free ai-train=yes\n"
    policy = read_policy(text, URL, Terms("amble", "ai-train"))
    assert [policy.refusal(path) is None for path in ("/", "/art", "/art/1", "/art/free/1")] == [
        True,
        False,
        False,
        True,
    ]


def test_a_crawl_delay_before_the_first_group_addresses_nobody() -> None:
    assert read_policy(b"Crawl-delay: 9\nUser-agent: *\nDisallow: /x\n", URL, Terms("amble")).crawl_delay_s is None
