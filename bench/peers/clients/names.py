"""Makes every name below .test this machine, for clients that resolve through Python's socket module."""

from __future__ import annotations

import socket
from typing import Any

_getaddrinfo, _gethostbyname = socket.getaddrinfo, socket.gethostbyname


def _is_ours(host: Any) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    return isinstance(name, str) and name.endswith(".test")


def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
    return _getaddrinfo("127.0.0.1" if _is_ours(host) else host, *args, **kwargs)


def gethostbyname(host: Any) -> str:
    return _gethostbyname("127.0.0.1" if _is_ours(host) else host)


def lead_home() -> None:
    socket.getaddrinfo, socket.gethostbyname = getaddrinfo, gethostbyname
