"""Visits whose maker died: tried again like a failure, spaced from the death, ended when they kill again [G1, G9]."""

from __future__ import annotations

import asyncio
from collections import Counter

from amble.core.frontier.changes import State
from amble.core.frontier.visit import Visit
from amble.core.outcome import Failure
from amble.fetcher.calls import Cancel, OnDone, in_task
from amble.workers.errand import OnSent, Visited
from amble.workers.visitor import Visitor
from tests.crawl.test_loop import Scene, in_virtual_time, site

DIES_AFTER_S = 0.75


class Mortal:
    """Dies of some URLs, so many times each."""

    def __init__(self, inner: Visitor, deaths: dict[str, int]) -> None:
        self._inner = inner
        self._left = Counter(deaths)
        self.died_at: list[float] = []

    def visit(self, visit: Visit, gap_s: float, on_sent: OnSent, on_done: OnDone[Visited]) -> Cancel:
        if not self._left[visit.url]:
            return self._inner.visit(visit, gap_s, on_sent, on_done)
        self._left[visit.url] -= 1
        return in_task(self._die(), on_done)

    async def _die(self) -> None:
        await asyncio.sleep(DIES_AFTER_S)
        self.died_at.append(asyncio.get_running_loop().time())


def scene_of(deaths: dict[str, int]) -> tuple[Scene, Mortal]:
    scene = Scene(site("a.test", 6))
    scene.crawl.visitor = mortal = Mortal(scene.crawl.visitor, deaths)
    return scene, mortal


@in_virtual_time
async def test_a_lost_visit_is_made_again_and_its_domain_left_alone_for_its_delay_g1() -> None:
    scene, mortal = scene_of({"http://a.test/2": 1, "http://a.test/4": 1})
    crawled = await scene.run()
    assert crawled.count(State.DONE) == 6
    assert len(mortal.died_at) == 2
    for death in mortal.died_at:
        assert min(start - death for start in scene.fetcher.starts("a.test") if start > death) >= 1.0


@in_virtual_time
async def test_a_page_that_kills_whoever_reads_it_ends_g9() -> None:
    scene, mortal = scene_of({"http://a.test/3": 1_000})
    crawled = await scene.run()
    assert crawled.end("http://a.test/3") == Failure.CANCELLED.value
    assert crawled.finals["http://a.test/3"].state is State.FAILED
    assert crawled.count(State.DONE) == 5
    assert 2 <= len(mortal.died_at) <= 10


@in_virtual_time
async def test_a_robots_txt_that_kills_counts_as_unreachable_g9() -> None:
    scene, mortal = scene_of({"http://a.test/robots.txt": 1_000})
    crawled = await scene.run()
    assert set(crawled.ends().values()) == {Failure.ROBOTS_UNREACHABLE.value}
    assert 2 <= len(mortal.died_at) <= 20


@in_virtual_time
async def test_a_robots_txt_that_was_lost_once_is_read_after_all() -> None:
    scene, _ = scene_of({"http://a.test/robots.txt": 1})
    assert (await scene.run()).count(State.DONE) == 6
