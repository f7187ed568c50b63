"""Servers of pages, as a process: good ones, and such as reset, fall silent or break off. HTTP/1.1, plain and over TLS.

What an address does is told by its range (see `Serves`). Every request is a line of the log, in nginx's order.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import socket
import ssl
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import uvloop

from bench.network.hosts import Serves

TLS_PORT = 443
_KEPT_S = 75.0  # an idle connection, as nginx does
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, for no time
_TLS_RECORD = b"\x16"  # a handshake, at a port that has none
_ECHO = b'<!--#echo var="host" -->'


class Origin:
    """Every server of one namespace."""

    def __init__(self, pages: dict[str, bytes], context: ssl.SSLContext, log: TextIO) -> None:
        self._pages, self._context, self._log = pages, context, log
        self._numbers = itertools.count(1)

    async def accept(self, listening: socket.socket) -> None:
        """Everybody who comes."""
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        async with asyncio.TaskGroup() as group:
            while True:
                accepted, _ = await loop.sock_accept(listening)
                group.create_task(self._meet(accepted))

    async def _meet(self, accepted: socket.socket) -> None:
        address, port = accepted.getsockname()[:2]
        serves = Serves(address.split(".")[1])
        # TLS is there from the first byte: what comes before a later `start_tls` is lost, and the handshake hangs.
        context = self._context if port == TLS_PORT and serves not in (Serves.RESET, Serves.SILENT) else None
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        with suppress(OSError, ssl.SSLError, TimeoutError, asyncio.IncompleteReadError):
            transport, protocol = await loop.connect_accepted_socket(
                lambda: asyncio.StreamReaderProtocol(reader), accepted, ssl=context
            )
            writer = asyncio.StreamWriter(transport, protocol, reader, loop)
            try:
                await self._serve(reader, writer, serves)
            finally:
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, serves: Serves) -> None:
        if serves is Serves.RESET:
            await reader.read(1)
            accepted: socket.socket = writer.get_extra_info("socket")
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
            writer.transport.abort()
            return
        if serves is Serves.SILENT:
            while await reader.read(65536):
                pass
            return
        secured: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
        reused = "r" if secured is not None and secured.session_reused else "."
        connection = next(self._numbers)
        for turn in itertools.count(1):
            first = await asyncio.wait_for(reader.readexactly(1), _KEPT_S)
            if first == _TLS_RECORD:
                writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            head = first + await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode()
            host = _header(head, b"host")
            body = self._pages.get(path)
            status = 200 if body is not None else 404
            body = (body or b"").replace(_ECHO, host.encode())
            cut = serves is Serves.CUT and status == 200 and path != "/robots.txt"
            kind = "text/plain" if path == "/robots.txt" else "text/html; charset=utf-8"
            sent = body[: len(body) // 2] if cut else body
            writer.write(
                f"HTTP/1.1 {status} {'OK' if status == 200 else 'Not Found'}\r\nContent-Type: {kind}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + sent
            )
            scheme, logged = "http" if secured is None else "https", 0 if cut else status
            line = f"{time.time():.3f} {connection} {turn} {scheme} HTTP/1.1 {host} {path} {logged} {reused}"
            print(line, file=self._log)
            if cut:
                return


def _header(head: bytes, name: bytes) -> str:
    lines = head.lower().split(b"\r\n")
    return next((line[len(name) + 1 :].strip().decode() for line in lines if line.startswith(name + b":")), "-")


def pages_in(folder: Path) -> dict[str, bytes]:
    """What a folder serves, by path; an index is its folder's page."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {f"/{file.relative_to(folder)}".replace("index.html", ""): file.read_bytes() for file in files}


async def _run(arguments: argparse.Namespace, log: TextIO) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(arguments.certificate)
    origin = Origin(pages_in(arguments.pages), context, log)
    listening = [socket.create_server(("0.0.0.0", port), backlog=4096) for port in (80, TLS_PORT)]
    accepting = [asyncio.create_task(origin.accept(each)) for each in listening]
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, over.set)
    print("ready", flush=True)
    await asyncio.wait([*accepting, asyncio.create_task(over.wait())], return_when=asyncio.FIRST_COMPLETED)
    log.flush()
    os._exit(0)  # connections that are kept alive are nobody's concern any more


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=Path)
    parser.add_argument("certificate", type=Path)
    parser.add_argument("log", type=Path)
    arguments = parser.parse_args()
    with arguments.log.open("w") as log, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(arguments, log))


if __name__ == "__main__":
    main()
