"""The ready-made webs are what they say, and the pages a judge expects are those that a crawl can find."""

from __future__ import annotations

import pickle
from collections import deque
from urllib.parse import urljoin

import pytest

from amble.testing.farm import Site, demo_web, judge
from amble.testing.farm.exchange import Response
from amble.testing.farm.host import Host
from amble.testing.farm.webs import (
    WEBS,
    hidden_limits,
    isolation,
    many_hosts,
    outages,
    shop,
    ten_thousand,
    throughput,
    traps,
)

from .helpers import NOON, body_of, hrefs, request


@pytest.mark.parametrize("name", WEBS)
def test_a_web_can_be_sent_to_a_process_and_has_each_name_once(name: str) -> None:
    sites = WEBS[name]()
    assert pickle.loads(pickle.dumps(sites)) == sites or any(site.limit for site in sites)
    assert len({site.name for site in sites}) == len(sites)
    assert all(site.name.endswith(".test") for site in sites)


class Crawl:
    """Follows every link and redirect of a web without a network, at its leisure, trying twice what fails."""

    def __init__(self, sites: list[Site]) -> None:
        self._hosts = {site.name: Host(site.name, site, 0.0) for site in sites}
        self._now = 1000.0  # when every outage is over
        self.got: set[str] = set()

    def run(self) -> None:
        waiting = deque(f"http://{name}:8000/" for name in self._hosts)
        seen = set(waiting)
        while waiting:
            url = waiting.popleft()
            for found in self._visit(url):
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)

    def _visit(self, url: str) -> list[str]:
        response = self._fetch(url)
        if response.status == 500:
            response = self._fetch(url)
        if response.status != 200:
            return [urljoin(url, response.headers["Location"])] if "Location" in response.headers else []
        self.got.add(url)
        return [urljoin(url, href).partition("#")[0] for href in hrefs(body_of(response))]

    def _fetch(self, url: str) -> Response:
        self._now += 100.0
        name, _, rest = url.removeprefix("http://").partition(":8000")
        host = self._hosts[name]
        assert host.site.robots is not None
        if host.site.robots.forbids(rest):
            return Response(999)
        return host.answer(request(rest, name, self._now), NOON)


def test_whoever_follows_the_links_of_the_demonstration_gets_every_page() -> None:
    sites = demo_web()
    crawl = Crawl(sites)
    crawl.run()
    expected = {f"http://{site.name}:8000{path}" for site in sites for path in site.paths()}
    assert expected - crawl.got == set()
    assert all("?ref=" in url or "/account/" in url for url in crawl.got - expected)


def test_the_demonstration_shows_every_character_within_a_minute() -> None:
    sites = demo_web()
    assert len(sites) == 12
    assert 400 < sum(len(list(site.paths())) for site in sites) < 700
    assert judge([], sites, max_rate=8.0).ideal_s < 35.0
    assert any(site.robots and site.robots.crawl_delay_s == 1.0 for site in sites)
    assert any(site.limit and site.limit.refusal.status == 429 for site in sites)
    assert all(site.note for site in sites)


def test_hidden_limits_take_an_oracle_twenty_seconds_each() -> None:
    sites = hidden_limits()
    needed = [site.limit.ideal_s(site.pages.count) for site in sites if site.limit]
    assert len(needed) == 30
    assert all(pytest.approx(one, rel=0.02) == 20.0 for one in needed)
    counts = sorted(site.pages.count for site in sites)
    assert (counts[0], counts[-1]) == (40, 400)
    assert [site.pages.count for site in hidden_limits(seed=1)] != [site.pages.count for site in sites]
    refusals = {(site.limit.refusal.status, site.limit.refusal.retry_after) for site in sites if site.limit}
    assert refusals == {(429, "silent"), (429, "seconds"), (503, "date")}


def test_sizes_are_those_of_the_benchmarks() -> None:
    def sizes(sites: list[Site]) -> tuple[int, set[int], set[int]]:
        return len(sites), {site.pages.count for site in sites}, {site.pages.size_bytes for site in sites}

    assert sizes(throughput()) == (1, {5000}, {20_000})
    assert sizes(many_hosts()) == (200, {25}, {20_000})
    assert sizes(ten_thousand()) == (10_000, {3}, {5_000})
    assert sizes(shop()) == (1, {500}, {20_000})


def test_isolation_has_one_slow_site_or_none() -> None:
    beside, alone = isolation(), isolation(slow_pages=0)
    assert [site.robots.crawl_delay_s for site in beside if site.robots] == [None] * 20 + [5.0]
    assert beside[:20] == alone


def test_the_shop_refuses_the_third_at_a_time_and_the_fourth_in_a_second() -> None:
    (site,) = shop()
    host = Host(site.name, site, 0.0)
    at_once = [host.answer(request("/", site.name, 0.0), NOON).refused for _ in range(3)]
    assert at_once == [False, False, True]
    host = Host(site.name, site, 0.0)
    spread = [host.answer(request("/", site.name, at), NOON).refused for at in (0.0, 0.6, 1.2, 1.8, 2.4, 3.0)]
    assert spread == [False] * 6
    assert judge([], [site]).ideal_s == pytest.approx(500 / 3)


def test_outages_come_in_every_kind_beside_sites_that_stay_up() -> None:
    sites = outages()
    assert {outage.how for site in sites for outage in site.outages} == {"reset", "error", "maintenance", "hang"}
    assert sum(not site.outages for site in sites) == 6
    assert any(len(site.outages) > 2 for site in sites)


def test_seven_traps_stand_beside_good_sites() -> None:
    """[C7]"""
    sites = traps()
    assert len(sites) == 100
    assert sum(bool(site.features) for site in sites) == 7
