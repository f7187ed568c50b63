"""A server of names that calls every name this machine, for programs that ask the system.

A hosts file would do for few names; ten thousand lines are read again for every question, on the asker's account.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

ADDRESS = "127.0.0.77"  # loopback, and nobody else's
PORT = 53  # resolvers know no other
_HEADER = struct.Struct("!HHHHHH")
_ANSWERED, _NOT_UNDERSTOOD = 0x8580, 0x8181  # authoritative, recursion asked for and to be had; or: format error
_ADDRESS_RECORD, _ANY = 1, 255
_RECORD = struct.pack("!HHHIH4s", 0xC00C, _ADDRESS_RECORD, 1, 3600, 4, socket.inet_aton("127.0.0.1"))


def answer(question: bytes) -> bytes | None:
    """The reply to one question; None to what is none. Other records than IPv4 addresses do not exist."""
    if len(question) < _HEADER.size + 5:
        return None
    number, _, questions, *_ = _HEADER.unpack_from(question)
    end = question.find(b"\0", _HEADER.size) + 5  # the name, its end, type and class
    if questions != 1 or end > len(question) or end < _HEADER.size + 5:
        return _HEADER.pack(number, _NOT_UNDERSTOOD, 0, 0, 0, 0)
    (kind,) = struct.unpack_from("!H", question, end - 4)
    record = _RECORD if kind in (_ADDRESS_RECORD, _ANY) else b""
    return _HEADER.pack(number, _ANSWERED, 1, 1 if record else 0, 0, 0) + question[_HEADER.size : end] + record


class NameServer:
    """Answers in a thread, over UDP, for as long as it is entered."""

    def __init__(self, address: str = ADDRESS, port: int = PORT) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((address, port))
        except OSError as taken:
            raise SystemExit(
                f"no names can be given out on {address}:{port}: {taken}\nhint: one contest at a time"
            ) from None
        self.address: tuple[str, int] = self._socket.getsockname()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a datagram socket is not connected, but whoever reads from it wakes up
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                question, asker = self._socket.recvfrom(512)
            except OSError:
                return
            if not question:
                return
            reply = answer(question)
            if reply is not None:
                self._socket.sendto(reply, asker)
