"""Bombs, drips and silence through a whole crawl: one row each, with its reason, and nobody else is kept waiting."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import brotli
import pytest

from amble.core.frontier.changes import State
from amble.testing.rawserver import Connection, response
from tests.crawl.rig import Answer, crawl, html, put_together, redirect, web

MIB = 1024 * 1024
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


async def drip(connection: Connection) -> None:
    """A page that never ends, one byte a second."""
    await connection.send(HEAD + b"\r\n<title>")
    await connection.send_forever(b"x", every_s=1.0)


async def flood(connection: Connection) -> None:
    await connection.send(HEAD + b"\r\n")
    await connection.send_forever(b"x" * 65_536)


async def gzip_without_end(connection: Connection) -> None:
    await connection.send(HEAD + b"Content-Encoding: gzip\r\n\r\n")
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    while True:
        await connection.send(packer.compress(b"\0" * MIB))
        await asyncio.sleep(0)


async def silence(connection: Connection) -> None:
    await connection.wait_until_closed()


async def headers_without_end(connection: Connection) -> None:
    await connection.send(HEAD)
    await connection.send_forever(b"X-More: " + b"y" * 1_000 + b"\r\n")


async def slow_headers(connection: Connection) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\n")
    await connection.send_forever(b"X", every_s=0.1)


async def cut(connection: Connection) -> None:
    await connection.send(HEAD + b"Content-Length: 1000\r\n\r\n<title>")
    connection.reset()


def packed(body: bytes, coding: str) -> bytes:
    return response(body, "Content-Type: text/html", f"Content-Encoding: {coding}")


TWICE = gzip.compress(gzip.compress(b"\0" * 64 * MIB))
HOSTILE: dict[str, tuple[Answer, str]] = {
    "gzip bomb": (packed(gzip.compress(b"\0" * 32 * MIB), "gzip"), "content_too_large"),
    "gzip bomb in gzip": (packed(TWICE, "gzip, gzip"), "content_too_large"),
    "gzip without end": (gzip_without_end, "content_too_large"),
    "brotli bomb": (packed(brotli.compress(b"\0" * 32 * MIB), "br"), "content_too_large"),
    "a thousand codings": (packed(b"x", ", ".join(["gzip"] * 1_000)), "content_decode_error"),
    "no gzip at all": (packed(b"<title>plain</title>", "gzip"), "content_decode_error"),
    "gzip cut short": (packed(gzip.compress(b"<title>t</title>" * 99)[:-9], "gzip"), "content_decode_error"),
    "an unknown coding": (packed(b"x", "rot13"), "content_decode_error"),
    "a flood": (flood, "content_too_large"),
    "a length of a terabyte": (HEAD + b"Content-Length: 1099511627776\r\n\r\n", "content_too_large"),
    "a drip": (drip, "network_timeout"),
    "silence": (silence, "network_timeout"),
    "slow headers": (slow_headers, "network_timeout"),
    "headers without end": (headers_without_end, "network_protocol_error"),
    "two lengths": (HEAD + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde", "network_protocol_error"),
    "no http": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "network_protocol_error"),
    "a reset": (cut, "network_reset"),
    "an image that is one": (response(b"\x89PNG\r\n\x1a\n", "Content-Type: image/png"), "content_type_rejected"),
    "missing, with a bomb": (
        response(gzip.compress(b"\0" * 32 * MIB), "Content-Encoding: gzip", status="404 Not Found"),
        "http_client_error",
    ),
}


async def test_each_has_one_row_with_its_reason_a1_a14() -> None:
    """All at once, at hosts of their own, beside a page that has nothing to do with them."""
    async with web() as served:
        seeds = {}
        for number, (name, (answer, _)) in enumerate(HOSTILE.items()):
            served.pages[f"h{number}.test/x"] = answer
            seeds[name] = served.url(f"h{number}.test/x")
        served.pages["good.test/x"] = html()
        good = served.url("good.test/x")
        crawled = await crawl(
            [*seeds.values(), good], max_retries=0, header_timeout_s=3.0, min_throughput_window_s=1.0,
            max_response_bytes=MIB, reject_content_types=("image/*",),
        )  # fmt: skip
    assert {name: crawled.end(url) for name, url in seeds.items()} == {name: end for name, (_, end) in HOSTILE.items()}
    assert crawled.end(good) == "done"
    assert all(final.page is None for task, final in crawled.finals.items() if task != good)
    assert served.server.bytes_sent < 64 * MIB  # of bodies without end, what buffers hold at most


async def test_a_redirect_with_a_bomb_in_it_is_a_redirect_a6() -> None:
    async with web() as served:
        bomb = gzip.compress(b"\0" * 32 * MIB)
        head = b"HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Encoding: gzip\r\n"
        served.pages |= {
            "a.test/x": head + f"Content-Length: {len(bomb)}\r\n\r\n".encode() + bomb,
            "a.test/y": html(),
        }
        crawled = await crawl([served.url("a.test/x")])
    assert list(crawled.ends().values()) == ["done", "done"]


@pytest.mark.parametrize("slow", [drip, silence], ids=["drips", "silent"])
async def test_good_hosts_finish_while_slow_ones_are_still_at_it_a8_f14(slow: Answer) -> None:
    """Fifty hosts that never come to an end beside fifty that do, all with places to be had."""
    async with web() as served:
        good = [f"good{number}.test/{page}" for number in range(50) for page in range(4)]
        bad = [f"bad{number}.test/0" for number in range(50)]
        served.pages |= dict.fromkeys(good, html()) | dict.fromkeys(bad, slow)
        running, fetcher, crawled = put_together(
            [served.url(place) for place in (*bad, *good)], http_timeout=60.0, header_timeout_s=60.0,
            min_throughput_window_s=60.0,
        )  # fmt: skip
        wanted = {served.url(place) for place in good}

        async def stop_when_good() -> None:
            while not wanted <= crawled.finals.keys():  # noqa: ASYNC110 - the crawl tells by calling back
                await asyncio.sleep(0.01)
            running.stop()

        async with asyncio.timeout(30):
            await asyncio.gather(running.run(), stop_when_good())
        await fetcher.close()
    crawled.check()
    assert {crawled.finals[url].state for url in wanted} == {State.DONE}
    assert {crawled.end(served.url(place)) for place in bad} == {"cancelled"}


async def test_slow_hosts_give_their_places_back_a8() -> None:
    """More of them than there are places: each is given up in its time, and then the good ones have their turn."""
    async with web() as served:
        bad = [served.url(f"bad{number}.test/x") for number in range(30)]
        good = [served.url(f"good{number}.test/x") for number in range(30)]
        served.pages |= {f"bad{number}.test/x": drip for number in range(30)}
        served.pages |= {f"good{number}.test/x": html() for number in range(30)}
        crawled = await crawl([*bad, *good], max_total_connections=10, min_throughput_window_s=0.3, max_retries=0)
    assert {crawled.end(url) for url in bad} == {"network_timeout"}
    assert {crawled.end(url) for url in good} == {"done"}


async def test_a_sitemap_that_is_a_bomb_ends_the_search_and_not_the_crawl_b14() -> None:
    async with web() as served:
        served.pages |= {
            "a.test/robots.txt": response(f"Sitemap: {served.url('a.test/map.xml')}".encode()),
            "a.test/map.xml": packed(gzip.compress(b"<urlset>" + b"\0" * 64 * MIB), "gzip"),
            "a.test/": html("/1"),
            "a.test/1": redirect("/2"),
            "a.test/2": html(),
        }
        crawled = await crawl([served.url("a.test/")], discover=True)
    assert crawled.ends() == {served.url(f"a.test/{path}"): "done" for path in ("", "1", "2")}
