"""A server made of bare sockets that answers, or misbehaves, as a script says; it counts what was done to it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress


class Connection:
    """One client, as a script sees it."""

    def __init__(self, server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server = server
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """The head of the next request, up to and with the empty line. Empty when the client has gone."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""
        self.server.requests.append(head)
        return head

    async def send(self, data: bytes) -> None:
        """Write, and wait until the client has room."""
        self.writer.write(data)
        self.server.bytes_sent += len(data)
        await self.writer.drain()

    async def send_forever(self, data: bytes, every_s: float = 0.0) -> None:
        """Write the same again and again until the client goes."""
        while True:
            await self.send(data)
            await asyncio.sleep(every_s)

    async def wait_until_closed(self) -> None:
        """Say nothing until the client goes."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass

    def reset(self) -> None:
        """Cut the connection with a RST in place of a FIN."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Connection], Awaitable[None]]


class RawServer:
    """What happened at a server, for tests to assert on."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.open_connections = 0
        self.requests: list[bytes] = []
        self.bytes_sent = 0

    @property
    def paths(self) -> list[str]:
        return [head.split(b" ", 2)[1].decode("latin-1") for head in self.requests]

    def url(self, path: str = "/", *, scheme: str = "http", host: str = "site.test") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def serve(
    script: Script, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None, backlog: int = 1024
) -> AsyncIterator[RawServer]:
    """Run a script for every connection. When it returns the connection is closed with a FIN."""
    server = RawServer()
    running: set[asyncio.Task[None]] = set()

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        server.connections += 1
        server.open_connections += 1
        try:
            await script(Connection(server, reader, writer))
        except (ConnectionError, asyncio.CancelledError, ssl.SSLError):
            pass  # the client went, or the test is over
        finally:
            server.open_connections -= 1
            writer.close()
            running.discard(task)

    listener = await asyncio.start_server(on_connection, host, port, ssl=tls, backlog=backlog)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def answer(raw: bytes) -> Script:
    """Answer the first request with these very bytes, then close."""

    async def script(connection: Connection) -> None:
        if await connection.request():
            await connection.send(raw)

    return script


def answer_each(respond: Callable[[bytes], bytes]) -> Script:
    """Keep the connection and answer every request with what `respond` makes of its head."""

    async def script(connection: Connection) -> None:
        while head := await connection.request():
            await connection.send(respond(head))

    return script


def response(body: bytes = b"", *headers: str, status: str = "200 OK") -> bytes:
    """A well-formed response with a Content-Length."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body
