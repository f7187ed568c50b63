"""The peers' rules do what their makers publish."""

from __future__ import annotations

from random import Random

import pytest

from amble.testing.lab.controller import Client, Reply, Spaced
from amble.testing.lab.peers import PEERS, AutoThrottle, Crawlee, Cubic, Heritrix, Parallel, retry_after_s


def settle(rule: Spaced, status: int, latency_s: float, now: float, **headers: str) -> None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    rule.answer(rule, Reply(status, named, latency_s), now)


def test_autothrottle_halves_its_way_to_the_latency_and_never_lowers_on_errors() -> None:
    rule = AutoThrottle(Client(), Random(1))
    delays = [rule.delay_s]
    for status, latency_s in ((200, 1.0), (200, 1.0), (429, 0.01), (503, 0.01), (429, 4.0), (200, 300.0)):
        rule.in_flight += 1
        settle(rule, status, latency_s, 0.0)
        delays.append(rule.delay_s)
    assert delays == [5.0, 3.0, 2.0, 2.0, 2.0, 4.0, 60.0]


def test_heritrix_rests_five_fetches_between_three_and_thirty_seconds() -> None:
    rests = []
    for latency_s in (0.1, 2.0, 60.0):
        rule = Heritrix(Client(), Random(1))
        assert rule.request(0.0) is rule
        assert isinstance(rule.request(0.0), float)  # one connection
        settle(rule, 200, latency_s, latency_s)
        rests.append(rule.not_before - latency_s)
    assert rests == pytest.approx([3.0, 10.0, 30.0])


def test_crawlee_doubles_per_response_and_caps_what_it_is_told() -> None:
    rule = Crawlee(Client(), Random(1))
    waits = []
    for status, headers in ((429, {}), (429, {}), (200, {}), (429, {}), (429, {"Retry-After": "3600"})):
        rule.in_flight += 1
        settle(rule, status, 0.1, 100.0, **headers)
        waits.append(rule.not_before - 100.0)
    assert waits == [2.0, 4.0, 4.0, 2.0, 60.0]


def test_cubic_sleeps_until_the_first_throttle_then_cuts_and_comes_back() -> None:
    client = Client()
    rule = Cubic(client, Random(1))
    now = client.starts_at
    while now < client.starts_at + 10.0:  # 20/s, unthrottled
        assert rule.request(now) is rule
        now += 0.05
        settle(rule, 200, 0.05, now)
    rule.request(now)
    settle(rule, 429, 0.05, now)
    assert rule._rate == pytest.approx(14.0, rel=0.1)  # 0.7 of the measured rate
    for step in range(1, 60):
        rule.in_flight += 1
        settle(rule, 200, 0.05, now + step * 0.05)
    assert 14.0 < rule._rate < 40.0


def test_parallel_keeps_two_in_flight_and_paces_nothing() -> None:
    rule = Parallel(Client(), Random(1))
    sent = [rule.request(0.01 * n) for n in range(5)]
    assert sum(one is rule for one in sent) == 2


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_keeps_the_clients_own_settings(name: str) -> None:
    rule = PEERS[name](Client(max_in_flight=1, crawl_delay_s=2.0), Random(1))
    assert not isinstance(rule.request(0.0), float)
    assert isinstance(rule.request(10.0), float)  # one in flight
    rule.answer(rule, Reply(200, {}, 0.1), 0.1)
    assert isinstance(rule.request(1.99), float)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.0),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "Thu, 01 Jan 2026 00:00:30 GMT", "Date": "Thu, 01 Jan 2026 00:00:10 GMT"}, 20.0),
    ],
)
def test_retry_after_is_read_in_both_forms(headers: dict[str, str], seconds: float) -> None:
    assert retry_after_s(Reply(429, headers, 0.1)) == seconds
