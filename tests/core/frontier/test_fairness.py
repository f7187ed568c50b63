"""Who comes first: the domain that has been ready longest; and nobody waits for a domain that waits [F14, V2, V4]."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from amble.core.frontier.frontier import Frontier
from amble.core.frontier.lanes import PLACES_MAX, TURNS_MAX
from amble.core.urls import domain_of
from tests.core.frontier.story import CLOSED, FREE, LIMITED, OK, Answers, Story, page, robots, status

HOSTS = [f"h{number}.test" for number in range(6)]


def site(host: str, pages: int) -> list[str]:
    return [f"http://{host}/{number}" for number in range(pages)]


def order(story: Story) -> list[str]:
    return [domain_of(asked.url) for asked in story.asked]


def test_domains_take_turns_in_the_order_they_became_ready() -> None:
    """One place for all: six domains without delays of their own are served round and round, a few visits each while
    the connection is open."""
    seeds = [url for host in HOSTS for url in site(host, 20)]
    story = Story(seeds, dict.fromkeys(seeds, OK), in_flight_max=1, took_s=0.1, fixed_delay=0.0).run()
    turn = 1 + TURNS_MAX
    rounds = [turn, turn, 21 - 2 * turn]  # robots.txt and twenty pages each
    assert order(story) == [host for visits in rounds for host in HOSTS for _ in range(visits)]


def test_a_domain_with_a_delay_goes_on_when_that_is_over_and_not_before() -> None:
    seeds = [url for host in HOSTS for url in site(host, 5)]
    story = Story(seeds, dict.fromkeys(seeds, OK), in_flight_max=1, took_s=0.1, fixed_delay=0.2).run()
    assert order(story) == HOSTS * 6


def test_a_domain_keeps_its_turn_while_more_of_it_is_found() -> None:
    """Links to a domain that is ready but has not had its turn must not send it to the end of the line."""
    hosts = ["a.test", "b.test", "c.test"]
    links = [f"http://c.test/{number}" for number in range(50)]
    web: dict[str, Answers] = {
        "http://a.test/0": page(*links[:25]), "http://b.test/0": page(*links), **dict.fromkeys(links, OK),
    }  # fmt: skip
    seeds = [f"http://{host}/0" for host in hosts]
    story = Story(seeds, web, in_flight_max=1, took_s=0.1, fixed_delay=0.0, follow_links=True).run()
    assert order(story)[:6] == [host for host in hosts for _ in range(2)]  # robots.txt and a page


def test_a_domain_met_later_does_not_overtake_those_that_wait() -> None:
    """All places are taken: a new domain is ready from when it was met, not from the beginning of time."""
    seeds = [url for host in HOSTS for url in site(host, 20)]
    story = Story(seeds, dict.fromkeys(seeds, OK), in_flight_max=1, took_s=1.0, fixed_delay=0.0, follow_links=True)
    story.run(until=10.0)
    seen = len(story.asked)
    newcomer = "http://late.h0.test/0"
    story.frontier.add(story.tasks[seeds[0]]._replace(url=newcomer, task=newcomer), story.now, story.utc)
    story.tasks[newcomer] = story.tasks[seeds[0]]._replace(url=newcomer, task=newcomer)
    story.run(until=80.0)
    others = order(story)[seen : seen + order(story)[seen:].index("late.h0.test")]
    assert set(others) == set(HOSTS)
    assert len(others) >= len(HOSTS) * TURNS_MAX


def test_a_slow_domain_delays_nobody_f14() -> None:
    """Beside a Crawl-delay of 60 s, a block of 25 minutes and a robots.txt that fails, a fast site takes no longer."""
    fast = site("fast.test", 100)
    slow: dict[str, Answers] = {
        "http://slow.test/robots.txt": robots("Crawl-delay: 60"),
        "http://blocked.test/0": status(429, Retry_After="1500"),
        "http://broken.test/robots.txt": status(500),
        "http://refused.test/0": LIMITED,
    }
    web: dict[str, Answers] = {"http://fast.test/robots.txt": FREE, **dict.fromkeys(fast, OK)}
    alone = Story(fast, web, in_flight_max=2, took_s=0.1).run()
    seeds = [url for host in ("slow", "blocked", "broken", "refused") for url in site(f"{host}.test", 30)]
    beside = Story([*seeds, *fast], dict.fromkeys(seeds, OK) | slow | web, in_flight_max=2, took_s=0.1).run()
    ended = [max(story.ended_at[url] for url in fast) for story in (alone, beside)]
    assert ended[1] <= ended[0] + 1.0
    assert beside.now > 1_500


def test_one_huge_domain_among_many_small_ones_f14() -> None:
    """The small ones finish as if they were alone, though the huge one was first in line."""
    small = [url for number in range(60) for url in site(f"s{number}.test", 2)]
    web = dict.fromkeys([*site("huge.test", 400), *small], OK)
    alone = Story(small, web, in_flight_max=10, took_s=0.1, fixed_delay=0.5).run()
    beside = Story([*site("huge.test", 400), *small], web, in_flight_max=10, took_s=0.1, fixed_delay=0.5).run()
    ended = [sorted(story.ended_at[url] for url in small) for story in (alone, beside)]
    assert ended[1][-1] <= 1.1 * ended[0][-1] + 0.1


def test_work_is_never_left_lying_while_its_time_has_come_v2() -> None:
    """Places are free: every request of a domain starts the moment its delay is over."""
    seeds = [url for host in HOSTS for url in site(host, 10)]
    story = Story(seeds, dict.fromkeys(seeds, OK), took_s=0.3, fixed_delay=1.5).run()
    assert {round(gap, 6) for host in HOSTS for gap in story.gaps(host)} == {1.5}
    assert story.now == 1.5 * 10 + 0.3


def test_a_domain_that_waits_is_not_looked_at() -> None:
    """O(log n) a request: a thousand domains with a delay of a minute cost one look each a minute, and one heap."""
    seeds = [f"http://h{number}.test/{page}" for number in range(300) for page in range(2)]
    story = Story(seeds, dict.fromkeys(seeds, OK), fixed_delay=60.0)
    looked = _count_looks(story.frontier)
    story.run()
    assert len(looked) <= 2 * len(story.asked) + 300
    assert len(story.frontier._heap) <= 300


def test_a_domain_with_all_its_slots_taken_is_not_looked_at() -> None:
    """One look for each request, and no heap of places that are void long before they come."""
    seeds = site("a.test", 300) + site("slow.test", 3)
    web = dict.fromkeys(seeds, OK) | {"http://slow.test/robots.txt": robots("Crawl-delay: 60")}
    story = Story(seeds, web, took_s=0.5, fixed_delay=0.0, max_parallel_per_domain=3)
    looked, heap = _count_looks(story.frontier), 0
    for number in range(1, 60):
        story.run(until=number)
        heap = max(heap, len(story.frontier._heap))
    assert len(story.asked) > 300
    assert len(looked) <= len(story.asked) + 10
    assert heap <= 3 * PLACES_MAX


def _count_looks(frontier: Frontier) -> list[str]:
    looked: list[str] = []
    inner = frontier._try

    def counted(lane, now, utc, changes):  # type: ignore[no-untyped-def]
        looked.append(lane.domain)
        return inner(lane, now, utc, changes)

    frontier._try = counted  # type: ignore[method-assign]
    return looked


def test_spacing_holds_over_everything_p1() -> None:
    """robots.txt, sitemaps, redirects, retries and pages of one domain are all requests."""
    site_web: dict[str, Answers] = {
        "http://a.test/": page("/1", "/2", "/3"), "http://a.test/1": status(301, Location="/4"),
        "http://a.test/2": [status(500), status(503, Retry_After="3"), OK], "http://a.test/4": page("/5"),
    }  # fmt: skip
    story = Story(["http://a.test/"], site_web, fixed_delay=2.0, took_s=5.0, max_parallel_per_domain=4).run()
    assert len(story.asked) > 9
    assert min(later.at - earlier.at for earlier, later in pairwise(story.asked)) >= 2.0


@pytest.mark.parametrize("most", [1, 3])
def test_one_answer_wakes_as_many_neighbours_as_it_makes_room_for(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred domains at one address: each request costs a few tries, not two hundred."""
    hosts = [f"http://h{number}.test/{page}" for number in range(200) for page in range(3)]
    story = Story(hosts, dict.fromkeys(hosts, OK), address="192.0.2.1", took_s=1.0, fixed_delay=0.0, discover=False,
                  max_parallel_per_address=most, in_flight_max=50)  # fmt: skip
    tries, really = 0, Frontier._try

    def counted(*asked: Any) -> Any:
        nonlocal tries
        tries += 1
        return really(*asked)

    monkeypatch.setattr(Frontier, "_try", counted)
    story.run()
    assert set(story.ends().values()) == {"done"}
    assert tries < 4 * len(story.asked)


@pytest.mark.parametrize("gap_s", [0.0, 0.5])
def test_an_address_is_used_as_fully_as_it_may_be(gap_s: float) -> None:
    """V2: nobody who waits for it is forgotten, whatever becomes of those before."""
    hosts = [f"http://h{number}.test/{page}" for number in range(30) for page in range(3)]
    closed = {f"http://h{number}.test/robots.txt": CLOSED for number in range(0, 30, 3)}
    web: dict[str, Answers] = {**dict.fromkeys(hosts, OK), **closed}
    story = Story(hosts, web, address="192.0.2.1", took_s=1.0, fixed_delay=0.0, discover=False,
                  max_parallel_per_address=2, min_address_delay=gap_s)  # fmt: skip
    story.run()
    assert story.now <= 30 + len(story.asked) / 2  # the first request of each is sent before its address is known
