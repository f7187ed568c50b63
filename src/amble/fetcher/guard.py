"""Which addresses a request may reach: those a policy passes are pinned, so that libcurl can connect to no other."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
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

    key: str  # whom it is for, whatever the name is now
    name: str  # under which libcurl keeps connections
    packed: frozenset[bytes]
    connect_to: list[str]
    resolve: list[str]
    forget: list[str]  # takes back what `resolve` says; libcurl would keep it for good

    def allows(self, address: str) -> bool:
        try:
            return packed(address) in self.packed
        except OSError:
            return False

    def again(self) -> Pin:
        """The same under another name, so that no connection made until now is used."""
        name = _name(self.name.encode())
        connect_to, resolve, forget = (
            [entry.replace(self.name, name) for entry in entries]
            for entries in (self.connect_to, self.resolve, self.forget)
        )
        return replace(self, name=name, connect_to=connect_to, resolve=resolve, forget=forget)


NO_PIN = Pin("", "", frozenset(), [], [], [])  # allows nothing


def pin_host(host: str, addresses: tuple[str, ...], port: int) -> Pin:
    """A pin for a host asked directly.

    libcurl is sent to a name made of the host and its addresses, and that name is given these addresses. The name is
    the key under which it keeps connections, so one made to an earlier address is never used again [D6]; those of
    many hosts at one address are not gone through one by one with each request; and should libcurl ever look the
    name up by itself, `.invalid` has no address (RFC 6761 6.4) [D5].
    """
    addresses = addresses[:PINNED_ADDRESSES_MAX]
    all_packed = sorted(map(packed, addresses))
    name = _name(b"".join([*all_packed, host.encode()]))
    resolve, forget = _entry(name, port, addresses), f"-{name}:{port}"
    return Pin(f"{name}:{port}", name, frozenset(all_packed), [f"::{name}:{port}"], [resolve], [forget])


def pin_proxy(host: str, addresses: Sequence[str], port: int) -> Pin:
    """A pin for the proxy, which then looks up hosts by itself."""
    resolve, forget = _entry(host, port, addresses), f"-{host}:{port}"
    return Pin(f"{host}:{port}", host, frozenset(map(packed, addresses)), [], [resolve], [forget])


def _name(text: bytes) -> str:
    return f"{blake2s(text, digest_size=10).hexdigest()}.invalid"


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
        self._met_public: set[str] = set()  # of the domains that the user named: where any address was public,
        self._met_private: set[str] = set()  # and where none was
        self._verdicts: dict[tuple[object, ...], Route | Forbidden] = {}

    def check(
        self, host: str, port: int, addresses: tuple[str, ...], found_on: str | None, *, is_redirect: bool = False,
        sent_by_private: bool = False,
    ) -> Route | Forbidden:  # fmt: skip
        """A way to the addresses of a host, or why it must not be reached there. `sent_by_private`: the redirect came
        from a private address, which this process need not have met itself."""
        was_private = sent_by_private or found_on in self._met_private
        led_by_private = is_redirect and was_private and found_on not in self._met_public
        question = (host, port, addresses, found_on, host in self._were_public, led_by_private)
        verdict = self._verdicts.get(question)
        if verdict is None:
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            verdict = self._verdicts[question] = self._ask(*question)
        return verdict

    def _ask(
        self, host: str, port: int, addresses: tuple[str, ...], found_on: str | None, seen_public: bool,
        led_by_private: bool,
    ) -> Route | Forbidden:  # fmt: skip
        verdict = self._policy.check(
            host, port, addresses, found_on=found_on, seen_public=seen_public, led_by_private=led_by_private
        )
        own = {host.removesuffix("."), f"{host}:{port}"} & self._policy.named
        if own and all(map(is_public, addresses)):
            self._were_public.add(host)
        if own and addresses:
            # Once public, never private again: a name that is rebound leads nowhere [D6].
            (self._met_public if any(map(is_public, addresses)) else self._met_private).update(own)
        return verdict if isinstance(verdict, Forbidden) else Route(pin_host(host, tuple(verdict), port))
