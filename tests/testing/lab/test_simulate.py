"""The virtual crawl counts what the server saw, and sees every broken promise."""

from __future__ import annotations

import math
from random import Random

import pytest

from amble.testing.lab.announce import Refusal, RetryAfter
from amble.testing.lab.controller import Client, Reply, Spaced
from amble.testing.lab.limiters import FixedWindow, Gcra, Limiter, TokenBucket, Unlimited
from amble.testing.lab.peers import retry_after_s
from amble.testing.lab.servers import TIMED_OUT, LogNormal, Noise, Server
from amble.testing.lab.simulate import Run, Stuck, rates, recovery_s, simulate

STEADY = LogNormal(0.08, 0.0)


def site(limiter: Limiter, how: RetryAfter = "silent", trip: LogNormal = STEADY, noise: Noise | None = None) -> Server:
    return Server(limiter, Random(7), refusal=Refusal(429, how), round_trip=trip, noise=noise)


class Obedient(Spaced):
    """Waits out each Retry-After from the moment it reads it."""

    def learn(self, reply: Reply, now: float) -> None:
        if reply.status == 429:
            self.not_before = max(self.not_before, now + retry_after_s(reply))


def paced(rate: float, client: Client | None = None) -> Spaced:
    return Obedient(client or Client(), Random(1), delay_s=1.0 / rate)


def test_a_client_that_knows_the_limit_is_never_refused_and_loses_nothing() -> None:
    run = simulate(paced(5.0), site(TokenBucket(5.0, 1.5)), 500)
    assert (run.done, run.sent, run.rejects, run.violations) == (500, 500, 0, 0)
    assert run.lasted_s == pytest.approx(499 / 5.0 + 0.08)


def test_a_client_at_twice_the_limit_gets_half_of_its_requests_refused() -> None:
    run = simulate(paced(10.0), site(TokenBucket(5.0, 2.0)), 500)
    assert run.done == 500
    assert run.rejects == pytest.approx(500, rel=0.02)
    assert run.rejects_per_1000 == pytest.approx(1000, rel=0.02)


def test_network_jitter_makes_a_strict_limiter_refuse_an_even_pace() -> None:
    steady = simulate(paced(20.0), site(Gcra(20.0 + 1e-6)), 500)
    jittery = simulate(paced(20.0), site(Gcra(20.0 + 1e-6), trip=LogNormal(0.08, 0.4)), 500)
    assert steady.rejects == 0
    assert jittery.rejects > 200


def test_the_same_seed_gives_the_same_run() -> None:
    def once() -> Run:
        return simulate(paced(9.0), site(FixedWindow(5.0, 10.0, 3.0), trip=LogNormal(0.1)), 300, trace=True)

    first, second = once(), once()
    assert first.trace == second.trace
    assert first == second


@pytest.mark.parametrize("how", ["seconds", "date"])
def test_an_obedient_client_never_sends_inside_a_retry_after(how: RetryAfter) -> None:
    run = simulate(paced(10.0), site(FixedWindow(1.0, 60.0, 13.7), how), 200)
    assert run.rejects > 0
    assert run.inside_retry_after == 0


@pytest.mark.parametrize("how", ["seconds", "date"])
def test_a_deaf_client_is_caught_once_it_could_know(how: RetryAfter) -> None:
    deaf = Spaced(Client(), Random(1), delay_s=0.1)
    run = simulate(deaf, site(FixedWindow(1.0, 60.0), how), 120)
    # 60 pages fill the window; the requests that left before the first refusal was read are no fault.
    assert run.inside_retry_after > 0
    in_the_dark = simulate(Spaced(Client(), Random(1), delay_s=0.01), site(FixedWindow(1.0, 60.0), how), 60)
    assert in_the_dark.inside_retry_after == 0


@pytest.mark.parametrize(
    ("told", "kept", "count"),
    [
        ("crawl delay", Client(crawl_delay_s=1.0), "under_crawl_delay"),
        ("max rate", Client(max_rate=1.0), "over_max_rate"),
        ("in flight", Client(max_in_flight=1), "over_in_flight"),
    ],
)
def test_a_client_that_forgets_its_settings_is_caught(told: str, kept: Client, count: str) -> None:
    def play(believes: Client) -> Run:
        controller = Spaced(believes, Random(1), delay_s=0.05)
        return simulate(controller, site(Unlimited()), 50, kept)

    forgetful, faithful = play(Client()), play(kept)
    assert getattr(forgetful, count) > 0
    assert forgetful.violations == getattr(forgetful, count)
    assert faithful.violations == 0, told


def test_noise_costs_pages_but_is_no_reject() -> None:
    noise = Noise(share=0.5, timeout_s=5.0)
    run = simulate(paced(50.0), site(Unlimited(), noise=noise), 200, trace=True)
    assert run.done == 200
    assert run.rejects == 0
    assert run.sent == pytest.approx(400, rel=0.2)
    assert run.trace is not None
    assert sum(kind == "failed" for _, kind in run.trace) == run.sent - 200


def test_a_timeout_reaches_the_client_as_no_status_after_its_time() -> None:
    seen: list[Reply] = []

    class Listening(Spaced):
        def learn(self, reply: Reply, now: float) -> None:
            seen.append(reply)

    simulate(Listening(Client(), Random(1)), site(Unlimited(), noise=Noise(0.5, 7.0)), 50)
    assert all(r.latency_s == pytest.approx(7.08) for r in seen if r.status == TIMED_OUT)
    assert {r.status for r in seen} == {200, 500, 503, TIMED_OUT}


def test_pages_slower_than_allowed_are_told_apart() -> None:
    server = Server(Unlimited(), Random(1), round_trip=STEADY, service=LogNormal(0.5, 0.5))
    run = simulate(paced(50.0), server, 200, slow_s=0.58)
    assert 60 < run.slow < 140


class Waiting(Spaced):
    def request(self, now: float) -> object | float:
        return math.inf


class Backward(Spaced):
    def request(self, now: float) -> object | float:
        return now - 1.0


@pytest.mark.parametrize("broken", [Waiting, Backward])
def test_a_controller_that_can_never_send_is_reported(broken: type[Spaced]) -> None:
    with pytest.raises(Stuck):
        simulate(broken(Client(), Random(1)), site(Unlimited()), 10)


def test_a_run_stops_at_its_time_and_counts_what_it_got() -> None:
    run = simulate(paced(1.0), site(Unlimited()), 1000, until_s=100.0)
    assert 99 <= run.done <= 101
    assert run.lasted_s == pytest.approx(100.0, abs=1.0)


def test_a_flood_is_stopped() -> None:
    run = simulate(
        Spaced(Client(max_rate=1000.0), Random(1)), site(TokenBucket(0.01, 1.0)), 100, Client(max_rate=1000.0)
    )
    assert run.sent == 4000


def test_rates_over_time() -> None:
    trace = [(0.1, "ok"), (0.9, "refused"), (2.5, "ok"), (2.6, "failed")]
    assert rates(trace, 1.0) == [(0.0, 1, 1), (1.0, 0, 0), (2.0, 2, 0)]


@pytest.mark.parametrize(
    ("story", "rate_before", "adapts_at", "rate_after", "expected"),
    [
        ("at once", 5.0, 100.0, 5.0, 0.0),
        ("after half a minute", 1.0, 130.0, 5.0, 27.5),  # a quarter of the first good span may still be slow
        ("never", 1.0, math.inf, 5.0, math.inf),
    ],
)
def test_recovery(story: str, rate_before: float, adapts_at: float, rate_after: float, expected: float) -> None:
    trace, now = [], 90.0
    while now < 200.0:
        trace.append((now, "ok"))
        now += 1.0 / (rate_after if now >= adapts_at else rate_before)
    assert recovery_s(trace, 100.0, 5.0) == pytest.approx(expected, abs=1.0), story


def test_a_client_that_keeps_being_refused_has_not_recovered() -> None:
    trace = [(100.0 + n / 10.0, "ok" if n % 2 else "refused") for n in range(1000)]
    assert recovery_s(trace, 100.0, 5.0) == math.inf


def test_no_more_requests_are_under_way_than_pages_are_left() -> None:
    run = simulate(Spaced(Client(), Random(1)), site(Unlimited()), 100)
    assert run.sent == 100
