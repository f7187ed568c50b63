"""A name server of the tests' own, on loopback: what it does is in the first label of the name."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, cast

_HEADER = struct.Struct("!HHHHHH")
A, AAAA = 1, 28
_NO_ERROR, _SERVFAIL, _DENIED, _REFUSED, _CUT = 0x8180, 0x8182, 0x8183, 0x8185, 0x8380
SLOW_S = 3.0
LATE_S = 0.8
ADDRESS, ADDRESS_6 = "192.0.2.1", "2001:db8::1"
ALIAS_TTL_S = 7


class Question(NamedTuple):
    """What was asked, a packet each."""

    name: str
    kind: int


class NameServer(asyncio.DatagramProtocol):
    """`NAME-SECONDS.x` has that TTL; other first labels are words that `_answer` knows."""

    def __init__(self, address: str = ADDRESS) -> None:
        self.asked: list[Question] = []
        self.port = 0
        self.waiting = self.waiting_most = 0
        self._address = address

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self.port = transport.get_extra_info("sockname")[1]

    def names(self) -> list[str]:
        return list(dict.fromkeys(question.name for question in self.asked))

    def times(self, name: str, kind: int = A) -> int:
        return Counter(self.asked)[Question(name, kind)]

    def datagram_received(self, data: bytes, asker: Any) -> None:
        labels, at = [], _HEADER.size
        while length := data[at]:
            labels.append(data[at + 1 : at + 1 + length].decode())
            at += 1 + length
        (kind,) = struct.unpack_from("!H", data, at + 1)
        question = Question(".".join(labels), kind)
        self.asked.append(question)
        word, _, ttl = labels[0].partition("-")
        answer = self._answer(word, question)
        if answer is not None:
            wait_s, flags, addresses = answer
            found = [] if flags != _NO_ERROR else addresses
            packet = _packet(data[: at + 5], flags, kind, found, int(ttl) if ttl.isdigit() else 300, word == "alias")
            self.waiting += 1
            self.waiting_most = max(self.waiting_most, self.waiting)
            asyncio.get_running_loop().call_later(wait_s, self._send, packet, asker)

    def _send(self, packet: bytes, asker: Any) -> None:
        self.waiting -= 1
        if not self._transport.is_closing():
            self._transport.sendto(packet, asker)

    def _answer(self, word: str, question: Question) -> tuple[float, int, list[str]] | None:
        is_6 = question.kind == AAAA
        here = [ADDRESS_6] if is_6 else [self._address]
        match word:
            case "dead":
                return None
            case "slow":
                return SLOW_S, _NO_ERROR, here
            case "lossy":
                return None if self.times(*question) <= 2 else (0.0, _NO_ERROR, here)
            case "servfail":
                return 0.0, _SERVFAIL, []
            case "refused":
                return 0.0, _REFUSED, []
            case "busy":  # until it was asked three times
                return (0.0, _REFUSED, []) if self.times(*question) <= 2 else (0.0, _NO_ERROR, here)
            case "denied":
                return 0.0, _DENIED, []
            case "nodata":
                return 0.0, _NO_ERROR, []
            case "four":
                return 0.0, _NO_ERROR, [] if is_6 else here
            case "six":
                return 0.0, _NO_ERROR, here if is_6 else []
            case "latefour":
                return (0.0, _NO_ERROR, here) if is_6 else (LATE_S, _NO_ERROR, here)
            case "deadfour":
                return (0.0, _NO_ERROR, here) if is_6 else None
            case "deadsix":
                return None if is_6 else (0.0, _NO_ERROR, here)
            case "deniedsix":  # as some servers do, though the name is there
                return (0.0, _DENIED, []) if is_6 else (0.05, _NO_ERROR, here)
            case "failedfour":
                return (0.05, _NO_ERROR, []) if is_6 else (0.0, _SERVFAIL, [])
            case "deniedfour":
                return None if is_6 else (0.0, _DENIED, [])
            case "soon":
                return 0.02, _NO_ERROR, here
            case "long":  # too long for a datagram: the rest is asked for by TCP
                return 0.0, _CUT, []
            case _:
                return 0.0, _NO_ERROR, here


def _packet(asked: bytes, flags: int, kind: int, addresses: list[str], ttl_s: int, alias: bool) -> bytes:
    records, count = b"", len(addresses)
    owner = struct.pack("!H", 0xC000 | _HEADER.size)
    if alias and addresses:
        other = b"\x05other" + owner
        records += owner + struct.pack("!HHIH", 5, 1, ALIAS_TTL_S, len(other)) + other
        owner, count = struct.pack("!H", 0xC000 | len(asked) + 12), count + 1
    for address in addresses:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
        records += owner + struct.pack("!HHIH", kind, 1, ttl_s, len(packed)) + packed
    (number,) = struct.unpack_from("!H", asked)
    return _HEADER.pack(number, flags, 1, count, 0, 0) + asked[_HEADER.size :] + records


async def _by_tcp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The many addresses of a long name, for each question on a connection."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            (length,) = struct.unpack("!H", await reader.readexactly(2))
            data = await reader.readexactly(length)
            end = data.index(b"\0", _HEADER.size)
            (kind,) = struct.unpack_from("!H", data, end + 1)
            here = [f"192.0.2.{number}" for number in range(100)] if kind == A else []
            packet = _packet(data[: end + 5], _NO_ERROR, kind, here, 300, False)
            writer.write(struct.pack("!H", len(packet)) + packet)
    writer.close()


@contextlib.asynccontextmanager
async def name_server(address: str = ADDRESS, *, by_tcp: bool = False) -> AsyncIterator[NameServer]:
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as life:
        port = 0
        if by_tcp:
            listening = await life.enter_async_context(await asyncio.start_server(_by_tcp, "127.0.0.1", 0))
            port = listening.sockets[0].getsockname()[1]
        transport, server = await loop.create_datagram_endpoint(
            lambda: NameServer(address), local_addr=("127.0.0.1", port)
        )
        life.callback(transport.close)
        yield server
