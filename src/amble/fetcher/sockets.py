"""What the system knows of a socket that is libcurl's: asked by its descriptor, which stays libcurl's."""

from __future__ import annotations

import select
import socket
import struct
from contextlib import suppress

_TCP_INFO: int | None = getattr(socket, "TCP_INFO", None)
_RECEIVED = struct.Struct("=128xQ")  # tcpi_bytes_received of Linux, since 4.1


class _Borrowed:
    """A socket that is libcurl's, for a moment."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=fd)

    def __enter__(self) -> socket.socket:
        return self._socket

    def __exit__(self, *_: object) -> None:
        self._socket.detach()


def place_of(fd: int) -> tuple[str, int]:
    """Where a connection leads to, and its port here."""
    address, port = "", 0
    try:
        with _Borrowed(fd) as ours:
            port = ours.getsockname()[1]
            address = ours.getpeername()[0].partition("%")[0]
    except (OSError, IndexError, TypeError):  # closed, or reset: then only our end is known
        pass
    return address, port


def has_ended(fd: int) -> bool:
    """Whether the other side has closed, though something may still lie unread before its end."""
    poll = select.poll()
    poll.register(fd, select.POLLRDHUP)
    return bool(poll.poll(0))


def end(fd: int) -> None:
    """Close a connection, and leave its descriptor to libcurl."""
    with suppress(OSError), _Borrowed(fd) as ours:
        ours.shutdown(socket.SHUT_RDWR)


def bytes_received(fd: int) -> int | None:
    """How much has come over a connection in all; None where nobody knows."""
    if fd < 0 or _TCP_INFO is None:
        return None
    try:
        with _Borrowed(fd) as ours:
            told = ours.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _RECEIVED.size)
    except OSError:
        return None
    return int(_RECEIVED.unpack(told)[0]) if len(told) == _RECEIVED.size else None
