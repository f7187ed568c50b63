"""A site that is silently down for some seconds costs no page: trials whether it is back use up no URL; decision 89."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from amble.core.frontier.changes import State
from amble.core.frontier.visit import Kind
from amble.core.outcome import Failure, Phase
from tests.core.frontier.story import DOWN, FREE, LIMITED, MISSING, OK, Answers, Reply, Story, broken, page, status

A = "http://a.test/"
CUT = broken(Failure.NETWORK_RESET, phase=Phase.HEADERS)
REFUSED = broken(Failure.NETWORK_CONNECTION_REFUSED, phase=Phase.CONNECT)
SILENT = broken(Failure.NETWORK_TIMEOUT, phase=Phase.HEADERS)
NAMELESS = broken(Failure.NETWORK_DNS_FAILURE, phase=Phase.RESOLVE, dns_error="server_failure")
LIKE_OURS: dict[str, Any] = {"pacing": "gauge", "max_rate": 8.0, "max_parallel_per_domain": 8, "follow_links": True}
FANOUT = 8


class Site(Story):
    """Pages that link to each other as a tree does; from one instant to another each request has the same bad end."""

    def __init__(self, pages: int, down: Reply, begins: float, ends: float, random: Random, **settings: Any) -> None:
        self.pages, self.down, self.begins, self.ends_at = pages, down, begins, ends
        super().__init__([A], {}, random=random.random, **{**LIKE_OURS, "max_tail": 120.0, **settings})

    def _reply(self, visit: Any) -> Reply:
        if self.begins <= self.now < self.ends_at:
            return self.down
        if visit.kind is not Kind.PAGE:
            return FREE if visit.kind is Kind.ROBOTS else MISSING
        first = FANOUT * int(visit.url.removeprefix(A) or 0) + 1
        return page(*(f"/{number}" for number in range(first, min(first + FANOUT, self.pages))))

    def requests(self) -> Counter[str]:
        return Counter(asked.url for asked in self.asked)


@pytest.mark.parametrize("down", [DOWN, CUT, REFUSED, NAMELESS], ids=["503", "cut", "refused", "nameless"])
@pytest.mark.parametrize("number", range(25))
def test_no_page_is_lost_to_an_outage_of_half_a_minute(number: int, down: Reply) -> None:
    """Wherever in the crawl it comes, be it one page from its end."""
    random = Random(number)
    pages, took_s = random.choice((1, 1, 2, 9)), random.choice((0.05, 0.2))
    robots_s = 2 * took_s + 0.001  # when its robots.txt was answered: before that nobody is known to be there
    begins = random.uniform(robots_s, robots_s + pages / 8.0)
    site = Site(pages, down, begins, begins + random.uniform(3.0, 35.0), random, took_s=took_s)
    site.run()
    assert Counter(site.ends().values()) == {"done": pages}
    assert max(site.requests().values()) <= 2 * 6


@pytest.mark.parametrize(
    ("why", "down", "most"),
    [
        ("trials of a site that only fails", CUT, 11),
        ("that is overloaded", DOWN, 11),
        ("that says when it will be back", status(503, Retry_After="2"), 6),
        ("that refuses", LIMITED, 6),
    ],
)
@pytest.mark.parametrize("left", [1, 2, 12])
def test_a_url_of_a_site_that_stays_down_has_its_tries_and_as_many_trials_c1(
    why: str, down: Reply, most: int, left: int
) -> None:
    urls = [f"{A}{number}" for number in range(left)]
    web: dict[str, Answers] = {**dict.fromkeys(urls, down), f"{A}ok": OK, f"{A}robots.txt": FREE}
    story = Story([f"{A}ok", *urls], web, discover=False, **LIKE_OURS).run()
    requests = Counter(asked.url for asked in story.asked)
    assert max(requests.values()) <= most, why
    assert left > 1 or requests[f"{A}0"] == most
    assert {final.state for final in story.finals.values()} <= {State.DONE, State.FAILED, State.DEFERRED}
    assert down is LIMITED or story.now <= 1_800.0 + 300.0, "domain_stall_timeout, and the pause that ends it"


def test_after_a_minute_each_trial_costs_a_try() -> None:
    """They come seldom by then, and nobody waits for a site that stays down because of what is tried there."""
    urls = [f"{A}{number}" for number in range(3)]
    web: dict[str, Answers] = {**dict.fromkeys(urls, CUT), f"{A}ok": OK, f"{A}robots.txt": FREE}
    story = Story([f"{A}ok", *urls], web, discover=False, **LIKE_OURS).run()
    down_at = min(asked.at for asked in story.asked if asked.url in urls)
    early, late = (
        Counter((asked.url, asked.visit.attempt) for asked in story.asked if (asked.at > down_at + 75.0) is is_late)
        for is_late in (False, True)
    )
    assert (max(early.values()) > 1, max(late.values())) == (True, 1)


@pytest.mark.parametrize("max_retries", [0, 1, 3])
def test_who_wants_few_tries_gets_few_l1(max_retries: int) -> None:
    web: dict[str, Answers] = {A: CUT, f"{A}ok": OK, f"{A}robots.txt": FREE}
    settings = {**LIKE_OURS, "consecutive_fail_threshold": 1}
    story = Story([f"{A}ok", A], web, discover=False, max_retries=max_retries, **settings).run()
    assert len(story.times(A)) == 2 * max_retries + 1
    assert story.finals[A].visit.attempt == max_retries + 1
