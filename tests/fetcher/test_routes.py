"""Where packets would go, without sending any."""

from __future__ import annotations

import pytest

from amble.fetcher.resolver_channel import place_of
from amble.fetcher.routes import _is_global, has_route_to


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("2a00:1450::1", True),
        ("fd00::1", False),
        ("fe80::1%eth0", False),
        ("2002:c000:201::1", False),
        ("2001:0:1::1", False),
        ("192.168.1.2", True),
    ],
    ids=["public", "of a site", "of a link", "6to4", "Teredo", "IPv4, which is translated"],
)
def test_which_addresses_of_ours_are_worth_to_be_tried_first(source: str, expected: bool) -> None:
    assert _is_global(source) is expected


def test_there_is_a_way_to_ourselves_and_none_to_nonsense() -> None:
    assert has_route_to("127.0.0.1")
    assert not has_route_to("not an address")


@pytest.mark.parametrize(
    ("server", "place"),
    [("192.0.2.1:53", "192.0.2.1"), ("[2001:db8::1]:53", "2001:db8::1"), ("[fe80::1]:53%eth0", "fe80::1%eth0")],
)
def test_where_a_name_server_is(server: str, place: str) -> None:
    assert place_of(server) == place
