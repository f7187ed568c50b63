"""Raw responses of other projects, served from a socket: each ends in a value, in time, and mostly as its judge says.

Where the result differs from the judge's, the row is listed below with the reason; a row that stops differing fails.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from amble.core.outcome import Failure
from amble.fetcher import FetchRequest, FetchResult
from amble.testing.rawserver import answer, serve
from tests.conformance import conformance
from tests.fetcher.helpers import fetcher

_ENDS = frozenset({Failure.NETWORK_RESET, Failure.NETWORK_PROTOCOL_ERROR, Failure.CONTENT_DECODE_ERROR, None})

# The judge sees an error where RFC 9110 5.5 and RFC 9112 4 see a colon in a value or in a reason phrase, and calls one
# and the same status line ("200", two blanks, "OK") valid and invalid.
_WPT_DIFFERENT = {
    "COLON_after-colon",
    "COLON_before-colon",
    "COLON_in-name",
    "COLON_in-value",
    "COLON_after-value",
    "COLON_before-reason",
    "COLON_after-reason",
    "SP_after-num",
    # A field that cannot be read is dropped, as browsers' users would want, not the whole answer.
    "COLON_leading",
    "HTAB_before-colon",
    "HTAB_in-name",
    "HTAB_leading",
    "LF_after-reason",
    "LF_after-value",
    "LF_leading",
    "SP_before-colon",
    "SP_in-name",
    "SP_leading",
}
# RFC 9112 6.3: a length that is no number makes the message unreadable; browsers read on to the end.
_LENGTHS_DIFFERENT = {
    "Content-Length: aaaah\r\nContent-Length: aaaah",
    "Content-Length: aaaah, aaaah",
    "Content-Length: aaaah",
    "Content-Length: 42s",
    "Content-Length: 30s",
    "Content-Length: -1",
    "Content-Length: 0x20",
    'Content-Length: "30"',
    "Content-Length: ",
}
_LLHTTP_DIFFERENT = {
    # A field that cannot be read is dropped, not the answer.
    "Invalid space after start line",
    "Spaces in header name",
    # Read as far as the length says, then closed (A10).
    "HTTP/1.1 with keep-alive disabled and 204 status",
    "HTTP/1.1 with keep-alive disabled, content-length",
    # Cut short in the file: fewer bytes than announced.
    "HTTP 103 first, then 200",
    "Content-Length reset when no body is received",
    "Tabs in `Content-Length` (surrounding)",
    # Lenient modes, and protocols, that we do not speak.
    "Bare CR after response line (lenient)",
    "Invalid HTTP version (lenient)",
    "RTSP response",
    "ICE response",
    "HTTP version 0.9",
    # Lines that end in a bare LF throughout are read (RFC 9112 2.2).
    "Only LFs present and no body",
    "Only LFs present",
    "No carriage ret",
    # What follows a chunk's size is ignored up to the end of the line.
    "Trailing space on chunked body",
    "No semicolon before chunk extensions",
    "No extension after semicolon",
    "Unbalanced chunk extensions quoting",
    # An empty line before a status line, which libcurl does not skip.
    "HTTP 100 first, then 400",
    "Response starting with CRLF",
    # Transfer codings that we never asked for are refused, not read as a page.
    "`chunked` before other transfer-encoding",
    "multiple transfer-encoding where chunked is not the last one",
    "`chunkedchunked` transfer-encoding does not enable chunked enconding",
    "Invalid OBS fold after chunked value",
}


async def fetch_raw(raw: bytes) -> FetchResult:
    async with serve(answer(raw)) as server, fetcher(http_timeout=2.0) as f, asyncio.timeout(4.0):
        result = await f.fetch(FetchRequest(server.url()))
    assert result.failure in _ENDS, result
    assert (result.body is None) == (result.failure is not None or result.truncated)
    return result


async def fetch_all(raws: list[bytes]) -> list[FetchResult]:
    return [await fetch_raw(raw) for raw in raws]


async def test_the_web_platform_on_header_parsing() -> None:
    """A12."""
    folder = conformance("http/wpt_h1_parsing")
    expected = json.loads(conformance("http/wpt_h1_parsing_expected.json").read_text())
    names = [f"{char}_{place}" for char, places in expected.items() for place in places]
    results = await fetch_all([(folder / f"parsing_{name}.asis").read_bytes() for name in names])
    different = set()
    for name, result in zip(names, results, strict=True):
        char, place = name.split("_")
        if (expected[char][place][0] == "Valid") != (result.failure is None):
            different.add(name)
    assert different == _WPT_DIFFERENT


async def test_the_web_platform_on_a_nul_in_a_header() -> None:
    raw = conformance("http/wpt_h1_parsing/blue-with-0x00-in-a-header.asis").read_bytes()
    assert (await fetch_raw(raw)).failure is Failure.NETWORK_PROTOCOL_ERROR


async def test_the_web_platform_on_content_lengths() -> None:
    """A10."""
    rows: list[dict[str, Any]] = json.loads(conformance("http/wpt_content_lengths.json").read_text())
    raws = [b"HTTP/1.1 200 OK\r\n" + row["input"].encode() + b"\r\n\r\n" + b"a" * 42 for row in rows]
    different = set()
    for row, result in zip(rows, await fetch_all(raws), strict=True):
        if row["output"] != (len(result.body) if result.body is not None else None):
            different.add(row["input"])
    assert different == _LENGTHS_DIFFERENT


def _completed(raw: bytes) -> bytes:
    """The rows were trimmed: the empty line behind headers, or behind the last chunk, is missing from many."""
    if b"\r\n\r\n" not in raw and b"\n\n" not in raw:
        return raw + (b"\r\n" if raw.endswith(b"\n") else b"\r\n\r\n")
    if b"chunked" in raw.lower() and raw.endswith((b"\r\n0", b"\r\n0\r\n", b"\r\n0  \r\n", b"\r\n0 rrrr\r\n")):
        return raw.removesuffix(b"\r\n") + b"\r\n\r\n"
    return raw


async def test_llhttp() -> None:
    """A11, A13."""
    rows: list[dict[str, Any]] = json.loads(conformance("http/llhttp_responses.json").read_text())
    raws = [base64.b64decode(row["raw_b64"]) for row in rows]
    await fetch_all([raw for raw in raws if raw != _completed(raw)])
    results = await fetch_all([_completed(raw) for raw in raws])
    different = {
        row["title"]
        for row, result in zip(rows, results, strict=True)
        if (row["expect_error"] is None) != (result.failure is None)
    }
    assert different == _LLHTTP_DIFFERENT
