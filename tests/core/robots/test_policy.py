"""B4: what the answer to a request for robots.txt means."""

from __future__ import annotations

import json

import pytest

from amble.core.outcome import Failure
from amble.core.robots.policy import ALLOW_ALL, Access, RobotsAnswer, Terms, access_of, policy_of, read_policy
from amble.errors import SettingsError
from tests.conformance import conformance

URL = "https://a.test/robots.txt"
AMBLE = Terms("amble")


@pytest.mark.parametrize(
    ("status", "access"),
    [
        (200, Access.SUCCESSFUL),
        (204, Access.SUCCESSFUL),
        (206, Access.SUCCESSFUL),
        (301, Access.UNREACHABLE),  # a redirect that could not be followed
        (304, Access.UNCHANGED),
        (400, Access.UNAVAILABLE),
        (401, Access.UNAVAILABLE),
        (403, Access.UNAVAILABLE),
        (404, Access.UNAVAILABLE),
        (410, Access.UNAVAILABLE),
        (429, Access.UNREACHABLE),
        (451, Access.UNAVAILABLE),
        (500, Access.UNREACHABLE),
        (503, Access.UNREACHABLE),
        (599, Access.UNREACHABLE),
        (999, Access.UNREACHABLE),
        (100, Access.UNREACHABLE),
        (None, Access.UNREACHABLE),
    ],
)
def test_a_status_is_one_of_the_results_of_rfc_9309(status: int | None, access: Access) -> None:
    assert access_of(status) is access


SPOKEN_BY_STATUS = {Failure.HTTP_CLIENT_ERROR, Failure.HTTP_SERVER_ERROR, Failure.HTTP_RATE_LIMITED}


@pytest.mark.parametrize("failure", sorted(set(Failure) - SPOKEN_BY_STATUS - {Failure.TOO_MANY_REDIRECTS}))
def test_whatever_kept_the_file_from_us_allows_nothing(failure: Failure) -> None:
    """P5: not even where a status was seen before the transfer failed."""
    assert access_of(200, failure) is Access.UNREACHABLE
    assert policy_of(RobotsAnswer(200, failure, b"user-agent: *\nallow: /"), URL, AMBLE) is None


def test_too_many_redirects_are_as_good_as_no_file() -> None:
    assert access_of(None, Failure.TOO_MANY_REDIRECTS) is Access.UNAVAILABLE


@pytest.mark.parametrize(("status", "access"), [(404, Access.UNAVAILABLE), (503, Access.UNREACHABLE)])
def test_failures_that_repeat_the_status_add_nothing(status: int, access: Access) -> None:
    for failure in SPOKEN_BY_STATUS:
        assert access_of(status, failure) is access


def test_a_file_that_was_found_but_not_read_is_unreachable() -> None:
    assert RobotsAnswer(200, body=None).access is Access.UNREACHABLE
    assert RobotsAnswer(200, body=b"").access is Access.SUCCESSFUL
    assert RobotsAnswer(204, body=None).access is Access.SUCCESSFUL


def test_crawler_commons_defers_and_allows_alike() -> None:
    rows = json.loads(conformance("robots/crawler_commons_failed_fetch.json").read_text())
    for row in rows:
        access = access_of(row["status"])
        assert (access is Access.UNREACHABLE) is row["defer"] is row["allow_none"], row
        assert (access is Access.UNAVAILABLE) is row["allow_all"], row
    assert len(rows) == 22


def test_no_file_allows_everything_at_the_default_pace() -> None:
    policy = policy_of(RobotsAnswer(404, body=b"user-agent: *\ndisallow: /\ncrawl-delay: 9"), URL, AMBLE)
    assert policy is not None
    assert policy.refusal("/x") is None
    assert policy.crawl_delay_s is None


def test_a_file_is_read_for_us() -> None:
    body = b"""\xef\xbb\xbfuser-agent: amble
        disallow: /private
        crawl-delay: 1,5
        request-rate: 1/4
        content-signal: ai-train=no
        sitemap: https://a.test/s.xml
        sitemap: /relative.xml
        sitemap: ftp://a.test/s.xml
        sitemap: https://a.test/s.xml#again
        sitemap: https://b.test/other.xml
        sitemap:"""
    policy = read_policy(body, URL, Terms("amble", "ai-train"))
    assert policy.refusal("/private/x") == "disallowed by robots.txt"
    assert policy.refusal("/public") == "Content-Signal refuses the purpose of this crawl"
    assert read_policy(body, URL, AMBLE).refusal("/public") is None
    assert policy.crawl_delay_s == 4.0
    assert policy.sitemaps == ("https://a.test/s.xml", "https://a.test/relative.xml", "https://b.test/other.xml")
    assert policy.usage.lines == ("Content-Signal: ai-train=no",)


def test_robots_txt_itself_is_always_allowed() -> None:
    policy = read_policy(b"user-agent: *\ndisallow: /", URL, AMBLE)
    assert policy.refusal("/robots.txt") is None
    assert policy.refusal("/robots.txt.bak") is not None


@pytest.mark.parametrize(
    "body",
    [
        b"<!doctype html><title>404</title><p>user-agent: *</p>",
        b"\0" * 5_000,
        "user-agent: *\ndisallow: /".encode("utf-16"),
    ],
    ids=["html", "NUL", "UTF-16"],
)
def test_what_is_no_robots_txt_disallows_nothing(body: bytes) -> None:
    """B3: as Google reads it."""
    assert read_policy(body, URL, AMBLE).refusal("/x") is None


def test_a_user_agent_without_a_name_is_refused() -> None:
    with pytest.raises(SettingsError, match="has no name"):
        Terms.of("123 (+https://example.com)")


@pytest.mark.parametrize("body", [b"", b"user-agent: *\ndisallow:\n", b"user-agent: other\ndisallow: /\n"])
def test_files_that_ask_for_nothing_share_one_policy(body: bytes) -> None:
    assert read_policy(body, URL, AMBLE) is ALLOW_ALL


@pytest.mark.parametrize("line", [b"disallow: /x", b"crawl-delay: 2", b"sitemap: /s.xml", b"content-usage: train-ai=n"])
def test_files_that_ask_for_anything_do_not(line: bytes) -> None:
    assert read_policy(b"user-agent: *\n" + line, URL, AMBLE) is not ALLOW_ALL
