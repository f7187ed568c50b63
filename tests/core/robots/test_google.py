"""Judged by Google: the cases of its own test suite, and its parser itself where it is installed (jwm.robotstxt)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amble.core.robots.match import escape, path_of
from amble.core.robots.parse import Kind, parse, product_token, read_lines
from tests.conformance import conformance
from tests.core.robots.grammar import AGENTS, bodies, urls
from tests.core.robots.oracle import allows, rules_for

REP = {Kind.USER_AGENT, Kind.ALLOW, Kind.DISALLOW, Kind.SITEMAP}


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in conformance(f"robots/{name}").read_text().splitlines()]


def body_of(row: dict[str, Any]) -> bytes:
    return base64.b64decode(row["robots_b64"]) if "robots_b64" in row else str(row["robots"]).encode()


def test_googles_verdicts() -> None:
    cases = rows("google_robots_test_cc.jsonl")
    wrong = [case for case in cases if allows(body_of(case), case["ua"], case["url"]) != case["allowed"]]
    assert not wrong
    assert len(cases) == 145


def test_googles_product_tokens() -> None:
    for case in rows("google_valid_user_agent.jsonl"):
        assert (product_token(case["ua"]) == case["ua"] != "") is case["valid"], case


def test_googles_lines() -> None:
    for case in json.loads(conformance("robots/google_parse_stats.json").read_text()):
        lines = list(read_lines(body_of(case)))
        known = [line for line in lines if line.kind in REP]
        assert case.get("valid", len(known)) == len(known), case["name"]
        assert case.get("unknown", len(lines) - len(known)) == len(lines) - len(known), case["name"]
        assert case.get("last_line", lines[-1].number) == lines[-1].number, case["name"]
        assert case.get("sitemap") in (*parse(body_of(case)).sitemaps, None), case["name"]


def test_googles_spelling() -> None:
    helpers = json.loads(conformance("robots/google_helpers.json").read_text())
    assert [path_of(url) for url, _ in helpers["path_params_query"]] == [
        path for _, path in helpers["path_params_query"]
    ]
    assert [escape(text.encode()) for text, _ in helpers["escape_pattern"]] == [
        pattern for _, pattern in helpers["escape_pattern"]
    ]


@pytest.fixture(scope="module")
def google() -> Any:
    """Google's own C++ parser. It has no wheels for every Python, so it is no dependency of the tests."""
    return pytest.importorskip("jwm.robotstxt.googlebot", reason="Google's parser (jwm.robotstxt) is not installed")


@settings(max_examples=2_000, deadline=None)
@given(body=bodies, agent=st.sampled_from(AGENTS), tried=st.lists(urls, min_size=1, max_size=6))
def test_files_with_every_kind_of_flaw_are_read_as_google_reads_them(
    google: Any, body: bytes, agent: str, tried: list[str]
) -> None:
    rules = rules_for(body, agent)
    for url in tried:
        expected = google.RobotsMatcher().OneAgentAllowedByRobots(body, agent, url)
        assert rules.allows(path_of(url)) is expected, url
