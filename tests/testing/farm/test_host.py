"""A running site decides in order: is it down, is the client let in, what is at that path."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

import pytest

from amble.testing.farm import Pages, Site
from amble.testing.farm.exchange import Response
from amble.testing.farm.host import Host
from amble.testing.farm.limits import announcing, bucket, challenging, changing, penalty_box, refusing, window
from amble.testing.farm.outages import Outage, flapping
from amble.testing.lab.servers import LogNormal, Noise

from .helpers import NOON, body_of, request

START = 5_000.0  # monotonic


def play(site: Site, times: list[float], target: str = "/") -> list[Response]:
    """The answers to requests at these seconds after the first."""
    host = Host(site.name, site, START)
    return [host.answer(request(target, site.name, START + at), NOON + at) for at in times]


def statuses(site: Site, times: list[float], target: str = "/") -> list[int]:
    return [response.status for response in play(site, times, target)]


def test_a_limit_is_enforced_whatever_is_asked_for() -> None:
    site = Site(name="a.test", limit=refusing(bucket(2.0, 2.0)))
    for target in ("/", "/robots.txt", "/nothing"):
        answers = play(site, [0.0, 0.0, 0.0, 0.4, 0.5, 0.6], target)
        assert [one.refused for one in answers] == [False, False, True, True, False, True]
        assert [one.status for one in answers if one.refused] == [429, 429, 429]
        assert all("Retry-After" not in one.headers and one.not_before is None for one in answers)


def test_retry_after_in_seconds_is_rounded_up_and_remembered_as_an_instant() -> None:
    site = Site(name="a.test", limit=refusing(penalty_box(bucket(1.0, 1.0), 2.5), "seconds"))
    refused = play(site, [0.0, 0.5])[1]
    assert refused.headers["Retry-After"] == "3"
    assert refused.not_before == pytest.approx(START + 0.5 + 3.0)


def test_retry_after_as_a_date_lies_at_or_after_the_end_of_the_wait() -> None:
    site = Site(name="a.test", limit=refusing(penalty_box(bucket(1.0, 1.0), 2.5), "date", 503))
    refused = play(site, [0.0, 0.5])[1]
    assert refused.status == 503
    said, until = (parsedate_to_datetime(refused.headers[name]).timestamp() for name in ("Date", "Retry-After"))
    assert said == int(NOON + 0.5)
    assert until == 1_800_000_004  # noon, a half and two and a half, rounded up
    assert refused.not_before == pytest.approx(START + until - NOON)


@pytest.mark.parametrize(
    ("dialect", "names"),
    [
        ("structured", {"RateLimit", "RateLimit-Policy"}),
        ("split", {"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}),
        ("x-epoch", {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}),
    ],
)
def test_a_quota_is_told_with_every_answer(dialect: str, names: set[str]) -> None:
    limit = announcing(bucket(1.0, 2.0), dialect)  # type: ignore[arg-type]
    served, _, refused = play(Site(name="a.test", limit=limit), [0.0, 0.0, 0.0])
    assert names <= served.headers.keys()
    assert names | {"Retry-After"} <= refused.headers.keys()
    if dialect == "x-epoch":
        assert int(served.headers["X-RateLimit-Reset"]) == pytest.approx(NOON, abs=3)


def test_a_bot_wall_answers_with_a_challenge() -> None:
    served, refused = play(Site(name="a.test", limit=challenging(bucket(1.0, 1.0))), [0.0, 0.0])
    assert "cf-mitigated" not in served.headers
    assert (refused.status, refused.headers["cf-mitigated"]) == (403, "challenge")
    assert b"human" in body_of(refused)


def test_a_limit_changes_in_the_sites_own_time() -> None:
    site = Site(name="a.test", limit=refusing(changing(bucket(1.0, 1.0), bucket(9.0, 9.0), 10.0)))
    assert statuses(site, [0.0, 0.1, 9.9, 10.0, 10.1, 10.2]) == [200, 429, 200, 200, 200, 200]


def test_arrivals_read_out_of_order_neither_crash_nor_mint_tokens() -> None:
    site = Site(name="a.test", limit=refusing(window(0.1, 10.0)))  # a window that went back would start anew
    assert statuses(site, [0.0, 10.0, 0.0, 10.0, 9.9, 20.0]) == [200, 200, 429, 429, 429, 200]


DOWN = {
    # outages, rows of (seconds, status, broken)
    "a reset": ((Outage(1.0, 2.0),), [(0.9, 200, None), (1.0, None, "reset"), (1.99, None, "reset"), (2.0, 200, None)]),
    "silence": ((Outage(1.0, 2.0, "hang"),), [(1.5, None, "hang"), (2.5, 200, None)]),
    "a bad gateway": ((Outage(0.0, 2.0, "error"),), [(0.0, 502, None), (2.0, 200, None)]),
    "maintenance": ((Outage(1.0, 2.0, "maintenance"),), [(0.0, 200, None), (1.0, 503, None)]),
    "flapping until it stays up": (
        flapping(4.0, 9.0),
        [
            (0.0, 200, None),
            (2.0, None, "reset"),
            (4.0, 200, None),
            (6.5, None, "reset"),
            (8.5, 200, None),
            (10.0, 200, None),
            (11.0, 200, None),
        ],
    ),
}


@pytest.mark.parametrize(("outages", "rows"), DOWN.values(), ids=DOWN)
def test_outages_hold_between_their_instants(
    outages: tuple[Outage, ...], rows: list[tuple[float, int | None, str | None]]
) -> None:
    answers = play(Site(name="a.test", outages=outages), [at for at, _, _ in rows])
    assert [(None if one.broken else one.status, one.broken) for one in answers] == [row[1:] for row in rows]
    assert [one.outage for one in answers] == [status != 200 for _, status, _ in rows]


def test_a_site_that_is_down_does_not_count_requests_against_its_limit() -> None:
    site = Site(name="a.test", limit=refusing(bucket(1.0, 1.0)), outages=(Outage(0.0, 1.0, "error"),))
    assert statuses(site, [0.0, 0.1, 0.2, 1.0, 1.1]) == [502, 502, 502, 200, 429]


def test_latency_is_drawn_around_its_median_and_the_same_for_the_same_seed() -> None:
    site = Site(name="a.test", latency=LogNormal(0.2))
    waits = [one.wait_s for one in play(site, [0.0] * 400)]
    assert sorted(waits)[200] == pytest.approx(0.2, rel=0.1)
    assert waits == [one.wait_s for one in play(site, [0.0] * 400)]
    assert waits != [one.wait_s for one in play(Site(name="a.test", latency=LogNormal(0.2), seed=1), [0.0] * 400)]


def test_noise_strikes_its_share_and_is_no_refusal() -> None:
    answers = play(Site(name="a.test", pages=Pages(1, 1000), noise=Noise(0.1)), [0.0] * 1000)
    struck = [one for one in answers if one.status != 200 or one.broken]
    assert 60 < len(struck) < 140
    assert {one.broken for one in struck} == {None, "hang"}
    assert not any(one.refused for one in answers)
