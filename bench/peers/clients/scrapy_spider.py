"""Scrapy as its documentation advises for broad crawls; with `autothrottle`, its AutoThrottle extension as well."""

# mypy: ignore-errors
# What it imports is not installed here, but in the environment of the peers.
from __future__ import annotations

import sys
from urllib.parse import urlsplit

from names import lead_home
from scrapy import Spider
from scrapy.crawler import CrawlerProcess

SETTINGS = {
    "ROBOTSTXT_OBEY": True,
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "DOWNLOAD_DELAY": 0,
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    "REACTOR_THREADPOOL_MAXSIZE": 20,
    "COOKIES_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "CRITICAL",
    "RETRY_TIMES": 5,
}
THROTTLED = {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 1.0, "AUTOTHROTTLE_TARGET_CONCURRENCY": 1.0}


class Links(Spider):
    name = "links"

    def parse(self, response):
        host = urlsplit(response.url).netloc
        for href in response.css("a::attr(href)").getall():
            link = response.urljoin(href)
            if urlsplit(link).netloc == host:
                yield response.follow(link, self.parse)


def main(autothrottle: bool) -> None:
    lead_home()
    roots = sys.stdin.read().split()
    process = CrawlerProcess({**SETTINGS, **(THROTTLED if autothrottle else {})})
    process.crawl(Links, start_urls=roots)
    process.start()


if __name__ == "__main__":
    main("autothrottle" in sys.argv[1:])
