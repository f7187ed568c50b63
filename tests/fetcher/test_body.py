"""Bodies: what is decoded, what is cut, what is refused [A1-A8]."""

from __future__ import annotations

import asyncio
import gzip
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from amble.core.headers import Headers
from amble.core.outcome import Failure
from amble.fetcher import FetchRequest, FetchResult, Phase
from amble.fetcher.body import DECODERS, MEMBERS_MAX, Body, BodyFault, decoders_for
from amble.testing.rawserver import Connection, Script, answer, response, serve
from tests.conformance import conformance
from tests.fetcher.helpers import fetcher

PAGE = b"<p>" + b"what a page says " * 500


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data)[2:-4]


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


async def fetch_one(script: Script, request: Mapping[str, Any] | None = None, **settings: Any) -> FetchResult:
    async with serve(script) as server, fetcher(**settings) as f:
        return await f.fetch(FetchRequest(server.url(), **(request or {})))


async def fetch_encoded(body: bytes, coding: str, **settings: Any) -> FetchResult:
    return await fetch_one(answer(response(body, f"Content-Encoding: {coding}")), **settings)


@pytest.mark.parametrize(
    ("coding", "encoded"),
    [
        ("gzip", gzip.compress(PAGE)),
        ("X-GZIP", gzip.compress(PAGE)),
        ("deflate", zlib.compress(PAGE)),
        ("deflate", raw_deflate(PAGE)),
        ("br", brotli.compress(PAGE)),
        ("zstd", zstandard.compress(PAGE)),
        ("identity", PAGE),
        ("gzip, identity", gzip.compress(PAGE)),
        ("gzip, br", brotli.compress(gzip.compress(PAGE))),
        ("gzip", gzip.compress(PAGE[:1000]) + gzip.compress(PAGE[1000:])),
        ("zstd", zstandard.compress(PAGE[:1000]) + zstandard.compress(PAGE[1000:])),
        ("gzip", gzip.compress(PAGE) + b"trailing garbage"),
        ("gzip", gzip.compress(PAGE) + b"\0" * 512),
    ],
    ids=[
        "gzip",
        "old name, any case",
        "zlib",
        "bare deflate [A7]",
        "br",
        "zstd",
        "identity",
        "identity beside",
        "two codings",
        "two members",
        "two frames",
        "garbage behind gzip",
        "padding behind gzip",
    ],
)
async def test_a_page_is_decoded(coding: str, encoded: bytes) -> None:
    result = await fetch_encoded(encoded, coding)
    assert (result.failure, result.body, result.body_bytes) == (None, PAGE, len(encoded))


@pytest.mark.parametrize(
    ("coding", "encoded"),
    [
        ("gzip", b"plain text under a gzip label"),
        ("gzip", gzip.compress(PAGE)[:-1]),
        ("gzip", gzip.compress(PAGE)[:40]),
        ("gzip", gzip.compress(PAGE)[:5]),
        ("gzip", gzip.compress(PAGE)[:-8] + b"\0" * 8),
        ("gzip", gzip.compress(PAGE) + gzip.compress(PAGE)[:50]),
        ("deflate", zlib.compress(PAGE)[:-6]),
        ("deflate", b"\xff\xff\xff\xff"),
        ("deflate", b"x"),
        ("br", brotli.compress(PAGE)[:-4]),
        ("br", b"\xff" * 20),
        ("br", brotli.compress(PAGE) + b"garbage"),
        ("zstd", zstandard.compress(PAGE)[:-4]),
        ("zstd", b"no magic"),
        ("compress", PAGE),
        ("foo", PAGE),
        ("gzip, gzip, gzip", PAGE),
        (", ".join(["gzip"] * 1000), PAGE),
        ("gzip", gzip.compress(b"") * (MEMBERS_MAX + 1)),
    ],
    ids=[
        "wrong label",
        "one byte short",
        "cut in the data",
        "cut in the header",
        "bad CRC",
        "second member cut",
        "zlib cut",
        "no deflate",
        "one byte",
        "br cut",
        "no br",
        "garbage behind br",
        "zstd cut",
        "no zstd",
        "compress",
        "unknown",
        "three in a row [A4]",
        "a thousand in a row [A4]",
        "too many members [A5]",
    ],
)
async def test_what_cannot_be_decoded_is_an_error_not_text(coding: str, encoded: bytes) -> None:
    """A7: raw bytes are never handed on as a page."""
    result = await fetch_encoded(encoded, coding)
    assert (result.failure, result.body, result.status) == (Failure.CONTENT_DECODE_ERROR, None, 200)
    assert result.detail


@pytest.mark.parametrize("coding", ["gzip", "br", "foo"])
async def test_no_body_needs_no_decoding(coding: str) -> None:
    result = await fetch_encoded(b"", coding)
    assert (result.failure, result.body) == (None, b"")


@given(st.sampled_from(sorted(CODINGS)), st.binary(max_size=5000), st.integers(1, 700))
def test_a_body_decodes_the_same_however_it_is_cut(coding: str, data: bytes, size: int) -> None:
    encoded = CODINGS[coding](data)
    body = Body(decoders_for([coding]), 10_000)
    for at in range(0, len(encoded), size):
        body.write(encoded[at : at + size])
    assert body.finish() == data


@given(st.sampled_from(sorted(DECODERS)), st.binary(min_size=1, max_size=300))
def test_no_garbage_escapes_as_a_foreign_exception(coding: str, data: bytes) -> None:
    body = Body(decoders_for([coding]), 1_000_000)
    try:
        body.write(data)
        body.finish()
    except BodyFault:
        pass


@given(st.sampled_from(sorted(CODINGS)), st.binary(min_size=20, max_size=300), st.integers(min_value=1))
def test_no_prefix_passes_for_the_whole(coding: str, data: bytes, cut: int) -> None:
    encoded = CODINGS[coding](data)
    body = Body(decoders_for([coding]), 1_000_000)
    try:
        body.write(encoded[: max(1, len(encoded) - 1 - cut % len(encoded))])
        whole = body.finish()
    except BodyFault:
        return
    assert whole == data


# --- Too long --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "failure"), [(1000, None), (1001, Failure.CONTENT_TOO_LARGE)], ids=["at the limit", "over it"]
)
@pytest.mark.parametrize("coding", ["identity", "gzip", "br", "zstd"])
async def test_the_limit_counts_decoded_bytes(size: int, failure: Failure | None, coding: str) -> None:
    """A1-A3."""
    data = b"\0" * size
    encoded = CODINGS[coding](data) if coding in CODINGS else data
    result = await fetch_encoded(encoded, coding, max_response_bytes=1000)
    assert (result.failure, result.body) == (failure, None if failure else data)


async def test_an_announced_length_over_the_limit_is_not_even_read() -> None:
    async def announces(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
        await connection.wait_until_closed()

    result = await fetch_one(announces)
    assert (result.failure, result.status, result.body_bytes) == (Failure.CONTENT_TOO_LARGE, 200, 0)


async def test_an_endless_body_ends_at_the_limit_and_is_not_drained() -> None:
    """A8: the connection is closed; what the server could still send is not read."""

    async def endless(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await connection.send_forever(b"x" * 65536)

    async with serve(endless) as server, fetcher(max_response_bytes=1_000_000) as f:
        result = await f.fetch(FetchRequest(server.url()))
        assert (result.failure, result.body, result.phase) == (Failure.CONTENT_TOO_LARGE, None, Phase.BODY)
        while server.open_connections:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert server.bytes_sent < 20_000_000  # what fits into the buffers of the kernel


async def test_a_body_may_be_cut_where_only_its_beginning_is_wanted() -> None:
    """B1: robots.txt is read up to its limit and the rest ignored."""
    wanted = {"body_bytes_max": 500, "keep_prefix": True}
    result = await fetch_one(answer(response(gzip.compress(b"a" * 5000), "Content-Encoding: gzip")), wanted)
    assert (result.failure, result.body, result.truncated) == (None, b"a" * 500, True)


async def test_a_request_may_ask_for_more_than_the_settings_allow() -> None:
    result = await fetch_one(answer(response(PAGE)), {"body_bytes_max": len(PAGE)}, max_response_bytes=10)
    assert result.body == PAGE


@pytest.mark.parametrize("status", ["301 Moved", "404 Not Found", "429 Slow Down", "503 Busy"])
async def test_the_body_of_an_error_is_read_only_a_little(status: str) -> None:
    """A6: a bomb in a redirect or an error costs nothing, and the status still stands."""
    bomb = brotli.compress(b"\0" * 50_000_000, quality=5)
    raw = response(bomb, "Content-Encoding: br", "Retry-After: 7", status=status)
    result = await fetch_one(answer(raw))
    assert (result.status, result.failure, result.truncated) == (int(status[:3]), None, True)
    assert result.body == b"\0" * 65536
    assert result.headers.get("retry-after") == "7"


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 429 No\r\nContent-Length: 999\r\n\r\ncut",
        b"HTTP/1.1 429 No\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nbad",
        b"HTTP/1.1 429 No\r\nContent-Encoding: foo\r\nContent-Length: 3\r\n\r\nbad",
        b"HTTP/1.1 429 No\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["cut short", "undecodable", "unknown coding", "bad chunk"],
)
async def test_an_error_with_a_broken_body_is_still_that_error(raw: bytes) -> None:
    """A server that says 429 has said it, whatever becomes of the page under it."""
    result = await fetch_one(answer(raw))
    assert (result.status, result.failure, result.body, result.truncated) == (429, None, None, True)


# --- Judged by its headers -------------------------------------------------------------------------------------------


async def test_a_body_refused_by_its_headers_is_not_read() -> None:
    seen: list[tuple[int, str | None]] = []

    def keep_body(status: int, headers: Headers) -> Failure | None:
        seen.append((status, headers.get("Content-Type")))
        return Failure.CONTENT_TYPE_REJECTED

    async def endless(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n")
        await connection.send_forever(b"x" * 65536)

    result = await fetch_one(endless, {"keep_body": keep_body})
    assert (result.failure, result.body, result.body_bytes) == (Failure.CONTENT_TYPE_REJECTED, None, 0)
    assert (result.status, result.headers.get("content-type"), seen) == (200, "video/mp4", [(200, "video/mp4")])


async def test_what_the_judge_says_stands_whatever_the_status() -> None:
    raw = response(b"are you human?", status="403 Forbidden")
    wanted = {"keep_body": lambda status, headers: Failure.BLOCKED_BY_BOT_PROTECTION}
    result = await fetch_one(answer(raw), wanted)
    assert (result.failure, result.status) == (Failure.BLOCKED_BY_BOT_PROTECTION, 403)


async def test_a_judge_that_raises_is_our_own_mistake() -> None:
    def broken(status: int, headers: Headers) -> Failure | None:
        raise ZeroDivisionError

    async with serve(answer(response(b"x"))) as server, fetcher() as f:
        with pytest.raises(ZeroDivisionError):
            await f.fetch(FetchRequest(server.url(), keep_body=broken))


# --- Outside data ----------------------------------------------------------------------------------------------------

_SCRAPY = {
    "html-br.bin": "br",
    "html-gzip.bin": "gzip",
    "html-gzip-deflate.bin": "gzip, deflate",
    "html-rawdeflate.bin": "deflate",
    "html-zlibdeflate.bin": "deflate",
    "html-zstd-static-content-size.bin": "zstd",
    "html-zstd-static-no-content-size.bin": "zstd",
    "html-zstd-streaming-no-content-size.bin": "zstd",
    "feed-sample1.xml.gz": "gzip",
}
_SCRAPY_BAD = {
    "html-gzip-deflate-gzip.bin": "gzip, deflate, gzip",
    "truncated-crc-error-short.gz": "gzip",
    "truncated-crc-error.gz": "gzip",
    "unexpected-eof.gz": "gzip",
    "feed-sample1.tar": "gzip",
    "feed-sample1.zip": "gzip",
    "feed-sample1.xml.bz2": "gzip",
    "html-gzip.bin": "br",
}


@pytest.mark.parametrize("name", _SCRAPY)
async def test_bodies_that_scrapy_reads(name: str) -> None:
    data = conformance(f"http/scrapy_compressed/{name}").read_bytes()
    result = await fetch_encoded(data, _SCRAPY[name])
    assert result.failure is None
    assert result.body is not None
    assert b"<" in result.body[:100]
    assert len(result.body) > 5000


@pytest.mark.parametrize("name", _SCRAPY_BAD)
async def test_bodies_that_are_broken(name: str) -> None:
    """A7."""
    data = conformance(f"http/scrapy_compressed/{name}").read_bytes()
    result = await fetch_encoded(data, _SCRAPY_BAD[name])
    assert (result.failure, result.body) == (Failure.CONTENT_DECODE_ERROR, None)


@pytest.mark.parametrize("coding", ["br", "deflate", "gzip", "zstd"])
async def test_the_bombs_of_scrapy(coding: str) -> None:
    data = conformance(f"http/scrapy_compressed/bomb-{coding}.bin").read_bytes()
    result = await fetch_encoded(data, coding, max_response_bytes=1_000_000)
    assert (result.failure, result.body) == (Failure.CONTENT_TOO_LARGE, None)


async def test_bodies_of_the_web_platform() -> None:
    folder = conformance("http/wpt_content_encoding")
    files = sorted(path for path in folder.iterdir() if path.suffix != ".headers")
    assert files
    for path in files:
        headers = path.with_name(f"{path.name}.headers").read_text().splitlines()
        result = await fetch_one(answer(response(path.read_bytes(), *headers)), max_response_bytes=200_000_000)
        if path.name == "big.window.zst":
            # A3: its window is larger than a decoder needs to accept (RFC 9659 3).
            assert (result.failure, result.body) == (Failure.CONTENT_DECODE_ERROR, None), path.name
        else:
            assert result.failure is None, (path.name, result.detail)
            assert result.body


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what came over the wire")
@pytest.mark.parametrize("wanted", [{}, {"keep_prefix": True}], ids=["whole", "prefix"])
async def test_what_hides_in_the_framing_counts(wanted: dict[str, Any]) -> None:
    """A body of a byte in each 16 KB: the rest are extensions of its chunks, which libcurl drops without a count."""

    async def hides(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await connection.send_forever((b"1;" + b"x" * 16_000 + b"\r\na\r\n") * 4)

    async with serve(hides) as server, fetcher(max_response_bytes=200_000, http_timeout=60.0) as f:
        result = await f.fetch(FetchRequest(server.url(), **wanted))
    if wanted:
        assert (result.failure, result.truncated) == (None, True)
    else:
        assert (result.failure, result.body) == (Failure.CONTENT_TOO_LARGE, None)
    assert "on the wire" in result.detail


async def test_honest_framing_does_not_count_against_a_body() -> None:
    """A body just below the limit, that takes its time, over a connection that has brought as much before."""
    body = b"y" * 190_000

    async def slowly(connection: Connection) -> None:
        while await connection.request():
            await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for at in range(0, len(body), 10_000):
                await connection.send(b"%x\r\n%s\r\n" % (10_000, body[at : at + 10_000]))
                await asyncio.sleep(0.03)
            await connection.send(b"0\r\n\r\n")

    async with serve(slowly) as server, fetcher(max_response_bytes=200_000) as f:
        results = [await f.fetch(FetchRequest(server.url())) for _ in range(3)]
        assert server.connections == 1
    assert {result.body for result in results} == {body}


@pytest.mark.parametrize("coding", ["none", "identity", "UTF-8", "7bit", "gzip;q=1", "Identity;q=1", "None, gzip"])
def test_odd_content_encodings_are_taken_as_what_they_mean(coding: str) -> None:
    body = Body(decoders_for([part.strip() for part in coding.split(",")]), 10_000)
    body.write(gzip.compress(PAGE) if "gzip" in coding else PAGE)
    assert body.finish() == PAGE
