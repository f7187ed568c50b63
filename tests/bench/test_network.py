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
from bench.network.trial import crawl

_SOON = ["--header-timeout-s=5"]
_EACH = replace(SCENARIOS["each"], conditions=Conditions(loss=0.0))  # packets are lost by chance; the benchmark's are


@pytest.mark.timeout(400)
def test_a_crawl_over_a_network_with_a_little_of_every_trouble() -> None:
    """One test, as it is one crawl, which lasts for `max_tail`; several tests could be in several processes."""
    reason = why_not() or (None if nginx.can_be_had() else "nginx is not installed")
    if reason is not None:
        pytest.skip(reason)
    crawled = crawl(_EACH, crawlers.amble(settings=_SOON))
    found = {
        "good pages served": crawled.got,
        "good pages stored": crawled.stored,
        "rows of good pages that say failed": crawled.failed_rows,
        "URLs without a row": crawled.without_row,
        "pages from where there is none": crawled.foreign,
        "network said to be down": crawled.network_down,
        "exit code": crawled.status,
        "connections are used again": crawled.per_host < 1.5,
    }
    assert found == {
        "good pages served": crawled.wanted,
        "good pages stored": crawled.wanted,
        "rows of good pages that say failed": 0,
        "URLs without a row": 0,
        "pages from where there is none": 0,
        "network said to be down": 0,
        "exit code": 3,  # it ended by itself, and some failed
        "connections are used again": True,
    }, f"{lines(crawled)}\n{crawled.output[-3000:]}"


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
