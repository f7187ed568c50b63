"""Every form of Retry-After that servers send, and what it may never be taken for [F4]."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amble.core.retry_after import HONOURED_ON, LONGEST_S, http_date, retry_after_s

UTC_NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
DATE = "Sun, 01 Mar 2026 12:00:00 GMT"
A_DAY_LATE = UTC_NOW + timedelta(days=1)

FORMS = [
    # story                                          header                                      seconds asked for
    ("seconds", "120", 120.0),
    ("one second", "1", 1.0),
    ("blanks around", " \t30 ", 30.0),
    ("leading zeros", "007", 7.0),
    ("very many leading zeros", "0" * 20 + "7", 7.0),
    ("zero is absent, not 'at once'", "0", None),
    ("many zeros", "0" * 20, None),
    ("negative", "-1", None),
    ("fraction", "1.5", None),
    ("plus sign", "+5", None),
    ("fullwidth digits", "１２０", None),
    ("superscript digits", "²", None),
    ("arabic-indic digits", "٣٠", None),
    ("underscore", "1_000", None),
    ("hexadecimal", "0x10", None),
    ("exponent", "1e3", None),
    ("not a number", "NaN", None),
    ("infinity", "inf", None),
    ("empty", "", None),
    ("blank", "  ", None),
    ("words", "soon", None),
    ("unit", "120 s", None),
    ("two values merged into one", "120, 5", None),
    ("a day", "86400", 86_400.0),
    ("more than a year is a year", "999999999", LONGEST_S),
    ("10^12", "1000000000000", LONGEST_S),
    ("a hundred digits", "9" * 100, LONGEST_S),
    ("epoch seconds", str(int(UTC_NOW.timestamp()) + 90), 90.0),
    ("epoch seconds in the past", str(int(UTC_NOW.timestamp()) - 90), None),
    ("IMF-fixdate", "Sun, 01 Mar 2026 12:01:30 GMT", 90.0),
    ("RFC 850", "Sunday, 01-Mar-26 12:01:30 GMT", 90.0),
    ("asctime", "Sun Mar  1 12:01:30 2026", 90.0),
    ("another zone's time", "Sun, 01 Mar 2026 07:01:30 -0500", 90.0),
    ("leap second", "Sun, 01 Mar 2026 12:00:60 GMT", 59.0),
    ("this very second", DATE, None),
    ("past date", "Sun, 01 Mar 2026 11:59:59 GMT", None),
    ("the epoch", "Thu, 01 Jan 1970 00:00:00 GMT", None),
    ("far date", "Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_S),
    ("31 February", "Sat, 31 Feb 2026 12:00:00 GMT", None),
    ("25 o'clock", "Sun, 01 Mar 2026 25:00:00 GMT", None),
    ("a year beyond any calendar", "Fri, 31 Dec 99999999999999999999 23:59:59 GMT", None),
    ("ISO 8601 is no HTTP date", "2026-03-01T12:01:30Z", None),
    ("a date too long to be one", "Sun, 01 Mar 2026 12:01:30 GMT" + " " * 40 + "x", None),
]


@pytest.mark.parametrize(("text", "seconds"), [row[1:] for row in FORMS], ids=[row[0] for row in FORMS])
def test_the_seconds_a_header_asks_for(text: str, seconds: float | None) -> None:
    assert retry_after_s(text, date=DATE, utc=UTC_NOW) == seconds


@pytest.mark.parametrize(
    "text", ["Sun, 01 Mar 2026 12:01:30 GMT", str(int(UTC_NOW.timestamp()) + 90)], ids=["date", "epoch"]
)
@pytest.mark.parametrize("our_clock_off", [timedelta(days=-1), timedelta(0), timedelta(days=1)], ids=str)
def test_instants_are_judged_by_the_clock_of_the_server(text: str, our_clock_off: timedelta) -> None:
    """F3: our own clock may be a day off; the answer's `Date` says what the server's clock says."""
    assert retry_after_s(text, date=DATE, utc=UTC_NOW + our_clock_off) == 90.0


@pytest.mark.parametrize("date", [None, "", "yesterday", "Fri, 31 Dec 99999999999999999999 23:59:59 GMT"])
def test_without_a_readable_date_our_own_clock_must_do(date: str | None) -> None:
    assert retry_after_s("Sun, 01 Mar 2026 12:01:30 GMT", date=date, utc=UTC_NOW) == 90.0


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        (["5", "120"], 120.0),
        (["120", "5"], 120.0),
        (["garbage", "5"], 5.0),
        (["5", "Sun, 01 Mar 2026 12:01:30 GMT"], 90.0),
        (["garbage", "0"], None),
        ([], None),
    ],
    ids=str,
)
def test_of_two_headers_the_longer_wait_holds(values: list[str], seconds: float | None) -> None:
    assert retry_after_s(values, date=DATE, utc=UTC_NOW) == seconds


@pytest.mark.parametrize("status", [300, 301, 399, 429, 503])
def test_on_these_statuses_it_means_come_back_later(status: int) -> None:
    assert status in HONOURED_ON


@pytest.mark.parametrize("status", [200, 202, 299, 400, 403, 404, 500, 502, 504])
def test_on_others_it_means_nothing(status: int) -> None:
    assert status not in HONOURED_ON


@given(st.text(max_size=80), st.none() | st.text(max_size=80))
@example("Mon, 01 Jan 2030 00:00:00 +99999999999999999999", None)
@example("Mon, 01 Jan 0001 00:00:00 +2300", None)
@example("Fri, 31 Dec 9999 23:59:59 -2300", None)
def test_no_header_can_raise_and_none_means_no_wait(text: str, date: str | None) -> None:
    seconds = retry_after_s(text, date=date, utc=UTC_NOW)
    assert seconds is None or 0 < seconds <= LONGEST_S


@given(st.text(alphabet="SunMoJaFebGT0123456789:,+- ", max_size=64))
def test_no_near_date_can_raise(text: str) -> None:
    seconds = retry_after_s(text, date=text, utc=UTC_NOW)
    assert seconds is None or 0 < seconds <= LONGEST_S


@given(st.integers(1, 10**9 - 1))
def test_plain_seconds_are_taken_as_they_are_up_to_a_year(seconds: int) -> None:
    assert retry_after_s(str(seconds), date=None, utc=UTC_NOW) == min(seconds, LONGEST_S)


@given(st.integers(0, 3_124_223_999), st.sampled_from(["imf", "rfc850", "asctime"]))  # up to 2068: two-digit years
def test_the_three_forms_of_a_date_are_one_instant(epoch: int, form: str) -> None:
    when = datetime.fromtimestamp(epoch, UTC)
    text = {
        "imf": format_datetime(when, usegmt=True),
        "rfc850": when.strftime("%A, %d-%b-%y %H:%M:%S GMT"),
        "asctime": when.strftime("%a %b %e %H:%M:%S %Y"),
    }[form]
    assert http_date(text) == when
