"""What a user means by a seed."""

from __future__ import annotations

import pytest

from amble.core.seeds import Seed, seed_url
from amble.errors import BadUrl

SITE, PAGE = True, False
SEEDS = [
    # typed                                 URL                                      whole site?
    ("example.com", "https://example.com/", SITE),
    ("  Example.COM \n", "https://example.com/", SITE),
    ("\ufeffexample.com", "https://example.com/", SITE),
    ("example.com.", "https://example.com./", SITE),
    ("example.com/", "https://example.com/", SITE),
    ("example.com/#top", "https://example.com/", SITE),
    ("http://example.com", "http://example.com/", SITE),
    ("https://example.com:443/", "https://example.com/", SITE),
    ("http:example.com", "http://example.com/", SITE),
    ("//example.com", "https://example.com/", SITE),
    ("bücher.example", "https://xn--bcher-kva.example/", SITE),
    ("example.com/news", "https://example.com/news", PAGE),
    ("example.com/a b", "https://example.com/a%20b", PAGE),
    ("example.com/a:b@c", "https://example.com/a:b@c", PAGE),
    ("example.com?page=1", "https://example.com/?page=1", PAGE),
    ("https://example.com/?", "https://example.com/?", PAGE),
    ("https://example.com/?a=/", "https://example.com/?a=/", PAGE),
    ("https://user:pw@example.com/x", "https://example.com/x", PAGE),
    ("example.com:443", "https://example.com/", SITE),
    ("example.com:80", "http://example.com/", SITE),
    ("example.com:8080", "http://example.com:8080/", SITE),
    ("example.com:8080/x", "http://example.com:8080/x", PAGE),
    ("http:8080", "http://http:8080/", SITE),
    ("http:8080/x", "http://http:8080/x", PAGE),
    ("localhost", "http://localhost/", SITE),
    ("localhost:8000", "http://localhost:8000/", SITE),
    ("app.localhost/x", "http://app.localhost/x", PAGE),
    ("printer.local", "http://printer.local/", SITE),
    ("127.0.0.1", "http://127.0.0.1/", SITE),
    ("127.1/x", "http://127.0.0.1/x", PAGE),
    ("192.168.0.1", "http://192.168.0.1/", SITE),
    ("[::1]", "http://[::1]/", SITE),
    ("[::1]:8000/x", "http://[::1]:8000/x", PAGE),
    ("8.8.8.8", "https://8.8.8.8/", SITE),
    ("[2606:4700::1111]", "https://[2606:4700::1111]/", SITE),
]


@pytest.mark.parametrize(("typed", "url", "names_site"), SEEDS, ids=[ascii(row[0]) for row in SEEDS])
def test_a_seed_is_a_site_or_a_page(typed: str, url: str, names_site: bool) -> None:
    assert seed_url(typed) == Seed(url, names_site)
    assert seed_url(url) == Seed(url, names_site)


NO_SEEDS = [
    "", " ", "/", "/path", "?q", "#f", "://example.com", "exam ple.com", "a@example.com", "user:pw@example.com", "::1",
    "ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)", "mailto:a@example.com", "data:,x", "http://",
    "http:// ", "https://exam ple.com/", "example.com:0", "example.com:65536", "example.com:port", "a..b", "-" * 64,
    "http://1.2.3.256/", "1.2.3.256", "C:\\pages", "example.com\x00", "http://example.com/" + "a" * 9000,
    "SELECT 1; --",
]  # fmt: skip


@pytest.mark.parametrize("typed", NO_SEEDS, ids=[ascii(text[:30]) for text in NO_SEEDS])
def test_what_is_no_seed_is_refused_with_a_hint(typed: str) -> None:
    with pytest.raises(BadUrl) as refused:
        seed_url(typed)
    assert refused.value.hint
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("value", [None, 1, b"example.com", ["example.com"]])
def test_only_text_is_a_seed(value: object) -> None:
    with pytest.raises(BadUrl, match="is text"):
        seed_url(value)  # type: ignore[arg-type]
