"""Scrapy as its documentation advises for broad crawls."""

# mypy: ignore-errors
# What it imports is not installed here, but in the environment of the peers.
from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

from scrapy import Spider
from scrapy.crawler import CrawlerProcess

SETTINGS = {
    "ROBOTSTXT_OBEY": True,
    "CONCURRENT_REQUESTS": 256,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "DOWNLOAD_DELAY": 0,
    "DOWNLOAD_TIMEOUT": 30,
    "DNS_TIMEOUT": 10,
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    "REACTOR_THREADPOOL_MAXSIZE": 20,
    "COOKIES_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "CRITICAL",
}


class Links(Spider):
    name = "links"

    def parse(self, response):
        host = urlsplit(response.url).netloc
        for href in response.css("a::attr(href)").getall():
            link = response.urljoin(href)
            if urlsplit(link).netloc == host:
                yield response.follow(link, self.parse)


def main() -> None:
    roots = Path(sys.argv[1]).read_text().split()
    process = CrawlerProcess(SETTINGS)
    process.crawl(Links, start_urls=roots)
    process.start()


if __name__ == "__main__":
    main()
