"""Crawlee for Python: its Parsel crawler, robots.txt respected, storage in memory."""

# mypy: ignore-errors
# What it imports is not installed here, but in the environment of the peers.
from __future__ import annotations

import asyncio
import logging
import sys
from datetime import timedelta

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.http_clients import HttpxHttpClient
from crawlee.storage_clients import MemoryStorageClient
from names import lead_home

AT_ONCE = 64


async def main(roots: list[str]) -> None:
    crawler = ParselCrawler(
        http_client=HttpxHttpClient(),
        storage_client=MemoryStorageClient(),
        respect_robots_txt_file=True,
        max_request_retries=5,
        concurrency_settings=ConcurrencySettings(desired_concurrency=AT_ONCE, max_concurrency=AT_ONCE),
        request_handler_timeout=timedelta(seconds=30),
        configure_logging=False,
    )

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        await context.enqueue_links(strategy="same-hostname")

    await crawler.run(roots)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    lead_home()
    asyncio.run(main(sys.stdin.read().split()))
