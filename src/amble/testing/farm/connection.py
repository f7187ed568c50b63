"""One client's connection: requests read off it, answers written to it in turn, each with its entry in the log.

Written on bare sockets: the kernel's stamp of arrival is to be had there, and the moment the last byte left.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Protocol

from amble.testing.farm.arrival import receive
from amble.testing.farm.exchange import Request, Response
from amble.testing.farm.host import Host
from amble.testing.farm.log import OF_INTEREST, Entry

UNREAD_BYTES_MAX = 131_072
PARTS_MAX = 512  # of one call of sendmsg; POSIX promises at least 16, Linux gives 1024
TICK_S = 0.001  # uvloop's timers round to the millisecond, and must not answer before the service has ended
_LINGER_NOT = struct.pack("ii", 1, 0)


class Owner(Protocol):
    """The server, as a connection sees it."""

    loop: asyncio.AbstractEventLoop

    def host(self, name: str, first_at: float) -> Host | None: ...

    def note(self, entry: Entry) -> None: ...

    def gone(self, connection: Connection) -> None: ...


@lru_cache(maxsize=4)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)


_REASONS = {status.value: status.phrase for status in HTTPStatus}


class Connection:
    """Reads, asks the host, waits if the host says so, writes. One request at a time; what follows waits its turn."""

    def __init__(self, owner: Owner, raw: socket.socket, number: int) -> None:
        self._owner = owner
        self._raw = raw
        self._number = number
        self._unread = b""
        self._arrived = 0.0
        self._written = 0.0
        self._unsent: list[bytes | memoryview] = []
        self._timer: asyncio.TimerHandle | None = None
        self._entry: Entry | None = None  # of the request that is being answered
        self._host: Host | None = None
        self._last = False  # close after this answer
        self._closed = False
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        owner.loop.add_reader(raw, self._read)

    # --- Reading ---------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            data, self._arrived = receive(self._raw)
        except BlockingIOError:
            return None
        except OSError:
            return self.close()
        if not data:
            return self.close()
        self._unread += data
        if len(self._unread) > UNREAD_BYTES_MAX:
            return self.close()
        return self._next()

    def _next(self) -> None:
        """Answer the next request, if all of its head is there and nothing else is being answered."""
        while self._entry is None and not self._unsent and not self._closed:
            head, end, rest = self._unread.partition(b"\r\n\r\n")
            if not end:
                return
            self._unread = rest
            self._take(head)

    def _take(self, head: bytes) -> None:
        request = read_head(head, self._arrived)
        if request is None:
            self._last = True
            return self._plain(400)
        connection = request.headers.get("connection", "").lower()
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        self._last = connection == "close" or has_body
        host = self._owner.host(request.host, request.arrived)
        if host is None:
            return self._plain(421)
        if request.method not in ("GET", "HEAD"):
            return self._plain(405)
        return self._answer(host, request)

    def _answer(self, host: Host, request: Request) -> None:
        host.in_flight += 1
        self._host = host
        response = host.answer(request, time.time())
        entry = self._entry = Entry(
            host=request.host,
            target=request.target,
            arrived=request.arrived,
            status=None if response.broken else response.status,
            in_flight=host.in_flight,
            connection=self._number,
            agent=request.headers.get("user-agent", ""),
            method=request.method,
            headers={name: request.headers[name] for name in OF_INTEREST if name in request.headers},
            refused=response.refused,
            not_before=response.not_before,
            outage=response.outage,
        )
        self._owner.note(entry)
        wait_s = request.arrived + response.wait_s - time.monotonic() if response.wait_s else 0.0
        if wait_s > 0.0:
            self._timer = self._owner.loop.call_later(wait_s + TICK_S, self._deliver_late, response, request.method)
        else:
            self._deliver(response, request.method)

    # --- Writing ---------------------------------------------------------------------------------------------------

    def _deliver_late(self, response: Response, method: str) -> None:
        self._timer = None
        self._deliver(response, method)
        self._next()

    def _deliver(self, response: Response, method: str) -> None:
        if response.broken == "hang":
            return None  # until the client goes
        if response.broken == "reset":
            return self.reset()
        body = response.body if method == "GET" else ()
        if self._entry is not None:
            self._entry.body_bytes = sum(map(len, body))
        return self._send([self._head(response), *body])

    def _plain(self, status: int) -> None:
        """An answer that is no site's, and so has no entry."""
        self._send([self._head(Response(status, {"Content-Type": "text/plain"}))])

    def _head(self, response: Response) -> bytes:
        headers = response.headers
        lines = [f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'Status')}"]
        if "Date" not in headers:
            lines.append(f"Date: {_date(int(time.time()))}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if response.status != 304:
            lines.append(f"Content-Length: {sum(map(len, response.body))}")
        if self._last:
            lines.append("Connection: close")
        return "\r\n".join((*lines, "\r\n")).encode("latin-1")

    def _send(self, parts: list[bytes | memoryview]) -> None:
        self._unsent = parts
        if self._flush():
            self._done()
        elif not self._closed:
            self._owner.loop.add_writer(self._raw, self._go_on)

    def _go_on(self) -> None:
        if self._flush():
            self._owner.loop.remove_writer(self._raw)
            self._done()
            self._next()

    def _flush(self) -> bool:
        """Write what the kernel takes; whether that was all."""
        while self._unsent:
            # Before and not after: on loopback the client may have read it all before the call returns.
            self._written = time.monotonic()
            try:
                sent = self._raw.sendmsg(self._unsent[:PARTS_MAX])
            except BlockingIOError:
                return False
            except OSError:
                self.close()
                return False
            self._unsent = _without(self._unsent, sent)
        return True

    def _done(self) -> None:
        self._settle(complete=True)
        if self._last:
            self.close()

    # --- Ending ----------------------------------------------------------------------------------------------------

    def _settle(self, *, complete: bool) -> None:
        entry, host = self._entry, self._host
        self._entry = self._host = None
        if entry is not None and host is not None:
            entry.ended = self._written if complete else time.monotonic()
            entry.complete = complete
            host.in_flight -= 1

    def reset(self) -> None:
        """Cut the connection with a RST in place of a FIN."""
        self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._settle(complete=False)
        self._owner.loop.remove_reader(self._raw)
        self._owner.loop.remove_writer(self._raw)
        self._raw.close()
        self._owner.gone(self)


def _without(parts: list[bytes | memoryview], sent: int) -> list[bytes | memoryview]:
    """What is left of these parts after so many bytes."""
    for number, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[number + 1 :]]
        sent -= len(part)
    return []


def read_head(head: bytes, arrived: float) -> Request | None:
    """A request from its head; None if it is none."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    target, _, version = rest.partition(" ")
    if target.startswith("http://"):  # as a proxy is asked; every server must understand it (RFC 9112 3.2.2)
        target = "/" + target.removeprefix("http://").partition("/")[2]
    if not target.startswith("/") or not version.startswith("HTTP/1."):
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            return None
        headers[name.lower()] = value.strip()
    if version == "HTTP/1.0":
        headers.setdefault("connection", "close")
    name, colon, port = headers.get("host", "").lower().partition(":")
    return Request(method, target, name.removesuffix("."), colon + port, headers, arrived)
