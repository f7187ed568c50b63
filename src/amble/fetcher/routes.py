"""Whether this machine has a way to any network at all: looked up in its own tables, without sending anything."""

from __future__ import annotations

import socket

# Addresses of nobody (RFC 5737, RFC 3849). Connecting a datagram socket only chooses a route.
_ANYWHERE = ((socket.AF_INET, "198.51.100.1"), (socket.AF_INET6, "2001:db8::1"))
OFFLINE = "this machine is connected to no network"


def is_online() -> bool:
    """Not whether anybody answers: only that there would be somewhere to send to."""
    return any(_has_route(family, address) for family, address in _ANYWHERE)


def _has_route(family: socket.AddressFamily, address: str) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
    except OSError:
        return False
    return True
