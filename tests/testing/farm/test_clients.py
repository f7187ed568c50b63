"""Real clients over real sockets: each breaks one rule and is caught; the polite one is not."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from amble.testing.farm import Farm, Pages, Robots, Site
from amble.testing.farm.faults import Private
from amble.testing.farm.limits import bucket, penalty_box, refusing
from amble.testing.farm.outages import Outage

from .conftest import Start
from .helpers import Busy, Client, raw, settled

DELAY_S = 0.2
PATHS = list(Pages(4).paths())


def wait(seconds: float) -> None:
    """At least that long, whatever the system's timers make of it."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(left)


def polite(client: Client) -> None:
    client.get("a.test", "/robots.txt")
    for path in PATHS:
        wait(DELAY_S)
        client.get("a.test", path)


def hasty(client: Client) -> None:
    client.get("a.test", "/robots.txt")
    wait(DELAY_S)
    client.get("a.test", PATHS[0])
    client.get("a.test", PATHS[1])


def blind(client: Client) -> None:
    client.get("a.test", PATHS[0])


def forgetful(client: Client) -> None:
    client.get("a.test", "/robots.txt")
    wait(DELAY_S)
    client.get("a.test", "/robots.txt")


def nosy(client: Client) -> None:
    client.get("a.test", "/robots.txt")
    wait(DELAY_S)
    client.get("a.test", "/private/1")


CLIENTS: dict[str, tuple[Callable[[Client], None], dict[str, int]]] = {
    "polite": (polite, {"got": 4}),
    "hasty": (hasty, {"got": 2, "under_crawl_delay": 1}),
    "blind": (blind, {"got": 1, "before_robots": 1}),
    "forgetful": (forgetful, {"got": 0, "robots_again": 1}),
    "nosy": (nosy, {"got": 0, "disallowed": 1}),
}


@pytest.mark.parametrize(("crawl", "expected"), CLIENTS.values(), ids=CLIENTS)
def test_rules_of_robots_txt(start: Start, crawl: Callable[[Client], None], expected: dict[str, int]) -> None:
    robots = Robots(crawl_delay_s=DELAY_S, disallow=("/private/",))
    farm = start(Site(name="a.test", pages=Pages(4), robots=robots, features=(Private(),)))
    with Client(farm) as client:
        crawl(client)
    found = farm.judge()["a.test"]
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.violations == sum(expected.values()) - expected["got"]


def limited(start: Start) -> Farm:
    """The third request within half a second costs a penalty of 1.2 s, told as 2."""
    return start(Site(name="a.test", pages=Pages(4), limit=refusing(penalty_box(bucket(2.0, 2.0), 1.2), "seconds")))


def test_a_client_that_waits_out_a_retry_after(start: Start) -> None:
    farm = limited(start)
    with Client(farm) as client:
        answers = [client.get("a.test", path) for path in ("/robots.txt", PATHS[0], PATHS[1])]
        assert [answer.status for answer in answers] == [200, 200, 429]
        wait(float(answers[2].headers["retry-after"]))
        client.get("a.test", PATHS[1])
    found = farm.judge()["a.test"]
    assert (found.got, found.refusals, found.violations) == (2, 1, 0)


def test_a_client_that_knocks_again(start: Start) -> None:
    """[F5] The penalty lasts 1.2 s, the Retry-After says 2: what comes between is served, and counted."""
    farm = limited(start)
    with Client(farm) as client:
        for path in ("/robots.txt", PATHS[0], PATHS[1]):
            client.get("a.test", path)
        wait(0.1)
        assert client.get("a.test", PATHS[1]).status == 429
        wait(1.2)
        assert client.get("a.test", PATHS[1]).status == 200
    found = farm.judge()["a.test"]
    assert (found.got, found.refusals, found.inside_retry_after, found.violations) == (2, 2, 2, 2)


def test_requests_already_on_their_way_are_not_inside_a_retry_after(start: Start) -> None:
    """[F5] Thirty-two at once: most are refused, and none could have known."""
    farm = limited(start)
    with Client(farm) as client:
        client.get("a.test", "/robots.txt")
    with Busy(farm):
        connections = [raw(farm, ("a.test", path)) for path in PATHS * 8]
    log = settled(farm, 33)
    for connection in connections:
        connection.close()
    found = farm.judge()["a.test"]
    assert sum(entry.refused for entry in log) >= 28
    assert (found.inside_retry_after, found.violations) == (0, 0)


def test_a_client_that_hammers_a_site_that_is_down(start: Start) -> None:
    """[F7] What is sent into an outage is counted, and so is the time until the next page."""
    farm = start(Site(name="a.test", pages=Pages(4), outages=(Outage(0.1, 1.0, "error"),)))
    with Client(farm) as client:
        client.get("a.test", "/robots.txt")
        wait(0.2)
        for _ in range(3):
            client.get("a.test", PATHS[0])
        wait(0.9)
        client.get("a.test", PATHS[0])
    (outage,) = farm.judge()["a.test"].outages
    assert outage.requests == 3
    assert outage.recovered_s is not None
    assert 0.0 < outage.recovered_s < 5.0
