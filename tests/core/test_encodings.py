"""Labels and bytes of the WHATWG encodings [A14]."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.encodings import ENCODINGS, decode, encoding_of_label


@pytest.mark.parametrize(
    ("label", "encoding"),
    [
        ("utf-8", "utf-8"),
        (" UTF8\n", "utf-8"),
        ("latin1", "windows-1252"),
        ("us-ascii", "windows-1252"),
        ("iso-8859-9", "windows-1254"),
        ("tis-620", "windows-874"),
        ("gb2312", "gbk"),
        ("sjis", "shift_jis"),
        ("ks_c_5601-1987", "euc-kr"),
        ("unicode", "utf-16le"),
        ("hz-gb-2312", "replacement"),
        ("utf-7", None),
        ("cp037", None),
        ("utf_8", None),  # Python's spelling, not the web's
        ("", None),
        ("utf-8" + " " * 10**6, None),
    ],
)
def test_labels(label: str, encoding: str | None) -> None:
    assert encoding_of_label(label) == encoding


def test_the_table_is_whole() -> None:
    assert len(ENCODINGS) == 40  # the standard's count
    assert all(encoding_of_label(name) == name for name in ENCODINGS)


@pytest.mark.parametrize(
    ("encoding", "body", "text"),
    [
        ("utf-8", b"a\xff\xe2\x82b", "a\ufffd\ufffdb"),
        ("utf-8", b"a\0b", "a\ufffdb"),
        ("utf-8", b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),  # a surrogate, encoded
        ("utf-16le", b"\x00\xd8a\0", "\ufffda"),  # half a pair
        ("utf-16be", b"\0a\0", "a\ufffd"),
        ("windows-1252", b"\x80\x81\x9d\xff", "\u20ac\x81\x9d\u00ff"),  # holes are controls
        ("windows-1253", b"\xaa\xd2\x81", "\ufffd\ufffd\x81"),
        ("windows-1255", b"\xca", "\u05ba"),
        ("windows-874", b"\xdb\x80", "\ufffd\u20ac"),
        ("koi8-u", b"\xae\xbe\xd0", "\u045e\u040e\u043f"),
        ("x-mac-cyrillic", b"\xa2\xb6\xff", "\u0490\u0491\u20ac"),
        ("macintosh", b"\xdb", "\u20ac"),
        ("iso-8859-8-i", b"\xe0", "\u05d0"),
        ("iso-8859-7", b"\xa4", "\u20ac"),
        ("gbk", b"\xd6\xd0\xa2\xe3", "\u4e2d\u20ac"),
        ("gb18030", b"\x94\x39\xda\x33", "\U0001f4a9"),
        ("big5", b"\xa4\xa4\x87\x40", "\u4e2d\u43f0"),
        ("shift_jis", b"\x87\x40\x8a\xbf", "\u2460\u6f22"),
        ("euc-jp", b"\xb4\xc1\xad\xa1\xad\xea", "\u6f22\u2460\u3231"),  # rows that vendors added
        ("euc-jp", b"\xb4\xc1\xff<", "\u6f22\ufffd<"),
        ("euc-jp", b"\xb4", "\ufffd"),
        ("iso-2022-jp", b"\x1b$B4A\x1b(B", "\u6f22"),
        ("euc-kr", b"\xb0\xa1\x81\x41", "\uac00\uac02"),
        ("x-user-defined", b"a\x80\xff", "a\uf780\uf7ff"),
        ("replacement", b"<script>", "\ufffd"),
        ("replacement", b"", ""),
    ],
)
def test_bytes_to_text(encoding: str, body: bytes, text: str) -> None:
    assert decode(body, encoding) == text


@given(st.sampled_from(sorted(ENCODINGS)), st.binary(max_size=100))
def test_no_nul_and_no_lone_surrogate_ever(encoding: str, body: bytes) -> None:
    text = decode(body, encoding)
    assert "\0" not in text
    text.encode("utf-8")


@given(st.sampled_from(sorted(ENCODINGS - {"replacement", "utf-16be", "utf-16le"})), st.text("ab<>/=\"' 09"))
def test_ascii_is_ascii(encoding: str, text: str) -> None:
    assert decode(text.encode("ascii"), encoding) == text
