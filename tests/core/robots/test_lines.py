"""Which lines of a robots.txt say something, and what."""

from __future__ import annotations

import pytest

from amble.core.robots.parse import BODY_BYTES_MAX, LINE_BYTES_MAX, Kind, read_lines


def said(body: bytes) -> list[tuple[int, Kind, bytes]]:
    return [(line.number, line.kind, line.value) for line in read_lines(body)]


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("User-agent", Kind.USER_AGENT),
        ("USER-AGENT", Kind.USER_AGENT),
        ("useragent", Kind.USER_AGENT),
        ("user agent", Kind.USER_AGENT),
        ("user-agents", Kind.USER_AGENT),  # whatever follows the known beginning
        ("user_agent", Kind.UNKNOWN),
        ("Allow", Kind.ALLOW),
        ("allowed", Kind.ALLOW),
        ("Disallow", Kind.DISALLOW),
        ("dissallow", Kind.DISALLOW),
        ("dissalow", Kind.DISALLOW),
        ("disalow", Kind.DISALLOW),
        ("diasllow", Kind.DISALLOW),
        ("disallaw", Kind.DISALLOW),
        ("disalllow", Kind.UNKNOWN),
        ("Sitemap", Kind.SITEMAP),
        ("site-map", Kind.SITEMAP),
        ("Crawl-delay", Kind.CRAWL_DELAY),
        ("Request-rate", Kind.REQUEST_RATE),
        ("Content-Signal", Kind.CONTENT_SIGNAL),
        ("Content-Usage", Kind.CONTENT_USAGE),
        ("Host", Kind.UNKNOWN),
    ],
)
def test_keys_are_known_by_their_beginning_typos_included(key: str, kind: Kind) -> None:
    assert said(f"{key}: /x".encode()) == [(1, kind, b"/x")]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        pytest.param(b"Disallow: /x", b"/x", id="as it should be"),
        pytest.param(b"  Disallow\t : \t/x \t", b"/x", id="whitespace everywhere"),
        pytest.param(b"Disallow:/x # note", b"/x", id="comment"),
        pytest.param(b"Disallow:", b"", id="empty value"),
        pytest.param(b"Disallow: # /x", b"", id="commented value"),
        pytest.param(b"Disallow: a: b", b"a: b", id="second colon belongs to the value"),
        pytest.param(b"Disallow /x", b"/x", id="forgotten colon"),
        pytest.param(b"Disallow \t  /x", b"/x", id="forgotten colon, wide gap"),
        pytest.param(b"Disallow /x y", None, id="forgotten colon, three words"),
        pytest.param(b"Disallow", None, id="one word"),
        pytest.param(b": /x", None, id="no key"),
        pytest.param(b"# Disallow: /x", None, id="comment line"),
        pytest.param(b"Disallow: /x\0y", b"/x", id="NUL ends a line"),
        pytest.param(b"\x0bDisallow:\x0c/x\x0b", b"/x", id="vertical tab and form feed are whitespace"),
    ],
)
def test_a_line_is_a_key_and_a_value(line: bytes, value: bytes | None) -> None:
    assert [line.value for line in read_lines(line)] == ([] if value is None else [value])


@pytest.mark.parametrize(
    ("body", "numbers"),
    [
        pytest.param(b"a:\nb:\n", [1, 2], id="LF"),
        pytest.param(b"a:\r\nb:\r\n", [1, 2], id="CRLF is one end of line"),
        pytest.param(b"a:\rb:\r", [1, 2], id="CR alone [B3]"),
        pytest.param(b"a:\n\rb:", [1, 3], id="LF CR is two"),
        pytest.param(b"a:\r\r\nb:", [1, 3], id="CR CRLF is two"),
        pytest.param(b"a:\x0cb:", [1], id="form feed ends no line"),
        pytest.param(b"\n\n\na:", [4], id="empty lines count"),
    ],
)
def test_lines_end_in_any_way(body: bytes, numbers: list[int]) -> None:
    assert [line.number for line in read_lines(body)] == numbers


@pytest.mark.parametrize("bom", [b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"], ids=["whole", "two bytes", "one byte"])
def test_a_byte_order_mark_or_a_piece_of_one_is_skipped(bom: bytes) -> None:
    """B3: otherwise the first group is lost, and with it everything that is disallowed."""
    assert said(bom + b"User-agent: a") == [(1, Kind.USER_AGENT, b"a")]


@pytest.mark.parametrize(
    "body", [b"\xef\x11\xbfUser-agent: a", b"\xbb\xbfUser-agent: a", b"\n\xef\xbb\xbfUser-agent: a"]
)
def test_what_only_resembles_a_byte_order_mark_spoils_the_key(body: bytes) -> None:
    assert [line.kind for line in read_lines(body)] == [Kind.UNKNOWN]


def test_utf_16_says_nothing() -> None:
    """B3: Google reads octets, and every other one is NUL."""
    assert said("User-agent: *\nDisallow: /\n".encode("utf-16")) == []


def test_a_long_line_is_cut_not_dropped() -> None:
    """B2"""
    (line,) = read_lines(b"Disallow: /" + b"x" * 1_000_000)
    assert len(b"Disallow: ") + len(line.value) == LINE_BYTES_MAX == 16_663


def test_what_lies_beyond_500_kib_is_not_read() -> None:
    """B1: the line that the limit cuts through counts as far as it was read."""
    filling = b"#" * (BODY_BYTES_MAX - len(b"\nDisallow: /ab"))
    body = filling + b"\nDisallow: /abcd\nDisallow: /never\n"
    assert said(body) == [(2, Kind.DISALLOW, b"/ab")]
