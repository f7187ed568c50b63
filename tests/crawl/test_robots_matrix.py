"""robots.txt over real sockets: every status and every way to fail, redirects, and one request however many wait."""

from __future__ import annotations

import ssl
from itertools import pairwise
from pathlib import Path

import pytest
import trustme

from amble.core.frontier.changes import State
from amble.testing.rawserver import Connection, response
from tests.crawl.rig import Answer, Names, crawl, html, redirect, text, web

PAGE = html()
CLOSED = text("User-agent: *", "Disallow: /")


async def hang(connection: Connection) -> None:
    await connection.wait_until_closed()


async def reset(connection: Connection) -> None:
    connection.reset()


async def close(connection: Connection) -> None:
    """Nothing is said at all."""


def status(line: str, *headers: str) -> bytes:
    return response(b"<h1>no</h1>", "Content-Type: text/html", *headers, status=line)


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (text("User-agent: *", "Disallow: /x"), "robots_disallowed"),
        (text("User-agent: *", "Allow: /"), "done"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "done"),
        (status("401 Unauthorized", "WWW-Authenticate: Basic"), "done"),
        (status("403 Forbidden"), "done"),
        (status("404 Not Found"), "done"),
        (status("410 Gone"), "done"),
        (status("429 Too Many Requests"), "robots_unreachable"),
        (status("429 Too Many Requests", "Retry-After: 90000"), "http_rate_limited"),
        (status("500 Internal Server Error"), "robots_unreachable"),
        (status("503 Service Unavailable"), "robots_unreachable"),
        (status("301 Moved Permanently"), "robots_unreachable"),
        (redirect("file:///etc/passwd"), "robots_unreachable"),
        (redirect("/robots.txt"), "done"),
        (b"not http at all\r\n\r\n", "robots_unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nUser-agent: *", "robots_unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd", "robots_unreachable"),
        (reset, "robots_unreachable"),
        (close, "robots_unreachable"),
        (hang, "robots_unreachable"),
    ],
    ids=[
        "200 forbids", "200 allows", "204", "401", "403", "404", "410", "429", "429 for a day", "500", "503",
        "redirect without location", "redirect to a file", "redirect to itself", "no http", "cut short",
        "not what it says", "reset", "closed", "timeout",
    ],
)  # fmt: skip
async def test_the_status_matrix_b4(answer: Answer, end: str) -> None:
    async with web() as served:
        served.pages |= {"a.test/robots.txt": answer, "a.test/x": PAGE}
        http_timeout = 0.5 if end == "robots_unreachable" else 20.0  # whatever is not to come is not waited for
        crawled = await crawl([served.url("a.test/x")], http_timeout=http_timeout, robots_retries=0)
    assert list(crawled.ends().values()) == [end]
    assert served.asked() == ["a.test/robots.txt", *["a.test/x"] * (end == "done")]
    if end == "http_rate_limited":
        assert crawled.count(State.DEFERRED) == 1  # neither failed nor lost


async def test_no_such_name_b4() -> None:
    async with web() as served:
        crawled = await crawl([served.url("gone.test/x")], resolver=Names({"gone.test": []}))
    assert (list(crawled.ends().values()), served.log) == (["network_dns_failure"], [])


async def test_nobody_listens_b4() -> None:
    async with web() as served:
        port = served.port
    crawled = await crawl([f"http://a.test:{port}/x"])
    assert list(crawled.ends().values()) == ["robots_unreachable"]


async def test_a_certificate_nobody_vouches_for_is_not_an_empty_file_b4() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("a.test").configure_cert(context)
    async with web(tls=context) as served:
        served.pages["a.test/x"] = PAGE
        crawled = await crawl([served.url("a.test/x", "https")])
    assert (list(crawled.ends().values()), served.log) == (["network_tls_error"], [])


@pytest.mark.parametrize(("hops", "end"), [(1, "robots_disallowed"), (5, "robots_disallowed"), (6, "done")])
async def test_a_chain_of_redirects_b4(hops: int, end: str) -> None:
    """Each hop at a host of its own; the rules at the end are those of the first."""
    async with web() as served:
        places = ["a.test/robots.txt", *(f"hop{number}.test/r" for number in range(hops))]
        for place, following in pairwise(places):
            served.pages[place] = redirect(served.url(following), status="301 Moved Permanently")
        served.pages |= {places[-1]: CLOSED, "a.test/x": PAGE}
        crawled = await crawl([served.url("a.test/x")])
    assert list(crawled.ends().values()) == [end]
    assert served.asked()[: min(hops, 5) + 1] == places[: min(hops, 5) + 1]
    assert (places[-1] in served.asked()) is (hops <= 5)


async def test_robots_that_redirect_to_each_other_b4() -> None:
    async with web() as served:
        served.pages |= {
            "a.test/robots.txt": redirect(served.url("b.test/robots.txt")),
            "b.test/robots.txt": redirect(served.url("a.test/robots.txt")),
            "a.test/x": PAGE,
            "b.test/x": PAGE,
        }
        crawled = await crawl([served.url("a.test/x"), served.url("b.test/x")])
    assert list(crawled.ends().values()) == ["done", "done"]
    assert len(served.log) == 6


async def test_a_robots_that_comes_back_b4() -> None:
    """Down, then up: what waited for it is fetched, with all its tries left."""
    answers = iter([status("503 Service Unavailable"), text("User-agent: *", "Disallow: /private")])
    async with web() as served:
        served.pages |= {"a.test/robots.txt": lambda asked: next(answers), "a.test/x": PAGE}
        crawled = await crawl([served.url("a.test/x"), served.url("a.test/private")])
    assert crawled.end(served.url("a.test/x")) == "done"
    assert crawled.end(served.url("a.test/private")) == "robots_disallowed"
    assert served.asked() == ["a.test/robots.txt", "a.test/robots.txt", "a.test/x"]


async def test_one_request_for_a_thousand_queued_urls_b6() -> None:
    async with web() as served:
        places = [f"a.test/{number}" for number in range(1_000)]
        served.pages |= dict.fromkeys(places, PAGE) | {"a.test/robots.txt": text("User-agent: *", "Disallow: /5")}
        crawled = await crawl([served.url(place) for place in places])
    assert served.asked().count("a.test/robots.txt") == 1
    assert served.asked()[0] == "a.test/robots.txt"
    forbidden = [place for place in places if place.startswith("a.test/5")]
    assert set(served.asked()[1:]) == set(places) - set(forbidden)
    assert crawled.count(State.SKIPPED) == len(forbidden) == 111


async def test_each_origin_has_its_own_b7(tmp_path: Path) -> None:
    """http, https, another port and www: four files."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("a.test").configure_cert(context)
    async with web() as plain, web() as other, web(tls=context) as secure:
        for served in (plain, other, secure):
            served.pages |= {"a.test/x": PAGE, "www.a.test/x": PAGE}
        plain.pages["a.test/robots.txt"] = CLOSED
        secure.pages["a.test/robots.txt"] = text("User-agent: *", "Allow: /")
        seeds = [
            plain.url("a.test/x"),
            plain.url("www.a.test/x"),
            other.url("a.test/x"),
            secure.url("a.test/x", "https"),
        ]
        crawled = await crawl(seeds, ca_file=str(tmp_path / "ca.pem"))
    assert list(map(crawled.end, seeds)) == ["robots_disallowed", "done", "done", "done"]
    assert sorted(plain.asked()) == ["a.test/robots.txt", "www.a.test/robots.txt", "www.a.test/x"]
    assert other.asked() == secure.asked() == ["a.test/robots.txt", "a.test/x"]


async def test_a_robots_without_end_is_read_to_its_limit_and_obeyed_b1() -> None:
    async def endless(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nUser-agent: *\nDisallow: /x\n")
        await connection.send_forever(b"Disallow: /y" + b"z" * 50_000 + b"\n")

    async with web() as served:
        served.pages |= {"a.test/robots.txt": endless, "a.test/x": PAGE, "a.test/z": PAGE}
        crawled = await crawl([served.url("a.test/x"), served.url("a.test/z")])
    assert crawled.end(served.url("a.test/x")) == "robots_disallowed"
    assert crawled.end(served.url("a.test/z")) == "done"
