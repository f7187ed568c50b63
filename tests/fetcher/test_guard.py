"""The address guard at the socket: what is refused is never connected to, whichever way it is spelt [D4-D7]."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast
from unittest.mock import patch

import pycurl
import pytest

from amble.clock import SystemClock
from amble.core.addresses import AddressPolicy
from amble.core.outcome import Failure
from amble.fetcher import Fetcher, FetcherSettings, FetchRequest, FetchResult
from amble.fetcher.authorities import default_ca_file
from amble.fetcher.calls import awaited
from amble.fetcher.curl import Transfer
from amble.fetcher.engine import Engine
from amble.fetcher.guard import Guard, Pin, Route, packed, pin_host
from amble.fetcher.kept import KeptConnections
from amble.fetcher.multi import Multi
from amble.fetcher.sessions import TlsSessions
from amble.testing.rawserver import RawServer, answer_each, response, serve
from tests.effects.fetching import Recording
from tests.fetcher.helpers import LOOPBACK_OPEN, Names, fetcher

PUBLIC_ONLY = AddressPolicy()
HELLO = answer_each(lambda head: response(b"canary"))


@asynccontextmanager
async def canary() -> AsyncIterator[RawServer]:
    """A server on every loopback address that must never be reached."""
    async with serve(HELLO) as v4, serve(HELLO, host="::1", port=v4.port) as v6:
        yield v4
        await asyncio.sleep(0.02)  # a connection made a moment ago would show by now
        assert (v4.connections, v6.connections) == (0, 0)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1", "017700000001", "①②⑦.0.0.1",
        "127.0.0.1.", "%31%32%37.0.0.1", "0", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
        "[0:0:0:0:0:0:0:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "localhost", "LOCALHOST", "localhost.",
        "a.localhost", "ｌocalhost", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "192.0.0.192", "[fd00::1]", "[fe80::1]", "224.0.0.1", "255.255.255.255", "metadata.google.internal",
    ],
)  # fmt: skip
async def test_no_spelling_of_a_private_address_is_reached(host: str) -> None:
    """D4."""
    async with canary() as server, fetcher(policy=PUBLIC_ONLY) as f:
        result = await f.fetch(FetchRequest(f"http://{host}:{server.port}/"))
    assert (result.failure, result.started_at, result.status) == (Failure.ADDRESS_FORBIDDEN, None, None)
    assert result.detail.isprintable()


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["::1"], ["::ffff:127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["127.0.0.1", "93.184.216.34"]],
    ids=["private", "IPv6", "mapped", "round robin", "round robin turned"],
)
async def test_one_private_answer_refuses_the_name(addresses: list[str]) -> None:
    """D5."""
    names = Names({"evil.test": [addresses]})
    async with canary() as server, fetcher(policy=PUBLIC_ONLY, resolver=names) as f:
        result = await f.fetch(FetchRequest(server.url(host="evil.test")))
    assert result.failure is Failure.ADDRESS_FORBIDDEN


async def test_a_name_is_asked_once_for_each_fetch_and_what_was_checked_is_what_is_used() -> None:
    """D5: public when checked, private when connected: there is no second question to answer differently."""
    names = Names({"flip.test": [["127.0.0.2"], ["127.0.0.1"]]})
    only_two = AddressPolicy.of(opened=["127.0.0.2/32"])
    async with canary() as server, fetcher(policy=only_two, resolver=names) as f:
        refused = await f.fetch(FetchRequest(server.url(host="flip.test")))  # nobody listens at .2
        assert refused.failure is Failure.NETWORK_CONNECTION_REFUSED
        assert names.asked == ["flip.test"]
        assert (await f.fetch(FetchRequest(server.url(host="flip.test")))).failure is Failure.ADDRESS_FORBIDDEN


async def test_a_kept_connection_is_not_used_for_a_name_that_has_moved() -> None:
    """D6: the pool is keyed by address, too."""
    names = Names({"moves.test": [["127.0.0.1"], ["127.0.0.1"], ["127.0.0.2"]]})
    async with (
        serve(HELLO) as old,
        serve(HELLO, host="127.0.0.2", port=old.port) as new,
        fetcher(resolver=names) as f,
    ):
        peers = [(await f.fetch(FetchRequest(old.url(host="moves.test")))).peer_ip for _ in range(4)]
        assert peers == ["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"]
        assert (old.connections, new.connections) == (1, 1)


async def test_the_same_addresses_in_another_order_share_a_connection() -> None:
    names = Names({"turns.test": [["127.0.0.1", "127.0.0.2"], ["127.0.0.2", "127.0.0.1"]]})
    async with serve(HELLO) as server, fetcher(resolver=names) as f:
        for _ in range(3):
            assert (await f.fetch(FetchRequest(server.url(host="turns.test")))).status == 200
        assert server.connections == 1


async def test_two_names_at_one_address_do_not_share_a_connection() -> None:
    """D6: no coalescing."""
    async with serve(HELLO) as server, fetcher() as f:
        for name in ("a.test", "b.test", "a.test"):
            await f.fetch(FetchRequest(server.url(host=name)))
        assert server.connections == 2
    assert [head.split(b"Host: ")[1][:6] for head in server.requests] == [b"a.test", b"b.test", b"a.test"]


async def test_what_the_user_named_is_reached_but_not_by_way_of_others() -> None:
    """D4: a seed on loopback is meant; a link to it from elsewhere is not, even over the connection now open."""
    async with serve(HELLO) as server:
        policy = AddressPolicy.of(named=[server.url(host="localhost")])
        async with fetcher(policy=policy) as f:
            seed = await f.fetch(FetchRequest(server.url(host="localhost")))
            own = await f.fetch(FetchRequest(server.url("/a", host="localhost"), found_on=f"localhost:{server.port}"))
            alien = await f.fetch(FetchRequest(server.url("/b", host="localhost"), found_on="evil.test"))
            other = await f.fetch(FetchRequest(server.url("/c", host="127.0.0.1")))
    assert (seed.status, own.status) == (200, 200)
    assert (alien.failure, other.failure) == (Failure.ADDRESS_FORBIDDEN, Failure.ADDRESS_FORBIDDEN)
    assert server.paths == ["/", "/a"]


def test_a_named_host_that_was_public_and_turns_private_is_being_rebound() -> None:
    """D5."""
    guard = Guard(AddressPolicy.of(named=["intranet.test", "home.test"]))
    public, private = ("93.184.216.34",), ("10.0.0.1",)
    for host, addresses, allowed in [
        ("home.test", private, True),
        ("intranet.test", public, True),
        ("intranet.test", private, False),
        ("intranet.test", public, True),
        ("home.test", private, True),
        ("other.test", private, False),
    ]:
        assert isinstance(guard.check(host, 80, addresses, None), Route) is allowed


async def run_with(url: str, *pins: Pin) -> list[FetchResult]:
    """Transfers, one after another, whose pins a test has made by hand."""
    clock = SystemClock()
    settings = FetcherSettings(http_timeout=2.0)
    engine = Engine(settings, default_ca_file(), clock, asyncio.get_running_loop())
    try:
        begun = [partial(engine.start, FetchRequest(url), url, Route(pin), clock.monotonic()) for pin in pins]
        return [result for begin in begun if (result := await awaited(begin)) is not None]
    finally:
        engine.close()


async def test_the_socket_has_the_last_word_whatever_libcurl_was_told() -> None:
    """D5: even where libcurl holds another address than the checked one, no connection is made."""
    async with canary() as server:
        told = pin_host("site.test", ("127.0.0.1",), server.port)
        checked = replace(told, packed=frozenset({packed("127.0.0.9")}))
        [result] = await run_with(server.url(), checked)
    assert (result.failure, result.started_at) == (Failure.ADDRESS_FORBIDDEN, None)


async def test_a_kept_connection_is_checked_before_it_is_used() -> None:
    """D6: should libcurl ever offer a connection to another address, nothing is sent on it."""
    async with serve(HELLO) as server:
        right = pin_host("site.test", ("127.0.0.1",), server.port)
        wrong = replace(right, packed=frozenset({packed("127.0.0.9")}))
        first, second = await run_with(server.url(), right, wrong)
    assert (first.status, len(server.requests), server.connections) == (200, 1, 1)
    assert (second.failure, second.started_at) == (Failure.ADDRESS_FORBIDDEN, None)


async def test_a_pin_that_libcurl_has_lost_leads_nowhere() -> None:
    """D5: the name that stands for the addresses has none of its own."""
    async with canary() as server:
        pin = pin_host("site.test", ("127.0.0.1",), server.port)
        [result] = await run_with(server.url(host="localhost"), replace(pin, resolve=[]))
    assert result.failure is not None
    assert result.started_at is None


def test_a_handle_that_goes_elsewhere_takes_its_pin_back() -> None:
    """libcurl would else hold one for every host that was ever asked."""
    with patch.object(pycurl, "Curl", Recording):
        kept, multi = KeptConnections(1, lambda place: None), cast("Multi[Transfer]", None)
        transfer = Transfer(FetcherSettings(), "ca", multi, SystemClock(), kept, TlsSessions())
    a, b = (pin_host(host, ("127.0.0.1",), 80) for host in ("a.test", "b.test"))
    for pin, told in [(a, a.resolve), (a, a.resolve), (b, a.forget + b.resolve), (a, b.forget + a.resolve)]:
        transfer.prepare(FetchRequest("http://site.test/"), "http://site.test/", Route(pin), None)
        easy: Any = transfer.easy
        assert (easy.told[pycurl.RESOLVE], easy.told[pycurl.CONNECT_TO]) == (told, pin.connect_to)
    assert a.resolve[0].startswith(f"{a.forget[0].removeprefix('-')}:")


async def test_the_default_policy_is_the_public_internet() -> None:
    async with canary() as server, Fetcher(resolver=Names()) as f:
        assert (await f.fetch(FetchRequest(server.url()))).failure is Failure.ADDRESS_FORBIDDEN


async def test_ports_of_other_services_are_not_asked() -> None:
    async with fetcher(policy=PUBLIC_ONLY, resolver=Names(default="93.184.216.34")) as f:
        assert (await f.fetch(FetchRequest("http://site.test:22/"))).failure is Failure.ADDRESS_FORBIDDEN


async def test_ipv6() -> None:
    async with serve(HELLO, host="::1") as server, fetcher(policy=LOOPBACK_OPEN) as f:
        literal = await f.fetch(FetchRequest(server.url(host="[::1]")))
    assert (literal.status, literal.peer_ip) == (200, "::1")


REDIRECTS = [
    # from                                                 found at, in turn           to a typed private one?
    ("a typed private one", "mine.test", [["10.0.0.2"]], True),
    ("a typed address", "10.0.0.2", [["10.0.0.2"]], True),
    ("a typed public one", "mine.test", [["93.184.216.34"]], False),
    ("a typed one of both", "mine.test", [["10.0.0.2", "93.184.216.34"]], False),
    ("one that has just become private", "mine.test", [["93.184.216.34"], ["10.0.0.2"]], False),
    ("one that has just become public", "mine.test", [["10.0.0.2"], ["93.184.216.34"]], False),
    ("one that nobody typed", "other.test", [["10.0.0.2"]], False),
    ("one that was never asked", "mine.test", [], False),
]


@pytest.mark.parametrize(
    ("found_on", "answers", "passes"), [row[1:] for row in REDIRECTS], ids=[r[0] for r in REDIRECTS]
)
def test_a_private_site_that_was_typed_is_reached_by_redirects_of_another_such_one_d4(
    found_on: str, answers: list[list[str]], passes: bool
) -> None:
    guard = Guard(AddressPolicy.of(named=["http://mine.test/", "http://10.0.0.2/", "http://wiki.test/"]))
    for addresses in answers:
        guard.check(found_on, 80, tuple(addresses), None)
    redirected = guard.check("wiki.test", 80, ("10.0.0.1",), found_on, is_redirect=True)
    linked = guard.check("wiki.test", 80, ("10.0.0.1",), found_on)
    stranger = guard.check("wiki.corp.test", 80, ("10.0.0.1",), found_on, is_redirect=True)
    assert isinstance(redirected, Route) is passes
    assert not isinstance(linked, Route), "a link says less than a server that sends us on"
    assert not isinstance(stranger, Route), "which nobody typed"


@pytest.mark.parametrize(
    ("found_on", "met_here", "passes"),
    [("mine.test", [], True), ("mine.test", ["93.184.216.34"], False), ("other.test", [], False)],
    ids=["typed, and met by another process", "met here, and public", "nobody typed it"],
)
def test_a_redirect_of_a_private_site_that_another_process_asked_counts_d4(
    found_on: str, met_here: list[str], passes: bool
) -> None:
    guard = Guard(AddressPolicy.of(named=["http://mine.test/", "http://wiki.test/"]))
    for address in met_here:
        guard.check(found_on, 80, (address,), None)
    found = guard.check("wiki.test", 80, ("10.0.0.1",), found_on, is_redirect=True, sent_by_private=True)
    assert isinstance(found, Route) is passes
    linked = guard.check("wiki.test", 80, ("10.0.0.1",), found_on, sent_by_private=True)
    assert not isinstance(linked, Route)
