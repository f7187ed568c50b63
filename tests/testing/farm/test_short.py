"""The laboratory's short hosts as sites: the same limits, clocks, outages and pages over real sockets."""

from __future__ import annotations

import pickle
from random import Random

import pytest

from amble.testing.farm import judge
from amble.testing.farm.exchange import Response
from amble.testing.farm.host import Host
from amble.testing.farm.short import Drawn, host_of, short_group, short_site
from amble.testing.farm.site import Site
from amble.testing.lab.short.groups import GROUPS

from .helpers import NOON, request

START = 5_000.0  # monotonic


def play(site: Site, times: list[float], target: str = "/") -> list[Response]:
    """The answers to requests at these seconds after the first."""
    host = Host(site.name, site, START)
    return [host.answer(request(target, site.name, START + at), NOON + at) for at in times]


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_can_be_sent_to_a_process_and_is_that_of_the_laboratory(name: str) -> None:
    sites = short_group(name, hosts=3, seed=7)
    assert len({site.name for site in sites}) == 3
    for number, site in enumerate(pickle.loads(pickle.dumps(sites))):
        host = GROUPS[name].host(number, 7)
        assert len(set(site.paths())) == host.pages
        assert site.oracle_s == pytest.approx(judge([], [site])[site.name].ideal_s)
        assert (site.note, site.latency, len(site.outages)) == (host.name, host.latency, len(host.downtimes))


@pytest.mark.parametrize("name", GROUPS)
def test_its_limiter_says_what_the_laboratorys_says(name: str) -> None:
    """Asked at the same moments of the site's own clock."""
    drawn, random = Drawn(name, 1, 3), Random(5)
    host, site = host_of(drawn), short_site(drawn)
    assert site.limit is not None
    ours, theirs = site.limit.build(Random(0)), host.limiter()
    now = 0.0
    for _ in range(300):
        now += random.expovariate(20.0)
        assert ours.admit(now, 0.1) == pytest.approx(theirs.admit(now + host.clock_s, 0.1), abs=1e-6)


def busy(name: str) -> Site:
    """A site of a group with a limit that a burst exceeds."""
    return short_group(name, hosts=1, seed=2)[0]


def test_robots_txt_and_guesses_at_sitemaps_are_not_limited() -> None:
    site = busy("short-buckets")
    times = [0.001 * number for number in range(400)]
    for target in ("/robots.txt", "/sitemap.xml", "/sitemap_index.xml"):
        assert not any(answer.refused for answer in play(site, times, target))
    assert any(answer.refused for answer in play(site, times))


def test_an_outage_tells_when_it_will_be_over_and_cuts_off_what_is_under_way() -> None:
    told, silent = busy("short-outages-told"), busy("short-outages-silent")
    for site, tells in ((told, True), (silent, False)):
        [outage] = site.outages
        during, after = play(site, [0.0, outage.from_s + 0.5, outage.to_s + 0.1])[1:]
        assert (during.status, during.outage, after.status) == (503, True, 200)
        assert ("Retry-After" in during.headers) == tells == (during.not_before is not None)
        if during.not_before is not None:
            assert outage.to_s - 0.1 <= during.not_before - START <= outage.to_s + 2.1
        [cut_off] = play(site, [0.0, outage.from_s - 1e-4])[1:]
        assert cut_off.broken == "reset"
        assert cut_off.wait_s == pytest.approx(1e-4)


@pytest.mark.parametrize("dialect", ["x-epoch", "split", "structured"])
def test_windows_tell_their_quota_in_every_dialect(dialect: str) -> None:
    names = {"x-epoch": "X-RateLimit-Remaining", "split": "RateLimit-Remaining", "structured": "RateLimit"}
    drawn = (Drawn("short-windows-headers", number, 1) for number in range(50))
    site = next(short_site(each) for each in drawn if host_of(each).part == dialect)
    [first] = play(site, [0.0])
    assert names[dialect] in first.headers
