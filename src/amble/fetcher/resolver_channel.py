"""One channel of c-ares on an event loop, and what its answers mean."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from amble.fetcher.resolver import DnsError, Resolution
from amble.fetcher.routes import OFFLINE, has_route_to, is_online

if TYPE_CHECKING:
    import pycares

ANSWERED_NAMES_MAX = 10_000
NO_SUCH_NAME_SAID = Resolution(error=DnsError.NO_SUCH_NAME, detail="no such name")
OnAnswer = Callable[[str, Resolution], None]  # the status as c-ares names it, and what it amounts to
FOUND = "ARES_SUCCESS"
RECEIVE_BYTES = 1 << 20  # where the system allows it: hundreds of answers come in one burst, and wait for a busy loop


class Channel:
    """A channel of c-ares whose sockets and alarms are the loop's. Nothing calls back once it is closed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tries: int,
        wait_s: float,
        servers: tuple[str, ...],
        on_close: Callable[[Channel], None],
    ) -> None:
        import pycares  # here, since it takes a while and not every run asks for a name

        self.answered: set[str] = set()  # names of which it may remember the answer
        self._loop = loop
        self._on_close = on_close
        self._thread = get_ident()
        self._watched: set[int] = set()
        self._under_way = 0
        self._retired = self._closed = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = float("inf")
        self._bad, self._code_names = pycares.ARES_SOCKET_BAD, pycares.errno.errorcode
        # Neither its `lookups` nor its `resolvconf_path`: pycares 5.2 frees those texts before c-ares has read them.
        open_channel = partial(
            pycares.Channel, timeout=wait_s, tries=tries, sock_state_cb=self._watch,
            socket_receive_buffer_size=RECEIVE_BYTES,
        )  # fmt: skip
        flags = pycares.ARES_FLAG_NOSEARCH  # a name with a dot is meant as it is: search domains answer for the dead
        if len(servers) == 1:  # there is no other to be asked when it fails
            flags |= pycares.ARES_FLAG_NOCHECKRESP
        self._channel = open_channel(flags=flags, rotate=tries == 1)  # a new one cannot know which of its servers fail
        if servers:
            with suppress(pycares.AresError):  # c-ares has read resolv.conf its own way
                self._channel.servers = servers

    @property
    def servers(self) -> list[str]:
        return [] if self._closed else self._channel.servers

    def ask(self, host: str, family: socket.AddressFamily, on_answer: OnAnswer) -> None:
        """Never raises, and may answer at once."""
        if self._closed:
            return
        self._under_way += 1
        taken = partial(self._taken, host, on_answer)
        self._channel.getaddrinfo(host, None, family=family, type=socket.SOCK_STREAM, callback=taken)
        self._set_alarm()

    def _taken(self, host: str, on_answer: OnAnswer, result: pycares.AddrInfoResult | None, failed: int | None) -> None:
        self._under_way -= 1
        if self._closed:
            return
        if len(self.answered) < ANSWERED_NAMES_MAX:
            self.answered.add(host)
        status = FOUND if failed is None else self._code_names.get(failed, str(failed))
        on_answer(status, _resolution(status, result, self))
        if self._retired and not self._under_way:
            self._loop.call_soon(self.close)  # not from within one of its own calls

    def _watch(self, fd: int, readable: bool, writable: bool) -> None:
        """Told by c-ares which of its sockets it wants watched, by its own thread when all is over."""
        if self._closed or get_ident() != self._thread or self._loop.is_closed():
            return
        if readable:
            self._loop.add_reader(fd, self._process, fd, self._bad)
        else:
            self._loop.remove_reader(fd)
        if writable:
            self._loop.add_writer(fd, self._process, self._bad, fd)
        else:
            self._loop.remove_writer(fd)
        (self._watched.add if readable or writable else self._watched.discard)(fd)

    def _process(self, readable_fd: int, writable_fd: int) -> None:
        if not self._closed:
            self._channel.process_fd(readable_fd, writable_fd)
            self._set_alarm()

    def _ring(self) -> None:
        self._alarm, self._alarm_at = None, float("inf")
        self._process(self._bad, self._bad)

    def _set_alarm(self) -> None:
        """For when the next packet has waited long enough. One that rings too early is set anew."""
        if self._closed or not self._under_way:
            return
        wait_s: float = self._channel.timeout()  # type: ignore[no-untyped-call]
        at = self._loop.time() + max(wait_s, 0.001)
        if at < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm, self._alarm_at = self._loop.call_at(at, self._ring), at

    def retire(self) -> None:
        """Close it as soon as what is under way has ended."""
        self._retired = True
        if not self._under_way:
            self._loop.call_soon(self.close)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        if not self._loop.is_closed():
            for fd in self._watched:
                self._loop.remove_reader(fd)
                self._loop.remove_writer(fd)
        self._watched.clear()
        self._channel.cancel()
        self._channel.close()
        self._on_close(self)


_ERRORS = {
    "ARES_ENODATA": DnsError.NO_SUCH_NAME,
    "ARES_ENOTFOUND": DnsError.NO_SUCH_NAME,
    "ARES_EBADNAME": DnsError.NO_SUCH_NAME,
    "ARES_EFORMERR": DnsError.TRY_AGAIN,
    "ARES_ESERVFAIL": DnsError.TRY_AGAIN,
    "ARES_ENOTIMP": DnsError.TRY_AGAIN,
    "ARES_EREFUSED": DnsError.TRY_AGAIN,
    "ARES_EBADRESP": DnsError.TRY_AGAIN,
    "ARES_ECONNREFUSED": DnsError.TRY_AGAIN,
    "ARES_ETIMEOUT": DnsError.TIMEOUT,
}
_DETAILS = {
    "ARES_ESERVFAIL": "the name's servers failed",
    "ARES_EREFUSED": "the name server refused to look it up",
    "ARES_ECONNREFUSED": "the name server cannot be reached",
    "ARES_EBADRESP": "the name server's answer makes no sense",
}


def _resolution(status: str, result: pycares.AddrInfoResult | None, channel: Channel) -> Resolution:
    if result is not None:
        addresses = tuple(dict.fromkeys(_text(node.addr) for node in result.nodes))
        ttl_s = min([*(node.ttl for node in result.nodes), *(name.ttl for name in result.cnames)], default=0)
        return Resolution(addresses, ttl_s=float(ttl_s)) if addresses else NO_SUCH_NAME_SAID
    error = _ERRORS.get(status, DnsError.LOCAL)
    if error is DnsError.NO_SUCH_NAME:
        return NO_SUCH_NAME_SAID
    if status == "ARES_ECONNREFUSED":
        if not is_online():
            return Resolution(error=DnsError.LOCAL, detail=OFFLINE)
        if not any(has_route_to(place_of(server)) for server in channel.servers):
            return Resolution(error=DnsError.LOCAL, detail="no way leads to the name server")
    return Resolution(error=error, detail=_DETAILS.get(status, status))


def place_of(server: str) -> str:
    """The address of a name server, as c-ares writes servers: `[fe80::1]:53%eth0`."""
    place, percent, link = server.partition("%")
    return f"{place.rpartition(':')[0].strip('[]')}{percent}{link}"


def _text(address: tuple[Any, ...]) -> str:
    """An address as getaddrinfo has it: that of a link names it."""
    text = address[0].decode() if isinstance(address[0], bytes) else str(address[0])
    return f"{text}%{address[3]}" if len(address) == 4 and address[3] else text
