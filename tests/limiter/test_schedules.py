"""Any schedule of arrivals, latencies, answers, cancellations and deadlines: politeness holds and everybody ends.

The judge stands where the server stands: it sees requests start and end and knows what it asked for. Virtual time; a
lost wake-up is a deadlock and fails at once.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from typing import Any, NamedTuple

from hypothesis import event, given
from hypothesis import strategies as st

from amble import CircuitOpen, TooLate
from amble.core.pacing.events import CircuitOpened
from tests.limiter.helpers import World

PERMIT_TIMEOUT_S = 60.0


class Visit(NamedTuple):
    """What one caller will do."""

    domain: int
    after_s: float  # since the arrival before it
    takes_s: float
    ends: str
    status: int
    retry_after_s: int | None
    cancelled_after_s: float | None
    deadline_s: float | None
    wait_if_open: bool


class Shop(NamedTuple):
    """How the limiter is set up."""

    strategy: str
    parallel: int
    crawl_delay_s: float | None
    min_delay_s: float
    random_delay_s: float
    half_open_probes: int
    domains_max: int
    down_s: float  # so long do the second and third domain fail at first
    address_parallel: int | None  # where set, the three domains share an address
    address_delay_s: float


seconds = st.sampled_from([0.0, 0.0, 0.1, 1 / 3, 0.5, 1.0, 2.5, 7.0])
visits = st.builds(
    Visit,
    domain=st.integers(0, 2),
    after_s=seconds,
    takes_s=seconds,
    ends=st.sampled_from(["answer"] * 6 + ["error", "given back", "exception", "no word", "sent late"]),
    status=st.sampled_from([200] * 6 + [404, 403, 429, 429, 500, 503]),
    retry_after_s=st.sampled_from([None, None, 1, 5, 30]),
    cancelled_after_s=st.sampled_from([None] * 5 + [0.0, 0.2, 1 / 3, 1.0, 5.0]),
    deadline_s=st.sampled_from([None] * 5 + [0.0, 1.0, 10.0]),
    wait_if_open=st.booleans(),
)
shops = st.builds(
    Shop,
    strategy=st.sampled_from(["gauge", "linear", "aimd", "fibonacci", "fixed"]),
    parallel=st.integers(1, 4),
    crawl_delay_s=st.sampled_from([None, None, 0.5, 3.0]),
    min_delay_s=st.sampled_from([0.0, 0.25]),
    random_delay_s=st.sampled_from([0.0, 0.5]),
    half_open_probes=st.integers(1, 2),
    domains_max=st.sampled_from([1, 2, 1_000]),
    down_s=st.sampled_from([0.0, 5.0, 60.0]),
    address_parallel=st.sampled_from([None, None, 1, 3]),
    address_delay_s=st.sampled_from([0.0, 0.0, 0.4]),
)


class Judge:
    """One server's view of one domain, or of all that come to its address."""

    def __init__(self, gap_s: float, parallel: int) -> None:
        self.gap_s = gap_s
        self.parallel = parallel
        self.starts: list[float] = []
        self.flying: dict[int, float] = {}
        self.closed_until = 0.0
        self.started: list[int] = []  # numbers of the visits, in order of sending

    def start(self, number: int, now: float) -> None:
        if self.starts:
            gap_s = now - self.starts[-1]
            assert gap_s >= self.gap_s - 1e-9, f"{gap_s} s after the last start"
        assert now >= self.closed_until, f"{self.closed_until - now} s inside a block"
        self.flying = {other: at for other, at in self.flying.items() if now < at + PERMIT_TIMEOUT_S}
        self.flying[number] = now
        assert len(self.flying) <= self.parallel, f"{len(self.flying)} at once"
        self.starts.append(now)
        self.started.append(number)

    def take_back(self, number: int) -> None:
        """It was never sent."""
        if self.started[-1] == number:
            self.starts.pop()
            self.started.pop()
        self.flying.pop(number, None)

    def end(self, number: int) -> None:
        self.flying.pop(number, None)


class Trial:
    """One run of a schedule."""

    def __init__(self, shop: Shop, schedule: list[Visit], seed: int) -> None:
        self.shop = shop
        self.schedule = schedule
        self.world = World(
            pacing=shop.strategy,
            fixed_delay=0.3,
            max_rate=20,
            random=random.Random(seed).random,
            max_parallel_per_domain=shop.parallel,
            min_crawl_delay=shop.min_delay_s,
            random_delay=shop.random_delay_s,
            half_open_probes=shop.half_open_probes,
            permit_timeout=PERMIT_TIMEOUT_S,
            consecutive_fail_threshold=3,
            shards=1,
            max_domains=shop.domains_max,
            max_parallel_per_address=shop.address_parallel,
            min_address_delay=shop.address_delay_s,
        )
        gap_s = max(shop.crawl_delay_s or 0.0, shop.min_delay_s, 1 / 20)
        self.judges: defaultdict[int, Judge] = defaultdict(lambda: Judge(gap_s, shop.parallel))
        self.address = Judge(shop.address_delay_s, shop.address_parallel or 100)
        self.ends: dict[int, str] = {}

    def url(self, visit: Visit) -> str:
        return f"https://site-{visit.domain}.test/"

    async def visit(self, number: int, visit: Visit) -> None:
        permit = self.world.limiter.permit(
            self.url(visit), deadline_s=visit.deadline_s, wait_if_open=visit.wait_if_open
        )
        try:
            if visit.ends == "no word":
                issued = await permit
                await self.send(number, visit, issued)  # and never a word again: the permit is lost
            else:
                async with permit as issued:
                    await self.send(number, visit, issued)
            self.ends[number] = "done"
        except (CircuitOpen, TooLate) as refusal:
            self.ends[number] = type(refusal).__name__
        except ConnectionResetError:
            self.ends[number] = "broke"
        finally:
            self.ends.setdefault(number, "cancelled")
            if visit.ends != "no word":
                self.judges[visit.domain].end(number)
                self.address.end(number)

    async def send(self, number: int, visit: Visit, issued: Any) -> None:
        judge, world = self.judges[visit.domain], self.world
        judge.start(number, world.clock.monotonic())
        self.address.start(number, world.clock.monotonic())
        if visit.ends == "sent late":
            await asyncio.sleep(visit.takes_s / 2)
            issued.sent()
        await asyncio.sleep(visit.takes_s)
        if visit.ends == "given back":
            judge.take_back(number)
            self.address.take_back(number)
            issued.cancel()
        elif visit.ends == "exception":
            raise ConnectionResetError
        elif visit.ends == "error":
            issued.settle(error=TimeoutError())
        elif visit.ends != "no word":
            status = 500 if visit.domain and world.now < self.shop.down_s else visit.status
            headers = {"Retry-After": str(visit.retry_after_s)} if visit.retry_after_s else {}
            issued.settle(status=status, headers=headers)
            if visit.retry_after_s and status in (429, 503):
                judge.closed_until = max(judge.closed_until, world.clock.monotonic() + visit.retry_after_s)

    def on_event(self, told: Any) -> None:
        if isinstance(told, CircuitOpened):
            judge = self.judges[int(told.domain[5])]
            judge.closed_until = max(judge.closed_until, self.world.clock.monotonic() + told.wait_s - 1e-9)

    async def main(self) -> None:
        tasks = []
        for number, visit in enumerate(self.schedule):
            await asyncio.sleep(visit.after_s)
            task = asyncio.create_task(self.visit(number, visit), name=f"visit {number}")
            tasks.append(task)
            if visit.cancelled_after_s is not None:
                asyncio.get_running_loop().call_later(visit.cancelled_after_s, task.cancel)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    def run(self) -> None:
        self.world.limiter.listen(self.on_event)
        for domain in range(3):
            self.world.limiter.set_crawl_delay(f"https://site-{domain}.test/", self.shop.crawl_delay_s)
            self.world.limiter.set_address(f"https://site-{domain}.test/", "192.0.2.7")
        self.world.run(self.main())


@given(shop=shops, schedule=st.lists(visits, min_size=5, max_size=40), seed=st.integers(0, 2**16))
def test_whatever_comes_politeness_holds_and_everybody_ends(shop: Shop, schedule: list[Visit], seed: int) -> None:
    """P1, P2, P3, V1, V5"""
    trial = Trial(shop, schedule, seed)
    trial.run()
    assert set(trial.ends) | _never_ran(trial) == set(range(len(schedule)))
    snapshot = trial.world.limiter.snapshot()
    assert snapshot.waiting == 0
    assert snapshot.in_flight <= sum(visit.ends == "no word" for visit in schedule)
    for end in set(trial.ends.values()):
        event(end)
    for domain, judge in trial.judges.items():
        numbers = [number for number in judge.started if schedule[number].domain == domain]
        assert numbers == sorted(numbers), "somebody was overtaken"
    if snapshot.domains_evicted:
        event("evicted")
    if any(isinstance(told, CircuitOpened) for told in trial.world.events):
        event("circuit opened")


def _never_ran(trial: Trial) -> set[int]:
    """Those cancelled before their first step."""
    return {number for number, visit in enumerate(trial.schedule) if visit.cancelled_after_s == 0.0}


@given(shop=shops, schedule=st.lists(visits, min_size=5, max_size=25), seed=st.integers(0, 2**16))
def test_the_same_schedule_gives_the_same_history(shop: Shop, schedule: list[Visit], seed: int) -> None:
    first, second = Trial(shop, schedule, seed), Trial(shop, schedule, seed)
    first.run()
    second.run()
    assert [judge.starts for judge in first.judges.values()] == [judge.starts for judge in second.judges.values()]
    assert first.world.events == second.world.events
    assert first.ends == second.ends
