"""The address guard through every door of a crawl: no spelling of a private address is reached by any of them [D4-D6].

The site of the crawl lies on loopback as well, but was named by the user, under its own name and port. A canary listens
on the loopback addresses at another port. Scope is opened wide, so that whatever is refused is refused by the guard.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from amble.core.addresses import AddressPolicy
from amble.core.frontier.changes import State
from amble.core.urls import normalize
from amble.testing.rawserver import RawServer, answer_each, response, serve
from tests.crawl.rig import Crawled, Names, Web, crawl, html, redirect, sitemap, text, web

CANARY = answer_each(lambda head: response(b"User-agent: *\nAllow: /", "Content-Type: text/plain"))

# What leads to this machine, or would if it were let.
LOOPBACK = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1", "017700000001", "①②⑦.0.0.1",
    "１２７.0.0.1", "127.0.0.1.", "%31%32%37.0.0.1", "127。0。0。1", "0", "0.0.0.0", "[::1]", "[::]",
    "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "localhost",
    "LOCALHOST", "localhost.", "a.localhost", "a.b.localhost.", "ｌocalhost", "loopback.test", "both.test",
    "mapped.test", "six.test",
]  # fmt: skip
# What leads to somebody else's network, or to the cloud's own.
ELSEWHERE = [
    "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "169.254.1.1", "100.64.0.1", "100.100.100.200",
    "192.0.0.192", "168.63.129.16", "[fd00::1]", "[fd00:ec2::254]", "[fe80::1]", "224.0.0.1", "255.255.255.255",
    "metadata.google.internal", "metadata", "instance-data", "printer.local", "wiki.internal", "private.test",
]  # fmt: skip
FORMS = LOOPBACK + ELSEWHERE

PUBLIC = "93.184.216.34"
NAMES = {
    "loopback.test": [["127.0.0.1"]],
    "both.test": [[PUBLIC, "127.0.0.1"]],  # one bad answer is enough [D5]
    "mapped.test": [["::ffff:127.0.0.1"]],
    "six.test": [["::1"]],
    "private.test": [["10.1.2.3"]],
    # Refused by their names, wherever they say they are.
    **{name: [[PUBLIC]] for name in ("a.localhost", "metadata.google.internal", "wiki.internal", "printer.local")},
}  # every other name resolves to loopback: should the guard let it pass, the canary would see it


class Scene(NamedTuple):
    site: Web
    canary: RawServer

    def targets(self, path: str = "/secret") -> list[str]:
        return [f"http://{form}:{self.canary.port}{path}" for form in FORMS]

    def urls(self, path: str = "/secret") -> set[str]:
        """The targets as URLs: spellings of one address are one."""
        found = {normalize(target) for target in self.targets(path)}
        assert len(found) >= 35
        return {url for url in found if isinstance(url, str)}

    async def crawl(self, *places: str, **wanted: Any) -> Crawled:
        """The site as the user named it."""
        seeds = [self.site.url(place) for place in places]
        return await crawl(
            seeds, policy=AddressPolicy.of(named=seeds), resolver=Names(NAMES), anywhere=True,
            **{"robots_retries": 0, "follow_links": True, **wanted},
        )  # fmt: skip


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with (
        web() as site,
        serve(CANARY) as canary,
        serve(CANARY, host="::1", port=canary.port) as six,
        serve(CANARY, host="127.0.0.2", port=canary.port) as two,
    ):
        yield Scene(site, canary)
        await asyncio.sleep(0.02)  # a connection made a moment ago would show by now
        assert (canary.connections, six.connections, two.connections) == (0, 0, 0)


def refused(crawled: Crawled, tasks: set[str]) -> None:
    """These, and only these, ended because of where they lead; none of them was sent."""
    forbidden = {task for task, final in crawled.finals.items() if final.failure == "address_forbidden"}
    assert forbidden == tasks
    assert {crawled.finals[task].state for task in tasks} <= {State.SKIPPED}


WITH_AND_WITHOUT_ROBOTS = pytest.mark.parametrize("respect_robots_txt", [True, False], ids=["robots", "no robots"])


@WITH_AND_WITHOUT_ROBOTS
async def test_as_a_seed_that_nobody_typed_d4(respect_robots_txt: bool) -> None:
    """From a table or an API, where no user has named the hosts."""
    async with scene() as at:
        seeds = at.targets()
        crawled = await crawl(
            seeds, policy=AddressPolicy(), resolver=Names(NAMES), respect_robots_txt=respect_robots_txt
        )  # fmt: skip
        assert set(crawled.finals) == at.urls()
        refused(crawled, at.urls())


@WITH_AND_WITHOUT_ROBOTS
async def test_as_a_link_d4(respect_robots_txt: bool) -> None:
    async with scene() as at:
        at.site.pages |= {"site.test/": html(*at.targets(), "/after"), "site.test/after": html()}
        crawled = await at.crawl("site.test/", respect_robots_txt=respect_robots_txt)
        own = {at.site.url("site.test/"), at.site.url("site.test/after")}
        assert {crawled.end(url) for url in own} == {"done"}
        refused(crawled, at.urls())


@WITH_AND_WITHOUT_ROBOTS
async def test_as_a_redirect_d4(respect_robots_txt: bool) -> None:
    async with scene() as at:
        old = [f"/old{number}" for number in range(len(FORMS))]
        at.site.pages["site.test/"] = html(*old)
        for path, target in zip(old, at.targets(), strict=True):
            at.site.pages[f"site.test{path}"] = redirect(target)
        crawled = await at.crawl("site.test/", respect_robots_txt=respect_robots_txt)
        # Spellings of one address are one URL: of those that lead to it, the first is followed, the others say where.
        forbidden = {task for task, final in crawled.finals.items() if final.failure == "address_forbidden"}
        refused(crawled, forbidden)
        targets = {final.visit.url for task, final in crawled.finals.items() if final.visit.trail}
        assert targets == at.urls()
        assert len(forbidden) == len(targets)


async def test_as_a_redirect_of_robots_txt_d4() -> None:
    """A host for each form, since each has one robots.txt."""
    async with scene() as at:
        hosts = [f"site{number}.test" for number in range(len(FORMS))]
        for host, target in zip(hosts, at.targets("/robots.txt"), strict=True):
            at.site.pages |= {f"{host}/robots.txt": redirect(target), f"{host}/x": html()}
        crawled = await at.crawl(*(f"{host}/x" for host in hosts))
        assert set(crawled.ends().values()) == {"robots_unreachable"}
        assert sorted(at.site.asked()) == sorted(f"{host}/robots.txt" for host in hosts)


async def test_as_a_sitemap_line_d4() -> None:
    async with scene() as at:
        lines = [f"Sitemap: {target}" for target in at.targets("/sitemap.xml")]
        own = f"Sitemap: {at.site.url('site.test/own.xml')}"
        at.site.pages |= {
            "site.test/robots.txt": text("User-agent: *", "Allow: /", *lines, own),
            "site.test/own.xml": sitemap(at.site.url("site.test/listed")),
            "site.test/": html(),
            "site.test/listed": html(),
        }
        crawled = await at.crawl("site.test/", discover=True)
        assert set(crawled.ends().values()) == {"done"}
        assert at.site.url("site.test/listed") in crawled.finals


@WITH_AND_WITHOUT_ROBOTS
async def test_as_an_entry_of_a_sitemap_d4(respect_robots_txt: bool) -> None:
    """Names under the site's own registered name are its own, whatever they resolve to."""
    async with scene() as at:
        port = at.canary.port
        inside = [f"http://{name}.site.test:{port}/secret" for name in ("intranet", "localhost", "127-0-0-1")]
        at.site.pages |= {
            "site.test/sitemap.xml": sitemap(*at.targets(), *inside, at.site.url("site.test/listed")),
            "site.test/": html(),
            "site.test/listed": html(),
        }
        crawled = await at.crawl("site.test/", discover=True, respect_robots_txt=respect_robots_txt)
        assert crawled.end(at.site.url("site.test/listed")) == "done"
        refused(crawled, set(inside))


async def test_as_a_redirected_sitemap_d4() -> None:
    async with scene() as at:
        targets = at.targets("/sitemap.xml")
        lines = [f"Sitemap: {at.site.url(f'site.test/{number}.xml')}" for number in range(len(targets))]
        at.site.pages |= {"site.test/robots.txt": text("User-agent: *", *lines), "site.test/": html()}
        at.site.pages |= {f"site.test/{number}.xml": redirect(target) for number, target in enumerate(targets)}
        crawled = await at.crawl("site.test/", discover=True)
        assert set(crawled.ends().values()) == {"done"}
        assert sum(place.endswith(".xml") for place in at.site.asked()) == len(targets)


@pytest.mark.parametrize(
    "write",
    [
        lambda url: html(head=f'<link rel=canonical href="{url}">'),
        lambda url: html(headers=[f"Link: <{url}>; rel=canonical"]) if url.isascii() else html(),
        lambda url: html(head=f'<meta http-equiv=refresh content="0; url={url}">'),
        lambda url: html(headers=[f"Refresh: 0; url={url}"]) if url.isascii() else html(),
        lambda url: html("secret", head=f'<base href="{url}">'),
    ],
    ids=["canonical tag", "canonical header", "meta refresh", "refresh header", "base"],
)
async def test_as_what_a_page_says_of_itself_d4_c8_c9(write: Callable[[str], bytes]) -> None:
    async with scene() as at:
        places = [f"site.test/{number}" for number in range(len(FORMS))]
        at.site.pages |= {place: write(target) for place, target in zip(places, at.targets(), strict=True)}
        crawled = await at.crawl(*places, follow_canonical=True)
        own = {at.site.url(place) for place in places}
        assert {crawled.end(task) for task in own} == {"done"}
        refused(crawled, set(crawled.finals) - own)


@pytest.mark.parametrize("port", [22, 25, 5432, 6379])
async def test_ports_of_other_services_are_not_asked_d4(port: int) -> None:
    """127.0.0.2 stands for a public address."""
    seed = f"http://public.test:{port}/"
    opened = AddressPolicy.of(opened=["127.0.0.2/32"])
    crawled = await crawl([seed], policy=opened, resolver=Names(default="127.0.0.2"), robots_retries=0)
    refused(crawled, {seed})


# --- What the user typed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "home.test"])
async def test_a_private_seed_that_the_user_typed_is_meant_d4(host: str) -> None:
    """With the policy every user gets: robots.txt, the page, its links and redirects on the same host."""
    async with web() as served:
        served.pages |= {
            f"{host}/": html("/1", "/2"),
            f"{host}/1": redirect("/3"),
            f"{host}/2": html(),
            f"{host}/3": html(),
        }
        crawled = await crawl([served.url(f"{host}/")], policy=None, follow_links=True)
    assert set(crawled.ends().values()) == {"done"}
    assert len(crawled.finals) == 4


async def test_what_the_user_typed_is_closed_to_everybody_else_d4() -> None:
    """Two seeds on private addresses: no link of one reaches the other; a redirect does, as both were typed."""
    async with web() as mine, web() as other:
        seeds = [mine.url("127.0.0.1/"), other.url("site.test/")]
        mine.pages |= {"127.0.0.1/": html(), "127.0.0.1/admin": html(), "127.0.0.1/robots.txt": text("User-agent: *")}
        other.pages |= {
            "site.test/": html(mine.url("127.0.0.1/admin"), "/away", mine.url("localhost/admin")),
            "site.test/away": redirect(mine.url("127.0.0.1/admin?by=redirect")),
        }
        crawled = await crawl(seeds, policy=None, follow_links=True)
    assert crawled.end(mine.url("127.0.0.1/admin")) == "address_forbidden"
    assert crawled.end(mine.url("127.0.0.1/admin?by=redirect")) == "http_client_error", "there is no such page there"
    assert sorted(mine.asked()) == ["127.0.0.1/", "127.0.0.1/admin?by=redirect", "127.0.0.1/robots.txt"]
    assert crawled.left_out == {"other_host": 1}


async def test_the_same_machine_at_another_port_was_not_typed_d4() -> None:
    async with web() as mine, web() as other:
        mine.pages["127.0.0.1/"] = html(other.url("127.0.0.1/"), other.url("localhost/"))
        crawled = await crawl([mine.url("127.0.0.1/")], policy=None, follow_links=True, anywhere=True)
    assert [crawled.end(other.url(place)) for place in ("127.0.0.1/", "localhost/")] == ["address_forbidden"] * 2
    assert other.log == []


async def test_a_robots_that_leads_away_and_back_does_not_open_the_door_d4() -> None:
    """The user's own robots.txt redirects to a stranger, who redirects to a path of the user's host."""
    async with web() as mine, web(host="127.0.0.2") as other:
        mine.pages |= {"127.0.0.1/x": html(), "127.0.0.1/robots.txt": redirect(other.url("site.test/r"))}
        other.pages["site.test/r"] = redirect(mine.url("127.0.0.1/delete?all"))
        policy = AddressPolicy.of(named=[mine.url("127.0.0.1/x")], opened=["127.0.0.2/32"])
        await crawl([mine.url("127.0.0.1/x")], policy=policy, resolver=Names(default="127.0.0.2"))
    assert "127.0.0.1/delete?all" not in mine.asked()
    assert "site.test/r" in other.asked()


# --- Names that change their minds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("why", "answers", "asked"),
    [
        ("between robots.txt and the page", [["127.0.0.2"], ["127.0.0.1"]], ["/robots.txt"]),
        ("between two pages", [["127.0.0.2"], ["127.0.0.2"], ["127.0.0.1"]], ["/robots.txt", "/x"]),
        ("to a mixture", [["127.0.0.2"], ["127.0.0.2", "127.0.0.1"]], ["/robots.txt"]),
        ("to the same by another spelling", [["127.0.0.2"], ["::ffff:127.0.0.1"]], ["/robots.txt"]),
        ("from the first", [["127.0.0.1"]], []),
    ],
)
async def test_rebinding_d5(why: str, answers: list[list[str]], asked: list[str]) -> None:
    """127.0.0.2 stands for a public address: it alone is opened. The canary is at the same port of 127.0.0.1."""
    opened = AddressPolicy.of(opened=["127.0.0.2/32"])
    async with web(host="127.0.0.2") as public, serve(CANARY, port=public.port) as canary:
        public.pages |= {"flip.test/x": html("/y"), "flip.test/y": html("/z"), "flip.test/z": html()}
        crawled = await crawl(
            [public.url("flip.test/x")], policy=opened, resolver=Names({"flip.test": answers}), follow_links=True
        )  # fmt: skip
        assert canary.connections == 0
    assert [place.removeprefix("flip.test") for place in public.asked()] == asked
    assert "address_forbidden" in crawled.ends().values()


async def test_a_typed_name_that_was_public_and_turns_private_is_being_rebound_d5() -> None:
    """The user typed the name, but meant what it was then. Nobody listens at the public address here."""
    async with serve(CANARY) as canary:
        names = Names({"flip.test": [[PUBLIC], ["127.0.0.1"]]})
        crawled = await crawl(
            [f"http://flip.test:{canary.port}/"], policy=None, resolver=names, connect_timeout_s=0.2, http_timeout=0.3
        )  # fmt: skip
        assert canary.connections == 0
    assert list(crawled.ends().values()) == ["address_forbidden"]
