"""A small HTTP proxy, for plain requests and for tunnels, that fails as a test wants."""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress

from amble.testing.rawserver import Connection, Script, response


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def _place(head: bytes) -> tuple[str, int]:
    """Host and port of a request to a proxy: `CONNECT host:port` or `GET http://host:port/path`."""
    target = head.split(b" ", 2)[1].decode()
    host, _, port = target.removeprefix("http://").partition("/")[0].rpartition(":")
    return host, int(port)


def proxy(leads_to: str = "127.0.0.1", *, username: str | None = None, password: str = "") -> Script:
    """A proxy that takes every name to one address, and asks for a password if given one."""
    wanted = f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"

    async def script(connection: Connection) -> None:
        head = await connection.request()
        if not head:
            return
        if username is not None and f"Proxy-Authorization: {wanted}\r\n".encode() not in head:
            await connection.send(response(b"who are you", 'Proxy-Authenticate: Basic realm="p"', status="407 Auth"))
            return
        _, port = _place(head)
        try:
            reader, writer = await asyncio.open_connection(leads_to, port)
        except OSError:
            await connection.send(response(b"cannot reach it", status="502 Bad Gateway"))
            return
        try:
            if head.startswith(b"CONNECT "):
                await connection.send(b"HTTP/1.1 200 Connection established\r\nX-Proxy: yes\r\n\r\n")
            else:
                method, url, rest = head.split(b" ", 2)
                path = b"/" + url.removeprefix(b"http://").partition(b"/")[2]
                writer.write(b" ".join([method, path, rest]))
            await asyncio.gather(_pipe(connection.reader, writer), _pipe(reader, connection.writer))
        finally:
            writer.transport.abort()

    return script
