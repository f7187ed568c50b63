"""Redirects that wait [C9]."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.page.refresh import Refresh, parse_refresh, read_refresh
from amble.core.urls import Base
from tests.conformance import conformance

PAGE = Base.at("https://a.test/dir/page")


def test_wpt_cases() -> None:
    cases = json.loads(conformance("html/wpt_meta_refresh.json").read_text("utf-8"))
    assert len(cases) >= 73
    for case in cases:
        expected = None
        if case["expected"]:
            delay_s, name = case["expected"]
            url = PAGE.url if name == "__filename__" else PAGE.join(name)
            assert isinstance(url, str)
            expected = Refresh(delay_s, url)
        assert read_refresh(case["input"], PAGE, PAGE) == expected, case


@pytest.mark.parametrize(
    ("content", "refresh"),
    [
        ("0;url=//b.test/", Refresh(0, "https://b.test/")),
        ("5; URL = 'x' y", Refresh(5, "https://a.test/dir/x")),
        ("007", Refresh(7, PAGE.url)),
        ("000", Refresh(0, PAGE.url)),
        (".5;x", Refresh(0, "https://a.test/dir/x")),
        ("1;", Refresh(1, PAGE.url)),
        ("1;url=", Refresh(1, PAGE.url)),
        ("9" * 5000, Refresh(10**9, PAGE.url)),
        ("0;url=javascript:alert(1)", None),
        ("0;url=data:text/html,x", None),
        ("0;url=http://[", None),
        ("", None),
        ("soon", None),
        ("-1;url=x", None),
    ],
)
def test_refreshes(content: str, refresh: Refresh | None) -> None:
    assert read_refresh(content, PAGE, PAGE) == refresh


def test_the_url_is_resolved_against_the_base() -> None:
    assert read_refresh("0;x", PAGE, Base.at("https://b.test/y/")) == Refresh(0, "https://b.test/y/x")
    assert read_refresh("0", PAGE, Base.at("https://b.test/y/")) == Refresh(0, PAGE.url)


@given(st.text(" \t\n;,.0123456789url='\"x"))
def test_any_content_is_read(content: str) -> None:
    said = parse_refresh(content)
    assert said is None or said.delay_s >= 0
