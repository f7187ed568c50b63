"""What the tests of the farm share: requests without a network, requests over a bare socket, entries by hand."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from http.client import HTTPConnection
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser

from amble.testing.farm import Entry, Farm, FarmProcess, Site
from amble.testing.farm.exchange import Request, Response
from amble.testing.farm.host import Host

PORT = ":8000"
NOON = 1_800_000_000.25  # a time of day, as Unix seconds


def request(target: str = "/", host: str = "a.test", at: float = 0.0) -> Request:
    return Request("GET", target, host, PORT, {}, at)


def asked(site: Site, target: str = "/", /, **headers: str) -> Response:
    """What a site that has just been started says to its first request."""
    named = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    return Host(site.name, site, 0.0).answer(Request("GET", target, site.name, PORT, named, 0.0), NOON)


def body_of(response: Response) -> bytes:
    return b"".join(response.body)


def hrefs(html: bytes) -> list[str]:
    return [node.attributes["href"] or "" for node in LexborHTMLParser(html).css("a[href]")]


class Got(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """One keep-alive connection to a farm."""

    def __init__(self, farm: Farm | FarmProcess) -> None:
        self._farm = farm
        self._connection = HTTPConnection("127.0.0.1", farm.port, timeout=10)

    def get(self, host: str, target: str = "/", method: str = "GET", **headers: str) -> Got:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, target, headers={"Host": f"{host}:{self._farm.port}", **named})
        answer = self._connection.getresponse()
        return Got(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def raw(farm: Farm, *requests: tuple[str, str]) -> socket.socket:
    """A connection on which these requests (host, target) have been written, all at once, and nothing read."""
    connection = socket.create_connection(("127.0.0.1", farm.port), timeout=10)
    send(connection, *requests)
    return connection


def send(connection: socket.socket, *requests: tuple[str, str]) -> None:
    written = [f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n" for host, target in requests]
    connection.sendall("".join(written).encode())


def read_until_closed(connection: socket.socket) -> bytes:
    parts = []
    while data := connection.recv(65536):
        parts.append(data)
    return b"".join(parts)


def eventually(condition: Callable[[], object]) -> None:
    """Wait for what the farm's thread brings about."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def settled(farm: Farm, count: int) -> list[Entry]:
    """The log, once so many requests have ended."""
    eventually(lambda: sum(entry.ended is not None for entry in farm.log()) >= count)
    return farm.log()


class Busy:
    """Holds a farm's loop up, as a machine with other work would."""

    def __init__(self, farm: Farm) -> None:
        self._held, self._free = threading.Event(), threading.Event()
        assert farm._loop is not None
        farm._loop.call_soon_threadsafe(self._hold)
        assert self._held.wait(10)

    def _hold(self) -> None:
        self._held.set()
        assert self._free.wait(10)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        self._free.set()


def entry(
    target: str = "/",
    at: float = 0.0,
    *,
    host: str = "a.test",
    status: int | None = 200,
    took: float = 0.01,
    not_before: float | None = None,
    refused: bool = False,
    in_flight: int = 1,
    complete: bool = True,
    outage: bool = False,
) -> Entry:
    """One line of a log, written by hand."""
    return Entry(
        host=host,
        target=target,
        arrived=at,
        status=status,
        in_flight=in_flight,
        connection=1,
        agent="test",
        ended=at + took,
        complete=complete,
        refused=refused,
        not_before=not_before,
        outage=outage,
    )


def robots_at(at: float, status: int = 200) -> Entry:
    return entry("/robots.txt", at, status=status)


def visits(*times: float, robots: float | None = 0.0) -> Iterable[Entry]:
    """Robots.txt, then pages at these times."""
    if robots is not None:
        yield robots_at(robots)
    for number, at in enumerate(times):
        yield entry(f"/{number}", at)
