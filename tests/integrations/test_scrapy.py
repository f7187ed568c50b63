"""The limiter inside Scrapy, in a program of its own: a reactor can be run only once."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from tests.integrations.conftest import Site

PROGRAM = """
import json, sys
import scrapy
from scrapy.crawler import CrawlerProcess
import amble

limiter = amble.Limiter(pacing="fixed", fixed_delay=0.1, max_rate=None)
got = []

class Spider(scrapy.Spider):
    name = "s"
    start_urls = sys.argv[2:]
    handle_httpstatus_list = [404]
    def parse(self, response):
        got.append(response.status)

settings = dict(
    LOG_ENABLED=False, TELNETCONSOLE_ENABLED=False, ROBOTSTXT_OBEY=False, AMBLE_LIMITER="__main__.limiter",
    DOWNLOAD_TIMEOUT=10, RETRY_TIMES=2, DOWNLOADER_MIDDLEWARES={"amble.integrations.scrapy.LimiterMiddleware": 990},
    DOWNLOAD_DELAY=0, CONCURRENT_REQUESTS_PER_DOMAIN=8,
)
if sys.argv[1] != "default":
    settings["TWISTED_REACTOR"] = sys.argv[1]
process = CrawlerProcess(settings)
process.crawl(Spider)
process.start()
seen = limiter.snapshot()
print(json.dumps({"got": got, "requests": seen.requests, "successes": seen.successes, "limited": seen.limited,
                  "failures": seen.failures, "in_flight": seen.in_flight,
                  "retries": seen.retries}))
"""


def crawl(*urls: str, reactor: str = "default") -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), reactor, *urls], capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("reactor", ["default", "twisted.internet.selectreactor.SelectReactor"])
def test_a_spider_waits_its_turn_on_any_reactor(reactor: str, site: Site) -> None:
    found = crawl(*[site.url(f"/{n}") for n in range(4)], reactor=reactor)
    assert found == {
        "got": [200] * 4, "requests": 4, "successes": 4, "limited": 0, "failures": 0, "in_flight": 0, "retries": 0,
    }  # fmt: skip
    assert sum(site.gaps()) >= 0.15, "connecting may shift the first by itself, but not all of them"


@pytest.mark.parametrize("reactor", ["default", "twisted.internet.selectreactor.SelectReactor"])
def test_a_refusal_is_kept_to_and_scrapys_own_retry_waits_its_turn(reactor: str, site: Site) -> None:
    found = crawl(site.url("/busy"), reactor=reactor)
    assert (found["got"], found["limited"], found["requests"], found["retries"]) == ([200], 1, 2, 1)
    assert site.gaps()[0] >= 1.0


def test_redirects_and_faults_are_counted(site: Site) -> None:
    found = crawl(site.url("/moved"), site.url("/hangup"))
    assert found["got"] == [200]
    assert found["failures"] == 3  # the first try and two of Scrapy's own
    assert (found["requests"], found["in_flight"]) == (5, 0)
