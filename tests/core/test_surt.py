"""The key that web archives file a page under: many spellings, one key."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.surt import surt_key
from amble.core.urls import Refusal, normalize, parse
from tests.conformance import conformance

KEYS = [
    # story                                 URL                                               key
    ("the host is turned around", "https://news.example.co.uk/", "uk,co,example,news)/"),
    ("www. is dropped", "http://www.example.com/", "com,example)/"),
    ("and its numbered brothers", "http://www12.example.com/", "com,example)/"),
    ("but only as a label", "http://www2example.com/", "com,www2example)/"),
    ("and only once", "http://www.www.example.com/", "com,example,www)/"),
    ("a port stays", "http://example.com:8080/", "com,example:8080)/"),
    ("the default port does not", "https://example.com:443/", "com,example)/"),
    ("neither does userinfo", "http://user:pw@example.com/", "com,example)/"),
    ("nor the fragment", "http://example.com/a#b", "com,example)/a"),
    ("case is dropped", "http://Example.com/A?B=C", "com,example)/a?b=c"),
    ("a last slash is dropped", "http://example.com/a/", "com,example)/a"),
    ("and slashes in a row", "http://example.com//a///b//", "com,example)/a/b"),
    ("escapes that hide nothing are undone", "http://example.com/%7Ea/%41", "com,example)/~a/a"),
    ("escapes in layers too", "http://example.com/%252541", "com,example)/a"),
    ("dots behind two layers", "http://example.com/a/%252e%252e/b", "com,example)/b"),
    ("other bytes are escaped in lower case", "http://example.com/É ", "com,example)/%c3%89"),
    ("a percent sign stays escaped", "http://example.com/100%", "com,example)/100%25"),
    ("parameters are sorted", "http://example.com/?b=2&a=2&a=1&a", "com,example)/?a&a=1&a=2&b=2"),
    ("by name before value", "http://example.com/?a-b=1&a=2", "com,example)/?a=2&a-b=1"),
    ("an empty query is no query", "http://example.com/a/?", "com,example)/a"),
    ("a session is no page", f"http://example.com/a?sid={'0a' * 16}&b=c", "com,example)/a?b=c"),
    ("nor in another dialect", "http://example.com/a?CFID=12&CFTOKEN=34&b=c", "com,example)/a?b=c"),
    ("nor with ASP", f"http://example.com/?ASPSESSIONIDabcdefgh={'Q' * 24}", "com,example)/"),
    ("nor inside the path", f"http://example.com/(S({'4h' * 12}))/a.aspx", "com,example)/a.aspx"),
    ("parentheses alone are a folder", f"http://h/({'4h' * 12})/a.html", f"h)/({'4h' * 12})/a.html"),
    ("an IPv4 address is turned around like a name", "http://146.148.124.0/index.php", "0,124,148,146)/index.php"),
    ("an IPv6 address is not", "http://[2001:db8::1]:81/a", "[2001:db8::1]:81)/a"),
    ("an international name is ASCII", "http://bücher.example/", "example,xn--bcher-kva)/"),
    ("a comma in a label is no level", "http://a,b.example/", "example,a.b)/"),
    ("a name without dots", "http://localhost/", "localhost)/"),
    ("what has no host is its own key", "dns:example.com", "dns:example.com"),
    ("what is no URL is its own key", "not a url", "not a url"),
    ("nothing", "", "-"),
]  # fmt: skip


@pytest.mark.parametrize(("url", "key"), [row[1:] for row in KEYS], ids=[row[0] for row in KEYS])
def test_the_key_of_a_url(url: str, key: str) -> None:
    assert surt_key(url) == key


def test_spellings_of_one_page_share_a_key_c6() -> None:
    spellings = [
        "http://example.com/~a/b", "https://EXAMPLE.com/~a/b", "http://example.com:80/~a/b", "http://example.com./~a/b",
        "http://example.com/%7Ea/b", "http://example.com/x/../~a/./b", "http://example.com/~a/b#c",
        "http://example.com/~a/b?", "http://u@example.com/~a//b/", "http://www.example.com/~A/B",
    ]  # fmt: skip
    assert {surt_key(url) for url in spellings} == {"com,example)/~a/b"}


@given(
    st.lists(st.sampled_from(["%", "25", "2", "3", "5", "4", "1", "%41", "%2541", "a", "/", "é", "%zz"])).map("".join)
)
def test_escapes_are_undone_as_if_again_and_again(path: str) -> None:
    url = parse(f"http://h/{path}x")
    assert url is not None
    plain = url.pathname.encode()
    while (once := unquote_to_bytes(plain)) != plain:
        plain = once
    assert surt_key(url.href) == surt_key("http://h" + quote(plain, safe="/"))


@given(
    st.sampled_from(
        [
            "http://www.example.com",
            "https://a.b.example:8443",
            "https://a.example.",
            "http://127.0.0.1:81",
            "http://[::1]",
            "http://[::1]:80",
            "http://[2001:db8::1]:81",
        ]
    ),
    st.text("aB1-._~!$&'()*+,;=:@/", max_size=20),
    st.text("aB1-._~!$&()*+,;=:@/?", max_size=20) | st.just("sid=" + "0" * 32 + "&b=1"),
)
def test_plain_urls_are_filed_sooner_and_the_same(origin: str, path: str, query: str) -> None:
    url = f"{origin}/{path}" + (f"?{query}" if query else "")
    assert surt_key(url) == surt_key(f"{url}#a-fragment-makes-it-parse")


@given(st.text(max_size=30))
def test_whatever_enters_has_a_key_that_is_one_line(text: str) -> None:
    url = normalize(f"http://example.com/{text}?{text}")
    if isinstance(url, Refusal):
        return
    key = surt_key(url)
    assert key.startswith("com,example)/")
    assert key.isascii()
    assert key == key.lower()
    assert not any(char <= " " for char in key)


# --- Outside judges ------------------------------------------------------------------------------------------------


def cases(relpath: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(conformance(relpath).read_text())
    return data


def web(text: str) -> str:
    """The urlcanon files write some URLs without a scheme, and some bytes as if each were a character."""
    with suppress(ValueError):  # raised where it was text already
        text = text.encode("latin-1").decode()
    return text if ":" in text.partition("/")[0].removesuffix(":8080") else f"http://{text}"


def test_keys_are_those_of_the_internet_archive() -> None:
    for url, key in cases("url/surt.json")["defaultIASurt"].items():
        assert surt_key(url) == key, url


def test_parameters_hosts_and_sessions_as_the_internet_archive_reads_them() -> None:
    rows = cases("url/surt.json")
    for query, ordered in rows["alphaRorderQuery"].items():
        assert surt_key(f"http://h/?{query}") == (f"h)/?{ordered}" if ordered else "h)/"), query
    for host, massaged in rows["massageHost"].items():
        assert surt_key(f"http://{host}/") == ",".join(reversed(massaged.split("."))) + ")/", host
    for path, stripped in rows["stripPathSessionId"].items():
        assert surt_key(f"http://h{path}") == "h)" + stripped.lower().rstrip("/"), path
    for escaped, plain in rows["unescapeRepeatedly"].items():
        assert surt_key(f"http://h/{escaped}") == "h)/" + plain.lower().replace("%", "%25"), escaped


def test_canonical_spellings_share_their_key_c6() -> None:
    """The pages among urlcanon's pairs. Hosts the URL Standard forbids (`%20x.com`, `...`) have no URL and no key."""
    rows = cases("url/surt.json")
    sections = ("google", "googleSupplementalFromSurt", "Canonicalizer.IA", "Canonicalizer.DefaultIA")
    pairs = [pair for section in sections for pair in rows[section].items()]
    pairs += cases("url/semantic_precise.json").items()
    compared = forbidden = 0
    for written, canonical in pairs:
        if not canonical.startswith(("http://", "https://")) or "\x91" in written:  # a byte that is no text
            continue
        if isinstance(normalize(web(written)), Refusal):
            forbidden += 1
            continue
        assert surt_key(web(written)) == surt_key(canonical), written
        compared += 1
    assert compared > 170
    assert forbidden < 30


def test_hosts_are_reversed_as_elsewhere() -> None:
    """urlcanon's longer SURT forms carry the scheme, a last comma and the fragment; the rest is our key."""
    rows = cases("url/ssurt.json")
    compared = 0
    for section in ("surt", "surtWithoutScheme", "surtWithoutTrailingComma"):
        for url, surt in rows[section].items():
            if "10.1.2.3" in url:
                continue  # urlcanon leaves addresses as they are; the indexes in use turn them around
            key = surt.removeprefix("http://(").replace(",:81", ":81").partition("#")[0]
            if ")" in key:
                key = key.replace(")?", ")/?") + ("/" if key.endswith(")") else "")
            assert surt_key(url) == key, url
            compared += 1
    assert compared > 14
