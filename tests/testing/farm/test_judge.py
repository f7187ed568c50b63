"""The judge finds each broken rule in a log, and nothing in the log of a polite client."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.testing.farm import Entry, Pages, Report, Robots, Site, Tolerance, judge, slowdown
from amble.testing.farm.faults import Private
from amble.testing.farm.judge import in_flight_max, inside_retry_after
from amble.testing.farm.limits import bucket, in_flight, refusing, together
from amble.testing.farm.oracle import ideal_s
from amble.testing.farm.outages import Outage

from .helpers import entry, robots_at, visits

DELAYED = Site(name="a.test", pages=Pages(3), robots=Robots(crawl_delay_s=1.0))
CLOSED = Site(name="a.test", pages=Pages(3), robots=Robots(disallow=("/private/",)), features=(Private(),))
OPEN = Site(name="a.test", pages=Pages(3))


def refusal(at: float, until: float, took: float = 0.01, complete: bool = True) -> Entry:
    return entry("/", at, status=429, refused=True, not_before=until, took=took, complete=complete)


ROWS: dict[str, tuple[Site, list[Entry], dict[str, int]]] = {
    # site, log, violations (those not named are none)
    "a polite crawl": (OPEN, list(visits(0.1, 0.2, 0.3)), {}),
    "nobody came": (OPEN, [], {}),
    "spaced as asked, robots.txt included": (DELAYED, list(visits(1.0, 2.0, 3.0)), {}),
    "a hair short of the delay is measurement": (DELAYED, list(visits(0.996, 1.992)), {}),
    "twice too close": (DELAYED, list(visits(1.0, 1.9, 2.95, 3.0)), {"under_crawl_delay": 2}),
    "the first page too close to robots.txt": (DELAYED, list(visits(0.5)), {"under_crawl_delay": 1}),
    "no robots.txt at all": (OPEN, list(visits(0.1, 0.2, robots=None)), {"before_robots": 2}),
    "a page before robots.txt": (OPEN, list(visits(0.1, robots=0.2)), {"before_robots": 1}),
    "a page while robots.txt is on its way": (
        OPEN,
        [entry("/robots.txt", 0.0, took=1.0), entry("/", 0.5)],
        {"before_robots": 1},
    ),
    "a page after robots.txt failed": (OPEN, [robots_at(0.0, status=503), entry("/", 1.0)], {"before_robots": 1}),
    "a page after robots.txt was refused": (OPEN, [robots_at(0.0, status=429), entry("/", 1.0)], {"before_robots": 1}),
    "robots.txt asked again after it failed": (
        OPEN,
        [robots_at(0.0, status=503), robots_at(1.0, status=404), entry("/", 2.0)],
        {},
    ),
    "robots.txt asked twice": (OPEN, [robots_at(0.0), robots_at(0.0), entry("/", 1.0)], {"robots_again": 1}),
    "a forbidden page": (
        CLOSED,
        [robots_at(0.0), entry("/private/1", 1.0), entry("/private", 2.0)],
        {"disallowed": 1},
    ),
    "patient after a Retry-After": (OPEN, [robots_at(0.0), refusal(1.0, 3.0), entry("/", 3.0)], {}),
    "inside a Retry-After": (
        OPEN,
        [robots_at(0.0), refusal(1.0, 3.0), entry("/", 1.5), entry("/", 2.9), entry("/", 3.1)],
        {"inside_retry_after": 2},
    ),
    "sent before the refusal could be known": (
        OPEN,
        [robots_at(0.0), refusal(1.0, 3.0, took=0.5), entry("/", 1.2), entry("/", 1.54), entry("/", 3.2)],
        {},
    ),
    "a refusal that never reached the client": (
        OPEN,
        [robots_at(0.0), refusal(1.0, 3.0, complete=False), entry("/", 2.0)],
        {},
    ),
    "the longest of several Retry-Afters holds": (
        OPEN,
        [robots_at(0.0), refusal(1.0, 9.0), refusal(1.001, 2.0), entry("/", 5.0)],
        {"inside_retry_after": 1},
    ),
    "another host's Retry-After is nobody's here": (
        OPEN,
        [robots_at(0.0), entry("/", 1.0, host="b.test", status=429, not_before=9.0), entry("/", 2.0)],
        {},
    ),
}
RULES = ("inside_retry_after", "under_crawl_delay", "disallowed", "before_robots", "robots_again")


@pytest.mark.parametrize(("site", "log", "broken"), ROWS.values(), ids=ROWS)
def test_rules(site: Site, log: list[Entry], broken: dict[str, int]) -> None:
    found = judge(log, [site, Site(name="b.test")])["a.test"]
    assert {rule: getattr(found, rule) for rule in RULES if getattr(found, rule)} == broken
    assert found.violations == sum(broken.values())


def test_tolerances_can_be_drawn_tighter() -> None:
    strict = Tolerance(spacing_s=0.0, known_after_s=0.0)
    assert judge(list(visits(0.996)), [DELAYED], strict).violations == 1
    assert judge([robots_at(0.0), refusal(1.0, 3.0), entry("/", 1.02)], [OPEN], strict).violations == 1


def pages_log(site: Site, *more: Entry) -> list[Entry]:
    """Every page once, a tenth of a second apart, and what else happened."""
    return [robots_at(0.0), *(entry(path, 0.1 * (n + 1)) for n, path in enumerate(site.paths())), *more]


def test_pages_are_counted_once() -> None:
    site = Site(name="a.test", pages=Pages(4))
    last = site.pages.path(3)
    first, second, third = list(site.pages.paths())[:3]
    log = [
        robots_at(0.0),
        entry(first, 0.1),
        entry(first, 0.2),
        entry(first, 0.3, status=304),
        entry(second, 0.4, complete=False),
        entry(second, 0.5, status=503),
        entry(second, 0.6),
        entry("/nothing", 0.7, status=404),
        entry(f"{third}?ref=x", 0.8),
        entry(third, 0.9),
        entry(first, 1.0),
    ]
    found = judge(log, [site])["a.test"]
    assert (found.pages, found.got, found.again, found.missing) == (4, 3, 3, (last,))
    assert found.requests == 11
    assert found.finished_s == pytest.approx(0.91)


def test_spacing_and_parallelism_are_told() -> None:
    log = [robots_at(0.0), entry("/", 0.5, took=2.0), entry("/x", 0.75, took=1.0), entry("/y", 2.0, took=0.5)]
    found = judge([*log, entry("/", 0.8, host="b.test", took=1.0)], [OPEN])["a.test"]
    assert (found.spacing_min_s, found.in_flight_max) == (0.25, 2)


def test_parallelism_is_counted_over_all_hosts() -> None:
    log = [entry("/", at, host=f"{at}.test", took=1.0) for at in (0.0, 0.5, 0.9, 1.2, 5.0)]
    assert judge(log, []).in_flight_max == 3


def test_a_client_that_gave_up_is_not_counted_until_it_was_noticed() -> None:
    log = [entry("/", 0.0, took=1.0, complete=False), entry("/", 0.97)]
    assert judge(log, [OPEN]).in_flight_max == 1
    assert judge(log, [OPEN])["a.test"].in_flight_max == 1
    assert judge(log, [OPEN], Tolerance(noticed_s=0.0)).in_flight_max == 2


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=12)


@given(spans)
def test_parallelism_agrees_with_counting_at_every_instant(times: list[tuple[int, int]]) -> None:
    log = [entry("/", float(at), took=float(took)) for at, took in times]
    counted = (sum(at <= now < at + took for at, took in times) for now in range(42))
    assert in_flight_max(log) == max(counted)


waits = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 4), st.none() | st.integers(1, 10)), max_size=10)


@given(waits)
def test_retry_after_agrees_with_asking_every_refusal(times: list[tuple[int, int, int | None]]) -> None:
    log = [
        entry("/", float(at), took=float(took), not_before=None if wait is None else float(at + wait))
        for at, took, wait in sorted(times, key=lambda row: row[0])
    ]
    broken = sum(
        any(
            other.not_before is not None and other.ended is not None and other.ended < one.arrived < other.not_before
            for other in log
        )
        for one in log
    )
    assert inside_retry_after(log, 0.0) == broken


IDEALS = {
    # site, pages, the client's own cap, seconds
    "nothing binds": (OPEN, 100, None, 0.0),
    "the client's cap": (OPEN, 100, 8.0, 12.5),
    "a limit": (Site(name="a.test", limit=refusing(bucket(5.0))), 100, 8.0, 20.0),
    "a crawl delay": (Site(name="a.test", robots=Robots(crawl_delay_s=2.0)), 100, 8.0, 200.0),
    "the slower of two limits": (
        Site(name="a.test", limit=refusing(together(in_flight(2, 0.25), bucket(3.0)))),
        300,
        None,
        100.0,
    ),
    "an outage on the way": (
        Site(name="a.test", limit=refusing(bucket(5.0)), outages=(Outage(10.0, 16.0), Outage(100.0, 200.0))),
        100,
        None,
        26.0,
    ),
}


@pytest.mark.parametrize(("site", "pages", "max_rate", "seconds"), IDEALS.values(), ids=IDEALS)
def test_the_oracle(site: Site, pages: int, max_rate: float | None, seconds: float) -> None:
    assert ideal_s(site, pages, max_rate=max_rate) == pytest.approx(seconds)


def test_efficiency_is_measured_against_the_slowest_sites_oracle() -> None:
    fast = Site(name="a.test", pages=Pages(4), limit=refusing(bucket(8.0)))
    slow = Site(name="b.test", pages=Pages(4), limit=refusing(bucket(2.0)))
    log = [
        *(entry(path, 1000.0 + n, host="a.test", took=0.0) for n, path in enumerate(fast.paths())),
        *(entry(path, 1001.0 + n, host="b.test", took=0.0) for n, path in enumerate(slow.paths())),
        entry("/", 1000.5, host="b.test", status=429, refused=True),
    ]
    found = judge(log, [fast, slow])
    assert (found.pages, found.got, found.requests, found.refusals) == (8, 8, 9, 1)
    assert found.ideal_s == 2.0
    assert found.lasted_s == pytest.approx(4.0)
    assert found.efficiency == pytest.approx(0.5)
    assert found.refusals_per_1000 == pytest.approx(125.0)
    assert [one.efficiency for one in found.hosts] == pytest.approx([0.5 / 3.0, 2.0 / 3.5])
    assert found.efficiency_mean == pytest.approx((0.5 / 3.0 + 2.0 / 3.5) / 2)
    half = judge([one for one in log if one.host == "b.test"], [fast, slow])
    assert half.efficiency == pytest.approx(0.5 * 2.0 / 3.5)


def test_an_outage_is_judged_by_what_was_sent_into_it_and_how_soon_it_was_over() -> None:
    site = Site(name="a.test", outages=(Outage(1.0, 3.0, "error"), Outage(10.0, 20.0)))
    log = [
        robots_at(100.0),
        entry("/", 100.5),
        *(entry("/x", 101.0 + n / 10, status=502, outage=True) for n in range(5)),
        entry("/x", 103.5, status=502),
        entry("/x", 104.0, took=0.5),
        entry("/y", 110.0, status=None, outage=True, complete=False),
    ]
    first, second = judge(log, [site])["a.test"].outages
    assert (first.lasted_s, first.requests) == (2.0, 5)
    assert first.recovered_s == pytest.approx(1.5)
    assert (second.requests, second.recovered_s) == (1, None)
    assert judge(log, [site])["a.test"].during_outage == 6


def report_of(times: dict[str, float]) -> Report:
    sites = [Site(name=name, pages=Pages(1)) for name in times]
    return judge([entry("/", 0.0, host="x.test"), *(entry("/", t, host=n, took=0.0) for n, t in times.items())], sites)


def test_isolation_is_told_as_a_ratio_of_finishing_times() -> None:
    alone, beside = (
        report_of({"a.test": 8.0, "b.test": 10.0}),
        report_of({"a.test": 11.0, "b.test": 10.5, "s.test": 60}),
    )
    assert beside.finished_s(["a.test"]) == pytest.approx(11.0)
    assert slowdown(alone, beside, ["a.test", "b.test"]) == pytest.approx(1.1)


def test_names_that_are_no_site_are_listed_all_the_same() -> None:
    wild = Site(name="w.test", pages=Pages(2), subdomains=True)
    found = judge([entry("/", 0.0, host="x.w.test")], [wild])
    assert [(one.host, one.pages, one.requests) for one in found.hosts] == [("w.test", 2, 0), ("x.w.test", 0, 1)]


BREAKERS: list[tuple[str, Callable[[], list[Entry]]]] = [
    ("1 under crawl delay", lambda: list(visits(0.5))),
    ("1 before robots.txt", lambda: list(visits(0.5, robots=None))),
]


@pytest.mark.parametrize(("words", "log"), BREAKERS, ids=[words for words, _ in BREAKERS])
def test_the_table_names_what_was_broken(words: str, log: Callable[[], list[Entry]]) -> None:
    lines = list(judge(log(), [DELAYED]).table())
    assert lines[1].startswith("a.test")
    assert lines[1].endswith(words)
    assert lines[-1].endswith("rules broken 1")


def test_the_table_of_a_polite_crawl() -> None:
    site = Site(name="a.test", pages=Pages(3), limit=refusing(bucket(5.0)))
    header, line, total, words = judge(pages_log(site), [site]).table()
    assert line.split() == ["a.test", "3/3", "0", "4", "0", "1", "0.100", "s", "0.3", "s", "0.6", "s"]
    assert total.split()[:5] == ["all", "3/3", "0", "4", "0"]
    assert words == "refusals per 1000 pages 0.0, efficiency 1.94 (mean of hosts 1.94), rules broken 0"
    assert len({len(header), len(line), len(total)}) == 1
