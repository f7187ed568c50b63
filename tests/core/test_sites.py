"""Which site a domain belongs to, and what it is paced under."""

from __future__ import annotations

import re

import pytest

from amble.core.sites import registrable_domain, site_of
from amble.core.urls import domain_of
from amble.errors import BadDomain
from tests.conformance import conformance

SITES = [
    # domain                           site
    ("example.com", "example.com"),
    ("www.example.com", "example.com"),
    ("a.b.example.co.uk", "example.co.uk"),
    ("a.b.example.co.uk:8080", "example.co.uk"),
    ("alice.github.io", "alice.github.io"),  # a suffix below which strangers register
    ("b.alice.github.io", "alice.github.io"),
    ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ("co.uk", "co.uk"),
    ("localhost", "localhost"),
    ("localhost:8000", "localhost"),
    ("127.0.0.1", "127.0.0.1"),
    ("127.0.0.1:8000", "127.0.0.1"),
    ("[::1]", "[::1]"),
    ("[::1]:8000", "[::1]"),
]


@pytest.mark.parametrize(("domain", "site"), SITES)
def test_the_site_of_a_domain(domain: str, site: str) -> None:
    assert site_of(domain) == site


def test_registrable_domains_are_those_of_the_public_suffix_list() -> None:
    text = conformance("url/test_psl.txt").read_text()
    rows = re.findall(r"^checkPublicSuffix\((null|'[^']*'), (null|'[^']*')\);", text, re.MULTILINE)
    assert len(rows) > 70
    for written, expected in rows:
        assert registered(written) == (None if expected == "null" else domain_of(expected.strip("'"))), written


def registered(written: str) -> str | None:
    try:
        return registrable_domain(domain_of(written.strip("'"))) if written != "null" else None
    except BadDomain:
        return None  # `.com` names no domain, so nothing is registered under it
