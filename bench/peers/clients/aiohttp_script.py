"""What people write by hand: aiohttp, selectolax, a set and a queue. No robots.txt, no pacing, nothing stored."""

# mypy: ignore-errors
# What it imports is not installed here, but in the environment of the peers.
from __future__ import annotations

import asyncio
import socket
import sys
from urllib.parse import urljoin, urlsplit

import aiohttp
import uvloop
from aiohttp.abc import AbstractResolver
from selectolax.lexbor import LexborHTMLParser

AT_ONCE = 64
TRIES = 3


class Home(AbstractResolver):
    """uvloop resolves names without asking Python, so the client is given a resolver."""

    async def resolve(self, host, port=0, family=socket.AF_INET):
        return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": family, "proto": 0, "flags": 0}]

    async def close(self):
        """Nothing is held."""


async def main(roots: list[str]) -> None:
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
        for node in LexborHTMLParser(body).css("a[href]"):
            link = urljoin(url, node.attributes["href"] or "").partition("#")[0]
            if link not in seen and urlsplit(link).netloc == host:
                seen.add(link)
                queue.put_nowait((link, 1))

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE, resolver=Home())) as session:
        workers = [asyncio.create_task(work(session)) for _ in range(AT_ONCE)]
        await queue.join()
        for worker in workers:
            worker.cancel()


if __name__ == "__main__":
    uvloop.run(main(sys.stdin.read().split()))
