"""Saying how a request went: once, with sense, and even when the code around it breaks."""

from __future__ import annotations

import asyncio
import math
import threading
import warnings
from http import HTTPStatus
from typing import Any

import httpx
import pytest

from amble import AlreadySettled, CircuitOpen, Failure, Limiter, PermitError
from amble.core.headers import Headers
from amble.limiter import IssuedPermit, UnsettledPermit
from tests.limiter.helpers import FREE, URL, World

# -- what is learned from an answer


def test_a_429_with_retry_after_keeps_everybody_away_for_that_long() -> None:
    world = World(**FREE)

    async def main() -> list[float]:
        first = await world.ask(status=429, headers={"Retry-After": "30"})
        return [first, *await asyncio.gather(*(world.ask() for _ in range(3)))]

    sent = world.run(main())
    assert sent[0] == 0.0
    assert all(30.0 <= at < 31.0 for at in sent[1:])


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "30"},
        {"retry-after": "30"},
        [("RETRY-AFTER", "30")],
        Headers([("Retry-After", "30")]),
        httpx.Headers({"Retry-After": "30"}),
    ],
    ids=["dict", "lower case", "pairs", "ours", "httpx"],
)
def test_headers_come_in_many_shapes(headers: Any) -> None:
    world = World(**FREE)
    world.ask_now(status=429, headers=headers)
    assert 30 <= world.domain().blocked_s < 31


class Hostile(dict[str, str]):
    def items(self) -> Any:
        raise RuntimeError("no items here")


@pytest.mark.parametrize(
    ("headers", "blocked_s"),
    [
        ({"Retry-After": 30}, 30), ({"Retry-After": 29.5}, 30), ({"Retry-After": b"30"}, 30),
        ({b"Retry-After": b"30"}, 30), ({"Retry-After": ["10", "30"]}, 30), ({7: "x", "Retry-After": "30"}, 30),
        ({"Retry-After": None}, 0), ({"Retry-After": float("nan")}, 0), ({"Retry-After": 10**400}, 86_400),
        ([("Retry-After",)], 0), (7, 0), ("Retry-After: 30", 0), (Hostile(), 0),
        ({"X-RateLimit-Remaining": 0, "X-RateLimit-Reset": 30}, 30), ({"Date": 3, "Retry-After": "30"}, 30),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9" * 400}, 0),
    ],
    ids=str,
)  # fmt: skip
def test_headers_of_odd_types_settle_and_count_as_far_as_they_can_be_read(headers: Any, blocked_s: float) -> None:
    world = World(**FREE)
    permit = world.permit_now()
    permit.settle(status=429, headers=headers)
    assert permit.settled
    assert blocked_s <= world.domain().blocked_s <= max(60.0, 1.03 * blocked_s)


@pytest.mark.parametrize("elapsed_s", [1e308, 10**400, 1e-320, 0, 5e9])
def test_absurd_times_settle(elapsed_s: float) -> None:
    world = World(**FREE)
    for _ in range(3):
        permit = world.permit_now()
        permit.settle(status=200, elapsed_s=elapsed_s)
        assert permit.settled
    assert math.isfinite(world.domain().latency_s or 0.0)


def test_without_a_stated_time_the_time_since_the_send_is_the_latency() -> None:
    world = World()
    permit = world.permit_now()
    world.clock.advance(0.8)
    permit.settle(status=200)
    assert world.domain().latency_s == pytest.approx(0.8)


def test_a_stated_time_is_believed() -> None:
    world = World()
    permit = world.permit_now()
    world.clock.advance(5)
    permit.settle(status=200, elapsed_s=0.25)
    assert world.domain().latency_s == 0.25


def test_the_time_of_a_failure_is_no_latency() -> None:
    world = World()
    permit = world.permit_now()
    world.clock.advance(30)
    permit.settle(error=TimeoutError())
    assert world.domain().latency_s is None


@pytest.mark.parametrize(
    ("settled", "counts"),
    [
        ({"status": 200}, (1, 0, 0)),
        ({"status": 304}, (1, 0, 0)),
        ({"status": 404}, (1, 0, 0)),
        ({"status": HTTPStatus.OK}, (1, 0, 0)),
        ({"status": httpx.codes.OK}, (1, 0, 0)),
        ({"status": 429}, (0, 1, 0)),
        ({"status": 500}, (0, 0, 1)),
        ({"status": 999}, (0, 0, 1)),
        ({"error": ConnectionResetError()}, (0, 0, 1)),
        ({"error": Failure.NETWORK_TIMEOUT}, (0, 0, 1)),
        ({"error": "network_timeout"}, (0, 0, 1)),
        ({"error": Failure.CANCELLED}, (0, 0, 0)),
        ({"status": 200, "error": ConnectionResetError()}, (0, 0, 1)),
        ({"status": 200, "error": Failure.CONTENT_TOO_LARGE}, (1, 0, 0)),
    ],
    ids=str,
)
def test_what_counts_as_what(settled: dict[str, Any], counts: tuple[int, int, int]) -> None:
    """successes, limited, failures"""
    world = World()
    world.ask_now(**settled)
    snapshot = world.limiter.snapshot()
    assert (snapshot.successes, snapshot.limited, snapshot.failures) == counts


# -- once


def test_a_permit_is_settled_once() -> None:
    world = World()
    permit = world.permit_now()
    settled = [permit.settled]
    permit.settle(status=200)
    settled.append(permit.settled)
    assert settled == [False, True]
    with pytest.raises(AlreadySettled) as caught:
        permit.settle(status=500)
    assert caught.value.hint is not None
    snapshot = world.limiter.snapshot()
    assert (snapshot.successes, snapshot.failures, snapshot.in_flight) == (1, 0, 0)


def test_with_pacing_disabled_a_permit_is_settled_once_as_well() -> None:
    world = World(enabled=False)
    permit = world.permit_now()
    permit.sent()
    permit.settle(status=200)
    with pytest.raises(AlreadySettled):
        permit.settle(status=200)
    given_back = world.permit_now()
    given_back.cancel()
    assert given_back.settled
    assert world.limiter.snapshot().requests == 1


def test_of_many_threads_that_settle_one_permit_one_succeeds() -> None:
    limiter = Limiter(**FREE)
    permit = limiter.permit_sync(URL)
    barrier, refused = threading.Barrier(8), list[int]()

    def settle(number: int) -> None:
        barrier.wait()
        try:
            permit.settle(status=200)
        except AlreadySettled:
            refused.append(number)

    threads = [threading.Thread(target=settle, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 7
    assert limiter.snapshot().successes == 1


def test_a_permit_settled_after_it_was_lost_still_teaches() -> None:
    world = World(**{**FREE, "max_parallel_per_domain": 1, "permit_timeout": 10.0})
    late = world.permit_now()
    world.clock.advance(11.0)
    world.ask_now()  # takes the slot of the lost one
    late.settle(status=429, headers={"Retry-After": "60"})
    assert world.limiter.try_permit(URL) is None
    assert world.domain().in_flight == 0


# -- given back


def test_a_permit_given_back_costs_nothing() -> None:
    world = World(fixed_delay=10.0)
    permit = world.permit_now()
    assert world.limiter.try_permit(URL) is None
    permit.cancel()
    assert permit.settled
    assert world.limiter.snapshot().requests == 0
    world.ask_now()
    assert world.limiter.snapshot().requests == 1


def test_giving_back_twice_or_after_settling_does_nothing() -> None:
    world = World(fixed_delay=10.0)
    permit = world.permit_now()
    permit.settle(status=200)
    permit.cancel()
    permit.cancel()
    assert world.limiter.try_permit(URL) is None
    assert world.limiter.snapshot().requests == 1


def test_a_permit_given_back_goes_to_who_waits() -> None:
    world = World(fixed_delay=10.0)

    async def main() -> float:
        permit = world.permit_now()
        waiting = asyncio.create_task(world.ask())
        await asyncio.sleep(2.0)
        permit.cancel()
        return await waiting

    assert world.run(main()) == 2.0


def test_sent_after_settling_changes_nothing() -> None:
    world = World(fixed_delay=10.0)
    permit = world.permit_now()
    permit.settle(status=200)
    world.clock.advance(5.0)
    permit.sent()
    assert world.limiter.not_before(URL) == world.start + 10.0


# -- nonsense


@pytest.mark.parametrize(
    "settled",
    [
        {},
        {"status": None},
        {"status": 99_999},
        {"status": 0},
        {"status": -200},
        {"status": 99},
        {"status": True},
        {"status": "200"},
        {"status": 200.0},
        {"status": float("nan")},
        {"status": 200, "elapsed_s": -0.1},
        {"status": 200, "elapsed_s": float("nan")},
        {"status": 200, "elapsed_s": float("inf")},
        {"status": 200, "elapsed_s": "fast"},
        {"error": "the cat sat on it"},
        {"error": 17},
        {"error": TimeoutError},
    ],
    ids=str,
)
def test_nonsense_is_refused_and_the_permit_can_still_be_settled(settled: dict[str, Any]) -> None:
    world = World()
    permit = world.permit_now()
    with pytest.raises(PermitError) as caught:
        permit.settle(**settled)
    assert not isinstance(caught.value, AlreadySettled)
    assert caught.value.hint is not None
    assert not permit.settled
    permit.settle(status=200)
    assert world.limiter.snapshot().successes == 1


def test_headers_full_of_nonsense_teach_nothing() -> None:
    """F4, A12"""
    world = World(**FREE)
    headers = {"Retry-After": "soon", "RateLimit-Remaining": "-5", "X-RateLimit-Reset": "NaN", "Date": "\x00", "": ""}
    world.ask_now(status=200, headers=headers)
    assert world.domain().blocked_s == 0.0


# -- leaving the context


def test_leaving_without_a_word_warns_and_frees_the_slot() -> None:
    world = World(**{**FREE, "max_parallel_per_domain": 1})

    async def main() -> None:
        with pytest.warns(UnsettledPermit, match=r"a\.test") as caught:
            async with world.limiter.permit(URL):
                pass
        assert caught[0].filename == __file__

    world.run(main())
    with pytest.warns(UnsettledPermit, match="settle") as caught, world.limiter.permit_sync(URL):
        pass
    assert caught[0].filename == __file__
    snapshot = world.limiter.snapshot()
    assert (snapshot.in_flight, snapshot.successes, snapshot.failures) == (0, 0, 0)


def test_where_warnings_are_errors_the_slot_is_free_all_the_same() -> None:
    world = World(**{**FREE, "max_parallel_per_domain": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UnsettledPermit), world.limiter.permit_sync(URL):
            pass
    assert world.limiter.snapshot().in_flight == 0


def test_settled_or_given_back_inside_needs_no_warning() -> None:
    world = World(**FREE)
    with world.limiter.permit_sync(URL) as permit:
        permit.settle(status=200)
    with world.limiter.permit_sync(URL) as permit:
        permit.cancel()


class Library(Exception):
    """What some HTTP library may raise."""


@pytest.mark.parametrize(
    ("error", "failures"),
    [
        (TimeoutError(), 1),
        (ConnectionResetError(), 1),
        (Library("broken pipe in the middle"), 1),
        (asyncio.CancelledError(), 0),
        (KeyboardInterrupt(), 0),
        (SystemExit(), 0),
        (GeneratorExit(), 0),
        (KeyError("title"), 0),
        (ValueError("no JSON"), 0),
        (AssertionError(), 0),
        (CircuitOpen("b.test keeps failing", domain="b.test", wait_s=1.0), 0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["async", "sync"])
def test_an_exception_in_the_body_settles_the_permit_and_goes_on(
    error: BaseException, failures: int, kind: str
) -> None:
    """A mistake of the code around the request says nothing about the server; a failure of the network does."""
    world = World(**FREE)

    async def entered() -> None:
        async with world.limiter.permit(URL):
            raise error

    def in_thread() -> None:
        with world.limiter.permit_sync(URL):
            raise error

    with pytest.raises(type(error)) as caught:
        # Without a loop, which has its own ideas of KeyboardInterrupt: nothing here waits.
        entered().send(None) if kind == "async" else in_thread()
    assert caught.value is error
    snapshot = world.limiter.snapshot()
    assert (snapshot.in_flight, snapshot.failures, snapshot.requests) == (0, failures, 1)


def test_an_error_after_settling_is_not_counted() -> None:
    world = World(**FREE)

    def late() -> None:
        with world.limiter.permit_sync(URL) as permit:
            permit.settle(status=200)
            raise TimeoutError

    with pytest.raises(TimeoutError):
        late()
    assert world.limiter.snapshot().failures == 0


def test_settled_by_another_thread_in_the_last_moment_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen unsettled on leaving the block, settled by the time the lock is held."""
    world = World(**FREE)
    monkeypatch.setattr(IssuedPermit, "settled", property(lambda self: False))
    with pytest.raises(TimeoutError), world.limiter.permit_sync(URL) as permit:
        _settle_and_fail(permit)
    assert world.limiter.snapshot().successes == 1


def _settle_and_fail(permit: IssuedPermit) -> None:
    permit.settle(status=200)
    raise TimeoutError


def test_a_refusal_at_one_domain_is_no_failure_of_another() -> None:
    """A redirect to a domain whose circuit is open."""
    world = World(**{**FREE, "consecutive_fail_threshold": 2})
    world.fail(2, "https://down.test/")
    with pytest.raises(CircuitOpen), world.limiter.permit_sync(URL):
        world.limiter.permit_sync("https://down.test/")
    assert world.domain().failures == 0


def test_a_permit_shows_what_it_is() -> None:
    world = World()
    permit = world.permit_now()
    assert repr(permit).startswith("<IssuedPermit a.test <Permit 1 issued")
    assert permit.receipt.source == "learned"
    assert permit.receipt.gap_s == 1.0
