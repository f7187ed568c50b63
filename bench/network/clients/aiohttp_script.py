"""What people write by hand: aiohttp with aiodns, selectolax, a set and a queue. No robots.txt, nothing stored."""

# mypy: ignore-errors
# What it imports is not installed here, but in the environment of the peers.
from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import aiohttp
import uvloop
from selectolax.lexbor import LexborHTMLParser

AT_ONCE = 256
TRIES = 3


async def main(roots: list[str], ca_file: str) -> None:
    seen, queue = set(roots), asyncio.Queue()
    for url in roots:
        queue.put_nowait((url, 1))

    async def work(session: aiohttp.ClientSession) -> None:
        while True:
            url, attempt = await queue.get()
            try:
                async with session.get(url) as answer:
                    body = await answer.read()
                    if answer.status == 200:
                        follow(url, body)
                    elif answer.status in (429, 503) and attempt < TRIES:
                        queue.put_nowait((url, attempt + 1))
            except (aiohttp.ClientError, TimeoutError):
                if attempt < TRIES:
                    queue.put_nowait((url, attempt + 1))
            finally:
                queue.task_done()

    def follow(url: str, body: bytes) -> None:
        host = urlsplit(url).netloc
        for anchor in LexborHTMLParser(body).css("a"):
            link = urljoin(url, anchor.attributes.get("href") or "")
            if urlsplit(link).netloc == host and link not in seen:
                seen.add(link)
                queue.put_nowait((link, 1))

    connector = aiohttp.TCPConnector(
        limit=AT_ONCE, resolver=aiohttp.AsyncResolver(), ssl=ssl.create_default_context(cafile=ca_file)
    )
    timeout = aiohttp.ClientTimeout(total=60, sock_connect=10)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        workers = [asyncio.create_task(work(session)) for _ in range(AT_ONCE)]
        await queue.join()
        for worker in workers:
            worker.cancel()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]).read_text().split(), sys.argv[2]))
