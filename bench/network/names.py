"""The server of names, as a process in the crawler's namespace: 20 to 80 ms away, with kinds of trouble by name.

Reads one line of JSON: hosts by name, each with how it is looked up and where it leads. Every answer is a line of the
log: UTC seconds and the name. Ends when its input does.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any, TextIO, cast

ADDRESS = "127.0.0.53"
PORT = 53
_HEADER = struct.Struct("!HHHHHH")
_A, _AAAA = 1, 28
_NO_ERROR, _SERVFAIL, _DENIED = 0x8580, 0x8182, 0x8583
_TTL_S = 60
_SLOW_S, _SERVFAIL_S = 3.0, 4.0
_RECEIVE_BYTES = 8 << 20
_FORCE_RECEIVE_BUFFER = 33  # SO_RCVBUFFORCE: more than the system lets an ordinary process have


class Names(asyncio.DatagramProtocol):
    """Answers each question after a while, or never."""

    def __init__(self, given: dict[str, Any], log: TextIO) -> None:
        self._hosts: dict[str, tuple[str, list[str]]] = given["hosts"]
        self._loss: float = given["loss"]
        self._wildcard: tuple[str, str] | None = given["wildcard"]
        self._log = log
        self._chance = random.Random(2)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, question: bytes, asker: Any) -> None:
        if self._lost():
            return
        name, end = _name_in(question)
        (kind,) = struct.unpack_from("!H", question, end)
        lookup, addresses = self._find(name)
        if lookup == "dead":
            return
        wait_s = {"slow": _SLOW_S, "servfail": _SERVFAIL_S}.get(lookup, self._chance.uniform(0.02, 0.08))
        flags = {"servfail": _SERVFAIL, "denied": _DENIED}.get(lookup, _NO_ERROR)
        answer = _answer(question[: end + 4], kind, flags, addresses if flags == _NO_ERROR else [])
        if not self._lost():
            asyncio.get_running_loop().call_later(wait_s, self._send, name, answer, asker)

    def _send(self, name: str, answer: bytes, asker: Any) -> None:
        print(f"{time.time():.3f} {name}", file=self._log)
        self._transport.sendto(answer, asker)

    def _find(self, name: str) -> tuple[str, list[str]]:
        if self._wildcard and name.endswith(self._wildcard[0]):
            return "good", [self._wildcard[1]]
        return self._hosts.get(name, ("denied", []))

    def _lost(self) -> bool:
        return bool(self._loss) and self._chance.random() < self._loss


def _name_in(question: bytes) -> tuple[str, int]:
    """The name that is asked for, and where its type begins. Letters may be of mixed case (DNS 0x20)."""
    labels, at = [], _HEADER.size
    while length := question[at]:
        labels.append(question[at + 1 : at + 1 + length].decode("ascii"))
        at += 1 + length
    return ".".join(labels).lower(), at + 1


def _answer(asked: bytes, kind: int, flags: int, addresses: list[str]) -> bytes:
    packed = [_packed(address) for address in addresses if kind == (_AAAA if ":" in address else _A)]
    records = b"".join(struct.pack("!HHHIH", 0xC00C, kind, 1, _TTL_S, len(address)) + address for address in packed)
    (number,) = struct.unpack_from("!H", asked)
    return _HEADER.pack(number, flags, 1, len(packed), 0, 0) + asked[_HEADER.size :] + records


def _packed(address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


async def _serve(given: dict[str, Any], log: TextIO) -> None:
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.setsockopt(socket.SOL_SOCKET, _FORCE_RECEIVE_BUFFER, _RECEIVE_BYTES)
    listening.bind((ADDRESS, PORT))
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(lambda: Names(given, log), sock=listening)
    over = asyncio.Event()
    loop.add_reader(0, over.set)
    print("ready", flush=True)
    await over.wait()


def main() -> None:
    os.nice(-10)
    with Path(sys.argv[1]).open("w") as log:
        asyncio.run(_serve(json.loads(sys.stdin.readline()), log))


if __name__ == "__main__":
    main()
