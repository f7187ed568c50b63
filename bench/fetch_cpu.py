"""Processor time of one fetch, beside aiohttp and httpx in the same run: `python -m bench.fetch_cpu [requests]`.

The server runs in a process of its own; what is counted is the processor time of the client's. Rounds alternate between
the clients and the least of each is kept, so that a busy machine disturbs all alike.
"""

from __future__ import annotations

import asyncio
import gzip
import multiprocessing
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import cast
from urllib.parse import urljoin

import aiohttp
import httpx
import lxml.html
import uvloop

from amble.core.addresses import AddressPolicy
from amble.core.page.page import read_page
from amble.fetcher import Fetcher, FetchRequest
from bench._loopback import Loopback

IN_FLIGHT = 50
ROUNDS = 12

SMALL = b"<html><body>" + b"<a href='/x'>a link in the text</a>\n" * 60 + b"</body></html>"
LARGE = b"<html><body>" + b"".join(
    b"<p>paragraph %d speaks of <a href='/page/%d'>%x</a>, among other things</p>\n" % (i, i * 7919, i * 104729)
    for i in range(1200)
)
_FIELDS = (
    b"Date: Mon, 01 Jan 2024 00:00:00 GMT\r\nServer: bench\r\nContent-Type: text/html; charset=utf-8\r\n"
    b'Cache-Control: no-cache\r\nETag: "abc"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n'
    b"Vary: Accept-Encoding\r\nX-Content-Type-Options: nosniff\r\n"
)


def _answer(body: bytes, fields: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n%s%sContent-Length: %d\r\n\r\n" % (_FIELDS, fields, len(body)) + body


PAGES = {
    "small": (_answer(SMALL), len(SMALL)),
    "large": (_answer(gzip.compress(LARGE), b"Content-Encoding: gzip\r\n"), len(LARGE)),
    "large, read": (_answer(gzip.compress(LARGE), b"Content-Encoding: gzip\r\n"), LARGE.count(b"<a ")),
}


def _links_by_lxml(body: bytes, url: str) -> int:
    """What a script beside another client would do: parse, and resolve every link."""
    return len([urljoin(url, str(href)) for href in lxml.html.fromstring(body).xpath("//a/@href")])


def _links_by_amble(body: bytes, url: str) -> int:
    return len(read_page(body, url, "text/html; charset=utf-8").links)


class _Server(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._read = b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        while b"\r\n\r\n" in self._read:
            head, self._read = self._read.split(b"\r\n\r\n", 1)
            self._transport.write(PAGES["large" if b"/large" in head else "small"][0])


def _serve(tell: Connection) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_Server, "127.0.0.1", 0, backlog=1024)
        tell.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())


Fetch = Callable[[str], Awaitable[bytes]]


async def _amble(stack: AsyncExitStack) -> Fetch:
    policy = AddressPolicy.of(opened=["127.0.0.0/8"])
    fetcher = await stack.enter_async_context(Fetcher(policy=policy, resolver=Loopback()))

    async def fetch(url: str) -> bytes:
        return (await fetcher.fetch(FetchRequest(url))).body or b""

    return fetch


async def _aiohttp(stack: AsyncExitStack) -> Fetch:
    session = await stack.enter_async_context(aiohttp.ClientSession())

    async def fetch(url: str) -> bytes:
        async with session.get(url) as answer:
            return await answer.read()

    return fetch


async def _httpx(stack: AsyncExitStack) -> Fetch:
    client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))

    async def fetch(url: str) -> bytes:
        return (await client.get(url)).content

    return fetch


CLIENTS = {"amble": _amble, "aiohttp": _aiohttp, "httpx": _httpx}


async def measure(client: str, page: str, port: int, requests: int) -> float:
    """Microseconds of processor time for each request."""
    host = "site.test" if client == "amble" else "127.0.0.1"  # amble checks and pins the address of a name
    wanted = PAGES[page][1]
    path, reads = page.partition(",")[0], page.endswith("read")
    read = _links_by_amble if client == "amble" else _links_by_lxml
    async with AsyncExitStack() as stack:
        fetch = await CLIENTS[client](stack)
        todo = iter(range(requests))

        async def work() -> None:
            for i in todo:
                url = f"http://{host}:{port}/{path}?{i}"
                body = await fetch(url)
                assert (read(body, url) if reads else len(body)) == wanted

        await fetch(f"http://{host}:{port}/{path}")
        before = time.process_time()
        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
        return (time.process_time() - before) / requests * 1e6


def main(requests: int) -> None:
    told, tell = multiprocessing.get_context("spawn").Pipe(duplex=False)
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(tell,), daemon=True)
    server.start()
    port = told.recv()
    print(f"processor time per request, {IN_FLIGHT} in flight, least of {ROUNDS} rounds")
    for page, (raw, _) in PAGES.items():
        best = dict.fromkeys(CLIENTS, float("inf"))
        for _ in range(ROUNDS):
            for client in CLIENTS:
                count = requests if client != "httpx" and not page.endswith("read") else requests // 8
                best[client] = min(best[client], uvloop.run(measure(client, page, port, count)))
        size = len(SMALL if page == "small" else LARGE)
        said = " (amble: read_page, others: lxml and urljoin)" if page.endswith("read") else ""
        print(f"\n{page}: {size / 1000:.1f} kB, {len(raw) / 1000:.1f} kB on the wire{said}")
        for client, microseconds in best.items():
            print(f"  {client:8} {microseconds:8.1f} us   {microseconds / best['amble']:5.2f} x amble")
    server.terminate()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1500)
