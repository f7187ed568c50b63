"""A crawl over a network with a little of every trouble: every good page, a row for every URL, nobody blamed [F8-F11].

Left out, saying why, where no network namespaces can be made.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.network import crawlers, nginx
from bench.network.namespaces import Conditions, why_not
from bench.network.report import lines, table
from bench.network.scenarios import SCENARIOS
from bench.network.trial import Result, crawl

_SOON = ["--header-timeout-s=5"]
_EACH = replace(SCENARIOS["each"], conditions=Conditions(loss=0.0))  # packets are lost by chance; the benchmark's are


@pytest.fixture(scope="module")
def crawled() -> Result:
    reason = why_not() or (None if nginx.can_be_had() else "nginx is not installed")
    if reason is not None:
        pytest.skip(reason)
    return crawl(_EACH, crawlers.amble(settings=_SOON))


@pytest.mark.timeout(400)
def test_every_good_page_is_stored_and_no_good_row_says_that_it_failed(crawled: Result) -> None:
    assert (crawled.got, crawled.stored, crawled.failed_rows) == (crawled.wanted, crawled.wanted, 0), lines(crawled)


@pytest.mark.timeout(400)
def test_every_url_has_a_row_and_no_page_comes_from_where_there_is_none(crawled: Result) -> None:
    assert (crawled.without_row, crawled.foreign) == (0, 0), lines(crawled)


@pytest.mark.timeout(400)
def test_dead_hosts_are_not_taken_for_a_network_that_is_down(crawled: Result) -> None:
    assert crawled.network_down == 0, crawled.output[-3000:]


@pytest.mark.timeout(400)
def test_the_crawl_ends_by_itself_and_says_that_some_failed(crawled: Result) -> None:
    assert crawled.status == 3, lines(crawled)


@pytest.mark.timeout(400)
def test_connections_are_used_again(crawled: Result) -> None:
    assert crawled.per_host < 1.5, lines(crawled)


def test_the_table_for_the_document_takes_the_median_of_several_crawls() -> None:
    facts = {"scenario": "good", "crawler": "amble", "got": 9, "wanted": 9, "failed_rows": 0, "without_row": None}
    seconds = {
        "first_s": 0.5,
        "wall_s": 9.0,
        "status": 0,
        "connections": 12,
        "hosts": 10,
        "handshakes": 0,
        "resumed": 0,
    }
    found = [
        {**facts, **seconds, "last_s": last_s, "cpu_s": 3.0, "rss_mb": 100, "when": "1 May 2031, commit abc. x"}
        for last_s in (4.0, 8.0, 5.0)
    ]
    said = table(found)
    assert said.startswith("1 May 2031, commit abc. ")
    assert "| good: all names good | amble, 3 times | 9 of 9 | 0 | - | 0.5 | 5.0 | 9.0 | 1.20 | - | 3 | 100 |" in said
