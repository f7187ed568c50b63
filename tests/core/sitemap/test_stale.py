"""When a page is fetched again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.sitemap.document import ChangeFreq, is_stale

NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

HOURS = [
    (ChangeFreq.ALWAYS, 0),
    (ChangeFreq.HOURLY, 1),
    (ChangeFreq.DAILY, 24),
    (ChangeFreq.WEEKLY, 168),
    (ChangeFreq.MONTHLY, 720),
    (ChangeFreq.YEARLY, 8760),
    (ChangeFreq.NEVER, 87600),
    (None, 168),
]


@pytest.mark.parametrize(("changefreq", "hours"), HOURS, ids=[str(row[0]) for row in HOURS])
def test_a_page_falls_due_exactly_when_its_changefreq_says(changefreq: ChangeFreq | None, hours: int) -> None:
    due = NOW - hours * HOUR
    assert is_stale(due, None, changefreq, NOW)
    later = due + timedelta(microseconds=1)
    assert is_stale(later, None, changefreq, NOW) is (hours == 0)


STORIES = [
    # story, crawled, lastmod, changefreq, stale (times as hours before now)
    ("never crawled", None, 5, ChangeFreq.NEVER, True),
    ("changed since", 10, 5, ChangeFreq.NEVER, True),
    ("changed at the very moment", 10, 10, ChangeFreq.NEVER, False),
    ("unchanged, not due", 10, 20, ChangeFreq.DAILY, False),
    ("unchanged, yet due", 30, 40, ChangeFreq.DAILY, True),
    ("said to change within the day: a zone left out", 10, -20, ChangeFreq.NEVER, True),
    ("said to change next year: says nothing", 10, -8760, ChangeFreq.NEVER, False),
    ("crawled by a clock that ran ahead", -5, None, ChangeFreq.HOURLY, False),
    ("always, crawled by a clock that ran ahead", -5, None, ChangeFreq.ALWAYS, True),
]


@pytest.mark.parametrize(
    ("crawled", "lastmod", "changefreq", "stale"), [row[1:] for row in STORIES], ids=[row[0] for row in STORIES]
)
def test_lastmod_decides_first_then_changefreq(
    crawled: int | None, lastmod: int | None, changefreq: ChangeFreq, stale: bool
) -> None:
    def ago(hours: int | None) -> datetime | None:
        return None if hours is None else NOW - hours * HOUR

    assert is_stale(ago(crawled), ago(lastmod), changefreq, NOW) is stale


moments = st.timedeltas(timedelta(days=-9000), timedelta(days=9000)).map(lambda gap: NOW + gap)
changefreqs = st.sampled_from([row[0] for row in HOURS])
gaps = st.timedeltas(timedelta(0), timedelta(days=5000))


@given(crawled_at=moments, age=gaps, more=gaps, changefreq=changefreqs, lastmod=st.none() | moments)
def test_what_is_stale_stays_stale_until_it_is_crawled(
    crawled_at: datetime, age: timedelta, more: timedelta, changefreq: ChangeFreq | None, lastmod: datetime | None
) -> None:
    now = crawled_at + age
    if is_stale(crawled_at, lastmod, changefreq, now):
        assert is_stale(crawled_at, lastmod, changefreq, now + more)


@given(crawled_at=moments, age=gaps, changefreq=changefreqs, before=gaps)
def test_a_lastmod_no_newer_than_the_crawl_changes_nothing(
    crawled_at: datetime, age: timedelta, changefreq: ChangeFreq | None, before: timedelta
) -> None:
    now = crawled_at + age
    assert is_stale(crawled_at, crawled_at - before, changefreq, now) is is_stale(crawled_at, None, changefreq, now)


@given(crawled_at=moments, age=gaps, lastmod=st.none() | moments)
def test_the_rarer_the_changes_the_later_the_visit(
    crawled_at: datetime, age: timedelta, lastmod: datetime | None
) -> None:
    verdicts = [is_stale(crawled_at, lastmod, changefreq, crawled_at + age) for changefreq in ChangeFreq]
    assert verdicts == sorted(verdicts, reverse=True)
