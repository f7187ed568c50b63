"""What small or endless answers cost, measured in a process of its own [A1-A6, A11-A13]."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import zlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import brotli
import zstandard

from amble.core.outcome import Failure
from amble.testing.rawserver import Connection, response, serve

MIB = 1024 * 1024
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def _endless_block(flush: int = zlib.Z_FULL_FLUSH) -> tuple[bytes, bytes]:
    """The head of a gzip stream, and a block of 16 MiB of zeros that may follow it any number of times."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(b"") + packer.flush(flush)
    return head, packer.compress(bytes(16 * MIB)) + packer.flush(flush)


def _brotli_bomb() -> bytes:
    packer = brotli.Compressor(quality=9, lgwin=24)
    return b"".join([*(packer.process(bytes(MIB)) for _ in range(256)), packer.finish()])


def _zstd_bomb() -> bytes:
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    return b"".join(packer.compress(bytes(16 * MIB)) for _ in range(16)) + packer.flush()


HEAD, BLOCK = _endless_block()
GZIP_BOMB = gzip.compress(bytes(64 * MIB), 9)


def encoded(body: bytes, coding: str, status: str = "200 OK") -> Callable[[Connection], Awaitable[None]]:
    async def send(connection: Connection) -> None:
        await connection.send(response(body, f"Content-Encoding: {coding}", status=status))

    return send


def endless(head: bytes, block: bytes) -> Callable[[Connection], Awaitable[None]]:
    async def send(connection: Connection) -> None:
        await connection.send(head)
        await connection.send_forever(block)

    return send


def _gzip_head(*headers: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", "Content-Encoding: gzip", *headers, "", ""]).encode()


TOO_LARGE = Failure.CONTENT_TOO_LARGE
DECODE = Failure.CONTENT_DECODE_ERROR
PROTOCOL = Failure.NETWORK_PROTOCOL_ERROR


class Bomb(NamedTuple):
    send: Callable[[Connection], Awaitable[None]]
    failure: Failure | None


BOMBS = {
    "endless-gzip": Bomb(endless(_gzip_head() + HEAD, BLOCK), TOO_LARGE),
    "brotli-1300000-to-1": Bomb(encoded(_brotli_bomb(), "br"), TOO_LARGE),
    "zstd-30000-to-1": Bomb(encoded(_zstd_bomb(), "zstd"), TOO_LARGE),
    "gzip-once": Bomb(encoded(GZIP_BOMB, "gzip"), TOO_LARGE),
    "gzip-twice": Bomb(encoded(gzip.compress(GZIP_BOMB), "gzip, gzip"), TOO_LARGE),
    "gzip-thrice": Bomb(encoded(gzip.compress(gzip.compress(GZIP_BOMB)), "gzip, gzip, gzip"), DECODE),
    "gzip-1000-times": Bomb(encoded(GZIP_BOMB, ", ".join(["gzip"] * 1000)), DECODE),
    # The inner stream never yields a byte; only the limit on what lies between the two codings ends it.
    "nothing-in-between": Bomb(encoded(gzip.compress(HEAD + b"\0\0\0\xff\xff" * (4 * MIB)), "gzip, gzip"), TOO_LARGE),
    "gzip-of-nothing": Bomb(endless(_gzip_head() + HEAD, b"\0\0\0\xff\xff" * 10_000), TOO_LARGE),
    "100000-members": Bomb(encoded(gzip.compress(b"") * 100_000, "gzip"), DECODE),
    "endless-body": Bomb(endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536), TOO_LARGE),
    "endless-headers": Bomb(endless(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 1000), PROTOCOL),
    "endless-header-line": Bomb(endless(b"HTTP/1.1 200 OK\r\nA: ", b"x" * 65536), PROTOCOL),
    "1xx-storm": Bomb(endless(b"", b"HTTP/1.1 103 Hints\r\n\r\n" * 1000), PROTOCOL),
    "million-chunks": Bomb(endless(CHUNKED, b"1\r\nx\r\n" * 10_000), DECODE),
    "million-chunks-of-two": Bomb(endless(CHUNKED, b"2\r\nxy\r\n" * 10_000), DECODE),
    "endless-trailers": Bomb(endless(CHUNKED + b"0\r\n", b"A: b\r\n" * 1000), PROTOCOL),
    "bomb-in-a-redirect": Bomb(encoded(GZIP_BOMB, "gzip", "302 Found"), None),
}


async def test_no_bomb_costs_more_than_its_bound() -> None:
    """Each ends as it should, within 32 MiB, a second of processor and a quarter of a second of held loop."""

    async def script(connection: Connection) -> None:
        head = await connection.request()
        path = head.split(b" ")[1].decode()[1:]
        if path in BOMBS:
            await BOMBS[path].send(connection)
        else:
            await connection.send(response(b"x", "Connection: close"))

    async with serve(script) as server:
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.fetcher.measured_client",
            server.url("/warm"),
            *(server.url(f"/{name}") for name in BOMBS),
            stdout=asyncio.subprocess.PIPE,
        )
        stdout, _ = await program.communicate()
    costs = [json.loads(line) for line in stdout.splitlines()]
    assert [cost["path"] for cost in costs] == list(BOMBS)
    for cost in costs:
        bomb = BOMBS[cost["path"]]
        assert cost["failure"] == (bomb.failure and bomb.failure.value), cost
        assert cost["body"] is (bomb.failure is None), cost
        assert cost["grown_mib"] < 32, cost
        assert cost["cpu_s"] < 1.0, cost
        assert cost["lag_s"] < 0.25, cost
