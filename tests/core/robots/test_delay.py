"""B8: how long a site asks us to wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.robots.parse import crawl_delay_s, parse, read_delay_s, read_rate_s


@pytest.mark.parametrize(
    ("text", "delay_s"),
    [
        ("10", 10.0),
        ("0", 0.0),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1,5", 1.5),
        ("+3", 3.0),
        ("2s", 2.0),
        ("2 sec", 2.0),
        ("3 seconds", 3.0),
        ("500ms", 0.5),
        ("1m", 60.0),
        ("2 minutes", 120.0),
        ("1h", 3600.0),
        ("86400", 86_400.0),
        ("1e2", 100.0),
        ("10 please", 10.0),
        ("10; 20", 10.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("1e309", None),
        ("9" * 400, None),
        ("１２", None),  # full-width digits
    ],
)
def test_a_crawl_delay_is_a_finite_number_of_seconds(text: str, delay_s: float | None) -> None:
    assert read_delay_s(text) == delay_s


@pytest.mark.parametrize(
    ("text", "delay_s"),
    [
        ("1/5", 5.0),
        ("1/5s", 5.0),
        ("1 / 5", 5.0),
        ("2/1", 0.5),
        ("30/1m", 2.0),
        ("20/1h", 180.0),
        ("1/s", 1.0),
        ("1/m", 60.0),
        ("10/10 minutes", 60.0),
        ("1/10 0600-0845", 10.0),
        ("0/5", None),
        ("5", None),
        ("/5", None),
        ("1/-5", None),
        ("1/0", 0.0),
        ("1/1e309", None),
        ("", None),
    ],
)
def test_a_request_rate_is_a_delay_between_requests(text: str, delay_s: float | None) -> None:
    assert read_rate_s(text) == pytest.approx(delay_s)


@given(st.text(max_size=30) | st.from_regex(r"\A[0-9.,e/smh +-]{0,20}\Z"))
def test_whatever_is_written_the_delay_is_finite(text: str) -> None:
    for delay_s in (read_delay_s(text), read_rate_s(text)):
        assert delay_s is None or 0 <= delay_s < float("inf")


@pytest.mark.parametrize(
    ("lines", "delay_s"),
    [
        pytest.param("crawl-delay: 2\nrequest-rate: 1/5", 5.0, id="the stricter of both"),
        pytest.param("request-rate: 1/5\ncrawl-delay: 20", 20.0, id="the stricter of both, reversed"),
        pytest.param("crawl-delay: 2\ncrawl-delay: 7\ncrawl-delay: 3", 7.0, id="the longest of several"),
        pytest.param("crawl-delay: 10 # seconds", 10.0, id="comment"),
        pytest.param("crawl-delay: -5\ncrawl-delay: nan", None, id="nothing but nonsense"),
        pytest.param("disallow: /x", None, id="none"),
    ],
)
def test_a_group_asks_for_one_delay(lines: str, delay_s: float | None) -> None:
    group = parse(f"user-agent: *\n{lines}\nuser-agent: other\ncrawl-delay: 99".encode()).group_for("amble")
    assert crawl_delay_s(group.extras) == delay_s


def test_our_group_replaces_the_delay_of_everyone() -> None:
    group = parse(b"user-agent: *\ncrawl-delay: 5\n\nuser-agent: amble\ndisallow: /x").group_for("amble")
    assert crawl_delay_s(group.extras) is None
