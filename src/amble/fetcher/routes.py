"""Where this machine has a way to: looked up in its own tables, without sending anything."""

from __future__ import annotations

import ipaddress
import socket

# Addresses of nobody (RFC 5737, RFC 3849). Connecting a datagram socket only chooses a route.
_ANYWHERE = {socket.AF_INET: "198.51.100.1", socket.AF_INET6: "2001:db8::1"}
OFFLINE = "this machine is connected to no network"


def is_online() -> bool:
    """Not whether anybody answers: only that there would be somewhere to send to."""
    return any(map(has_route_to, _ANYWHERE.values()))


def routed_families() -> tuple[socket.AddressFamily, ...]:
    """The families of addresses that this machine can send to; both where it can to none."""
    return tuple(family for family, anywhere in _ANYWHERE.items() if has_route_to(anywhere)) or tuple(_ANYWHERE)


def has_route_to(address: str, *, from_public: bool = False) -> bool:
    """Whether anything would be sent there, and, if wanted, from an address that is no local one (RFC 6724 rule 5)."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return not from_public or _is_global(probe.getsockname()[0])
    except OSError:
        return False


def _is_global(address: str) -> bool:
    """Not of this link or site alone, nor of a tunnel (6to4, Teredo): IPv4 is better than those."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv4Address):
        return True
    return not (found.is_link_local or found in _SITE or found.sixtofour or found.teredo)


_SITE = ipaddress.IPv6Network("fc00::/7")
