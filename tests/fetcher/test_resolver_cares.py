"""Names asked for with c-ares: what trouble a name may be in, and that it troubles no other [F8, 0070]."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from amble.fetcher import FetchRequest
from amble.fetcher import resolver_cares as cares
from amble.fetcher import resolver_channel as channel
from amble.fetcher.resolver import CLOSED, DnsError, RememberingResolver, Resolution
from amble.fetcher.resolver_cares import CaresResolver, Files, is_name
from tests.fetcher.helpers import fetcher, open_sockets, until
from tests.fetcher.nameserver import AAAA, ADDRESS, ADDRESS_6, ALIAS_TTL_S, NameServer, Question, name_server

FOUR, SIX = socket.AF_INET, socket.AF_INET6
BOTH = (FOUR, SIX)
DENIED, FAILED, LATE = DnsError.NO_SUCH_NAME, DnsError.TRY_AGAIN, DnsError.TIMEOUT
PLENTY_S = 60.0  # a busy machine is no fault of ours


class System:
    """What only the system knows."""

    def __init__(self, **known: str) -> None:
        self.known = known
        self.asked: list[str] = []

    async def resolve(self, host: str) -> Resolution:
        self.asked.append(host)
        found = self.known.get(host.partition(".")[0])
        return Resolution((found,)) if found else Resolution(error=DENIED, detail="the system does not know it")

    def close(self) -> None:
        pass


def both() -> tuple[socket.AddressFamily, ...]:
    return BOTH


class Machine:
    """The files that say how names are looked up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nsswitch("files dns")
        self.hosts("")
        self.system = System()

    def hosts(self, text: str) -> None:
        (self.folder / "hosts").write_text(text)

    def nsswitch(self, services: str) -> None:
        (self.folder / "nsswitch.conf").write_text(f"passwd: files systemd\nhosts: {services}\n")

    def servers(self, *servers: NameServer | int) -> None:
        ports = [server if isinstance(server, int) else server.port for server in servers]
        written = self.folder / "resolv.new"
        written.write_text("".join(f"nameserver 127.0.0.1:{port}\n" for port in ports))
        written.replace(self.folder / "resolv.conf")

    def resolver(
        self,
        *servers: NameServer | int,
        timeout_s: float = PLENTY_S,
        at_once_max: int = 512,
        families: Callable[[], tuple[socket.AddressFamily, ...]] = both,
    ) -> CaresResolver:
        self.servers(*servers)
        files = Files(*(str(self.folder / name) for name in ("hosts", "resolv.conf", "nsswitch.conf")))
        return CaresResolver(
            timeout_s=timeout_s, at_once_max=at_once_max, files=files, system=self.system, families=families
        )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """One that is online, and reaches both families alike; so that the order of addresses is the same everywhere."""
    monkeypatch.setattr(channel, "is_online", lambda: True)
    monkeypatch.setattr(cares, "has_route_to", lambda address, from_public=False: ":" not in address or not from_public)
    return Machine(tmp_path)


def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not answer is asked again at once: what is to be seen is not how long that takes."""
    monkeypatch.setattr(cares, "AGAIN_AFTER_S", 0.0)
    monkeypatch.setattr(cares, "AGAIN_EVERY_S", 0.0)
    monkeypatch.setattr(cares, "TICK_S", 0.02)


@pytest.mark.parametrize(
    ("story", "host", "expected"),
    [
        ("both families, and the TTL", "good-17.test", Resolution((ADDRESS, ADDRESS_6), ttl_s=17.0)),
        ("an alias that lives shorter", "alias-300.test", Resolution((ADDRESS, ADDRESS_6), ttl_s=ALIAS_TTL_S)),
        ("capitals and a dot at the end", "Good-17.Test.", Resolution((ADDRESS, ADDRESS_6), ttl_s=17.0)),
        ("IPv4 alone", "four.test", Resolution((ADDRESS,), ttl_s=300.0)),
        ("IPv6 alone", "six.test", Resolution((ADDRESS_6,), ttl_s=300.0)),
        ("silence about IPv6 is not waited for", "deadsix.test", Resolution((ADDRESS,), ttl_s=300.0)),
        ("IPv4 is waited for, though IPv6 is known", "latefour.test", Resolution((ADDRESS, ADDRESS_6), ttl_s=300.0)),
        ("denied for IPv6, as some servers do", "deniedsix.test", Resolution((ADDRESS,), ttl_s=300.0)),
        ("denied", "denied.test", DENIED),
        ("denied, and silence about IPv6", "deniedfour.test", DENIED),
        ("a name without an address", "nodata.test", DENIED),
        ("its servers fail", "servfail.test", FAILED),
        ("failed for IPv4, and has no IPv6: it is not denied", "failedfour.test", FAILED),
        ("a forwarder that is busy for a while", "busy.test", Resolution((ADDRESS, ADDRESS_6), ttl_s=300.0)),
        ("the first two packets are lost", "lossy.test", Resolution((ADDRESS, ADDRESS_6), ttl_s=300.0)),
    ],
)
async def test_what_is_said_of_a_name(
    story: str, host: str, expected: Resolution | DnsError, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    async with name_server() as server:
        resolver = machine.resolver(server)
        found = await resolver.resolve(host)
        resolver.close()
    assert expected in (found, found.error), story
    assert bool(found.detail) is (found.error is not None)
    assert machine.system.asked == []


async def test_silence_about_ipv4_is_waited_for_in_vain_and_not_remembered(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known then may lead nowhere: whoever tries again asks again."""
    at_once(monkeypatch)
    monkeypatch.setitem(cares.OTHER_FAMILY_WAIT_S, FOUR, 0.3)
    async with name_server() as server:
        resolver = machine.resolver(server)
        assert await resolver.resolve("deadfour.test") == Resolution((ADDRESS_6,), ttl_s=0.0)
        assert server.times("deadfour.test") >= 3
        only_six = machine.resolver(server, families=lambda: (SIX,))
        assert await only_six.resolve("deadfour.test") == Resolution((ADDRESS_6,), ttl_s=300.0)
        resolver.close()
        only_six.close()


async def test_an_answer_too_long_for_a_datagram_comes_by_tcp(both_loops: str, machine: Machine) -> None:
    async with name_server(by_tcp=True) as server:
        resolver = machine.resolver(server)
        assert len((await resolver.resolve("long.test")).addresses) == 100
        resolver.close()
        await asyncio.sleep(0.05)


async def test_name_servers_that_make_no_sense_are_those_of_the_system(machine: Machine) -> None:
    (machine.folder / "resolv.conf").write_text("nameserver of mine\nnameserver\nsearch x.test\n")
    resolver = CaresResolver(timeout_s=0.2, files=Files(resolv_conf=str(machine.folder / "resolv.conf")))
    assert (await resolver.resolve("a.test")).error is not None
    resolver.close()


async def test_a_name_that_takes_three_seconds_where_others_take_none_is_found(
    both_loops: str, machine: Machine
) -> None:
    """c-ares alone gives it up: its time-outs follow what the others took. And what is slow holds up nobody."""
    async with name_server() as server:
        resolver = machine.resolver(server)
        for number in range(20):
            assert (await resolver.resolve(f"good{number}.test")).addresses
        slow = asyncio.create_task(resolver.resolve("slow.test"))
        dead = asyncio.create_task(resolver.resolve("dead.test"))
        for number in range(20, 40):
            assert (await resolver.resolve(f"good{number}.test")).addresses
        assert not slow.done()
        assert (await slow).addresses == (ADDRESS, ADDRESS_6)
        assert not dead.done()
        assert server.times("dead.test") >= 3
        resolver.close()
        assert await dead == CLOSED


@pytest.mark.parametrize(("word", "error"), [("dead", LATE), ("refused", FAILED)])
async def test_a_name_without_an_answer_ends_when_its_time_is_over(
    word: str, error: DnsError, machine: Machine
) -> None:
    async with name_server() as server:
        resolver = machine.resolver(server, timeout_s=0.4)
        assert (await resolver.resolve(f"{word}.test")).error is error
        resolver.close()


@pytest.mark.parametrize(
    ("online", "route", "error"), [(False, True, DnsError.LOCAL), (True, False, DnsError.LOCAL), (True, True, FAILED)]
)
async def test_a_name_server_that_cannot_be_reached_f9(
    online: bool, route: bool, error: DnsError, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is this machine that lost its network, or the server is gone."""
    monkeypatch.setattr(channel, "is_online", lambda: online)
    monkeypatch.setattr(channel, "has_route_to", lambda address: route)
    async with name_server() as server:
        port = server.port
    resolver = machine.resolver(port)
    assert (await resolver.resolve("good.test")).error is error
    resolver.close()


async def test_the_second_server_answers_where_the_first_is_gone_or_fails(machine: Machine) -> None:
    async with name_server() as gone:
        port = gone.port
    async with name_server() as server:
        resolver = machine.resolver(port, server)
        answers = await asyncio.gather(*(resolver.resolve(f"good{number}.test") for number in range(20)))
        resolver.close()
    assert {answer.addresses for answer in answers} == {(ADDRESS, ADDRESS_6)}


async def test_many_are_asked_for_at_once_and_the_clock_of_those_that_queue_stands_still(machine: Machine) -> None:
    """Eight dead names have all the places for two rounds of half a second; who came after them has still all its
    time."""
    async with name_server() as server:
        resolver = machine.resolver(server, timeout_s=0.5, at_once_max=4)
        dead = [
            asyncio.create_task(resolver.resolve(f"dead{number}.test".replace("dead", "dead-"))) for number in range(8)
        ]
        await asyncio.sleep(0)
        assert (await resolver.resolve("four.test")).addresses == (ADDRESS,)
        assert {answer.error for answer in await asyncio.gather(*dead)} == {LATE}

        server.waiting_most = 0
        names = [f"soon-{number}.test" for number in range(60)]
        assert all(answer.addresses for answer in await asyncio.gather(*map(resolver.resolve, names)))
        assert 4 <= server.waiting_most <= 2 * 4  # each asks for both families
        resolver.close()


async def test_hundreds_at_once_share_few_sockets(machine: Machine) -> None:
    before = open_sockets()
    async with name_server() as server:
        resolver = machine.resolver(server)
        tasks = [asyncio.create_task(resolver.resolve(f"dead-{number}.test")) for number in range(300)]
        await until(lambda: server.times("dead-299.test") >= 2, PLENTY_S)
        assert len(open_sockets() - before) < 60
        assert (await resolver.resolve("good.test")).addresses
        resolver.close()
        assert {answer.error for answer in await asyncio.gather(*tasks)} == {DnsError.LOCAL}
    await until(lambda: len(open_sockets() - before) == 0, PLENTY_S)


async def test_closed_while_it_is_asked_it_says_so_and_nothing_comes_back(both_loops: str, machine: Machine) -> None:
    async with name_server() as server:
        resolver = machine.resolver(server, at_once_max=2)
        tasks = [asyncio.create_task(resolver.resolve(f"{word}.test")) for word in ("dead", "slow", "dead-2", "good")]
        await until(lambda: len(server.names()) == 2, PLENTY_S)
        resolver.close()
        resolver.close()
        assert set(await asyncio.gather(*tasks)) == {CLOSED}
        assert await resolver.resolve("good.test") == CLOSED
        assert server.names() == ["dead.test", "slow.test"]


async def test_who_gives_up_leaves_the_answer_to_the_others(machine: Machine) -> None:
    async with name_server() as server:
        resolver = RememberingResolver(machine.resolver(server))
        tasks = [asyncio.create_task(resolver.resolve("soon.test")) for _ in range(5)]
        await until(lambda: bool(server.asked), PLENTY_S)
        tasks[0].cancel()
        tasks[3].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        resolver.close()
    assert [isinstance(answer, asyncio.CancelledError) for answer in answers] == [True, False, False, True, False]
    assert (server.times("soon.test"), server.times("soon.test", AAAA)) == (1, 1)


async def test_cancelled_it_gives_its_place_back(machine: Machine) -> None:
    async with name_server() as server:
        resolver = machine.resolver(server, at_once_max=1)
        for _ in range(3):
            dead = asyncio.create_task(resolver.resolve("dead.test"))
            queued = asyncio.create_task(resolver.resolve("dead-2.test"))
            await asyncio.sleep(0.01)
            queued.cancel()
            dead.cancel()
            await asyncio.gather(dead, queued, return_exceptions=True)
        assert (await resolver.resolve("four.test")).addresses
        resolver.close()


@pytest.mark.parametrize("word", ["good", "denied"])
async def test_anew_is_asked_at_the_server_though_c_ares_remembers(word: str, machine: Machine) -> None:
    async with name_server() as server:
        resolver = machine.resolver(server)
        for times in (1, 2, 3):
            await resolver.resolve_anew(f"{word}-300.test")
            assert server.times(f"{word}-300.test") == times
        resolver.close()


async def test_a_changed_network_is_noticed(machine: Machine) -> None:
    async with name_server() as home, name_server("192.0.2.2") as office:
        resolver = machine.resolver(home)
        under_way = asyncio.create_task(resolver.resolve("soon.test"))
        assert (await resolver.resolve("four-0.test")).addresses == (ADDRESS,)
        machine.servers(office)
        assert (await resolver.resolve("four-1.test")).addresses == ("192.0.2.2",)
        assert (await under_way).addresses == (ADDRESS, ADDRESS_6)  # what was asked is heard to its end
        asked = len(home.asked)
        machine.servers(home)
        assert (await resolver.resolve("four-2.test")).addresses == (ADDRESS,)
        assert len(home.asked) == asked + 2
        resolver.close()


async def test_the_hosts_file_goes_first_and_is_read_again(machine: Machine) -> None:
    machine.hosts("127.0.0.1 localhost localhost.localdomain\n192.0.2.7 Here.test here # mine\n2001:db8::7 here.test\n")
    async with name_server() as server:
        resolver = machine.resolver(server)
        assert (await resolver.resolve("here.test")).addresses == ("192.0.2.7", "2001:db8::7")
        assert (await resolver.resolve("HERE.test.")).addresses == ("192.0.2.7", "2001:db8::7")
        assert (await resolver.resolve("localhost.localdomain")).addresses == ("127.0.0.1",)
        assert server.asked == []
        machine.hosts("192.0.2.88 here.test\nnonsense here.test\n192.0.2.9\n")
        assert (await resolver.resolve("here.test")).addresses == ("192.0.2.88",)
        assert (await resolver.resolve("localhost")).error is DENIED  # by a system that knows nothing
        assert machine.system.asked == ["localhost"]
        resolver.close()


@pytest.mark.parametrize(
    ("story", "services", "host", "asked", "found"),
    [
        ("denied, and there is mDNS", "files mdns4_minimal [NOTFOUND=return] dns", "denied.x", ["denied.x."], True),
        ("denied, and there are containers", "files dns mymachines", "denied.x.", ["denied.x."], True),
        ("nothing but files and DNS", "files [SUCCESS=return] dns", "denied.x", [], False),
        ("what DNS knows", "files mdns dns", "good.x", [], True),
        ("never after a failure", "files mdns dns", "servfail.x", [], False),
        ("never after a time-out", "files mdns dns", "dead.x", [], False),
        ("without a dot, the system's way alone", "files dns", "printer", ["printer"], True),
    ],
)
async def test_what_only_the_system_knows_it_is_asked_for(
    story: str, services: str, host: str, asked: list[str], found: bool, machine: Machine
) -> None:
    machine.nsswitch(services)
    machine.system = System(denied=ADDRESS, servfail=ADDRESS, dead=ADDRESS, printer=ADDRESS)
    async with name_server() as server:
        resolver = machine.resolver(server, timeout_s=0.4 if host.startswith("dead") else PLENTY_S)
        answer = await resolver.resolve(host)
        resolver.close()
    assert (machine.system.asked, answer.error is None) == (asked, found), story


async def test_a_name_with_a_dot_is_asked_for_as_it_is(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a search domain is tried first, and its wildcard would answer for the dead."""
    monkeypatch.setenv("LOCALDOMAIN", "office.test")
    monkeypatch.setenv("RES_OPTIONS", "ndots:5")
    async with name_server() as server:
        resolver = machine.resolver(server)
        for host in ("denied.x", "nodata.x", "good.x.y.z", "servfail.x"):
            await resolver.resolve(host)
        resolver.close()
    assert server.names() == ["denied.x", "nodata.x", "good.x.y.z", "servfail.x"]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("a.test", True),
        ("a.test.", True),
        ("localhost", True),
        (f"{'a' * 63}.test", True),
        (".".join(["a" * 49] * 5) + ".abc", True),
        (f"{'a' * 64}.test", False),
        (".".join(["a" * 49] * 5) + ".abcd", False),
        ("a..test", False),
        (".test", False),
        ("a.test..", False),
        ("", False),
        (".", False),
        ("é.test", False),
    ],
)
async def test_what_is_no_name_is_not_asked_for(host: str, expected: bool, machine: Machine) -> None:
    assert is_name(host) is expected
    if not expected:
        async with name_server() as server:
            resolver = machine.resolver(server)
            assert (await resolver.resolve(host)).error is DENIED
            assert (server.asked, machine.system.asked) == ([], [])
            resolver.close()


async def test_only_families_that_can_be_reached_are_asked_for(machine: Machine) -> None:
    async with name_server() as server:
        resolver = machine.resolver(server, families=lambda: (FOUR,))
        assert (await resolver.resolve("good.test")).addresses == (ADDRESS,)
        assert (await resolver.resolve("six.test")).error is DENIED
        assert set(server.asked) == {Question("good.test", 1), Question("six.test", 1)}
        resolver.close()


@pytest.mark.parametrize(("reached", "first"), [(True, ADDRESS_6), (False, ADDRESS)])
async def test_ipv6_goes_first_where_it_leads_anywhere(
    reached: bool, first: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cares, "has_route_to", lambda address, from_public=False: reached)
    async with name_server() as server:
        resolver = machine.resolver(server)
        assert (await resolver.resolve("good.test")).addresses[0] == first
        resolver.close()


def test_one_event_loop_after_another(machine: Machine) -> None:
    resolver = machine.resolver(9)

    async def ask(left: bool) -> None:
        async with name_server() as server:
            machine.servers(server)
            assert (await resolver.resolve("good.test")).addresses == (ADDRESS, ADDRESS_6)
            if left:
                asyncio.get_running_loop().create_task(resolver.resolve("dead.test"))
                await asyncio.sleep(0.05)

    for left in (False, True, True, False):
        asyncio.run(ask(left))
    resolver.close()


async def test_another_process_gets_one_that_asks_by_itself(machine: Machine) -> None:
    async with name_server() as server:
        resolver = CaresResolver(timeout_s=PLENTY_S, at_once_max=3)
        assert (await resolver.resolve("localhost")).addresses
        assert pickle.loads(pickle.dumps(resolver))._at_once_max == 3
        resolver.close()
        asked = machine.resolver(server, families=both)
        await asked.resolve("good.test")
        again = pickle.loads(pickle.dumps(asked))
        asked.close()
        assert (await again.resolve("four.test")).addresses == (ADDRESS,)
        again.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_goes_on_by_itself(machine: Machine) -> None:
    async def ask(resolver: CaresResolver) -> bool:
        async with name_server() as server:
            machine.servers(server)
            return bool((await resolver.resolve("good.test")).addresses)

    resolver = machine.resolver(9)
    assert asyncio.run(ask(resolver))
    child = os.fork()
    if child == 0:
        ok = False
        try:
            ok = asyncio.run(ask(resolver)) and asyncio.run(ask(machine.resolver(9)))
        finally:
            os._exit(0 if ok else 1)
    until_s = time.monotonic() + PLENTY_S
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < until_s:
        time.sleep(0.01)
    assert ended == (child, 0)
    assert asyncio.run(ask(resolver))
    resolver.close()


async def test_a_fetcher_asks_for_no_address() -> None:
    system = System()
    async with fetcher(resolver=RememberingResolver(CaresResolver(system=system))) as f:
        for host in ("127.0.0.1:1", "[::1]:1", "2130706433:1"):
            assert (await f.fetch(FetchRequest(f"http://{host}/"))).dns_error is None
    assert system.asked == []
