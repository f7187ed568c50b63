"""What servers say outright about their limits, in the forms of the drafts and of the older habit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.quota import LONGEST_RESET_S, Quota, read_quota

UTC_NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
EPOCH = int(UTC_NOW.timestamp())

FORMS: list[tuple[str, dict[str, str], Quota | None]] = [
    # -- the draft in force: two structured lists
    ("named policy", {"ratelimit": '"default";r=50;t=30'}, Quota(50, 30)),
    (
        "with its policy",
        {"ratelimit": '"default";r=50;t=30', "ratelimit-policy": '"default";q=100;w=60'},
        Quota(50, 30, 100, 60),
    ),
    ("token instead of string", {"ratelimit": "default;r=50;t=30"}, Quota(50, 30)),
    ("blanks and order", {"ratelimit": ' "d" ; t=30 ; r=50 '}, Quota(50, 30)),
    ("unknown parameters", {"ratelimit": '"d";r=50;pk=:dHJ1c3Q=:;t=30;qu="requests"'}, Quota(50, 30)),
    (
        "no reset, the window stands in",
        {"ratelimit": '"d";r=50', "ratelimit-policy": '"d";q=100;w=60'},
        Quota(50, 60, 100, 60),
    ),
    (
        "the tightest of several",
        {"ratelimit": '"hour";r=900;t=3000, "second";r=1;t=1, "minute";r=2;t=50'},
        Quota(2, 50),
    ),
    (
        "policies found by name",
        {"ratelimit": '"b";r=5;t=10', "ratelimit-policy": '"a";q=1;w=60, "b";q=9;w=20'},
        Quota(5, 10, 9, 20),
    ),
    ("an exhausted quota", {"ratelimit": '"d";r=0;t=30'}, Quota(0, 30)),
    ("a day's quota resets within the hour", {"ratelimit": '"d";r=50;t=86400'}, Quota(50, LONGEST_RESET_S)),
    ("no reset anywhere", {"ratelimit": '"d";r=50'}, None),
    ("no remaining", {"ratelimit": '"d";t=30'}, None),
    ("reset zero", {"ratelimit": '"d";r=50;t=0'}, None),
    ("negative", {"ratelimit": '"d";r=-5;t=30'}, None),
    ("fractions are no integers", {"ratelimit": '"d";r=5.5;t=30'}, None),
    ("empty", {"ratelimit": ""}, None),
    ("garbage", {"ratelimit": ';;;r=,,"'}, None),
    ("sixteen digits", {"ratelimit": '"d";r=5;t=9999999999999999'}, None),
    # -- counted in something else than requests
    ("bytes are no requests", {"ratelimit": '"d";r=50;t=30;qu="content-bytes"'}, None),
    (
        "bytes by the policy",
        {"ratelimit": '"d";r=50;t=30', "ratelimit-policy": '"d";q=100;w=60;qu="content-bytes"'},
        None,
    ),
    ("a unit nobody knows", {"ratelimit": '"d"; r=50; t=30; qu = "x-points"'}, None),
    ("a unit without quotes", {"ratelimit": '"d";qu=concurrent-requests;r=50;t=30'}, None),
    (
        "requests by name",
        {"ratelimit": '"d";r=50;t=30', "ratelimit-policy": '"d";q=100;qu="requests";w=60'},
        Quota(50, 30, 100, 60),
    ),
    (
        "requests beside bytes",
        {
            "ratelimit": '"bytes";r=1;t=30, "calls";r=50;t=30',
            "ratelimit-policy": '"bytes";q=9;w=60;qu="content-bytes", "calls";q=100;w=60',
        },
        Quota(50, 30, 100, 60),
    ),
    # -- the drafts before it
    ("flat dictionary", {"ratelimit": "limit=100, remaining=50, reset=30"}, Quota(50, 30)),
    ("flat, other order", {"ratelimit": "reset=30,remaining=50"}, Quota(50, 30)),
    ("flat without reset", {"ratelimit": "limit=100, remaining=50"}, None),
    (
        "separate fields",
        {"ratelimit-limit": "100, 100;w=60", "ratelimit-remaining": "50", "ratelimit-reset": "30"},
        Quota(50, 30),
    ),
    # -- the habit before any draft
    ("X- with seconds", {"x-ratelimit-remaining": "50", "x-ratelimit-reset": "30"}, Quota(50, 30)),
    ("X- with an epoch", {"x-ratelimit-remaining": "50", "x-ratelimit-reset": str(EPOCH + 30)}, Quota(50, 30)),
    (
        "X- with an epoch in milliseconds",
        {"x-ratelimit-remaining": "50", "x-ratelimit-reset": str((EPOCH + 30) * 1000)},
        Quota(50, 30),
    ),
    (
        "X-Rate-Limit, with a second hyphen",
        {"x-rate-limit-remaining": "50", "x-rate-limit-reset": "30"},
        Quota(50, 30),
    ),
    ("fractions of a second", {"x-ratelimit-remaining": "50", "x-ratelimit-reset": "0.5"}, Quota(50, 0.5)),
    ("lists, the first counts", {"x-ratelimit-remaining": "50, 900", "x-ratelimit-reset": "30, 3000"}, Quota(50, 30)),
    ("X-, a day's quota", {"x-ratelimit-remaining": "50", "x-ratelimit-reset": "86400"}, Quota(50, LONGEST_RESET_S)),
    ("an epoch gone by", {"x-ratelimit-remaining": "50", "x-ratelimit-reset": str(EPOCH - 1)}, None),
    ("reset now", {"x-ratelimit-remaining": "50", "x-ratelimit-reset": "0"}, None),
    ("reset as a date", {"x-ratelimit-remaining": "50", "x-ratelimit-reset": "Sun, 01 Mar 2026"}, None),
    ("remaining unreadable", {"x-ratelimit-remaining": "many", "x-ratelimit-reset": "30"}, None),
    ("remaining negative", {"x-ratelimit-remaining": "-1", "x-ratelimit-reset": "30"}, None),
    ("reset missing", {"x-ratelimit-remaining": "50"}, None),
    ("fullwidth digits", {"x-ratelimit-remaining": "５０", "x-ratelimit-reset": "30"}, None),
    ("no such headers", {"date": "x"}, None),
    # -- which counts
    (
        "the draft before the habit",
        {"ratelimit": '"d";r=5;t=10', "x-ratelimit-remaining": "50", "x-ratelimit-reset": "30"},
        Quota(5, 10),
    ),
]


@pytest.mark.parametrize(("headers", "quota"), [row[1:] for row in FORMS], ids=[row[0] for row in FORMS])
def test_the_quota_in_the_headers(headers: dict[str, str], quota: Quota | None) -> None:
    assert read_quota(headers, UTC_NOW) == quota


RATES = [
    # story                                    quota                    in flight   rate
    ("spend what is left until the reset", Quota(50, 25), 1, 2.0),
    ("those under way spend some of it", Quota(50, 25), 26, 1.0),
    ("the policy binds before the rest does", Quota(50, 25, 10, 10), 1, 1.0),
    ("the policy is wider than the rest", Quota(5, 10, 100, 10), 1, 0.5),
    ("nothing left for anyone", Quota(3, 10), 9, 0.0),
    ("half a policy is none", Quota(50, 25, 10, None), 1, 2.0),
]


@pytest.mark.parametrize(("quota", "in_flight", "rate"), [row[1:] for row in RATES], ids=[row[0] for row in RATES])
def test_the_rate_that_spends_exactly_what_is_left(quota: Quota, in_flight: int, rate: float) -> None:
    assert quota.rate(in_flight) == pytest.approx(rate)


def test_a_policy_of_no_requests_or_no_time_is_garbage() -> None:
    """A server that announces `q=0` while it serves would otherwise stop its crawl for ever."""
    for policy in ('"d";q=0;w=60', '"d";q=100;w=0'):
        quota = read_quota({"ratelimit": '"d";r=50;t=25', "ratelimit-policy": policy}, UTC_NOW)
        assert quota is not None
        assert quota.rate(1) == pytest.approx(2.0), policy


NAMES = st.sampled_from(["ratelimit", "ratelimit-policy"]) | st.builds(
    "{}{}".format,
    st.sampled_from(["ratelimit-", "x-ratelimit-", "x-rate-limit-"]),
    st.sampled_from(["limit", "remaining", "reset"]),
)
VALUES = (
    st.text(max_size=60)
    | st.from_regex(r'"?[a-z]{0,3}"?(;[rtqw]=\d{1,17}){0,3}', fullmatch=True)
    | st.integers().map(str)
)


@given(st.dictionaries(NAMES, VALUES))
def test_no_header_can_raise_and_every_quota_is_sane(headers: Mapping[str, str]) -> None:
    quota = read_quota(headers, UTC_NOW)
    if quota is not None:
        assert quota.remaining >= 0
        assert 0 < quota.reset_s <= LONGEST_RESET_S
        assert 0 <= quota.rate(1) < math.inf
        assert quota.remaining == 0 or quota.rate(1) > 0
