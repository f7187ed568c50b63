"""Dates as sitemaps and feeds write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.sitemap.dates import YEAR_MAX, YEAR_MIN, parse_date

DATES = [
    # text, (year, month, day, hour, minute, second) in UTC
    ("2024", (2024, 1, 1)),
    ("2024-05", (2024, 5, 1)),
    ("2024-05-06", (2024, 5, 6)),
    ("2024-5-6", (2024, 5, 6)),
    ("20240506", (2024, 5, 6)),
    ("2024-05-06T07:08Z", (2024, 5, 6, 7, 8)),
    ("2024-05-06T07:08:09Z", (2024, 5, 6, 7, 8, 9)),
    ("2024-05-06t07:08:09z", (2024, 5, 6, 7, 8, 9)),
    ("2024-05-06T07:08:09+00:00", (2024, 5, 6, 7, 8, 9)),
    ("2024-05-06T07:08:09+02:00", (2024, 5, 6, 5, 8, 9)),
    ("2024-05-06T07:08:09-0230", (2024, 5, 6, 9, 38, 9)),
    ("2024-05-06T07:08:09+02", (2024, 5, 6, 5, 8, 9)),
    ("2024-05-06 07:08:09", (2024, 5, 6, 7, 8, 9)),
    ("2024-05-06T07:08:09", (2024, 5, 6, 7, 8, 9)),
    ("2024-05-06 07:08:09 UTC", (2024, 5, 6, 7, 8, 9)),
    ("2024-05-06 07:08:09 +0200", (2024, 5, 6, 5, 8, 9)),
    ("2024-05-06T7:08Z", (2024, 5, 6, 7, 8)),
    ("2024-01-01T00:30:00+01:00", (2023, 12, 31, 23, 30)),
    ("2024-02-29", (2024, 2, 29)),
    ("Mon, 06 May 2024 07:08:09 GMT", (2024, 5, 6, 7, 8, 9)),
    ("Mon, 6 May 2024 07:08:09 +0200", (2024, 5, 6, 5, 8, 9)),
    ("Mon, 06 May 2024 07:08:09 -0000", (2024, 5, 6, 7, 8, 9)),
    ("Mon, 06 May 2024 07:08 EST", (2024, 5, 6, 12, 8)),
    ("Mon, 06 May 2024 07:08:09 PDT", (2024, 5, 6, 14, 8, 9)),
    ("06 May 24 07:08:09 Z", (2024, 5, 6, 7, 8, 9)),
    ("06 May 99 07:08:09 UT", (1999, 5, 6, 7, 8, 9)),
    ("Monday, 06-May-24 07:08:09 GMT", (2024, 5, 6, 7, 8, 9)),
    ("Mon, 06 September 2024 07:08:09 GMT", (2024, 9, 6, 7, 8, 9)),
]

NO_DATES = [
    "", "now", "yesterday", "2024-13-01", "2024-02-30", "2023-02-29", "2024-05-06T25:00:00Z", "2024-05-06T07:61Z",
    "9999-12-31", "0001-01-01", "1969-12-31", "2100-01-01", "24-05-06", "06/05/2024", "1714979289", "2024-05-06T",
    "2024-05-06T07:08:09+99:00", "2024-05-06T07:08:09 XYZ", "06 May 2024 07:08:09", "Mon, 06 Foo 2024 07:08:09 GMT",
    "Mon, 06 May 2024 07:08:09 A", "٢٠٢٤-٠٥-٠٦", "2024-05-06" + "0" * 1000, "{{ date }}", "None", "-2024",
]  # fmt: skip


@pytest.mark.parametrize(("text", "parts"), DATES, ids=[row[0] for row in DATES])
def test_a_date_names_an_instant_in_utc(text: str, parts: tuple[int, ...]) -> None:
    date = parse_date(text)
    assert date == datetime(*(parts + (0,) * (6 - len(parts))), tzinfo=UTC)  # type: ignore[arg-type, misc]
    assert date is not None
    assert date.utcoffset() == timedelta(0)


@pytest.mark.parametrize("text", NO_DATES, ids=[text[:30] for text in NO_DATES])
def test_b13_what_is_no_plausible_date_is_nothing(text: str) -> None:
    assert parse_date(text) is None


zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(timezones=zones).map(
    lambda moment: moment.replace(year=YEAR_MIN + 1 + moment.year % (YEAR_MAX - YEAR_MIN - 1), day=min(moment.day, 28))
)


@given(moments)
def test_every_moment_survives_both_ways_of_writing_it(moment: datetime) -> None:
    moment = moment.replace(microsecond=0)
    assert parse_date(moment.isoformat()) == moment
    assert parse_date(moment.strftime("%a, %d %b %Y %H:%M:%S %z")) == moment


@given(st.text(alphabet="0123456789-:TZ+. ,MayMonGT", max_size=40))
def test_no_text_raises_and_no_date_is_naive(text: str) -> None:
    date = parse_date(text)
    assert date is None or (date.tzinfo is UTC and YEAR_MIN - 1 <= date.year <= YEAR_MAX + 1)
