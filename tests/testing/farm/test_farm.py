"""A farm starts, resolves, remembers, forgets, changes and ends, in a thread as in a process."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest

from amble.core.outcome import Failure
from amble.fetcher import DnsError, Fetcher, FetchRequest
from amble.testing.farm import Farm, FarmProcess, Feature, Pages, Robots, Site
from amble.testing.farm.exchange import Request, Response
from amble.testing.farm.limits import bucket, refusing

from .conftest import Start
from .helpers import Client, eventually

LIMITED = Site(name="a.test", pages=Pages(3), limit=refusing(bucket(0.001, 1.0)))
KINDS = pytest.mark.parametrize("kind", [Farm, FarmProcess], ids=["thread", "process"])


@KINDS
def test_a_farm_serves_remembers_forgets_and_changes(kind: type[Farm] | type[FarmProcess]) -> None:
    with kind([LIMITED, Site(name="b.test")]) as farm:
        with Client(farm) as client:
            assert [client.get("a.test").status for _ in range(2)] == [200, 429]
            assert b"Disallow" not in client.get("b.test", "/robots.txt").body
            farm.replace(Site(name="b.test", robots=Robots(disallow=("/x",))))
            assert b"Disallow: /x" in client.get("b.test", "/robots.txt").body
            assert farm.judge()["a.test"].refusals == 1
            farm.clear()
            assert farm.log() == []
            assert client.get("a.test").status == 200
        assert farm.cpu_s() > 0.0
        assert farm.roots() == [f"http://a.test:{farm.port}/", f"http://b.test:{farm.port}/"]
        assert len(farm.urls()) == 33
    assert [(entry.host, entry.status, entry.complete) for entry in farm.log()] == [("a.test", 200, True)]
    assert farm.judge().got == 1
    farm.stop()  # a second time does no harm


def test_what_replaces_a_site_keeps_its_limiter(start: Start) -> None:
    farm = start(LIMITED)
    with Client(farm) as client:
        client.get("a.test")
        farm.replace(Site(name="a.test", pages=Pages(3, edition=2)))
        assert client.get("a.test").status == 429


@KINDS
def test_a_farm_comes_back_at_its_port_and_not_at_one_in_use(kind: type[Farm] | type[FarmProcess]) -> None:
    with kind([LIMITED]) as farm, Client(farm) as client:
        client.get("a.test")
        with pytest.raises(OSError, match="in use"):
            kind([LIMITED], port=farm.port).start()
    with kind([LIMITED], port=farm.port) as again, Client(again) as client:
        assert again.port == farm.port
        assert client.get("a.test").status == 200


def test_a_farm_in_an_event_loop_does_not_block_it() -> None:
    async def main() -> int:
        async with Farm([LIMITED]) as farm:
            reader, writer = await asyncio.open_connection("127.0.0.1", farm.port)
            writer.write(b"GET / HTTP/1.0\r\nHost: a.test\r\n\r\n")
            read = await reader.read()
            writer.close()
            return len(read)

    assert asyncio.run(main()) > 10_000


def test_the_fetcher_reaches_the_farm_by_name_and_nothing_else() -> None:
    """[D4] The farm's policy opens loopback; without it the farm is out of reach."""

    async def main() -> None:
        async with Farm([Site(name="a.test"), Site(name="w.test", subdomains=True)]) as farm:
            async with Fetcher(policy=farm.policy, resolver=farm.resolver) as fetcher:
                names = ["a.test", "a.test.", "any.thing.w.test", "b.test", "x.a.test"]
                found = [await fetcher.fetch(FetchRequest(farm.url(name))) for name in names]
                assert [one.status for one in found] == [200, 200, 200, None, None]
                assert [one.dns_error for one in found[3:]] == [DnsError.NO_SUCH_NAME] * 2
                assert found[0].reused is False
            async with Fetcher(resolver=farm.resolver) as stranger:
                refused = await stranger.fetch(FetchRequest(farm.url("a.test")))
                assert refused.failure is Failure.ADDRESS_FORBIDDEN

    asyncio.run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere loopback has one address only")
def test_sites_may_live_at_several_addresses(start: Start) -> None:
    """[F12] One port, and as many addresses of 127.0.0.0/8 as the sites ask for."""
    farm = start(Site(name="a.test"), Site(name="b.test", address="127.0.0.77"))
    with socket.create_connection(("127.0.0.77", farm.port), timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\nHost: b.test\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
    resolved = asyncio.run(farm.resolver.resolve("b.test"))
    assert resolved.addresses == ("127.0.0.77",)


class Faulty(Feature):
    """A feature with a mistake in it."""

    def answer(self, site: Site, request: Request) -> Response | None:
        raise ZeroDivisionError


def test_the_farms_own_mistakes_are_not_taken_for_the_clients() -> None:
    farm = Farm([Site(name="a.test", features=(Faulty(),))]).start()
    with socket.create_connection(("127.0.0.1", farm.port), timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\nHost: a.test\r\n\r\n")
        eventually(lambda: farm._server.faults)
    with pytest.raises(ZeroDivisionError):
        farm.stop()


def test_a_farm_tells_what_it_is(start: Start) -> None:
    farm = start(LIMITED)
    assert repr(farm) == f"<Farm 1 sites on port {farm.port}>"
