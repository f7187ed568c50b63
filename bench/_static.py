"""A web that costs next to nothing to serve: the same pages at every host, made once, with the host's name written in.

`with Static(hosts, pages) as web:` runs it in a process of its own, on loopback; `web.roots()` are the seeds.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Self, cast

import uvloop

PAGE_BYTES = 20_000
LINKS = 30
NAME_CHARS = 16  # of every host, so that all pages of one number have one length
_WORDS = ("river", "mill", "bridge", "stone", "under", "past", "where", "nobody", "waits", "any", "more", "and", "old")


def host_names(count: int) -> list[str]:
    return [f"h{number:0{NAME_CHARS - 6}}.test" for number in range(count)]


class Static:
    """Sites of so many pages each. On a `steady` one pages lead to their neighbours, so that each has one new link;
    else most of a site is known after its first few pages."""

    def __init__(self, hosts: int, pages: int, page_bytes: int = PAGE_BYTES, *, steady: bool = False) -> None:
        self._hosts, self._made = hosts, (pages, page_bytes, steady)
        self.count = hosts * pages

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        self._told, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(*self._made, theirs), daemon=True)
        self._process.start()
        self._port = int(self._told.recv())
        return self

    def __exit__(self, *_: object) -> None:
        self._told.close()
        self._process.join()

    def roots(self) -> list[str]:
        return [f"http://{name}:{self._port}/" for name in host_names(self._hosts)]

    def cpu_s(self) -> float:
        self._told.send("cpu_s")
        return float(self._told.recv())


def _path(number: int) -> str:
    return f"/page/{number}" if number else "/"


def make_page(number: int, pages: int, page_bytes: int = PAGE_BYTES, steady: bool = False) -> tuple[bytes, bytes]:
    """One answer in two pieces, between which the name of the host belongs."""
    if steady:
        near = [(number + step) % pages for step in range(-LINKS // 2, LINKS // 2)]
    else:
        near = [(number * 37 + step * step * 11 + 1) % pages for step in range(LINKS - 2)]
    links = [f'<a href="{_path(other)}">about {_WORDS[other % len(_WORDS)]} {other}</a>' for other in near]
    children = [child for child in (2 * number + 1, 2 * number + 2) if child < pages and not steady]
    links += [f'<li><a href="{_path(child)}">page {child}</a></li>' for child in children]
    before = '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Page of '
    after = f" no. {number}</title></head>\n<body><h1>Page {number}</h1>\n" + "\n".join(links)
    words = [_WORDS[(number + at * at) % len(_WORDS)] for at in range(page_bytes // 4)]
    text = " ".join(words)[: page_bytes - NAME_CHARS - len(before) - len(after) - 22]
    after += f"\n<p>{text}</p></body></html>"
    length = len(before) + NAME_CHARS + len(after)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n"
    return f"{head}Server: static\r\n\r\n{before}".encode(), after.encode()


class _Connection(asyncio.Protocol):
    """Answers requests in their order; nobody sends it a body."""

    def __init__(self, answers: dict[bytes, tuple[bytes, bytes]]) -> None:
        self._answers = answers
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        *requests, self._held = (self._held + data).split(b"\r\n\r\n")
        for request in requests:
            path = request[4 : request.index(b" ", 4)]
            found = self._answers.get(path)
            if found is None:
                self._transport.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            else:
                at = request.lower().index(b"\r\nhost: ") + 8
                self._transport.writelines((found[0], request[at : at + NAME_CHARS], found[1]))


def _serve(pages: int, page_bytes: int, steady: bool, told: Connection) -> None:
    answers = {_path(number).encode(): make_page(number, pages, page_bytes, steady) for number in range(pages)}

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(answers), "127.0.0.1", 0, backlog=1024)
        over = asyncio.Event()
        loop.add_reader(told.fileno(), _answer, told, over)
        told.send(server.sockets[0].getsockname()[1])
        await over.wait()
        os._exit(0)  # connections that are kept alive are nobody's concern any more

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def _answer(told: Connection, over: asyncio.Event) -> None:
    with suppress(EOFError, OSError):
        told.recv()
        told.send(time.process_time())
        return
    over.set()
