"""What sites have besides pages: faults, redirects, forbidden rooms and traps without end."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest

from amble.testing.farm import Feature, Pages, Robots, Site
from amble.testing.farm.faults import Errors, Private, Slow
from amble.testing.farm.host import Host
from amble.testing.farm.redirects import Redirects
from amble.testing.farm.traps import TRAPS, Kind, Trap

from .helpers import NOON, asked, body_of, hrefs, request


def site_with(*features: Feature, robots: Robots | None = None) -> Site:
    return Site(name="a.test", pages=Pages(6), features=features, robots=robots or Robots())


def test_errors_are_linked_and_fail_as_they_should() -> None:
    site = site_with(Errors(missing=2, broken=1, flaky=1))
    assert {"/missing/1", "/missing/2", "/broken/1", "/flaky/1"} <= set(hrefs(body_of(asked(site))))
    assert [asked(site, path).status for path in ("/missing/2", "/broken/1", "/flaky/1")] == [404, 500, 500]
    assert "/flaky/1" in site.paths()
    assert "/broken/1" not in site.paths()


def test_a_flaky_page_is_there_at_the_second_try() -> None:
    site = site_with(Errors(flaky=2))
    host = Host(site.name, site, 0.0)
    targets = ["/flaky/1", "/flaky/2", "/flaky/1", "/flaky/1"]
    assert [host.answer(request(target), NOON).status for target in targets] == [500, 500, 200, 200]


def test_some_pages_are_slow() -> None:
    site = site_with(Slow(every=2, delay_s=3.0))
    waits = [asked(site, path).wait_s for path in site.pages.paths()]
    assert waits == [0.0, 0.0, 3.0, 0.0, 3.0, 0.0]


def test_private_pages_are_linked_and_forbidden() -> None:
    site = site_with(Private(2), robots=Robots(disallow=("/private/",)))
    assert "/private/2" in hrefs(body_of(asked(site)))
    assert "/private/2" not in site.paths()
    assert asked(site, "/private/2").status == 200
    assert len(list(site.paths())) == 6


REDIRECTS = site_with(Redirects(moved=5, away=1, to="b.test", loops=1, hops=3))


def follow(target: str, most: int = 10) -> tuple[list[int], str]:
    """The statuses on the way, and where it ended."""
    met = []
    for _ in range(most):
        response = asked(REDIRECTS, target)
        met.append(response.status)
        location = response.headers.get("Location")
        if location is None or location.startswith("http"):
            return met, location or target
        target = location
    return met, target


WAYS = {
    "to a new address": ("/old/1", [302, 200], "/new/1"),
    "through a chain": ("/hop/3", [301, 301, 301, 200], "/hop/0"),
    "to another site": ("/away/1", [302], "http://b.test:8000/"),
    "in a circle": ("/loop/1", [302] * 10, "/loop/1"),
}


@pytest.mark.parametrize(("target", "statuses", "end"), WAYS.values(), ids=WAYS)
def test_redirects_lead(target: str, statuses: list[int], end: str) -> None:
    assert follow(target) == (statuses, end)


def test_every_kind_of_redirect_is_among_the_moved() -> None:
    assert sorted(follow(f"/old/{number}")[0][0] for number in range(1, 6)) == [301, 302, 303, 307, 308]


def test_pages_behind_redirects_are_linked_only_by_their_old_addresses() -> None:
    linked = set(hrefs(body_of(asked(REDIRECTS))))
    behind = {"/new/1", "/new/5", "/hop/0"}
    assert behind <= set(REDIRECTS.paths())
    assert not behind & linked
    assert {"/old/1", "/hop/3", "/loop/1", "/away/1"} <= linked


@pytest.mark.parametrize("kind", TRAPS)
def test_a_trap_never_ends(kind: Kind) -> None:
    """[C7] A hundred steps, and at each of them something new."""
    site = Site(name="a.test", features=(Trap(kind),), subdomains=True)
    assert "/trap/" in hrefs(body_of(asked(site)))
    seen, url = set(), "http://a.test:8000/trap/"
    for _ in range(20 if kind == "filters" else 100):
        seen.add(url)
        origin, _, rest = url.partition("//")[2].partition("/")
        host = origin.partition(":")[0]
        response = Host(host, site, 0.0).answer(request(f"/{rest}", host), NOON)
        assert response.status == 200
        new = [found for href in hrefs(body_of(response)) if (found := urljoin(url, href)) not in seen]
        assert new
        url = new[0]


def test_a_trap_keeps_to_its_own_corner() -> None:
    site = Site(name="a.test", pages=Pages(6), features=(Trap("calendar"),))
    assert len(list(site.paths())) == 6
    assert [asked(site, path).status for path in site.pages.paths()] == [200] * 6


def test_soft_404s_have_one_body_but_for_their_links() -> None:
    site = Site(name="a.test", features=(Trap("soft-404"),))
    titles = {body_of(asked(site, f"/trap/{name}")).partition(b"\n")[0] for name in ("a", "b", "c")}
    assert len(titles) == 1
