"""Who goes when: spacing, slots, first come first served, nobody woken for nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from amble import BadDomain, Limiter, PacingSettings, Rule, SettingsError
from amble.testing.virtual import run
from tests.limiter.helpers import FREE, REAL_LOOPS, URL, World, settle_down

# -- spacing and slots


def test_the_first_goes_at_once_and_each_next_one_a_delay_later() -> None:
    world = World()

    async def main() -> list[float]:
        return await asyncio.gather(*(world.ask() for _ in range(5)))

    assert world.run(main()) == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_permit_can_be_awaited_as_well_as_entered() -> None:
    world = World()

    async def main() -> list[float]:
        waited = []
        for _ in range(3):
            permit = await world.limiter.permit(URL)
            permit.settle(status=200)
            waited.append(permit.waited_s)
        return waited

    assert world.run(main()) == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("delay_s", [1 / 3, 0.1, 0.7, 1e-3], ids=str)
@pytest.mark.parametrize("start", [0.0, 1e6 / 7, 1e9], ids=["at zero", "after days", "after decades"])
def test_no_start_comes_early_by_a_rounding_error(delay_s: float, start: float) -> None:
    world = World(start=start, fixed_delay=delay_s)
    sent: list[float] = []

    async def one() -> None:
        async with world.limiter.permit(URL) as permit:
            sent.append(permit.sent_at)
            permit.settle(status=200)

    async def main() -> None:
        await asyncio.gather(*(one() for _ in range(50)))

    world.run(main())
    assert all(later >= earlier + delay_s for earlier, later in pairwise(sent))
    assert sent[-1] - sent[0] == pytest.approx(49 * delay_s, rel=1e-3)


def test_domains_do_not_wait_for_each_other() -> None:
    world = World()

    async def main() -> list[float]:
        return await asyncio.gather(*(world.ask(f"https://site-{n}.test/") for n in range(100)))

    assert world.run(main()) == [0.0] * 100


@pytest.mark.parametrize(
    ("other", "shares"),
    [
        ("http://a.test/other", True),
        ("https://A.TEST:443/", True),
        ("https://user:pw@a.test./", True),
        ("a.test", True),
        ("https://a.test:8443/", False),
        ("https://www.a.test/", False),
    ],
)
def test_which_urls_share_a_budget(other: str, shares: bool) -> None:
    world = World()
    world.ask_now(URL)
    assert (world.limiter.try_permit(other) is None) == shares


def test_no_more_requests_at_once_than_slots() -> None:
    world = World(**{**FREE, "max_parallel_per_domain": 2})

    async def main() -> list[float]:
        return await asyncio.gather(*(world.ask(takes_s=1.0) for _ in range(6)))

    assert world.run(main()) == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]


def test_the_turn_is_spaced_from_the_send_where_the_caller_says_when_that_was() -> None:
    world = World()

    async def late() -> None:
        async with world.limiter.permit(URL) as permit:
            await asyncio.sleep(0.75)  # DNS, a connection, TLS
            permit.sent()
            assert permit.sent_at - world.start == 0.75
            permit.settle(status=200)

    async def main() -> float:
        task = asyncio.create_task(late())
        await asyncio.sleep(0)
        sent_at = await world.ask()
        await task
        return sent_at

    assert world.run(main()) == 1.75


def test_a_rule_holds_for_its_domains_only() -> None:
    world = World(rules={"*.slow.test": Rule(delay=10.0)})

    async def main() -> list[float]:
        urls = ["https://x.slow.test/"] * 2 + ["https://quick.test/"] * 2
        return await asyncio.gather(*(world.ask(url) for url in urls))

    assert world.run(main()) == [0.0, 10.0, 0.0, 1.0]


def test_when_pacing_is_disabled_nothing_waits_but_for_what_a_server_asks() -> None:
    world = World(enabled=False, fixed_delay=60.0)

    async def main() -> tuple[list[float], float]:
        at_once = await asyncio.gather(*(world.ask(status=200, takes_s=0.5) for _ in range(15)))
        await world.ask(status=429, headers={"Retry-After": "600"})
        return at_once, await world.ask()

    at_once, after_the_block = world.run(main())
    assert at_once == [0.0] * 15
    assert after_the_block >= 600.0


def test_when_pacing_is_disabled_what_is_set_of_requests_at_once_holds() -> None:
    world = World(enabled=False, max_parallel_per_domain=3)

    async def main() -> list[float]:
        return await asyncio.gather(*(world.ask(status=200, takes_s=0.5) for _ in range(6)))

    assert world.run(main()) == [0.0] * 3 + [0.5] * 3


# -- order


def test_turns_are_taken_in_order_of_asking() -> None:
    world = World()
    order: list[int] = []

    async def one(number: int) -> None:
        async with world.limiter.permit(URL) as permit:
            order.append(number)
            permit.settle(status=200)

    async def main() -> None:
        tasks = []
        for number in range(30):
            tasks.append(asyncio.create_task(one(number)))
            await asyncio.sleep(0.3)  # they come faster than they are served
        await asyncio.gather(*tasks)

    world.run(main())
    assert order == list(range(30))


def test_nobody_overtakes_who_was_woken_and_has_not_run_yet() -> None:
    world = World(**{**FREE, "max_parallel_per_domain": 1})

    async def main() -> None:
        first = world.permit_now()
        waiting = asyncio.create_task(world.ask())
        await settle_down()
        first.settle(status=200)  # the waiting one is woken, but this task still runs
        assert world.limiter.try_permit(URL) is None
        late = asyncio.create_task(world.ask(takes_s=1.0))
        assert await waiting == 0.0
        assert await late == 0.0

    world.run(main())


def test_try_permit_gives_none_in_place_of_waiting() -> None:
    world = World()
    assert world.limiter.try_permit(URL) is not None
    assert world.limiter.try_permit(URL) is None
    world.clock.advance(0.999)
    assert world.limiter.try_permit(URL) is None
    world.clock.advance(0.002)
    assert world.limiter.try_permit(URL) is not None


def test_not_before_says_when_the_next_turn_can_come() -> None:
    world = World()
    assert world.limiter.not_before(URL) == world.clock.monotonic()  # never met: at once
    world.ask_now()
    assert world.limiter.not_before(URL) == world.clock.monotonic() + 1.0


# -- crawl delay


def test_a_crawl_delay_spaces_even_a_fast_domain() -> None:
    world = World(**FREE)
    world.limiter.set_crawl_delay(URL, 5.0)

    async def main() -> list[float]:
        return await asyncio.gather(*(world.ask() for _ in range(3)))

    assert world.run(main()) == [0.0, 5.0, 10.0]


def test_a_shorter_crawl_delay_is_told_to_who_waits_for_the_longer_one() -> None:
    """B5: robots.txt changes in the middle of a crawl."""
    world = World()
    world.limiter.set_crawl_delay(URL, 60.0)
    world.ask_now()

    async def main() -> float:
        waiting = asyncio.create_task(world.ask())
        await asyncio.sleep(3.0)
        world.limiter.set_crawl_delay(URL, None)
        return await waiting

    assert world.run(main()) == 3.0


def test_a_longer_crawl_delay_holds_for_who_waits_already() -> None:
    """B5"""
    world = World()
    world.ask_now()

    async def main() -> float:
        waiting = asyncio.create_task(world.ask())
        await asyncio.sleep(0.5)
        world.limiter.set_crawl_delay(URL, 20.0)
        return await waiting

    assert world.run(main()) == 20.0


@pytest.mark.parametrize("delay_s", [-1.0, float("nan"), float("inf"), -0.001], ids=str)
def test_a_crawl_delay_that_is_no_duration_is_refused(delay_s: float) -> None:
    """B8"""
    with pytest.raises(SettingsError, match="no duration"):
        World().limiter.set_crawl_delay(URL, delay_s)


@pytest.mark.parametrize("kind", REAL_LOOPS)
def test_a_delay_of_centuries_can_be_waited_for(kind: str) -> None:
    limiter = Limiter(**FREE)
    limiter.set_crawl_delay(URL, 1e308)
    limiter.permit_sync(URL).settle(status=200)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(limiter.permit(URL), 0.01)

    with asyncio.Runner(loop_factory=REAL_LOOPS[kind]) as runner:
        runner.run(main())
    threads = [threading.Thread(target=limiter.permit_sync, args=(URL,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    while limiter.snapshot().waiting < 2:
        time.sleep(0.001)
    limiter.set_crawl_delay(URL, None)  # now both go
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


# -- the turn comes sooner than was thought


def test_who_waits_is_told_when_a_quota_opens_up() -> None:
    """One answer said "one request per minute", the next one says "a thousand"."""
    world = World(**FREE)
    scarce = {"RateLimit-Remaining": "2", "RateLimit-Reset": "120"}
    plenty = {"RateLimit-Remaining": "1000", "RateLimit-Reset": "60"}

    async def main() -> float:
        first, second = world.permit_now(), world.permit_now()
        first.settle(status=200, headers=scarce)
        waiting = asyncio.create_task(world.ask())
        await asyncio.sleep(1.0)
        assert not waiting.done()
        second.settle(status=200, headers=plenty)
        return await waiting

    assert world.run(main()) < 1.5


# -- bad input


@pytest.mark.parametrize(
    "url",
    ["", " ", "https://", "https://?x", "ftp://a.test/", "javascript:alert(1)", "a b.test", "x" * 300 + ".test"],
)
@pytest.mark.parametrize("method", ["permit_sync", "try_permit", "not_before", "permit"])
def test_text_that_names_no_domain_is_refused(url: str, method: str) -> None:
    """C1, C2"""
    limiter = World().limiter

    async def awaited() -> None:
        await limiter.permit(url)

    with pytest.raises(BadDomain):
        run(awaited()) if method == "permit" else getattr(limiter, method)(url)
    assert limiter.snapshot().domains_known == 0


@pytest.mark.parametrize("url", [None, 7, b"https://a.test/"], ids=repr)
def test_what_is_no_text_is_refused(url: Any) -> None:
    with pytest.raises(BadDomain):
        World().limiter.try_permit(url)


@pytest.mark.parametrize(
    ("named", "word"),
    [
        ({"pacing": "warp"}, "pacing"),
        ({"fixed_delay": -1}, "fixed_delay"),
        ({"fixed_delay": float("nan")}, "fixed_delay"),
        ({"max_rate": 0}, "max_rate"),
        ({"max_paralel_per_domain": 3}, "max_parallel_per_domain"),
        ({"max_parallel_per_domain": 0}, "max_parallel_per_domain"),
        ({"rules": {"*.x.*": Rule(delay=1)}}, r"\*\.x\.\*"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_settings_that_make_no_sense_are_refused(named: dict[str, Any], word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        Limiter(**named)


def test_settings_given_twice_are_refused() -> None:
    with pytest.raises(SettingsError, match="twice"):
        Limiter(PacingSettings(), max_rate=3)


def test_waiting_for_a_permit_that_nobody_gives_back_ends_when_it_counts_as_lost() -> None:
    world = World(**{**FREE, "max_parallel_per_domain": 1, "permit_timeout": 30.0})
    world.permit_now()

    async def main() -> float:
        return await world.ask()

    assert world.run(main()) == 30.0
    assert [type(event).__name__ for event in world.events] == ["PermitLost"]
    assert world.limiter.snapshot().lost == 1
