"""When bytes arrived: as the kernel stamped them, not as we came to read them.

A busy machine reads late, and by another lag each time. Spacing and limits judged by such readings would blame the
client for it, so the kernel's own stamp is taken where there is one (Linux), and the moment of reading elsewhere.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

_STAMP = getattr(socket, "SO_TIMESTAMPNS", 35)  # asm-generic/socket.h; the message that carries it has the same number
_TIMESPEC = struct.Struct("@ll")
_ANCILLARY_BYTES = 64
_LAG_MAX_S = 30.0  # beyond this the wall clock, which stamps are told in, must have jumped
READ_BYTES = 65_536

if sys.platform == "linux":

    def stamp_arrivals(listener: socket.socket) -> None:
        """Ask the kernel to say when what is read arrived, on every connection accepted here.

        Asked on the connection itself, it would come too late for what arrived before it was accepted.
        """
        listener.setsockopt(socket.SOL_SOCKET, _STAMP, 1)

    def receive(connection: socket.socket) -> tuple[bytes, float]:
        """What is there to read, and the monotonic instant at which the last of it arrived."""
        data, messages, _, _ = connection.recvmsg(READ_BYTES, _ANCILLARY_BYTES)
        now = time.monotonic()
        for level, kind, stamp in messages:
            if level == socket.SOL_SOCKET and kind == _STAMP and len(stamp) == _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack(stamp)
                lag_s = time.time() - (seconds + nanoseconds * 1e-9)
                return data, now - lag_s if 0.0 < lag_s < _LAG_MAX_S else now
        return data, now

else:

    def stamp_arrivals(listener: socket.socket) -> None:
        """Nothing to ask for here."""

    def receive(connection: socket.socket) -> tuple[bytes, float]:
        """What is there to read, and when we read it."""
        return connection.recv(READ_BYTES), time.monotonic()
