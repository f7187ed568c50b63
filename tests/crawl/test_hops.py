"""Redirects over real sockets: each hop paced and allowed at its own host, and nothing carried across [D1-D3, D8]."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path

import pytest
import trustme

from amble.core.frontier.changes import State
from amble.testing.farm import Farm, Feature, Pages, Robots, Site
from amble.testing.farm.exchange import Request, Response, html, redirect
from tests.crawl.rig import crawl, text, web
from tests.crawl.rig import html as page
from tests.crawl.rig import redirect as moved


@dataclass(frozen=True, slots=True)
class Hops(Feature):
    """`/go/N` leads to `/go/N-1` at the next of these hosts, and `/go/0` is a page."""

    hosts: tuple[str, ...]

    def paths(self, site: Site) -> Iterable[str]:
        return ()

    def answer(self, site: Site, request: Request) -> Response | None:
        if not request.path.startswith("/go/"):
            return None
        left = int(request.path.removeprefix("/go/"))
        if not left:
            return html("<title>here</title>")
        following = self.hosts[(self.hosts.index(request.host) + 1) % len(self.hosts)]
        return redirect(302, request.url(following, f"/go/{left - 1}"))


DELAY_S = 0.15
TOLERANCE_S = 0.005  # of the server's stamps


async def test_every_hop_is_paced_at_its_own_domain_d1() -> None:
    """Chains of hops over three hosts: by the server's own clock, no host is asked sooner than its delay."""
    hosts = ("a.test", "b.test", "c.test")
    hops = Hops(hosts)
    with Farm([Site(name=host, pages=Pages(1), features=(hops,)) for host in hosts]) as farm:
        seeds = [farm.url(host, "/go/9") for host in hosts]
        crawled = await crawl(seeds, policy=farm.policy, resolver=farm.resolver, fixed_delay=DELAY_S)
        log = farm.log()
    assert {final.state for final in crawled.finals.values()} == {State.DONE}
    assert len(crawled.finals) == 3 * 10
    for host in hosts:
        entries = sorted((entry for entry in log if entry.host == host), key=lambda entry: entry.arrived)
        assert entries[0].is_robots
        assert sum(entry.is_robots for entry in entries) == 1
        assert len(entries) >= 9
        closest_s = min(later.arrived - earlier.arrived for earlier, later in pairwise(entries))
        assert closest_s >= DELAY_S - TOLERANCE_S


async def test_a_robots_that_leads_to_another_host_is_paced_there_b4_d1() -> None:
    hosts = [f"h{number}.test" for number in range(4)]
    sites = [Site(name="hub.test", pages=Pages(2))]
    with Farm([*sites, *(Site(name=host, pages=Pages(1)) for host in hosts)]) as farm:
        away = Robots(status=302, location=farm.url("hub.test", "/robots.txt"))
        farm.replace(*(Site(name=host, pages=Pages(1), robots=away) for host in hosts))
        seeds = [farm.url("hub.test"), *(farm.url(host) for host in hosts)]
        crawled = await crawl(seeds, policy=farm.policy, resolver=farm.resolver, fixed_delay=DELAY_S)
        entries = sorted((entry for entry in farm.log() if entry.host == "hub.test"), key=lambda entry: entry.arrived)
    assert set(crawled.ends().values()) == {"done"}
    assert len(entries) == 6  # its own robots.txt and page, and the file once more for each of the others
    assert min(b.arrived - a.arrived for a, b in pairwise(entries)) >= DELAY_S - TOLERANCE_S


async def test_a_hop_is_checked_against_the_robots_of_its_target_l4() -> None:
    async with web() as served:
        served.pages |= {
            "a.test/x": moved(served.url("b.test/private/x")),
            "a.test/y": moved(served.url("b.test/open")),
            "b.test/robots.txt": text("User-agent: *", "Disallow: /private/"),
            "b.test/open": page(),
        }
        seeds = [served.url("a.test/x"), served.url("a.test/y"), served.url("b.test/open")]
        crawled = await crawl(seeds)
    assert [crawled.end(seed) for seed in seeds] == ["done", "done", "done"]
    assert crawled.end(served.url("b.test/private/x")) == "robots_disallowed"
    assert "b.test/private/x" not in served.asked()
    assert served.asked("b.test")[0] == "b.test/robots.txt"
    move = crawled.finals[seeds[1]].move
    assert move is not None
    assert (move.final_url, move.redirects) == (served.url("b.test/open"), 1)


@pytest.mark.parametrize(
    ("first", "second", "end", "requests"),
    [
        ("/x", None, "too_many_redirects", 1),
        ("/y", "/x", "too_many_redirects", 2),
        ("file:///etc/passwd", None, "out_of_scope", 1),
        ("ftp://a.test/x", None, "out_of_scope", 1),
        ("http://evil.test/", None, "out_of_scope", 1),
        ("//evil.test/", None, "out_of_scope", 1),
        ("http://a.test:22/", None, "out_of_scope", 1),
    ],
)
async def test_where_a_chain_ends_d1_d2_d3(first: str, second: str | None, end: str, requests: int) -> None:
    async with web() as served:
        served.pages["a.test/x"] = moved(first, "Set-Cookie: again=1")
        if second is not None:
            served.pages["a.test/y"] = moved(second, status="301 Moved Permanently")
        crawled = await crawl([served.url("a.test/x")])
    assert list(crawled.ends().values()) == ["done"] * (requests - 1) + [end]
    assert len(served.log) == 1 + requests


async def test_a_page_of_redirects_without_end_d1() -> None:
    async with web() as served:
        served.pages |= {f"a.test/{number}": moved(f"/{number + 1}") for number in range(100)}
        crawled = await crawl([served.url("a.test/0")])
    assert list(crawled.ends().values()) == ["done"] * 10 + ["too_many_redirects"]
    assert served.asked()[1:] == [f"a.test/{number}" for number in range(11)]


SECRETS = ("authorization", "cookie", "proxy-authorization", "referer", "if-none-match", "if-modified-since", "origin")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, str]:
    file: Path = tmp_path_factory.mktemp("tls") / "ca.pem"
    made = trustme.CA()
    made.cert_pem.write_to_path(str(file))
    return made, str(file)


@pytest.mark.parametrize(
    ("scheme", "other_scheme", "other_host", "other_port"),
    list(product(("http", "https"), (False, True), (False, True), (False, True))),
)
async def test_nothing_crosses_an_origin_d8(
    authority: tuple[trustme.CA, str], scheme: str, other_scheme: bool, other_host: bool, other_port: bool
) -> None:
    """A redirect that sets cookies and writes a password into its target: the next request knows of neither."""
    made, ca_file = authority
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.issue_cert("a.test", "b.test").configure_cert(context)
    secure = (scheme == "https") != other_scheme
    async with web(tls=context if scheme == "https" else None) as here, web(tls=context if secure else None) as there:
        same_server = not other_scheme and not other_port
        target = (here if same_server else there).url(
            f"{'b' if other_host else 'a'}.test/y", "https" if secure else "http"
        )
        crossing = target.replace("://", "://user:secret@", 1)
        here.pages["a.test/x"] = moved(
            crossing, "Set-Cookie: session=secret; Path=/", "Set-Cookie: all=secret; Domain=test", 'ETag: "secret"',
            "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT", "WWW-Authenticate: Basic",
        )  # fmt: skip
        for served in (here, there):
            served.pages |= {"a.test/y": page(), "b.test/y": page()}
        crawled = await crawl([here.url("a.test/x", scheme)], anywhere=True, ca_file=ca_file)
    assert list(crawled.ends().values()) == ["done", "done"]
    log = [*here.log, *there.log]
    assert sum(asked.path == "/y" for asked in log) == 1
    assert [(asked.path, name) for asked in log for name in SECRETS if name in asked.headers] == []
    assert not any("secret" in value for asked in log for value in asked.headers.values())
    assert crawled.finals[next(iter(crawled.finals))].move  # nor does the row
    assert not any("secret" in url for url in crawled.finals)


async def test_no_cookie_comes_back_even_to_its_own_origin_d8_d9() -> None:
    async with web() as served:
        cookie = "Set-Cookie: id=1; Path=/"
        served.pages |= {"a.test/": page("/1", "/2", headers=[cookie]), "a.test/1": page(), "a.test/2": page()}
        await crawl([served.url("a.test/")], follow_links=True, max_parallel_per_domain=1)
    assert len(served.log) == 4
    assert not any("cookie" in asked.headers for asked in served.log)


async def test_what_every_request_does_say() -> None:
    agent = "amble/0.1 (+https://example.com/bot)"
    async with web() as served:
        served.pages |= {"a.test/x": moved("/y"), "a.test/y": page()}
        await crawl([served.url("a.test/x")], user_agent=agent, from_address="me@example.com")
    assert {(asked.headers["user-agent"], asked.headers["from"]) for asked in served.log} == {(agent, "me@example.com")}
