"""Receipts checked: what an audit finds, what it shows to the owner of a site, and how long it takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from amble.core.robots.verdict import RobotsRow
from amble.report.audit import VIOLATIONS_MAX, audit
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, RequestRow
from amble.testing.farm import Pages, Site
from amble.testing.farm.exchange import html
from amble.testing.lab.servers import LogNormal
from tests.sql.web import FAST, Paths, web

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    with DuckDBStore.open(tmp_path / "x.duckdb") as opened:
        opened.create_job("pages", {"user_agent": "walker/1.0"}, [], NOON)
        yield opened


def receipt(second: float, required_s: float = 1.0, actual_s: float | None = 1.0, **more: Any) -> RequestRow:
    """A request so many seconds after noon."""
    named: dict[str, Any] = {"url": f"http://a.test/{second:g}", "rule": "crawl_delay", "domain": "a.test", **more}
    return RequestRow(
        job_id=named.pop("job_id", 1), session=named.pop("session", 1), permit=named.pop("permit", 1),
        reserved_s=second, started_s=second,
        started_at=NOON + timedelta(seconds=second), required_gap_s=required_s, actual_gap_s=actual_s, **named,
    )  # fmt: skip


def put(store: DuckDBStore, *receipts: RequestRow, robots: tuple[RobotsRow, ...] = ()) -> None:
    store.submit(Batch(requests=receipts, robots=robots), urgent=True).result()


def robots(second: float, body: bytes | None, origin: str = "http://a.test", status: int = 200) -> RobotsRow:
    return RobotsRow(origin, status, body, fetched_at=NOON + timedelta(seconds=second))


# -- gaps


@pytest.mark.parametrize(
    ("story", "receipts", "broken"),
    [
        ("gaps that were kept", [receipt(0, 1, None), receipt(1), receipt(2.5, 1, 1.5)], []),
        ("a gap that was too short", [receipt(0, 1, None), receipt(0.9, 1, 0.9)], ["crawl_delay"]),
        ("less than a millisecond is rounding", [receipt(0, 1, None), receipt(0.9995, 1, 0.9995)], []),
        ("a receipt that states more than its instants show", [receipt(0, 1, None), receipt(0.5, 1, 1.0)], ["receipt"]),
        ("a receipt that claims to be the first", [receipt(0, 1, None), receipt(0.5, 1, None)], ["receipt"]),
        ("another run has another clock", [receipt(0, 1, None), receipt(0.5, 1, None, session=2)], []),
        ("what another job sent makes a gap shorter, never longer", [receipt(0, 0, None), receipt(9, 1, 2.0)], []),
    ],
)
def test_an_audit_finds_what_was_sent_too_early(
    store: DuckDBStore, story: str, receipts: list[RequestRow], broken: list[str]
) -> None:
    put(store, *receipts)
    found = audit(store.database.connect())
    assert [violation.rule for violation in found.violations] == broken, story
    assert found.violation_count == len(broken)
    assert ("no rule was broken" in found.as_text()) == (not broken)


def told(permit: int, second: float, until: float, in_flight: int, most: int | None, **more: Any) -> RequestRow:
    """A request that was under way for so long."""
    return receipt(
        second, 0, None, permit=permit, ended_s=until, in_flight=in_flight, at_once_max=most, rule="none", **more
    )


AT_ONCE: list[tuple[str, list[RequestRow], list[str]]] = [
    ("one after the other", [told(1, 0, 1, 1, 1), told(2, 1, 2, 1, 1)], []),
    ("two where two might be", [told(1, 0, 2, 1, 2), told(2, 1, 3, 2, 2)], []),
    (
        "a receipt that states too many", [told(1, 0, 2, 1, 1), told(2, 1, 3, 2, 1)],
        ["2 requests under way at once, where 1 might be"],
    ),
    (
        "receipts that state fewer than their instants show",
        [told(1, 0, 9, 1, 2), told(2, 1, 9, 2, 2), told(3, 2, 9, 1, 2)],
        ["3 requests under way at once, where 2 might be; its receipt states 1"],
    ),
    ("the limit fell while more were under way", [told(1, 0, 9, 1, 3), told(2, 1, 9, 2, 3), told(3, 2, 3, 3, 3),
                                                 told(4, 9, 10, 1, 1)], []),
    ("one that is sent after whom it had overtaken", [told(2, 1, 5, 2, 2), told(1, 2, 5, 1, 1)], []),
    ("what was never sent is under way for no time", [told(1, 0, 0, 1, 1), told(2, 0, 1, 1, 1)], []),
    ("another run has another clock", [told(1, 0, 9, 1, 1), told(1, 1, 9, 1, 1, session=2)], []),
    ("older receipts do not state it", [told(1, 0, 9, 1, None), told(2, 1, 9, 2, None)], []),
    ("others are under way elsewhere", [told(1, 0, 9, 1, 1), told(1, 1, 9, 1, 1, domain="b.test")], []),
]  # fmt: skip


@pytest.mark.parametrize(("receipts", "broken"), [row[1:] for row in AT_ONCE], ids=[row[0] for row in AT_ONCE])
def test_an_audit_checks_the_cap_on_requests_at_once_from_receipts_that_state_it(
    store: DuckDBStore, receipts: list[RequestRow], broken: list[str]
) -> None:
    put(store, *receipts)
    found = audit(store.database.connect())
    assert [(violation.rule, violation.text) for violation in found.violations] == [
        ("at_once", each) for each in broken
    ]
    assert found.violation_count == len(broken)
    assert found.by_domain[0].violations == len(broken)
    assert audit(store.database.connect(), "b.test").violation_count == 0


def test_the_receipts_of_a_crawl_state_how_many_might_be_under_way(tmp_path: Path) -> None:
    """And keep to it, which the instants prove."""
    site = Site(name="a.test", pages=Pages(30), latency=LogNormal(0.05, 0.1))
    with web(site, path=tmp_path / "y.duckdb") as (farm, con):
        con.execute(
            f"CRAWL (SELECT '{farm.url('a.test')}') INTO pages WITH (follow_links = true, max_parallel_per_domain = 3, "
            "pacing = 'fixed', fixed_delay = 0, max_rate = 'unlimited')"
        )
        rows = con.execute(
            "SELECT any_value(at_once_max), max(in_flight), min(ended_s - started_s) > 0 FROM amble.requests"
        ).fetchall()
        assert rows == [(3, 3, True)]
        assert con.execute("SELECT count(*) > 1 FROM amble.requests WHERE in_flight > 1").fetchall() == [(True,)]
    with DuckDBStore.open(tmp_path / "y.duckdb") as opened:
        assert audit(opened.database.connect()).violations == ()
        opened.database.connect().execute("UPDATE amble.requests SET at_once_max = 2")
        assert {violation.rule for violation in audit(opened.database.connect()).violations} == {"at_once"}


FIRST = receipt(0, 6, None)


@pytest.mark.parametrize(
    ("story", "receipts", "after_s"),
    [
        ("a run that came too soon after the one before", [FIRST, receipt(2.2, 6, None, session=2)], [2.2]),
        ("one that waited", [FIRST, receipt(6.1, 6, None, session=2)], []),
        ("give or take a clock", [FIRST, receipt(5.1, 6, None, session=2)], []),
        ("the last request before it counts", [FIRST, receipt(9, 6, 9), receipt(12, 6, None, session=2)], [3]),
        ("only its first request", [FIRST, receipt(7, 6, None, session=2), receipt(13, 6, 6, session=2)], []),
        ("a first request that had nothing to keep", [FIRST, receipt(2, 0, None, session=2)], []),
        ("one that knew of the request before it", [FIRST, receipt(2, 6, 7.0, session=2)], []),
        ("whom nobody had asked", [FIRST, receipt(2, 6, None, session=2, domain="b.test")], []),
        ("the very first of all", [receipt(2, 6, None)], []),
    ],
)
def test_a_gap_is_kept_from_one_run_to_the_next(
    store: DuckDBStore, story: str, receipts: list[RequestRow], after_s: list[float]
) -> None:
    put(store, *receipts)
    found = audit(store.database.connect())
    assert [each.actual_gap_s for each in found.violations] == pytest.approx(after_s), story
    assert found.violation_count == len(after_s)
    assert all(each.rule == "crawl_delay" and "run before" in each.text for each in found.violations)
    assert audit(store.database.connect(), "a.test").violation_count == len(after_s)


def test_the_smallest_margin_and_what_set_the_gaps_are_told_per_domain(store: DuckDBStore) -> None:
    put(
        store,
        receipt(0, 0, None, rule="none"),
        receipt(1.25, 1, 1.25, in_flight=2),
        receipt(3, 1, 1.75, status=429),
        receipt(0, 0, None, rule="none", domain="b.test", url="http://b.test/"),
    )
    found = audit(store.database.connect())
    assert (found.requests, found.domains, found.smallest_margin_s) == (4, 2, 0.25)
    one, other = found.by_domain
    assert (one.domain, one.requests, one.refusals, one.at_once) == ("a.test", 3, 1, 2)
    assert (one.smallest_gap_s, one.smallest_margin_s) == (1.25, 0.25)
    assert one.rules == {"crawl_delay": 2, "none": 1}
    assert other.smallest_margin_s is None
    alone = audit(store.database.connect(), "http://b.test/page")
    assert [domain.domain for domain in alone.by_domain] == ["b.test"]
    assert alone.requests == 1


def test_many_violations_are_all_counted_and_the_worst_are_kept(store: DuckDBStore) -> None:
    put(store, *(receipt(10.0 * n, 2, n / 1000) for n in range(1_500)))
    found = audit(store.database.connect())
    assert found.violation_count == 1_500
    early = [violation for violation in found.violations if violation.rule == "crawl_delay"]
    assert len(early) == VIOLATIONS_MAX
    assert early[0].actual_gap_s == 0.0


# -- robots.txt

FREE = b"User-agent: *\nAllow: /\n"
NO_SECRETS = b"User-agent: *\nDisallow: /secret\n\nUser-agent: walker\nDisallow: /private\n"


@pytest.mark.parametrize(
    ("story", "path", "files", "broken"),
    [
        ("allowed", "/open", [robots(0, NO_SECRETS)], False),
        ("forbidden to us by our name", "/private/x", [robots(0, NO_SECRETS)], True),
        ("forbidden to others", "/secret", [robots(0, NO_SECRETS)], False),
        ("robots.txt itself is always allowed", "/robots.txt", [robots(0, b"User-agent: *\nDisallow: /\n")], False),
        ("there was no file", "/private", [robots(0, b"", status=404)], False),
        ("before the file was known", "/private", [robots(60, NO_SECRETS)], False),
        ("a file that had just been read", "/private", [robots(0, FREE), robots(9, NO_SECRETS)],
         False),
        ("by the file of then, not of now", "/private", [robots(0, NO_SECRETS), robots(60, FREE)],
         True),
        ("a file that was confirmed", "/private", [robots(0, NO_SECRETS), robots(5, None)], True),
        ("the file of another origin", "/private", [robots(0, NO_SECRETS, "https://a.test")], False),
    ],
)  # fmt: skip
def test_an_audit_finds_what_robots_forbade(
    store: DuckDBStore, story: str, path: str, files: list[RobotsRow], broken: bool
) -> None:
    for file in files:
        put(store, robots=(file,))
    put(store, receipt(10, 0, None, url=f"http://a.test{path}", rule="none"))
    found = audit(store.database.connect())
    assert [violation.rule for violation in found.violations] == ["robots.txt"] * broken, story
    assert [domain.violations for domain in found.by_domain] == [int(broken)]


# -- what is sent to others


class Tags(HTMLParser):
    """The elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]


def test_the_page_for_an_owner_stands_alone_and_takes_nothing_for_markup(store: DuckDBStore) -> None:
    """[E7, E8] Whatever a URL holds."""
    evil = "http://a.test/<script>alert(1)</script>?\"'><img src=x onerror=y>\u202e\x1b[2J"
    put(store, receipt(0, 1, None), receipt(0.5, 1, 0.5, url=evil, rule="<b>"))
    page = audit(store.database.connect()).as_html()
    tags = Tags(page)
    frame = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "span"}
    assert set(tags.tags) <= frame | {"table", "thead", "tbody", "tr", "th", "td"}
    assert set(tags.attributes) <= {"lang", "charset", "http-equiv", "content", "class"}
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "1 violations" in page
    assert "http://" not in page.replace("http://a.test", ""), "nothing is fetched from anywhere"


def test_an_audit_is_json_and_has_its_times_in_utc(store: DuckDBStore) -> None:
    put(store, receipt(0, 1, None), receipt(0.5, 1, 0.5))
    found = json.loads(json.dumps(audit(store.database.connect()).as_dict()))
    assert found["violations"][0]["at"] == "2026-01-01T12:00:00.500000Z"
    assert found["by_domain"][0]["violations"] == 1


def test_an_audit_of_nothing_finds_nothing(store: DuckDBStore) -> None:
    found = audit(store.database.connect())
    assert (found.requests, found.domains, found.smallest_margin_s, found.violations) == (0, 0, None, ())
    assert "no rule was broken" in found.as_html()


# -- Retry-After


def answered(second: float, asked_s: float | None, elapsed_s: float = 0.5, **more: Any) -> RequestRow:
    """A request whose answer asked for so much silence."""
    return receipt(second, 0, None, retry_after_s=asked_s, elapsed_s=elapsed_s, status=429, **more)


@pytest.mark.parametrize(
    ("story", "receipts", "after_s"),
    [
        ("a silence that was kept", [answered(0, 10), receipt(10.6, 0, 10.6)], []),
        ("it is counted from the answer, not from the request", [answered(0, 10), receipt(10.2, 0, 10.2)], [9.7]),
        ("asked again too early", [answered(0, 10), receipt(5, 0, 5)], [4.5]),
        ("each of them once", [answered(0, 10), answered(0.1, 20, 0.6), receipt(5, 0, 5)], [4.3]),
        ("what was under way already was no breach", [answered(0, 10, 2.0), receipt(1.9, 0, 1.9)], []),
        ("nor was what began while the answer was read", [answered(0, 10), receipt(0.55, 0, 0.55)], []),
        ("another domain is no business of it", [answered(0, 10), receipt(5, 0, None, domain="b.test")], []),
        ("another run has another clock, and the date", [answered(9, 10), receipt(14, 0, None, session=2)], [4.5]),
        ("over a restart, give or take a clock", [answered(9, 10), receipt(19, 0, None, session=2)], []),
        ("an answer that asked for nothing", [answered(0, None), receipt(5, 0, 5)], []),
    ],
)  # fmt: skip
def test_nothing_is_sent_within_a_retry_after(
    store: DuckDBStore, story: str, receipts: list[RequestRow], after_s: list[float]
) -> None:
    put(store, *receipts)
    with store.database.reading() as connection:
        found = audit(connection)
    broken = [each for each in found.violations if each.rule == "retry_after"]
    assert [each.actual_gap_s for each in broken] == pytest.approx(after_s), story
    assert found.violation_count == len(after_s)
    assert all("Retry-After" in each.text for each in broken)


@pytest.mark.parametrize(
    ("settings", "asked_s", "sent_at", "broken"),
    [({}, 864_000, 86_300, [86_400]), ({}, 864_000, 86_500, []), ({"max_retry_after": 60}, 600, 70, []),
     ({"max_retry_after": 60}, 600, 50, [60]), ({"max_retry_after": "nonsense"}, 600, 70, [600])],
)  # fmt: skip
def test_of_a_retry_after_so_much_is_judged_as_is_kept(
    store: DuckDBStore, settings: dict[str, Any], asked_s: float, sent_at: float, broken: list[float]
) -> None:
    job_id = store.create_job("pages", settings, [], NOON).id
    put(store, answered(0, asked_s, job_id=job_id), receipt(sent_at, 0, sent_at, job_id=job_id))
    with store.database.reading() as connection:
        assert [each.required_gap_s for each in audit(connection).violations] == broken


def test_the_receipts_of_a_crawl_say_what_was_asked_and_that_it_was_kept() -> None:
    answers = iter([html("busy", 503, Retry_After="1")])
    site = Site(name="a.test", features=(Paths({"/x": lambda request: next(answers, html("here"))}),))
    with web(site) as (farm, con):
        con.execute(f"CRAWL (SELECT ?) INTO pages {FAST}", [farm.url("a.test", "/x")])
        asked = con.execute("SELECT status, retry_after_s FROM amble.requests WHERE url LIKE '%/x' ORDER BY started_s")
        assert asked.fetchall() == [(503, 1.0), (200, None)]
        assert audit(con._duck).violation_count == 0
        con.execute("UPDATE amble.requests SET retry_after_s = 60 WHERE retry_after_s = 1")
        assert [each.rule for each in audit(con._duck).violations] == ["retry_after"]
