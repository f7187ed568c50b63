"""The server of a farm: any number of sites behind one port, on one event loop, with one log."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterable
from typing import Any

from amble.testing.farm.arrival import stamp_arrivals
from amble.testing.farm.connection import Connection
from amble.testing.farm.directory import Directory
from amble.testing.farm.host import Host
from amble.testing.farm.log import Entry
from amble.testing.farm.site import Site

BACKLOG = 4096
ACCEPTED_AT_ONCE = 256
EXHAUSTED_WAIT_S = 0.05  # before accepting again when there was no descriptor left
PORT_TRIES = 20


class FarmServer:
    """Listens, and hands requests to hosts. Everything happens on the loop it was started on."""

    def __init__(self, sites: Iterable[Site]) -> None:
        self.directory = Directory(sites)
        self.port = 0
        self.loop: asyncio.AbstractEventLoop
        self._hosts: dict[str, Host] = {}
        self._log: list[Entry] = []
        self._listeners: list[socket.socket] = []
        self._connections: set[Connection] = set()
        self._accepted = 0
        self.faults: list[BaseException] = []  # the farm's own; a test must not take them for the client's

    # --- Life ------------------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop, port: int = 0) -> None:
        self.loop = loop
        loop.set_exception_handler(self._note_fault)
        self._listeners = _listen(self.directory.addresses, port)
        self.port = self._listeners[0].getsockname()[1]
        for listener in self._listeners:
            loop.add_reader(listener, self._accept, listener)

    def stop(self) -> None:
        for listener in self._listeners:
            self.loop.remove_reader(listener)
            listener.close()
        self._listeners = []
        for connection in list(self._connections):
            connection.close()
        if self.faults:
            raise self.faults[0]

    def _note_fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.faults.append(context.get("exception") or RuntimeError(context["message"]))

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                raw, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # Out of descriptors: a listener left readable would spin.
                self.loop.remove_reader(listener)
                self.loop.call_later(EXHAUSTED_WAIT_S, self._listen_again, listener)
                return
            self._accepted += 1
            self._connections.add(Connection(self, raw, self._accepted))

    def _listen_again(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            self.loop.add_reader(listener, self._accept, listener)

    # --- For connections -------------------------------------------------------------------------------------------

    def host(self, name: str, first_at: float) -> Host | None:
        host = self._hosts.get(name)
        if host is None:
            site = self.directory.find(name)
            if site is None:
                return None
            host = self._hosts[name] = Host(name, site, first_at)
        return host

    def note(self, entry: Entry) -> None:
        self._log.append(entry)

    def gone(self, connection: Connection) -> None:
        self._connections.discard(connection)

    # --- For whoever runs the farm ---------------------------------------------------------------------------------

    def log(self) -> list[Entry]:
        """Every request so far."""
        return list(self._log)

    def clear(self) -> None:
        """Forget the log and all that the hosts remember: the next request is everybody's first."""
        self._log.clear()
        self._hosts.clear()

    def replace(self, *sites: Site) -> None:
        """Describe sites anew while they run: their limiters, clocks and memories stay as they are."""
        self.directory.replace(*sites)
        for host in self._hosts.values():
            host.site = self.directory.find(host.name) or host.site

    def cpu_s(self) -> float:
        """Processor time that this process has used."""
        return time.process_time()


def _listen(addresses: list[str], port: int) -> list[socket.socket]:
    """Sockets on every address, at the same port; if any will do, others are tried until one is free everywhere."""
    for last_try in (*[False] * (PORT_TRIES - 1), True):
        bound: list[socket.socket] = []
        try:
            for address in addresses:
                wanted = bound[0].getsockname()[1] if bound else port
                bound.append(_bind(address, wanted))
            return bound
        except OSError:
            for one in bound:
                one.close()
            if port or last_try:
                raise
    raise AssertionError("unreachable")


def _bind(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        stamp_arrivals(listener)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
