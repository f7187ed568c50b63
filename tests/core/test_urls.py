"""Which URLs may enter, what they become, and the domain each is paced under."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.urls import domain_of
from amble.errors import BadDomain

# --- domain_of -----------------------------------------------------------------------------------------------------

ONE_DOMAIN = [
    # what is written                        the key
    ("http://example.com/", "example.com"),
    ("https://example.com/", "example.com"),
    ("HTTPS://EXAMPLE.COM/Path", "example.com"),
    ("http://example.com:80/a", "example.com"),
    ("https://example.com:443", "example.com"),
    ("http://example.com:0080/", "example.com"),
    ("http://example.com:443/", "example.com:443"),
    ("https://example.com:8443/x?y#z", "example.com:8443"),
    ("http://user:secret@example.com/", "example.com"),
    ("http://good.com@evil.test/", "evil.test"),
    ("http://a.com\\@b.com/", "a.com"),
    ("http:\\\\a.com\\b", "a.com"),
    ("http:/a.com/b/c", "a.com"),
    ("https:a.com/b/c", "a.com"),
    ("https:///a.com/b/c", "a.com"),
    ("http://a.com?b=/c/d", "a.com"),
    ("http://a.com#/b", "a.com"),
    ("  http://a.com/\n", "a.com"),
    ("http://ex\tample.com/", "example.com"),
    ("example.com", "example.com"),
    ("Example.COM.", "example.com"),
    ("http://example.com./a", "example.com"),
    ("example.com:8080", "example.com:8080"),
    ("example.com:08080", "example.com:8080"),
    ("http:8080", "http:8080"),
    ("localhost", "localhost"),
    ("my_host", "my_host"),
    ("bücher.example", "xn--bcher-kva.example"),
    ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
    ("http://faß.de/", "xn--fa-hia.de"),
    ("http://①②⑦.0.0.1/", "127.0.0.1"),
    ("2130706433", "127.0.0.1"),
    ("0x7f.1:81", "127.0.0.1:81"),
    ("127.0.0.1.", "127.0.0.1"),
    ("[0:0:0:0:0:0:0:1]", "[::1]"),
    ("[::1]:8080", "[::1]:8080"),
    ("http://[::FFFF:127.0.0.1]:80/", "[::ffff:7f00:1]"),
    ("a." * 126 + "b", "a." * 126 + "b"),
    ("a" * 63 + ".b", "a" * 63 + ".b"),
]


@pytest.mark.parametrize(("text", "domain"), ONE_DOMAIN, ids=[repr(row[0][:40]) for row in ONE_DOMAIN])
def test_a_domain_is_the_lower_case_ascii_host_and_an_unusual_port(text: str, domain: str) -> None:
    assert domain_of(text) == domain
    assert domain_of(domain) == domain


NO_DOMAIN = [
    "", " ", ".", "..", ":", ":80", "/", "//example.com", "?", "#", "@", "http:", "http://", "https:///", "http://:80/",
    "exam ple.com", " example.com", "example.com\n", "a\tb.com", "a\x00b", "a\x7fb", "http://a b/", "http://a%00b/",
    "example.com/path", "user@example.com", "a\\b", "a?b", "a#b", "a<b>", "a^b", "a|b", "ex%00.com", "a%2Fb",
    "a..b", ".a", "a..", "a" * 64 + ".com", "a." * 127 + "b", "b" * 254, "http://" + "a" * 64 + "/",
    "http://" + "é" * 10_000 + ".com/", "é" * 10_000,
    "a:", "a:nan", "a:-1", "a:0", "a:65536", "a:999999", "a:８０", "a:80:80", "a:8e1", "http://a:0/", "http://a:65536/",
    "http://a:nan/", "::1", "[::1", "[::1]x", "[::g]", "[1.2.3.4]", "http://[::1%25eth0]/", "[]", "1.2.3.256", "09.1",
    "ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)", "mailto:a@b.com", "data:text/html,x", "ws://a/",
    "x://http://a/", "a\ud800b", "http://a\ud800b/", "\u202eexample.com", "a\u3000b",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_DOMAIN, ids=[ascii(text[:40]) for text in NO_DOMAIN])
def test_text_that_names_no_host_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(BadDomain) as refused:
        domain_of(text)
    assert refused.value.hint
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("value", [None, 1, 1.5, float("nan"), b"example.com", ["example.com"], {}, True])
def test_only_text_names_a_domain(value: object) -> None:
    with pytest.raises(BadDomain, match="is text"):
        domain_of(value)  # type: ignore[arg-type]


def test_a_refusal_does_not_repeat_the_password_c4() -> None:
    with pytest.raises(BadDomain) as refused:
        domain_of("http://user:secret@exa mple.com/")
    assert "secret" not in str(refused.value)


label = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=20).filter(
    lambda text: not text[2:].startswith("--")
)
host = st.builds(lambda labels: ".".join([*labels, "example"]), st.lists(label, min_size=1, max_size=5))


@given(
    host=host,
    shout=st.booleans(),
    user=st.sampled_from(["", "u@", "u:p@", "u%40:p@"]),
    dot=st.sampled_from(["", "."]),
    tail=st.sampled_from(["", "/", "/a/b/", "/A?b=/c@d", "?x", "#f", "/#//b.com/"]),
    secure=st.booleans(),
    port=st.booleans(),
)
def test_spelling_does_not_change_the_domain_c6(
    host: str, shout: bool, user: str, dot: str, tail: str, secure: bool, port: bool
) -> None:
    name = (host.upper() if shout else host) + dot
    scheme, default = ("https", ":443") if secure else ("http", ":80")
    assert domain_of(f"{scheme}://{user}{name}{default if port else ''}{tail}") == host


@given(st.text(max_size=40))
def test_a_domain_of_a_domain_is_itself(text: str) -> None:
    for written in (text, f"http://{text}", f"https://{text}/x"):
        try:
            domain = domain_of(written)
        except BadDomain:
            continue
        assert domain_of(domain) == domain
        assert domain.isascii()
        assert domain == domain.lower()
        assert not any(char <= " " for char in domain)
