"""What may be connected to: the public internet, what the user named, what the settings open."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.addresses import BAD_PORTS, AddressPolicy, Forbidden, Reach, is_public, judge, judge_host
from amble.core.urls import Refusal, normalize, parse
from amble.errors import BadDomain, SettingsError

# --- Addresses [D4] ------------------------------------------------------------------------------------------------

ADDRESSES = [
    ("8.8.8.8", Reach.PUBLIC),
    ("1.1.1.1", Reach.PUBLIC),
    ("93.184.216.34", Reach.PUBLIC),
    ("0.0.0.0", Reach.UNSPECIFIED),
    ("0.1.2.3", Reach.RESERVED),
    ("9.255.255.255", Reach.PUBLIC),
    ("10.0.0.0", Reach.PRIVATE),
    ("10.255.255.255", Reach.PRIVATE),
    ("11.0.0.0", Reach.PUBLIC),
    ("100.63.255.255", Reach.PUBLIC),
    ("100.64.0.1", Reach.SHARED),
    ("100.100.100.200", Reach.METADATA),
    ("100.127.255.255", Reach.SHARED),
    ("100.128.0.0", Reach.PUBLIC),
    ("127.0.0.1", Reach.LOOPBACK),
    ("127.255.255.254", Reach.LOOPBACK),
    ("168.63.129.16", Reach.METADATA),
    ("169.254.0.1", Reach.LINK_LOCAL),
    ("169.254.169.254", Reach.METADATA),
    ("172.15.255.255", Reach.PUBLIC),
    ("172.16.0.1", Reach.PRIVATE),
    ("172.31.255.255", Reach.PRIVATE),
    ("172.32.0.0", Reach.PUBLIC),
    ("192.0.0.1", Reach.RESERVED),
    ("192.0.0.192", Reach.METADATA),
    ("192.0.2.1", Reach.DOCUMENTATION),
    ("192.88.99.1", Reach.RESERVED),
    ("192.168.0.1", Reach.PRIVATE),
    ("192.169.0.0", Reach.PUBLIC),
    ("198.17.255.255", Reach.PUBLIC),
    ("198.18.0.1", Reach.BENCHMARK),
    ("198.19.255.255", Reach.BENCHMARK),
    ("198.51.100.1", Reach.DOCUMENTATION),
    ("203.0.113.1", Reach.DOCUMENTATION),
    ("224.0.0.1", Reach.MULTICAST),
    ("239.255.255.250", Reach.MULTICAST),
    ("240.0.0.1", Reach.RESERVED),
    ("255.255.255.255", Reach.BROADCAST),
    ("2606:4700:4700::1111", Reach.PUBLIC),
    ("2a00:1450:4001:829::200e", Reach.PUBLIC),
    ("::", Reach.UNSPECIFIED),
    ("::1", Reach.LOOPBACK),
    ("::2", Reach.RESERVED),
    ("::7f00:1", Reach.RESERVED),  # IPv4-compatible, withdrawn: nobody's, whatever it carries
    ("::8.8.8.8", Reach.RESERVED),
    ("::ffff:127.0.0.1", Reach.LOOPBACK),
    ("::ffff:10.0.0.1", Reach.PRIVATE),
    ("::ffff:169.254.169.254", Reach.METADATA),
    ("::ffff:8.8.8.8", Reach.PUBLIC),
    ("::ffff:0:127.0.0.1", Reach.LOOPBACK),
    ("64:ff9b::7f00:1", Reach.LOOPBACK),
    ("64:ff9b::a9fe:a9fe", Reach.METADATA),
    ("64:ff9b::808:808", Reach.PUBLIC),  # how a network without IPv4 reaches 8.8.8.8
    ("64:ff9b:1::808:808", Reach.RESERVED),
    ("100::1", Reach.RESERVED),
    ("2001::1", Reach.UNSPECIFIED),  # Teredo by way of 0.0.0.0
    ("2001:0:808:808:0:0:f7f7:f7f7", Reach.PUBLIC),  # Teredo, 8.8.8.8 to 8.8.8.8
    ("2001:0:7f00:1:0:0:f7f7:f7f7", Reach.LOOPBACK),  # Teredo, its server is this machine
    ("2001:0:808:808:0:0:80ff:fffe", Reach.LOOPBACK),  # Teredo, its client is 127.0.0.1 inverted
    ("2001:2::1", Reach.BENCHMARK),
    ("2001:10::1", Reach.RESERVED),
    ("2001:20::1", Reach.RESERVED),
    ("2001:db8::1", Reach.DOCUMENTATION),
    ("2002:7f00:1::", Reach.LOOPBACK),
    ("2002:c0a8:1::1", Reach.PRIVATE),
    ("2002:808:808::1", Reach.PUBLIC),
    ("2606:4700::5efe:10.0.0.1", Reach.PRIVATE),  # ISATAP
    ("2606:4700::200:5efe:127.0.0.1", Reach.LOOPBACK),
    ("2606:4700::5efe:8.8.8.8", Reach.PUBLIC),
    ("2001:db8::5efe:8.8.8.8", Reach.DOCUMENTATION),
    ("fe80::5efe:8.8.8.8", Reach.LINK_LOCAL),
    ("3fff::1", Reach.DOCUMENTATION),
    ("4000::1", Reach.RESERVED),
    ("5f00::1", Reach.RESERVED),
    ("fc00::1", Reach.PRIVATE),
    ("fd00::1", Reach.PRIVATE),
    ("fd00:ec2::254", Reach.METADATA),
    ("fe80::1", Reach.LINK_LOCAL),
    ("fe80::1%eth0", Reach.LINK_LOCAL),
    ("2606:4700::1%eth0", Reach.LINK_LOCAL),
    ("febf::1", Reach.LINK_LOCAL),
    ("fec0::1", Reach.PRIVATE),
    ("ff02::1", Reach.MULTICAST),
    ("localhost", Reach.NOT_AN_ADDRESS),
    ("127.1", Reach.NOT_AN_ADDRESS),
    ("0x7f000001", Reach.NOT_AN_ADDRESS),
    ("010.0.0.1", Reach.NOT_AN_ADDRESS),
    ("", Reach.NOT_AN_ADDRESS),
]


@pytest.mark.parametrize(("address", "reach"), ADDRESSES)
def test_an_address_belongs_to_somebody_d4(address: str, reach: Reach) -> None:
    assert judge(address) is reach
    assert is_public(address) is (reach is Reach.PUBLIC)
    if reach is not Reach.NOT_AN_ADDRESS:
        assert judge(ip_address(address)) is reach


@given(st.ip_addresses(v=4))
def test_nothing_is_public_that_python_calls_local_v4(address: IPv4Address) -> None:
    if is_public(address):
        assert address.is_global
        assert not address.is_multicast


@given(st.one_of(st.ip_addresses(v=6), st.ip_addresses(v=6, network="2000::/3"), st.ip_addresses(v=6, network="::/8")))
def test_nothing_is_public_that_python_calls_local_v6(address: IPv6Address) -> None:
    carries_ipv4 = address.ipv4_mapped or address.sixtofour or address.teredo or address not in ip_network("2000::/3")
    if is_public(address) and not carries_ipv4:
        assert address.is_global
        assert not address.is_multicast


@given(st.one_of(st.ip_addresses(v=4), st.sampled_from(["127.0.0.1", "10.0.0.1", "8.8.8.8"]).map(IPv4Address)))
def test_an_embedded_address_counts_as_itself_d4(address: IPv4Address) -> None:
    bits = int(address)
    mapped, translated, nat64, six_to_four = 0xFFFF << 32, 0xFFFF << 48, 0x64FF9B << 96, 0x2002 << 112
    for inside in (mapped | bits, translated | bits, nat64 | bits, six_to_four | bits << 80):
        assert judge(IPv6Address(inside)) is judge(address)


# --- Names [D4] ----------------------------------------------------------------------------------------------------

HOSTS = [
    ("example.com", Reach.PUBLIC),
    ("a.test", Reach.PUBLIC),
    ("localhost.example.com", Reach.PUBLIC),
    ("mylocalhost", Reach.PUBLIC),
    ("localhost", Reach.RESERVED_NAME),
    ("LOCALHOST.", Reach.RESERVED_NAME),
    ("a.b.localhost", Reach.RESERVED_NAME),
    ("localhost.localdomain", Reach.RESERVED_NAME),
    ("printer.local", Reach.RESERVED_NAME),
    ("wiki.internal", Reach.RESERVED_NAME),
    ("nas.home.arpa", Reach.RESERVED_NAME),
    ("abc.onion", Reach.RESERVED_NAME),
    ("1.0.0.127.in-addr.arpa", Reach.PUBLIC),
    ("metadata", Reach.METADATA),
    ("metadata.google.internal", Reach.METADATA),
    ("metadata.google.internal.", Reach.METADATA),
    ("127.0.0.1", Reach.LOOPBACK),
    ("[::1]", Reach.LOOPBACK),
    ("[::ffff:7f00:1]", Reach.LOOPBACK),
    ("8.8.8.8", Reach.PUBLIC),
    ("[2606:4700:4700::1111]", Reach.PUBLIC),
    ("1.2.3", Reach.NOT_AN_ADDRESS),  # no parsed URL has such a host
]


@pytest.mark.parametrize(("host", "reach"), HOSTS)
def test_a_host_tells_before_any_name_server_is_asked_d4(host: str, reach: Reach) -> None:
    assert judge_host(host) is reach


DISGUISES = [
    "http://127.0.0.1/", "http://0/", "http://0.0.0.0/", "http://10.1.2.3/", "http://172.16.0.1/", "http://192.168.1.1/",
    "http://169.254.169.254/latest/meta-data/", "http://100.64.0.1/", "http://192.0.0.192/", "http://[fd00::1]/",
    "http://[fe80::1]/", "http://[::1]/", "http://[::]/", "http://[::ffff:127.0.0.1]/", "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/", "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/",
    "http://①②⑦.0.0.1/", "http://１２７．０．０．１/", "http://127。0。0。1/", "http://localhost/", "http://localhost./",
    "http://LOCALHOST:8080/", "http://a.localhost/", "http://ｌｏｃａｌｈｏｓｔ/", "http://loc%61lhost/", "http://224.0.0.1/",
    "http://255.255.255.255/", "http://metadata.google.internal/computeMetadata/v1/", "http://user@127.0.0.1/",
    "http://example.com\\@127.0.0.1/", "http://127.0.0.1:80\\@example.com/", "http://0x7f000001/", "http://017700000001/",
    "http://127.0.0.1./", "http://example.com:22/", "http://example.com:25/", "http://example.com:5432/",
    "http://example.com:6379/", "http://example.com:11211/",
]  # fmt: skip


@pytest.mark.parametrize("text", DISGUISES, ids=ascii)
def test_no_disguise_passes_the_gate_and_the_policy_d4(text: str) -> None:
    url = normalize(text)
    assert not isinstance(url, Refusal)
    parts = parse(url)
    assert parts is not None
    verdict = AddressPolicy().check(parts.hostname, int(parts.port or 80), ())
    if "@127" in text and "\\" in text:  # a backslash ends the host, so this one names example.com
        assert verdict == []
    else:
        assert isinstance(verdict, Forbidden)


# --- The policy [D5, D7] -------------------------------------------------------------------------------------------

OPEN = AddressPolicy()


def test_public_answers_are_all_usable() -> None:
    assert OPEN.check("example.com", 443, ["93.184.216.34", "2606:4700::1"]) == ["93.184.216.34", "2606:4700::1"]


@pytest.mark.parametrize(
    ("answers", "reach", "address"),
    [
        (["127.0.0.1"], Reach.LOOPBACK, "127.0.0.1"),
        (["93.184.216.34", "10.0.0.1"], Reach.PRIVATE, "10.0.0.1"),
        (["93.184.216.34", "2606:4700::1", "::1"], Reach.LOOPBACK, "::1"),
        (["93.184.216.34", "nonsense"], Reach.NOT_AN_ADDRESS, "nonsense"),
    ],
)
def test_one_bad_answer_forbids_the_host_d5(answers: list[str], reach: Reach, address: str) -> None:
    assert OPEN.check("evil.test", 80, answers) == Forbidden("evil.test", reach, address)


def test_a_name_and_a_port_are_judged_without_answers_when_a_proxy_resolves_d7() -> None:
    assert OPEN.check("example.com", 80, []) == []
    assert OPEN.check("127.0.0.1", 80, []) == Forbidden("127.0.0.1", Reach.LOOPBACK)
    assert OPEN.check("[::1]", 80, []) == Forbidden("[::1]", Reach.LOOPBACK)
    assert OPEN.check("wiki.internal", 80, []) == Forbidden("wiki.internal", Reach.RESERVED_NAME)
    assert OPEN.check("example.com", 25, []) == Forbidden("example.com", Reach.BAD_PORT)


def test_a_refusal_says_why() -> None:
    assert str(Forbidden("evil.test", Reach.LOOPBACK, "127.0.0.1")) == "evil.test is loopback (127.0.0.1)"
    assert str(Forbidden("localhost", Reach.RESERVED_NAME)) == "localhost is reserved_name"


LOCAL = AddressPolicy.of(named=["http://localhost:8000/x", "intranet.test", "http://10.0.0.5/", "http://db.test:5432/"])
NAMED = [
    # story                                       host            port   answer          found on            allowed
    ("typed by the user", "localhost", 8000, "127.0.0.1", None, True),
    ("with a trailing dot", "localhost.", 8000, "127.0.0.1", None, True),
    ("a link from its own page", "localhost", 8000, "127.0.0.1", "localhost:8000", True),
    ("a link from elsewhere", "localhost", 8000, "127.0.0.1", "evil.test", False),
    ("a link from another port", "localhost", 8000, "127.0.0.1", "localhost:9000", False),
    ("another port of the same machine", "localhost", 9000, "127.0.0.1", None, False),
    ("the default port was not typed", "localhost", 80, "127.0.0.1", None, False),
    ("the same machine by another name", "127.0.0.1", 8000, "127.0.0.1", None, False),
    ("a name that resolves to a private address", "intranet.test", 443, "10.0.0.9", None, True),
    ("and moves from http to https", "intranet.test", 80, "10.0.0.9", "intranet.test", True),
    ("a name below a typed one", "a.intranet.test", 443, "10.0.0.9", None, False),
    ("an address that was typed", "10.0.0.5", 80, "10.0.0.5", None, True),
    ("its neighbour", "10.0.0.6", 80, "10.0.0.6", None, False),
    ("a port that was typed", "db.test", 5432, "93.184.216.34", None, True),
    ("a port that a link names", "db.test", 5432, "93.184.216.34", "evil.test", False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("host", "port", "answer", "found_on", "allowed"), [row[1:] for row in NAMED], ids=[row[0] for row in NAMED]
)
def test_what_the_user_typed_is_open_for_that_host_only(
    host: str, port: int, answer: str, found_on: str | None, allowed: bool
) -> None:
    verdict = LOCAL.check(host, port, [answer], found_on=found_on)
    assert verdict == [answer] if allowed else isinstance(verdict, Forbidden)


def test_a_typed_name_that_turns_private_is_being_rebound_d5() -> None:
    policy = AddressPolicy.of(named=["http://evil.test/"])
    assert policy.check("evil.test", 80, ["93.184.216.34"]) == ["93.184.216.34"]
    assert isinstance(policy.check("evil.test", 80, ["127.0.0.1"], seen_public=True), Forbidden)
    assert isinstance(policy.check("evil.test", 80, ["93.184.216.34", "127.0.0.1"], seen_public=True), Forbidden)


def test_a_typed_port_stays_open_after_public_answers() -> None:
    assert LOCAL.check("db.test", 5432, ["93.184.216.34"], seen_public=True) == ["93.184.216.34"]


def test_networks_are_opened_by_setting() -> None:
    policy = AddressPolicy.of(opened=["10.0.0.0/8", "::1/128"])
    assert policy.check("a.test", 80, ["10.1.2.3", "::1"]) == ["10.1.2.3", "::1"]
    assert policy.check("a.test", 80, ["10.1.2.3", "93.184.216.34"]) == ["10.1.2.3", "93.184.216.34"]
    assert policy.check("wiki.internal", 80, ["10.1.2.3"]) == ["10.1.2.3"]
    assert policy.check("[::1]", 80, ["::1"]) == ["::1"]
    assert policy.check("10.1.2.3", 80, []) == []
    assert policy.check("a.test", 80, ["192.168.0.1"]) == Forbidden("a.test", Reach.PRIVATE, "192.168.0.1")
    assert policy.check("wiki.internal", 80, ["93.184.216.34"]) == Forbidden("wiki.internal", Reach.RESERVED_NAME)
    assert policy.check("a.test", 22, ["10.1.2.3"]) == Forbidden("a.test", Reach.BAD_PORT)


def test_a_policy_of_nonsense_is_refused() -> None:
    with pytest.raises(SettingsError) as refused:
        AddressPolicy.of(opened=["10.0.0.1/8"])
    assert refused.value.hint
    with pytest.raises(BadDomain):
        AddressPolicy.of(named=["not a host"])


def test_web_ports_are_not_bad_ports() -> None:
    assert BAD_PORTS.isdisjoint({80, 443, 591, 2082, 3000, 4000, 5000, 8000, 8008, 8080, 8081, 8443, 8888, 9000, 9200})
