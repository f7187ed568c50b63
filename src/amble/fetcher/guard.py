"""Which addresses a request may reach: those a policy passes are pinned, so that libcurl can connect to no other."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2s
from typing import NamedTuple

from amble.core.addresses import AddressPolicy, Forbidden, is_public

VERDICTS_MAX = 8192
PINNED_ADDRESSES_MAX = 8  # all are checked, this many are tried


@lru_cache(maxsize=4096)  # asked for with every request that is sent
def packed(address: str) -> bytes:
    """An address as the socket knows it: the same for every way to write it."""
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address.partition("%")[0])


@dataclass(frozen=True, slots=True)
class Pin:
    """The only addresses a transfer may connect to, and how libcurl is told."""

    packed: frozenset[bytes]
    connect_to: list[str]
    resolve: list[str]
    forget: list[str]  # takes back what `resolve` says; libcurl would keep it for good

    def allows(self, address: str) -> bool:
        try:
            return packed(address) in self.packed
        except OSError:
            return False


NO_PIN = Pin(frozenset(), [], [], [])  # allows nothing


def pin_host(host: str, addresses: tuple[str, ...], port: int) -> Pin:
    """A pin for a host asked directly.

    libcurl is sent to a name made of the host and its addresses, and that name is given these addresses. The name is
    the key under which it keeps connections, so one made to an earlier address is never used again [D6]; those of
    many hosts at one address are not gone through one by one with each request; and should libcurl ever look the
    name up by itself, `.invalid` has no address (RFC 6761 6.4) [D5].
    """
    addresses = addresses[:PINNED_ADDRESSES_MAX]
    all_packed = sorted(map(packed, addresses))
    name = f"{blake2s(b''.join([*all_packed, host.encode()]), digest_size=10).hexdigest()}.invalid"
    return Pin(frozenset(all_packed), [f"::{name}:{port}"], [_entry(name, port, addresses)], [f"-{name}:{port}"])


def pin_proxy(host: str, addresses: Sequence[str], port: int) -> Pin:
    """A pin for the proxy, which then looks up hosts by itself."""
    return Pin(frozenset(map(packed, addresses)), [], [_entry(host, port, addresses)], [f"-{host}:{port}"])


def _entry(name: str, port: int, addresses: Sequence[str]) -> str:
    return f"{name}:{port}:{','.join(addresses)}"


class Route(NamedTuple):
    """Where a transfer may connect to, and the proxy it goes through."""

    pin: Pin
    proxy: str | None = None


class Guard:
    """Asks the policy, and remembers what it needs to know: which of the user's own hosts have been public."""

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy
        self._were_public: set[str] = set()
        self._verdicts: dict[tuple[object, ...], Route | Forbidden] = {}

    def check(self, host: str, port: int, addresses: tuple[str, ...], found_on: str | None) -> Route | Forbidden:
        """A way to the addresses of a host, or why it must not be reached there."""
        question = (host, port, addresses, found_on, host in self._were_public)
        verdict = self._verdicts.get(question)
        if verdict is None:
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            verdict = self._verdicts[question] = self._ask(*question)
        return verdict

    def _ask(
        self, host: str, port: int, addresses: tuple[str, ...], found_on: str | None, seen_public: bool
    ) -> Route | Forbidden:
        verdict = self._policy.check(host, port, addresses, found_on=found_on, seen_public=seen_public)
        if {host.removesuffix("."), f"{host}:{port}"} & self._policy.named and all(map(is_public, addresses)):
            self._were_public.add(host)
        return verdict if isinstance(verdict, Forbidden) else Route(pin_host(host, tuple(verdict), port))
