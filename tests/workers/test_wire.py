"""What goes between two processes comes out as it went in."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.headers import Headers
from amble.core.outcome import Failure
from amble.core.page.lines import link_lines
from amble.core.page.page import Page, read_page
from amble.fetcher import DnsError, FetchResult, Phase
from amble.workers.errand import Errand, Visited
from amble.workers.wire import RUN, pack_errand, pack_visited, unpack_errand, unpack_visited
from tests.workers.test_frames import through

HEADERS = Headers(
    [("Content-Type", "text/html; charset=utf-8"), ("Link", '</one>; rel="canonical"'), ("Set-Cookie", "a"),
     ("Set-Cookie", "b"), ("X-Robots-Tag", "noarchive")]
)  # fmt: skip
BODY = """<!doctype html><html lang=de><head><title>Grüße \U0001f600</title><meta name=description content=d>
<meta http-equiv=refresh content="3; url=/two"><base href="http://a.test/x/"></head>
<a href=one rel="nofollow ugc">eins</a><a href="mailto:x@y">m</a><a href="http://b.test/">b</a>""".encode()
RESULT = FetchResult(
    "http://a.test/", 200, HEADERS, BODY, started_at=3.25, elapsed_s=0.5, ttfb_s=0.25, http_version="2",
    peer_ip="192.0.2.1", body_bytes=999, reused=True,
)  # fmt: skip


def there_and_back(visited: Visited, seen: Iterable[str] = ()) -> Visited:
    [item] = through(pack_visited(visited, set(map(hash, seen))))
    return unpack_visited(*item)


def with_lines(page: Page) -> Page:
    return page._replace(lines=link_lines(page.links, page.canonical, page.refresh))


def test_a_page_comes_out_as_it_was_read_and_leaves_its_bytes_behind() -> None:
    page = read_page(BODY, RESULT.url, headers=HEADERS)
    assert all([page.canonical, page.refresh, page.links, page.links_dropped, page.robots.restrictions])
    assert there_and_back(Visited(RESULT, page)) == Visited(RESULT._replace(body=None), with_lines(page))


def test_links_to_what_was_seen_are_left_out_unless_they_say_how_they_are_meant() -> None:
    page = read_page(BODY, RESULT.url, headers=HEADERS)
    assert [(link.url, link.nofollow) for link in page.links] == [
        ("http://a.test/x/one", True),
        ("http://b.test/", False),
    ]
    for seen, left in [
        ((), ["http://a.test/x/one", "http://b.test/"]),
        (("http://a.test/x/one", "http://b.test/"), ["http://a.test/x/one"]),
        (("http://b.test/x",), ["http://a.test/x/one", "http://b.test/"]),
    ]:
        came = there_and_back(Visited(RESULT, page), seen).reading
        assert isinstance(came, Page)
        assert [link.url for link in came.links] == left
        assert came.lines == with_lines(page).lines, "all of them are kept"


@pytest.mark.parametrize(
    "result",
    [
        RESULT,
        RESULT._replace(body=b"\x00\xff" * 1_000),
        FetchResult("http://a.test/", failure=Failure.NETWORK_DNS_FAILURE, detail="nö", phase=Phase.RESOLVE,
                    dns_error=DnsError.TRY_AGAIN, proxy_fault=True),
        FetchResult("http://a.test/", 503, failure=Failure.NETWORK_RESET, phase=Phase.BODY, local_fault=True,
                    truncated=True),
    ],
)  # fmt: skip
def test_what_was_not_read_keeps_its_bytes(result: FetchResult) -> None:
    assert there_and_back(Visited(result, None)) == Visited(result, None)


@given(text=st.text(st.characters(codec=None), max_size=50))
def test_any_text_at_all_passes_a11(text: str) -> None:
    """Half of a surrogate pair, too."""
    page = read_page(b"<title>t</title>", "http://a.test/", headers=HEADERS)
    page = with_lines(page._replace(text=text, title=text))
    assert there_and_back(Visited(RESULT, page)).reading == page


def test_an_errand_comes_out_as_it_went_in() -> None:
    errand = Errand("http://a.test/s.xml", False, '"e"', "Mon", "b.test", 5_000, True, header_timeout_s=5.0)
    [item] = through(pack_errand(7, errand, 0.5))
    assert item[:2] == (RUN, 7)
    assert unpack_errand(item) == (errand, 0.5)
