"""Which network addresses and ports may be connected to. Pure.

The open web can name any address in a link, a redirect or a DNS answer; only public ones are ever asked. What the user
typed is the exception, for that host alone [D4, D5]. The ranges are those of IANA's special-purpose address registries
(RFC 6890) that are not globally reachable, and addresses that carry an IPv4 address inside are judged by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from amble.core.urls import domain_of
from amble.errors import BadDomain, SettingsError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Reach(Enum):
    """Who an address, a name or a port belongs to. Only `PUBLIC` is asked without the user's word."""

    PUBLIC = "public"
    UNSPECIFIED = "unspecified"
    LOOPBACK = "loopback"
    PRIVATE = "private"
    LINK_LOCAL = "link_local"
    SHARED = "shared"
    METADATA = "metadata"
    DOCUMENTATION = "documentation"
    BENCHMARK = "benchmark"
    MULTICAST = "multicast"
    BROADCAST = "broadcast"
    RESERVED = "reserved"
    RESERVED_NAME = "reserved_name"
    BAD_PORT = "bad_port"
    NOT_AN_ADDRESS = "not_an_address"


# --- Addresses -----------------------------------------------------------------------------------------------------

# The first match decides, so the single addresses stand before the ranges around them.
_IPV4 = [
    (IPv4Network(network), reach)
    for network, reach in [
        ("168.63.129.16/32", Reach.METADATA),  # Azure's host agent, on a public address
        ("169.254.169.254/32", Reach.METADATA),  # most clouds
        ("100.100.100.200/32", Reach.METADATA),  # Alibaba
        ("192.0.0.192/32", Reach.METADATA),  # Oracle
        ("255.255.255.255/32", Reach.BROADCAST),  # RFC 919
        ("0.0.0.0/32", Reach.UNSPECIFIED),
        ("0.0.0.0/8", Reach.RESERVED),  # this network, RFC 791
        ("10.0.0.0/8", Reach.PRIVATE),  # RFC 1918
        ("172.16.0.0/12", Reach.PRIVATE),
        ("192.168.0.0/16", Reach.PRIVATE),
        ("100.64.0.0/10", Reach.SHARED),  # carrier-grade NAT, RFC 6598
        ("127.0.0.0/8", Reach.LOOPBACK),  # RFC 1122
        ("169.254.0.0/16", Reach.LINK_LOCAL),  # RFC 3927
        ("192.0.0.0/24", Reach.RESERVED),  # IETF protocol assignments, RFC 6890
        ("192.0.2.0/24", Reach.DOCUMENTATION),  # RFC 5737
        ("198.51.100.0/24", Reach.DOCUMENTATION),
        ("203.0.113.0/24", Reach.DOCUMENTATION),
        ("192.88.99.0/24", Reach.RESERVED),  # 6to4 relays, withdrawn by RFC 7526
        ("198.18.0.0/15", Reach.BENCHMARK),  # RFC 2544
        ("224.0.0.0/4", Reach.MULTICAST),  # RFC 5771
        ("240.0.0.0/4", Reach.RESERVED),  # RFC 1112
    ]
]
_IPV6 = [
    (IPv6Network(network), reach)
    for network, reach in [
        ("::/128", Reach.UNSPECIFIED),
        ("::1/128", Reach.LOOPBACK),
        ("fd00:ec2::254/128", Reach.METADATA),  # Amazon
        ("fc00::/7", Reach.PRIVATE),  # unique local, RFC 4193
        ("fe80::/10", Reach.LINK_LOCAL),
        ("fec0::/10", Reach.PRIVATE),  # site-local, withdrawn by RFC 3879
        ("ff00::/8", Reach.MULTICAST),
        ("2001:db8::/32", Reach.DOCUMENTATION),  # RFC 3849
        ("3fff::/20", Reach.DOCUMENTATION),  # RFC 9637
        ("2001:2::/48", Reach.BENCHMARK),  # RFC 5180
        ("2001::/23", Reach.RESERVED),  # IETF protocol assignments, RFC 2928
        ("2000::/3", Reach.PUBLIC),  # the only global unicast space handed out, RFC 4291
        ("::/0", Reach.RESERVED),
    ]
]
_MAPPED = IPv6Network("::ffff:0:0/96")  # RFC 4291 2.5.5.2
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")  # RFC 2765
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052; the local-use 64:ff9b:1::/48 is nobody else's business
_6TO4 = IPv6Network("2002::/16")  # RFC 3056
_TEREDO = IPv6Network("2001::/32")  # RFC 4380


def judge(address: str | Address) -> Reach:
    """Whose address this is. Text must be an address as a resolver writes it; names go through `judge_host`."""
    if isinstance(address, str):
        try:
            address = ip_address(address)
        except ValueError:
            return Reach.NOT_AN_ADDRESS
    if isinstance(address, IPv4Address):
        return next((reach for network, reach in _IPV4 if address in network), Reach.PUBLIC)
    if address.scope_id is not None:
        return Reach.LINK_LOCAL  # a zone exists only on this machine's own links (RFC 4007)
    inside = _carried(address)
    if inside:
        return next((reach for reach in map(judge, inside) if reach is not Reach.PUBLIC), Reach.PUBLIC)
    reach = next(reach for network, reach in _IPV6 if address in network)
    if reach is Reach.PUBLIC and int(address) >> 32 & 0xFCFFFFFF == 0x00005EFE:  # ISATAP, RFC 5214 6.1
        return judge(IPv4Address(int(address) & 0xFFFFFFFF))
    return reach


def _carried(address: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses that packets under one of the translating prefixes reach, or are tunnelled through."""
    bits = int(address)
    if address in _MAPPED or address in _TRANSLATED or address in _NAT64:
        return [IPv4Address(bits & 0xFFFFFFFF)]
    if address in _6TO4:
        return [IPv4Address(bits >> 80 & 0xFFFFFFFF)]
    if address in _TEREDO:
        server, client = bits >> 64 & 0xFFFFFFFF, ~bits & 0xFFFFFFFF  # the client is written inverted
        return [IPv4Address(server), IPv4Address(client)]
    return []


def is_public(address: str | Address) -> bool:
    """Whether an address belongs to the public internet."""
    return judge(address) is Reach.PUBLIC


# --- Names and ports -----------------------------------------------------------------------------------------------

# Names no public name server answers for: this machine, this network, or a network of its own (RFC 6761, 6762, 7686,
# 8375). `test` and `example` are not among them: they lead nowhere unless somebody has arranged that they do.
_RESERVED_NAMES = frozenset({"localhost", "localdomain", "local", "internal", "home.arpa", "invalid", "onion"})
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"})

# "Bad ports" of the Fetch Standard: services that could be made to mistake a request for their own protocol.
_FETCH_BAD_PORTS = frozenset({
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
    110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
    532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
    5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
})  # fmt: skip
# Databases, queues and desktops, which a browser may meet but a crawler has no reason to: SMB, SQL Server, Oracle,
# MySQL, RDP, PostgreSQL, AMQP, VNC, Redis, Kafka, memcached, MongoDB.
_SERVICE_PORTS = frozenset({445, 1433, 1521, 3306, 3389, 5432, 5672, 5900, 6379, 9092, 11211, 27017})
BAD_PORTS = _FETCH_BAD_PORTS | _SERVICE_PORTS


def judge_host(host: str) -> Reach:
    """What a host says about itself before any name server is asked: as an address, or as a reserved name.

    The host is one that the URL parser has written, so every disguise of an address is already off.
    """
    name = host.lower().removesuffix(".")
    if name.startswith("["):
        return judge(name[1:-1])
    if name.rpartition(".")[2].isdigit():
        return judge(name)
    if name in _METADATA_NAMES:
        return Reach.METADATA
    labels = name.split(".")
    return Reach.RESERVED_NAME if {labels[-1], ".".join(labels[-2:])} & _RESERVED_NAMES else Reach.PUBLIC


def may_be_public(domain: str) -> bool:
    """Whether nothing speaks against a domain, as `domain_of` writes it, before its name is looked up."""
    host, _, port = domain.rpartition(":") if domain.rpartition(":")[2].isdigit() else (domain, "", "")
    return judge_host(host) is Reach.PUBLIC and not (port and int(port) in BAD_PORTS)


# --- The policy ----------------------------------------------------------------------------------------------------


class Forbidden(NamedTuple):
    """Why a host is not connected to."""

    host: str
    reach: Reach
    address: str | None = None  # the answer that forbids it; None where the name or port alone does

    def __str__(self) -> str:
        return f"{self.host} is {self.reach.value}" + (f" ({self.address})" if self.address else "")


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """What may be connected to in one job: the public internet, what the user typed, and what a setting opens."""

    named: frozenset[str] = frozenset()  # domains the user typed, as `domain_of` writes them
    opened: tuple[Network, ...] = ()
    allowed: frozenset[str] = frozenset()  # domains that the settings open, whoever leads there

    @classmethod
    def of(cls, named: Iterable[str] = (), opened: Iterable[str] = ()) -> AddressPolicy:
        """A policy for the hosts or URLs the user typed, and for what `allow_private` opens: networks such as
        10.0.0.0/8, hosts at the usual ports (intra.example), hosts at a port of their own (localhost:8000)."""
        opened = list(opened)
        try:
            networks = tuple(ip_network(text) for text in opened if "/" in text)
        except ValueError as error:
            raise SettingsError(f"not a network: {error}", hint="write it as 10.0.0.0/8 or fd00::/8") from None
        try:
            allowed = frozenset(domain_of(_bracketed(text)) for text in opened if "/" not in text)
        except BadDomain as error:
            raise SettingsError(f"not a host: {error.message}", hint="write it as localhost:8000 or [::1]") from None
        return cls(frozenset(map(domain_of, named)), networks, allowed)

    def check(
        self,
        host: str,
        port: int,
        addresses: Iterable[str],
        *,
        found_on: str | None = None,
        seen_public: bool = False,
        led_by_private: bool = False,
    ) -> list[str] | Forbidden:
        """The addresses that may be connected to, or why none: one bad answer forbids the host [D5].

        `found_on` is the domain of the page, redirect or sitemap that led here; None for what the user typed. What the
        user named stays closed to links from elsewhere. `seen_public` says that this host has answered with public
        addresses before: when it turns private later, its name is being rebound, whoever typed it. `led_by_private`
        says that a redirect of `found_on` led here, where nothing public answers: two hosts that were both typed and
        are both private may redirect to each other, while a public one never leads to a private one. Without addresses
        the name and port alone are judged, which is all one can do when a proxy resolves [D7].
        """
        usable = list(addresses)
        meant = self._is_meant(host, port, found_on, led_by_private=led_by_private)
        allowed = self._is_allowed(host, port)
        if port in BAD_PORTS and not meant and not allowed:
            return Forbidden(host, Reach.BAD_PORT)
        if allowed or (meant and not seen_public) or (usable and all(map(self._is_opened, usable))):
            return usable
        reach = judge_host(host)
        if reach is not Reach.PUBLIC and not self._is_opened(host):
            return Forbidden(host, reach)
        for address in usable:
            reach = judge(address)
            if reach is not Reach.PUBLIC and not self._is_opened(address):
                return Forbidden(host, reach, address)
        return usable

    def _is_meant(self, host: str, port: int, found_on: str | None, *, led_by_private: bool) -> bool:
        """Whether the user typed this very host and port, and nobody led here but what else they typed of their own."""
        domains = _domains(host, port)
        if domains.isdisjoint(self.named):
            return False
        return found_on is None or found_on in domains or (led_by_private and found_on in self.named)

    def _is_allowed(self, host: str, port: int) -> bool:
        return bool(self.allowed) and not _domains(host, port).isdisjoint(self.allowed)

    def _is_opened(self, address: str) -> bool:
        try:
            ip = ip_address(address.strip("[]"))
        except ValueError:
            return False
        return any(ip in network for network in self.opened)


def _domains(host: str, port: int) -> set[str]:
    """The domains that a host and a port may go by: either scheme's default port is not written."""
    name = host.removesuffix(".")
    return {f"{name}:{port}"} | ({name} if port in (80, 443) else set())


def _bracketed(text: str) -> str:
    """An address of IPv6 as it stands in a URL."""
    try:
        return f"[{IPv6Address(text)}]"
    except ValueError:
        return text
