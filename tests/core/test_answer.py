"""What is read out of a response, and what is left unread."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core import headers as fields_of
from amble.core.answer import TELLING, Answer, Headers, read_answer
from amble.core.outcome import Failure
from amble.core.quota import Quota

UTC_NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
EPOCH = int(UTC_NOW.timestamp())
DATE = ("Date", "Sun, 01 Mar 2026 12:00:00 GMT")

READ: list[tuple[str, int, Headers, Answer]] = [
    ("nothing of interest", 200, {"Content-Type": "text/html"}, Answer(200)),
    ("no headers at all", 200, {}, Answer(200)),
    ("429", 429, {"Retry-After": "5"}, Answer(429, retry_after_s=5.0)),
    ("503", 503, {"retry-after": "5"}, Answer(503, retry_after_s=5.0)),
    ("301", 301, {"RETRY-AFTER": "5"}, Answer(301, retry_after_s=5.0)),
    ("200 does not mean come back later", 200, {"Retry-After": "5"}, Answer(200)),
    ("404 neither", 404, {"Retry-After": "5"}, Answer(404)),
    ("garbage is as absent", 429, {"Retry-After": "soon"}, Answer(429)),
    ("two headers", 429, [("Retry-After", "5"), ("retry-after", "9")], Answer(429, retry_after_s=9.0)),
    (
        "two headers, the longer first",
        429,
        [("Retry-After", "9"), ("retry-after", "5")],
        Answer(429, retry_after_s=9.0),
    ),
    (
        "a date by the server's clock",
        429,
        [("Retry-After", "Sun, 01 Mar 2026 12:00:07 GMT"), DATE],
        Answer(429, retry_after_s=7.0),
    ),
    ("quota", 200, {"RateLimit": '"d";r=5;t=10'}, Answer(200, quota=Quota(5, 10))),
    (
        "quota of the old habit",
        200,
        {"X-RateLimit-Remaining": "5", "X-RateLimit-Reset": "10"},
        Answer(200, quota=Quota(5, 10)),
    ),
    ("a quota out of a cache", 200, {"Age": "30", "RateLimit": '"d";r=0;t=10'}, Answer(200)),
    (
        "out of a cache, the old habit, other order",
        200,
        {"X-RateLimit-Remaining": "5", "X-RateLimit-Reset": "10", "age": " 1 "},
        Answer(200),
    ),
    ("of no age", 200, {"Age": "0", "RateLimit": '"d";r=5;t=10'}, Answer(200, quota=Quota(5, 10))),
    ("of an age that is none", 200, {"Age": "old", "RateLimit": '"d";r=5;t=10'}, Answer(200, quota=Quota(5, 10))),
    ("a Retry-After out of a cache", 429, {"Age": "30", "Retry-After": "5"}, Answer(429, retry_after_s=5.0)),
    ("an age alone", 200, {"Age": "30"}, Answer(200)),
    ("half a quota", 200, {"X-RateLimit-Limit": "5"}, Answer(200)),
    ("challenge by Cloudflare", 403, {"CF-Mitigated": "Challenge "}, Answer(403, challenge=True)),
    ("challenge by AWS", 202, {"x-amzn-waf-action": "challenge"}, Answer(202, challenge=True)),
    ("captcha by AWS", 405, {"x-amzn-waf-action": "captcha"}, Answer(405, challenge=True)),
    ("other words in those headers", 200, {"cf-mitigated": "none", "x-amzn-waf-action": "allow"}, Answer(200)),
]


@pytest.mark.parametrize(("status", "headers", "answer"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_what_a_response_says(status: int, headers: Headers, answer: Answer) -> None:
    assert read_answer(status=status, headers=headers, utc=UTC_NOW) == answer


def test_a_failure_has_neither_status_nor_headers() -> None:
    answer = read_answer(failure=Failure.NETWORK_TIMEOUT, elapsed_s=30.0, utc=UTC_NOW)
    assert answer == Answer(failure=Failure.NETWORK_TIMEOUT, elapsed_s=30.0)


@pytest.mark.parametrize("our_clock_off", [timedelta(days=-1), timedelta(0), timedelta(days=1)], ids=str)
@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        ([("Retry-After", "90")], Answer(429, retry_after_s=90.0)),
        ([("Retry-After", "Sun, 01 Mar 2026 12:01:30 GMT")], Answer(429, retry_after_s=90.0)),
        ([("Retry-After", str(EPOCH + 90))], Answer(429, retry_after_s=90.0)),
        ([("X-RateLimit-Remaining", "5"), ("X-RateLimit-Reset", str(EPOCH + 90))], Answer(429, quota=Quota(5, 90))),
        ([("X-RateLimit-Remaining", "5"), ("X-RateLimit-Reset", "90")], Answer(429, quota=Quota(5, 90))),
    ],
    ids=["seconds", "date", "epoch", "quota epoch", "quota seconds"],
)
def test_our_clock_does_not_matter_where_the_server_tells_its_own(
    headers: list[tuple[str, str]], answer: Answer, our_clock_off: timedelta
) -> None:
    """T1, F3."""
    assert read_answer(status=429, headers=[*headers, DATE], utc=UTC_NOW + our_clock_off) == answer


_NAMES = ["Retry-After", "Date", "Age", "RateLimit", "X-RateLimit-Reset", "X-RateLimit-Remaining", "cf-mitigated"]
_FIELDS = st.lists(
    st.tuples(st.sampled_from(_NAMES) | st.text(max_size=20), st.text(max_size=60) | st.integers(0).map(str))
)


@given(st.sampled_from([200, 404, 429, 503]), _FIELDS)
def test_headers_without_a_telling_name_say_nothing(status: int, fields: list[tuple[str, str]]) -> None:
    untold = [(name, value) for name, value in fields if not fields_of.Headers([(name, value)]).has_any(TELLING)]
    assert read_answer(status=status, headers=untold, utc=UTC_NOW) == Answer(status)


@given(st.integers(0, 999), _FIELDS)
def test_no_response_can_raise(status: int, headers: list[tuple[str, str]]) -> None:
    answer = read_answer(status=status, headers=headers, utc=UTC_NOW)
    assert answer.retry_after_s is None or answer.retry_after_s > 0
