"""The loop in virtual time, over a fetcher that is a function: places, pausing, stopping, our own faults, idleness."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from amble.assemble import make_plan
from amble.core.frontier.changes import State
from amble.core.headers import Headers
from amble.core.outcome import Failure
from amble.core.seeds import seed_url
from amble.core.urls import domain_of
from amble.crawl import Crawl
from amble.fetcher import FetchRequest, FetchResult
from amble.settings import Settings
from amble.testing import virtual
from amble.workers.visitor import TaskFetch
from tests.crawl.rig import QUICK, Crawled

STEADY: dict[str, Any] = {**QUICK, "fixed_delay": 1.0, "max_parallel_per_domain": 4}


def site(host: str, pages: int) -> list[str]:
    return [f"http://{host}/{number}" for number in range(pages)]


class FakeFetcher(TaskFetch):
    """Sends at once and answers after a while; counts who is under way."""

    def __init__(self, clock: virtual.VirtualClock, took_s: float = 0.1, pages: dict[str, bytes] | None = None) -> None:
        self.clock = clock
        self.took_s = took_s
        self.pages = pages or {}
        self.requests: list[FetchRequest] = []
        self.sent: list[tuple[float, str]] = []
        self.under_way = self.under_way_max = 0
        self.connect_s: dict[str, float] = {}  # before the request can be written
        self.on_fetch: Callable[[FetchRequest], None] = lambda request: None

    async def fetch(self, request: FetchRequest) -> FetchResult:
        self.requests.append(request)
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        try:
            self.on_fetch(request)
            await asyncio.sleep(self.connect_s.get(request.url, 0.0))
            self.sent.append((self.clock.monotonic(), request.url))
            if request.on_sent is not None:
                request.on_sent(self.clock.monotonic())
            await asyncio.sleep(self.took_s)
        finally:
            self.under_way -= 1
        if request.url.endswith("/robots.txt"):
            return FetchResult(request.url, 200, body=self.pages.get(request.url, b""))
        headers = Headers([("Content-Type", "text/html")])
        return FetchResult(request.url, 200, headers, self.pages.get(request.url, b"<title>t</title>"))

    def starts(self, domain: str) -> list[float]:
        return [at for at, url in self.sent if domain_of(url) == domain]


class Scene:
    def __init__(self, seeds: list[str], *, in_flight_max: int = 50, took_s: float = 0.1, **wanted: Any) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual.VirtualLoop)
        self.loop, self.clock = loop, loop.clock
        self.crawled = Crawled()
        self.fetcher = FakeFetcher(self.clock, took_s, wanted.pop("pages", None))
        started = [seed_url(seed) for seed in seeds]
        self.plan = make_plan(Settings.of({**STEADY, **wanted}), started, lambda: 0.0)
        self.crawl = Crawl(
            self.plan, self.fetcher, self.clock, in_flight_max=in_flight_max,
            on_changes=self.crawled.on_changes,
        )  # fmt: skip
        changes = self.plan.start(started, self.clock.monotonic(), self.clock.utc())
        self.crawled.on_changes(changes, None, None, self.clock.utc())

    async def run(self) -> Crawled:
        await self.crawl.run()
        self.check()
        return self.crawled

    def check(self) -> None:
        """Every task has its row, and nothing is left of the crawl: no task, no permit, no request under way."""
        self.crawled.check()
        assert self.fetcher.under_way == self.plan.frontier.under_way == 0
        assert all(lane.pace.in_flight == 0 for lane in self.plan.frontier.lanes.values())
        assert [task for task in self.loop.tasks() if task is not asyncio.current_task()] == []


def in_virtual_time(story: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def test() -> None:
        virtual.run(story())

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


@in_virtual_time
async def test_no_more_are_under_way_than_there_are_places_p2() -> None:
    scene = Scene([url for number in range(40) for url in site(f"h{number}.test", 3)], in_flight_max=7, took_s=2.0)
    crawled = await scene.run()
    assert crawled.count(State.DONE) == 120
    assert scene.fetcher.under_way_max == 7


@in_virtual_time
async def test_a_domain_has_no_more_under_way_than_its_own_places_p2() -> None:
    scene = Scene(site("a.test", 30), took_s=20.0)
    await scene.run()
    assert scene.fetcher.under_way_max == 4


@in_virtual_time
async def test_spacing_counts_from_when_a_request_was_really_sent_p1() -> None:
    """A connection that takes 3 s to make: the next request of that domain is a whole delay behind it, however many
    more might be under way."""
    scene = Scene(site("a.test", 6))
    scene.fetcher.connect_s = {"http://a.test/2": 3.0, "http://a.test/4": 0.7}
    await scene.run()
    starts = sorted(scene.fetcher.starts("a.test"))
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert len(gaps) == 6  # robots.txt is one of them
    assert min(gaps) >= 1.0
    assert sum(gaps) == pytest.approx(6.0 + 3.0 + 0.7, abs=0.01), "nobody waits longer than until it has left"


@in_virtual_time
async def test_waiting_costs_nothing() -> None:
    """A thousand seconds of Crawl-delay: the loop turns a few times for each request, and not once in between."""
    scene = Scene(site("a.test", 10), pages={"http://a.test/robots.txt": b"User-agent: *\nCrawl-delay: 100"})
    crawled = await scene.run()
    assert crawled.count(State.DONE) == 10
    assert scene.clock.monotonic() >= 1_000
    assert scene.loop.turns < 250


@in_virtual_time
async def test_a_slow_domain_delays_nobody_f14() -> None:
    """Fast domains end when they would alone, though every one of them waits beside ten that are slow to answer."""
    fast = [url for number in range(20) for url in site(f"fast{number}.test", 10)]
    slow = [url for number in range(10) for url in site(f"slow{number}.test", 5)]
    alone = Scene(fast, in_flight_max=60)
    await alone.run()
    alone_s = max(at for at, url in alone.fetcher.sent)
    began = alone.clock.monotonic()
    beside = Scene([*slow, *fast], in_flight_max=60)
    beside.fetcher.connect_s = dict.fromkeys((url for url in slow), 300.0)
    await beside.run()
    beside_s = max(at for at, url in beside.fetcher.sent if "fast" in url) - began
    assert beside_s == pytest.approx(alone_s, rel=0.1)


# --- From outside ----------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_paused_it_sends_nothing_and_then_goes_on() -> None:
    scene = Scene(site("a.test", 10))
    running = asyncio.create_task(scene.crawl.run())
    await asyncio.sleep(3.05)
    scene.crawl.pause()
    await asyncio.sleep(50)
    assert max(at for at, _ in scene.fetcher.sent) <= 3.05
    assert not running.done()
    scene.crawl.resume()
    await running
    scene.check()
    assert scene.crawled.count(State.DONE) == 10


@in_virtual_time
async def test_drained_it_lets_what_is_under_way_end_and_hands_back_the_rest() -> None:
    scene = Scene(site("a.test", 10), took_s=5.0)
    running = asyncio.create_task(scene.crawl.run())
    await asyncio.sleep(8.5)
    under_way = scene.fetcher.under_way
    scene.crawl.drain()
    await running
    scene.check()
    assert under_way > 1
    assert scene.crawled.count(State.DONE) >= under_way
    assert scene.crawled.count(State.DEFERRED) == 10 - scene.crawled.count(State.DONE)
    assert max(at for at, _ in scene.fetcher.sent) <= 8.5


@in_virtual_time
async def test_a_paused_crawl_can_be_drained() -> None:
    scene = Scene(site("a.test", 10))
    running = asyncio.create_task(scene.crawl.run())
    await asyncio.sleep(2.5)
    scene.crawl.pause()
    await asyncio.sleep(1)
    scene.crawl.drain()
    await asyncio.wait_for(running, 60)
    scene.check()


@in_virtual_time
async def test_stopped_it_hands_back_what_is_under_way_as_well() -> None:
    scene = Scene(site("a.test", 10), took_s=500.0)
    running = asyncio.create_task(scene.crawl.run())
    await asyncio.sleep(502.5)
    assert scene.fetcher.under_way > 1
    scene.crawl.stop()
    await asyncio.wait_for(running, 1)
    scene.check()
    assert {final.failure for final in scene.crawled.finals.values()} == {Failure.CANCELLED}


@in_virtual_time
async def test_stopped_before_a_visit_has_begun_it_hands_that_back_too() -> None:
    """Four visits are made ready in one go; the first to begin stops the crawl before the others have."""
    scene = Scene([f"http://h{number}.test/" for number in range(4)], respect_robots_txt=False)
    scene.fetcher.on_fetch = lambda request: scene.crawl.stop()
    await asyncio.wait_for(scene.crawl.run(), 10)
    scene.check()
    assert len(scene.fetcher.requests) == 1
    assert scene.crawled.count(State.DEFERRED) == 4


@in_virtual_time
async def test_whoever_cancels_the_crawl_gets_everything_back() -> None:
    scene = Scene(site("a.test", 10), took_s=500.0)
    running = asyncio.create_task(scene.crawl.run())
    await asyncio.sleep(502.5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    scene.check()
    assert scene.crawled.count(State.DEFERRED) == 10


@in_virtual_time
async def test_a_fault_of_our_own_ends_the_crawl_and_is_told() -> None:
    """Not a hang, and not a line in a log: the exception itself, when the others have been handed back."""
    scene = Scene([*site("a.test", 5), *site("b.test", 5)], took_s=3.0)

    def fail(request: FetchRequest) -> None:
        if request.url == "http://a.test/2":
            raise ZeroDivisionError("our own mistake")

    scene.fetcher.on_fetch = fail
    with pytest.raises(ZeroDivisionError, match="our own mistake"):
        await asyncio.wait_for(scene.crawl.run(), 100)
    assert scene.fetcher.under_way == 0
    assert set(scene.crawled.finals) == scene.crawled.tasks - {"http://a.test/2"}


# --- What is asked for -----------------------------------------------------------------------------------------------


@in_virtual_time
async def test_what_each_kind_of_visit_asks_for() -> None:
    pages = {"http://a.test/": b"<a href=/1>x</a>"}
    scene = Scene(["http://a.test/"], discover=True, pages=pages, reject_content_types=("image/*",))
    await scene.run()
    by_path = {request.url.removeprefix("http://a.test"): request for request in scene.fetcher.requests}
    robots, sitemap, page = by_path["/robots.txt"], by_path["/sitemap.xml"], by_path["/1"]
    assert (robots.body_bytes_max, robots.keep_prefix, robots.found_on) == (512_000, True, None)
    assert (sitemap.body_bytes_max, sitemap.keep_prefix, sitemap.found_on) == (50 * 1024 * 1024, True, "a.test")
    assert (page.body_bytes_max, page.keep_prefix, page.found_on) == (None, False, "a.test")
    assert robots.keep_body is sitemap.keep_body is None  # a robots.txt of any type is read
    assert page.keep_body is not None
    image = Headers([("Content-Type", "image/png")])
    assert page.keep_body(200, image) is Failure.CONTENT_TYPE_REJECTED
    assert page.keep_body(404, image) is page.keep_body(200, Headers()) is None


@in_virtual_time
async def test_hosts_that_nobody_can_connect_to_hold_up_nobody() -> None:
    """Twenty black holes and three places: the good sites are done long before the first connection is given up."""
    holes = [f"http://hole{number}.test/" for number in range(20)]
    good = [url for number in range(5) for url in site(f"h{number}.test", 3)]
    scene = Scene(holes + good, in_flight_max=3, took_s=0.1)
    scene.fetcher.connect_s = {url: 600.0 for hole in holes for url in (hole, f"{hole}robots.txt")}
    await scene.run()
    done_at = max(at for at, url in scene.fetcher.sent if "hole" not in url)
    assert done_at < 30.0
