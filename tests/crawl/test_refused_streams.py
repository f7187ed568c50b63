"""HTTP/2 servers that refuse: each URL is asked for a bounded number of times, and ends with a row."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from amble.testing.rawserver import serve
from tests.crawl.rig import crawl
from tests.fetcher.h2server import Http2, http2
from tests.fetcher.test_tls import Authority, authority, refuses_the_stream, refuses_unread

__all__ = ["authority"]  # a fixture

RETRIES = 2


async def answers_first(spoken: Http2, stream: int, path: str) -> None:
    """One answer on each connection; then it takes nothing more."""
    if stream == 1:
        await spoken.answer(stream)
    else:
        await refuses_the_stream(spoken, stream, path)


async def refuses_pages(spoken: Http2, stream: int, path: str) -> None:
    if path == "/robots.txt":
        await spoken.answer(stream, b"User-agent: *\nDisallow:\n", ("content-type", "text/plain"))
    else:
        await refuses_the_stream(spoken, stream, path)


@pytest.mark.parametrize(
    ("handle", "ends"),
    [
        (refuses_the_stream, {"robots_unreachable", "network_reset"}),
        (refuses_unread, {"robots_unreachable", "network_reset"}),
        (refuses_pages, {"network_reset"}),
        (answers_first, {"done"}),
    ],
)
async def test_no_url_is_asked_for_ever(authority: Authority, handle: Any, ends: set[str]) -> None:
    context = authority.context("site.test", alpn=("h2",))
    async with serve(http2(handle), tls=context) as server:
        seeds = [server.url(f"/{i}", scheme="https") for i in range(3)]
        crawled = await crawl(seeds, ca_file=authority.file, max_retries=RETRIES, robots_retries=RETRIES)
        requests = Counter(server.paths)
    assert set(crawled.ends().values()) <= ends
    assert len(crawled.finals) == 3
    assert max(requests.values()) <= 2 * (RETRIES + 1), requests
