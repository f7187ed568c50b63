"""Asks name servers with c-ares, on the running loop: many names at once, none of which holds up another.

c-ares alone does not serve a crawl. Its time-outs follow what its answers took on average, so it gives up a name that
takes seconds where others take milliseconds, and what answers an earlier packet than its last is dropped. So a name is
first asked for by a channel that is shared, which learns the pace of the servers and leaves those that fail, and from
then on, every second, by a new channel that knows nothing and listens for seconds.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from amble.fetcher.resolver import CLOSED, DnsError, Resolution, Resolver, ThreadedResolver, is_cancelled, no_answer
from amble.fetcher.resolver_channel import ANSWERED_NAMES_MAX, NO_SUCH_NAME_SAID, Channel
from amble.fetcher.resolver_files import NameServers, Watched, read_hosts, read_knows_more, read_name_servers
from amble.fetcher.routes import has_route_to, routed_families

AT_ONCE_MAX = 512
FIRST_TRIES, FIRST_WAIT_S = 2, 1.0  # packets of the shared channel, and its wait until it knows the servers
AGAIN_AFTER_S, AGAIN_EVERY_S = 0.75, 1.0
LISTEN_S = 5.0  # the longest that c-ares waits for one packet
TICK_S = 0.25  # all that are asked again within this share a channel, and so a socket
AGAIN_AT_ONCE = 100  # in a tick: what comes in one burst is lost where a name server's buffer ends
# How long is waited for the other family once addresses of one are known. What is silent about IPv6 is common, and IPv4
# is what nearly everybody can be reached by: it is asked for again several times, since a packet may have been lost.
OTHER_FAMILY_WAIT_S = {socket.AF_INET6: 0.5, socket.AF_INET: LISTEN_S}
ROUTES_KNOWN_S = 1.0

_NOT_A_NAME = Resolution(error=DnsError.NO_SUCH_NAME, detail="not a name that can be looked up")
_NAME_CHARS_MAX, _LABEL_CHARS_MAX = 253, 63


def is_name(host: str) -> bool:
    """Whether a name server can be asked for it at all (RFC 1035 2.3.4)."""
    host = host.removesuffix(".")
    labels = host.split(".")
    return host.isascii() and len(host) <= _NAME_CHARS_MAX and all(0 < len(each) <= _LABEL_CHARS_MAX for each in labels)


class Files(NamedTuple):
    """Where this machine says how names are looked up."""

    hosts: str = "/etc/hosts"
    resolv_conf: str = "/etc/resolv.conf"
    nsswitch_conf: str = "/etc/nsswitch.conf"


class CaresResolver:
    """Names with a dot are asked for as they are; those without, and what only the system may know, it is asked for.

    The hosts file goes first, as with the system. Bound to no loop until it is asked; a new loop gets new channels.
    """

    def __init__(
        self,
        *,
        timeout_s: float = 10.0,
        at_once_max: int = AT_ONCE_MAX,
        files: Files = Files(),  # noqa: B008
        system: Resolver | None = None,
        families: Callable[[], tuple[socket.AddressFamily, ...]] = routed_families,
    ) -> None:
        self._timeout_s = timeout_s
        self._at_once_max = at_once_max
        self._files = files
        self._system = system or ThreadedResolver(timeout_s=timeout_s)
        self._families = families
        self._hosts = Watched(files.hosts, read_hosts)
        self._system_knows_more = Watched(files.nsswitch_conf, read_knows_more)
        self._asker: _Asker | None = None
        self._closed = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets one that has asked nothing yet."""
        return _remake, (self._timeout_s, self._at_once_max, self._files, self._system, self._families)

    async def resolve(self, host: str) -> Resolution:
        return await self._resolve(host, anew=False)

    async def resolve_anew(self, host: str) -> Resolution:
        return await self._resolve(host, anew=True)

    def forget_failures(self) -> None:
        """None are remembered here: what c-ares remembers it is not asked for when a name is asked for anew."""

    async def _resolve(self, host: str, *, anew: bool) -> Resolution:
        if not is_name(host):
            return _NOT_A_NAME
        if self._closed:
            return CLOSED
        if "." not in host:
            return await self._system.resolve(host)  # search domains are for these
        name = host.removesuffix(".").lower()
        here = self._hosts.now().get(name)
        if here is not None:
            return Resolution(_in_order(here), ttl_s=0.0)
        resolution = await self._asker_here().ask(name, anew=anew)
        if resolution.error is DnsError.NO_SUCH_NAME and self._system_knows_more.now() and not self._closed:
            found = await self._system.resolve(f"{name}.")
            return found if found.error is None else resolution
        return resolution

    def _asker_here(self) -> _Asker:
        loop = asyncio.get_running_loop()
        if self._asker is None or self._asker.loop is not loop:
            if self._asker is not None:
                self._asker.close()
            servers = Watched(self._files.resolv_conf, read_name_servers)
            self._asker = _Asker(loop, self._timeout_s, self._at_once_max, servers, self._families)
        return self._asker

    def close(self) -> None:
        self._closed = True
        if self._asker is not None:
            self._asker.close()
        self._system.close()


def _remake(
    timeout_s: float,
    at_once_max: int,
    files: Files,
    system: Resolver,
    families: Callable[[], tuple[socket.AddressFamily, ...]],
) -> CaresResolver:
    return CaresResolver(timeout_s=timeout_s, at_once_max=at_once_max, files=files, system=system, families=families)


class _Asker:
    """All questions under way on one loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeout_s: float,
        at_once_max: int,
        servers: Watched[NameServers],
        families: Callable[[], tuple[socket.AddressFamily, ...]],
    ) -> None:
        self.loop = loop
        self._timeout_s = timeout_s
        self._servers = servers
        self._routed_families = families
        self._families: tuple[socket.AddressFamily, ...] = ()
        self._families_until = float("-inf")
        self._places = asyncio.Semaphore(at_once_max)
        self._questions: dict[_Question, None] = {}  # in the order of asking
        self._ticker: asyncio.TimerHandle | None = None
        self._channels: set[Channel] = set()
        self._shared_servers = servers.now()
        self._shared = self._open(tries=FIRST_TRIES, wait_s=FIRST_WAIT_S)
        self._closed = False

    async def ask(self, host: str, *, anew: bool) -> Resolution:
        """Its time runs from when it is asked, not while so many others are."""
        async with self._places:
            if self._closed:
                return CLOSED
            question = _Question(self.loop, host, self._families_now())
            self._questions[question] = None
            try:
                self._ask_first(question, anew=anew)
                async with asyncio.timeout(self._timeout_s):
                    return await question.answered
            except TimeoutError:
                return question.so_far() or no_answer(self._timeout_s)
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                return CLOSED
            finally:
                question.end()
                self._questions.pop(question, None)

    def _ask_first(self, question: _Question, *, anew: bool) -> None:
        # A channel remembers answers for their TTL, even denials, and cannot be told otherwise.
        known = anew and question.host in self._shared.answered
        servers = self._servers.now()
        if known or servers is not self._shared_servers or len(self._shared.answered) >= ANSWERED_NAMES_MAX:
            self._shared.retire()
            self._shared_servers = servers
            self._shared = self._open(tries=FIRST_TRIES, wait_s=FIRST_WAIT_S)
        question.ask(self._shared)
        question.again_at = self.loop.time() + AGAIN_AFTER_S
        if self._ticker is None:
            self._ticker = self.loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        """Ask for those again that are due, all by one new channel, so that none of its waits is cut short."""
        self._ticker = self.loop.call_later(TICK_S, self._tick) if self._questions else None
        now = self.loop.time()
        due = [question for question in self._questions if question.again_at <= now]
        if due:
            patient = self._open(tries=1, wait_s=LISTEN_S)
            for question in sorted(due, key=lambda question: question.again_at)[:AGAIN_AT_ONCE]:
                question.again_at = now + AGAIN_EVERY_S
                question.ask(patient)
            patient.retire()

    def _open(self, *, tries: int, wait_s: float) -> Channel:
        channel = Channel(self.loop, tries, wait_s, self._servers.now().addresses, self._channels.discard)
        self._channels.add(channel)
        return channel

    def _families_now(self) -> tuple[socket.AddressFamily, ...]:
        if self.loop.time() >= self._families_until:
            self._families = self._routed_families()
            self._families_until = self.loop.time() + ROUTES_KNOWN_S
        return self._families

    def close(self) -> None:
        self._closed = True
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        for channel in list(self._channels):
            channel.close()
        for question in self._questions if not self.loop.is_closed() else ():
            question.close()


class _Question:
    """One name under way: asked for by several channels, of which the first to know ends it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, families: tuple[socket.AddressFamily, ...]) -> None:
        self.host = host
        self.answered: asyncio.Future[Resolution] = loop.create_future()
        self.again_at = float("inf")
        self._loop = loop
        self._families = families
        self._found: dict[socket.AddressFamily, Resolution] = {}
        self._turned_away: Resolution | None = None
        self._grace: asyncio.TimerHandle | None = None

    def ask(self, channel: Channel) -> None:
        for family in self._families:
            if family not in self._found and not self.answered.done():
                channel.ask(self.host, family, partial(self._take, family))

    def _take(self, family: socket.AddressFamily, status: str, found: Resolution) -> None:
        if self.answered.done() or family in self._found or status in ("ARES_ETIMEOUT", "ARES_ECANCELLED"):
            return
        if status == "ARES_EREFUSED":
            self._turned_away = found  # a forwarder with its hands full says so as well: asked again, it may answer
            return
        self._found[family] = found
        denied = status == "ARES_ENOTFOUND" and family == socket.AF_INET  # some deny AAAA where there is an A
        if denied or len(self._found) == len(self._families):
            self._finish()
        elif found.error is None and self._grace is None:
            other = socket.AF_INET if family == socket.AF_INET6 else socket.AF_INET6
            self._grace = self._loop.call_later(OTHER_FAMILY_WAIT_S[other], self._finish)

    def _finish(self) -> None:
        if not self.answered.done():
            self.answered.set_result(self.so_far() or CLOSED)

    def so_far(self) -> Resolution | None:
        """What the answers amount to that there are; None: nothing was said."""
        found = [each for each in self._found.values() if each.error is None]
        if found:
            addresses = _in_order([address for each in found for address in each.addresses])
            is_whole = socket.AF_INET in self._found or socket.AF_INET not in self._families
            return Resolution(addresses, ttl_s=min(each.ttl_s or 0.0 for each in found) if is_whole else 0.0)
        # A name is denied only if nothing else was said: one family's server may have failed.
        failed = [each for each in self._found.values() if each.error is not DnsError.NO_SUCH_NAME]
        if failed:
            return failed[0]
        if len(self._found) == len(self._families) or self._found.get(socket.AF_INET) is NO_SUCH_NAME_SAID:
            return NO_SUCH_NAME_SAID
        return self._turned_away

    def end(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
        self.answered.cancel()

    def close(self) -> None:
        if not self.answered.done():
            self.answered.set_result(CLOSED)


def _in_order(addresses: Sequence[str]) -> tuple[str, ...]:
    """The family first that this machine reaches better; within one they are in order (RFC 6724)."""
    ipv6 = [address for address in addresses if ":" in address]
    ipv4 = [address for address in addresses if ":" not in address]
    ipv6_first = bool(ipv6) and (not ipv4 or has_route_to(ipv6[0], from_public=True))
    return (*ipv6, *ipv4) if ipv6_first else (*ipv4, *ipv6)
