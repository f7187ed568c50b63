"""What a header block says, and which ones are not believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.headers import HeaderBlock, Headers, Malformed, StatusLine, read_header_block, read_status_line


def read(raw: bytes) -> HeaderBlock | Malformed:
    return read_header_block(raw.splitlines(keepends=True) if b"\r" not in raw else _lines(raw))


def _lines(raw: bytes) -> list[bytes]:
    return [line + b"\n" for line in raw.split(b"\n")[:-1]]


@pytest.mark.parametrize(
    ("raw", "pairs"),
    [
        (b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", [("A", "b")]),
        (b"HTTP/1.0 200\r\nA:b\r\n\r\n", [("A", "b")]),
        (b"HTTP/2 200 \r\na: \t b \t\r\n\r\n", [("a", "b")]),
        (b"HTTP/1.1 200 OK\nA: b\nC: d\n\n", [("A", "b"), ("C", "d")]),
        (b"HTTP/1.1 200 OK\r\nA::b\r\nB:\r\n\r\n", [("A", ":b"), ("B", "")]),
        (b"HTTP/1.1 200 OK\r\nA: caf\xc3\xa9\r\nB: caf\xe9\r\n\r\n", [("A", "café"), ("B", "café")]),
        (b"HTTP/1.1 200 OK\r\nA: \x1b[31mred\x9b\x07\x7f\r\n\r\n", [("A", "[31mred")]),
        (b"HTTP/1.1 200 OK\r\nA: b\tc\r\n\r\n", [("A", "b c")]),
        (b"HTTP/1.1 200 OK\r\nA:   b  \r\nC: d\r\nE: \r\n\r\n", [("A", "b"), ("C", "d"), ("E", "")]),
        (b"HTTP/1.1 200 OK\r\nA:" + b" " * 60_000 + b"\x01b\r\n\r\n", [("A", "b")]),
    ],
    ids=[
        "plain",
        "no reason, no blank",
        "HTTP/2, padded",
        "all LF",
        "colon in value, empty value",
        "UTF-8 and Latin-1",
        "controls stripped [A12]",
        "tab",
        "blanks on both sides",
        "60,000 blanks, read once [A12]",
    ],
)
def test_a_block_is_read(raw: bytes, pairs: list[tuple[str, str]]) -> None:
    block = read(raw)
    assert isinstance(block, HeaderBlock)
    assert (block.line.status, list(block.headers)) == (200, pairs)


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\rContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 01\r\n\r\n",
    ],
    ids=[
        "a blank before the colon of a length",
        "a transfer encoding with a line ending of its own",
        "a length behind a bare CR",
        "a blank in the name of a transfer encoding",
        "two lengths [A10]",
        "two lengths in one [A10]",
    ],
)
def test_a_block_is_not_believed(raw: bytes) -> None:
    assert isinstance(read(raw), Malformed)


@pytest.mark.parametrize(
    ("what", "raw"),
    [
        ("CRLF among LF", b"HTTP/1.1 200 OK\nodd: b\r\nGood: 1\n\n"),
        ("LF among CRLF", b"HTTP/1.1 200 OK\r\nodd: b\nGood: 1\r\n\r\n"),
        ("bare CR", b"HTTP/1.1 200 OK\r\nodd: b\rc\r\nGood: 1\r\n\r\n"),
        ("fold at the start", b"HTTP/1.1 200 OK\r\n odd: b\r\nGood: 1\r\n\r\n"),
        ("blank before the colon", b"HTTP/1.1 200 OK\r\nodd : b\r\nGood: 1\r\n\r\n"),
        ("blank in the name", b"HTTP/1.1 200 OK\r\nodd one: c\r\nGood: 1\r\n\r\n"),
        ("parenthesis in the name", b"HTTP/1.1 200 OK\r\nodd(1): c\r\nGood: 1\r\n\r\n"),
        ("name beyond ASCII", b"HTTP/1.1 200 OK\r\n\xc3\xb6dd: c\r\nGood: 1\r\n\r\n"),
        ("no name", b"HTTP/1.1 200 OK\r\n: b\r\nGood: 1\r\n\r\n"),
        ("no colon", b"HTTP/1.1 200 OK\r\nodd\r\nGood: 1\r\n\r\n"),
    ],
)
def test_one_odd_header_field_is_dropped_and_not_the_answer(what: str, raw: bytes) -> None:
    block = read(raw)
    assert isinstance(block, HeaderBlock)
    assert list(block.headers) == [("Good", "1")]


def test_of_several_content_types_the_last_counts() -> None:
    """Fetch 3.5."""
    headers = Headers([("Content-Type", "text/plain"), ("X", "1"), ("content-type", "text/html")])
    assert (headers.get_last("content-type"), headers.get_last("x"), headers.get_last("y")) == ("text/html", "1", None)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"HTTP/1.1 200 OK\r\n", StatusLine("1.1", 200)),
        (b"HTTP/1.0 999 No\r\n", StatusLine("1.0", 999)),
        (b"HTTP/2 200  OK\r\n", StatusLine("2", 200)),
        (b"HTTP/1.1 2000 OK\r\n", None),
        (b"HTTP/1.1 000 OK\r\n", None),
        (b"HTTP/1.1 20 OK\r\n", None),
        (b"HTTP/1.1\t200 OK\r\n", None),
        (b"HTTP/1.1 200\tOK\r\n", None),
        (b"HTTP/0.9 200 OK\r\n", None),
        (b"ICY 200 OK\r\n", None),
        (b"HTTP/1.1 200 O\rK\r\n", None),
    ],
)
def test_status_lines(line: bytes, said: StatusLine | None) -> None:
    """A13."""
    read = read_status_line(line)
    assert (None if isinstance(read, Malformed) else read) == said


def test_copies_of_one_length_are_believed() -> None:
    """A10."""
    block = read(b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\nContent-Length: 5\r\n\r\n")
    assert isinstance(block, HeaderBlock)


def test_names_in_any_case_and_several_values() -> None:
    headers = Headers([("Set-Cookie", "a"), ("set-cookie", "b"), ("SET-COOKIE", "a"), ("Vary", "x, y"), ("vary", "z,")])
    assert headers.get_all("Set-COOKIE") == ["a", "b", "a"]
    assert headers.get("set-cookie") == "a"
    assert headers.elements("VARY") == ["x", "y", "z"]
    assert (headers.get("none"), headers.get("none", "d"), headers.get_all("none")) == (None, "d", [])
    assert "vary" in headers
    assert 1 not in headers
    assert (len(headers), headers) == (5, Headers(list(headers)))


@given(st.binary(max_size=200))
def test_nothing_that_leaves_holds_a_control_character(value: bytes) -> None:
    block = read_header_block([b"HTTP/1.1 200 OK\r\n", b"A: " + value + b"\r\n", b"\r\n"])
    if isinstance(block, HeaderBlock):
        said = block.headers.get("a", "")
        assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in said)
