"""What a body is when its header says so, says nothing, or lies [A17]."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.body_kind import Kind, kind_of
from amble.core.content_type import parse_mime_type

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
HTML = b"\n <!DOCTYPE html><title>x</title>"


@pytest.mark.parametrize(
    ("declared", "body", "kind"),
    [
        ("text/html", HTML, Kind.HTML),
        ("text/html", b"just words", Kind.HTML),
        ("text/html", b"a\0b<a href=x>", Kind.HTML),  # a stray NUL makes no image
        ("text/html", PNG, Kind.BINARY),
        ("text/html", b"%PDF-1.7\n", Kind.BINARY),
        ("text/html", b"", Kind.HTML),
        ("text/plain", HTML, Kind.TEXT),  # source code, shown as such
        ("text/plain", b"PK\x03\x04zip", Kind.BINARY),
        ("application/json", b"{}", Kind.TEXT),
        ("application/javascript", b"<html>", Kind.TEXT),
        ("application/xhtml+xml", b"<?xml version='1.0'?><html>", Kind.HTML),
        ("application/xml", b"<?xml version='1.0'?>\n<html xmlns='x'>", Kind.HTML),
        ("application/rss+xml", b"<?xml version='1.0'?><rss>", Kind.XML),
        ("image/png", HTML, Kind.HTML),
        ("image/png", PNG, Kind.BINARY),
        ("application/octet-stream", HTML, Kind.HTML),
        ("application/octet-stream", b"words", Kind.TEXT),
        (None, HTML, Kind.HTML),
        (None, b"\xef\xbb\xbf<html>", Kind.HTML),
        (None, b"<p>x", Kind.HTML),
        (None, b"<pre>x", Kind.TEXT),  # as the standard has it
        (None, b"<!-- x -->", Kind.HTML),
        (None, b"<?xml version='1.0'?><urlset>", Kind.XML),
        (None, b"plain words", Kind.TEXT),
        (None, b"\xff\xfeh\0i\0", Kind.TEXT),
        (None, b"\x00\x01\x02", Kind.BINARY),
        (None, PNG, Kind.BINARY),
        (None, b"", Kind.TEXT),
    ],
)
def test_kinds(declared: str | None, body: bytes, kind: Kind) -> None:
    assert kind_of(body, parse_mime_type(declared) if declared else None) is kind


@given(st.binary(max_size=64))
def test_any_bytes_have_a_kind(body: bytes) -> None:
    assert kind_of(body, None) in Kind
