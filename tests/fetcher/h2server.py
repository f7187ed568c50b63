"""A server that speaks HTTP/2 over TLS, well or badly, as a script says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from amble.testing.rawserver import Connection, Script


class Http2:
    """One HTTP/2 connection: requests in, frames out."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        config = h2.config.H2Configuration(client_side=False, validate_outbound_headers=False)
        self.h2 = h2.connection.H2Connection(config)
        self._events: list[object] = []

    async def begin(self) -> None:
        self.h2.initiate_connection()
        await self.flush()

    async def flush(self) -> None:
        await self._connection.send(self.h2.data_to_send())

    async def send_raw(self, data: bytes) -> None:
        await self._connection.send(data)

    async def next_request(self) -> tuple[int, str] | None:
        """The stream and path of the next request; None when the client has gone."""
        while True:
            while self._events:
                event = self._events.pop(0)
                if isinstance(event, h2.events.RequestReceived):
                    path = dict(event.headers)[b":path"].decode()
                    self._connection.server.requests.append(f"GET {path} HTTP/2\r\n\r\n".encode())
                    return event.stream_id, path
            data = await self._connection.reader.read(65536)
            if not data:
                return None
            try:
                self._events.extend(self.h2.receive_data(data))
            except h2.exceptions.ProtocolError:
                return None
            await self.flush()

    async def answer(self, stream: int, body: bytes = b"x", *headers: tuple[str, str], status: str = "200") -> None:
        self.h2.send_headers(stream, [(":status", status), *headers])
        for at in range(0, len(body), 16384):
            self.h2.send_data(stream, body[at : at + 16384])
        self.h2.end_stream(stream)
        await self.flush()


Handler = Callable[[Http2, int, str], Awaitable[None]]


def http2(handle: Handler) -> Script:
    """Handle each request on each connection."""

    async def script(connection: Connection) -> None:
        spoken = Http2(connection)
        await spoken.begin()
        while (request := await spoken.next_request()) is not None:
            await handle(spoken, *request)

    return script
