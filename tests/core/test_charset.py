"""Which encoding a body is in, and who said so [A14]."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.body_kind import Kind
from amble.core.charset import Charset, CharsetSource, charset_of, decode_body, prescan, xml_encoding
from amble.core.encodings import encoding_of_label
from tests.conformance import conformance

MARK, HEADER, META, XML, BYTES, DEFAULT = CharsetSource


def html5lib_cases() -> Iterator[tuple[bytes, str]]:
    for name in ("tests1", "tests2", "test-yahoo-jp"):
        for block in conformance(f"charset/{name}.dat").read_bytes().split(b"#data\n")[1:]:
            data, _, encoding = block.partition(b"\n#encoding\n")
            yield data, encoding.strip().decode()


def test_html5lib_cases() -> None:
    cases = list(html5lib_cases())
    assert len(cases) >= 82
    wrong = [(data[:80], said) for data, said in cases if charset_of(data).encoding != encoding_of_label(said)]
    assert not wrong


@pytest.mark.parametrize(
    ("body", "label", "kind", "expected"),
    [
        (b"\xef\xbb\xbfx", "iso-8859-2", Kind.HTML, Charset("utf-8", MARK, 3)),
        (b"\xff\xfex\0", "utf-8", Kind.HTML, Charset("utf-16le", MARK, 2)),
        (b"\xfe\xff\0x", None, Kind.XML, Charset("utf-16be", MARK, 2)),
        (b"<meta charset=koi8-r>", "euc-jp", Kind.HTML, Charset("euc-jp", HEADER)),
        (b"<meta charset=koi8-r>", "no such label", Kind.HTML, Charset("koi8-r", META)),
        (b"<meta charset=koi8-r>", None, Kind.TEXT, Charset("windows-1252", DEFAULT)),
        (b"<?xml version='1.0' encoding='koi8-r'?><p>", None, Kind.HTML, Charset("koi8-r", XML)),
        (b"<?xml version='1.0' encoding='koi8-r'?><p>", None, Kind.XML, Charset("koi8-r", XML)),
        (b"<?xml version='1.0' encoding='utf-16'?><p>", None, Kind.XML, Charset("utf-8", XML)),
        (b"<rss/>", None, Kind.XML, Charset("utf-8", BYTES)),
        ("caf\u00e9".encode(), None, Kind.HTML, Charset("utf-8", BYTES)),
        ("\u00e9t\u00e9".encode()[:-1], None, Kind.HTML, Charset("utf-8", BYTES)),  # cut within a character
        (b"caf\xe9", None, Kind.HTML, Charset("windows-1252", DEFAULT)),
        (b"plain", None, Kind.HTML, Charset("windows-1252", DEFAULT)),
        (b"\xe9" + b"x" * 2000 + b"<meta charset=koi8-r>", None, Kind.HTML, Charset("koi8-r", META)),
        ("<meta charset=utf-16>\u00e9".encode(), None, Kind.HTML, Charset("utf-8", META)),
        (b"<meta charset=x-user-defined>", None, Kind.HTML, Charset("windows-1252", META)),
        (b"<meta charset=iso-2022-kr>", None, Kind.HTML, Charset("replacement", META)),
        (b"<\0?\0x\0m\0l\0", None, Kind.XML, Charset("utf-16le", XML)),
    ],
)
def test_the_order_of_witnesses(body: bytes, label: str | None, kind: Kind, expected: Charset) -> None:
    assert charset_of(body, label, kind) == expected


@pytest.mark.parametrize(
    "label",
    ["punycode", "idna", "unicode_escape", "raw_unicode_escape", "utf-7", "utf7", "rot13", "hex", "base64", "zlib"],
)
def test_codecs_that_are_no_encodings_are_never_used(label: str) -> None:
    """A14: each of these is a codec to Python, one of them a quadratic one."""
    codecs.lookup(label)
    body = b"x+AAA-\\u0041" * 10
    assert charset_of(body, label).encoding == "windows-1252"
    assert charset_of(b"<meta charset=%b>" % label.encode()).encoding == "windows-1252"
    assert charset_of(b"<?xml encoding='%b'?>" % label.encode(), None, Kind.XML).encoding == "utf-8"
    assert decode_body(body, label)[0] == body.decode("ascii")


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b"<meta charset=utf-8>", "utf-8"),
        (b"<META\nCHARSET = 'UTF-8' >", "utf-8"),
        (b"<meta/charset=utf-8>", "utf-8"),
        (b"<!-- <meta charset=koi8-r> --><meta charset=utf-8>", "utf-8"),
        (b"<!--><meta charset=utf-8>", "utf-8"),
        (b"<!-- <meta charset=utf-8>", None),
        (b"<p title='<meta charset=koi8-r>'><meta charset=utf-8>", "utf-8"),
        (b"<p title=\"'<meta charset=utf-8>", None),
        (b"</p title='<meta charset=koi8-r>'><meta charset=utf-8>", "utf-8"),
        (b"<?php <meta charset=koi8-r><meta charset=utf-8>", "utf-8"),
        (b"<meta charset=nonsense><meta charset=utf-8>", "utf-8"),
        (b"<meta charset=nonsense http-equiv=content-type content='text/html; charset=utf-8'>", None),
        (b"<meta content='text/html; charset=utf-8'>", None),
        (b"<meta http-equiv=Content-Type content='text/html; charset=utf-8'>", "utf-8"),
        (b"<meta http-equiv=content-type content='charset charset=utf-8;x'>", "utf-8"),
        (b"<meta http-equiv=content-type content='charset=\"utf-8'>", None),
        (b"<meta http-equiv=content-type content=\"charset='utf-8' x\">", "utf-8"),
        (b"<meta charset=utf-8 charset=koi8-r>", "utf-8"),
        (b"<meta charset=utf-8", None),
        (b"<meta =x charset=utf-8>", "utf-8"),
        (b"<" * 1024, None),
    ],
)
def test_the_prescan(head: bytes, encoding: str | None) -> None:
    assert prescan(head) == encoding


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b'<?xml version="1.0" encoding="euc-kr"?>', "euc-kr"),
        (b"<?xml encoding = 'utf-16le' ?>", "utf-8"),
        (b"<?xml encoding='nonsense'?>", None),
        (b"<?xml encoding=utf-8?>", None),
        (b" <?xml encoding='utf-8'?>", None),
    ],
)
def test_the_xml_declaration(head: bytes, encoding: str | None) -> None:
    assert xml_encoding(head) == encoding


@given(st.binary(max_size=200), st.sampled_from([None, "utf-8", "utf-16", "gbk", "iso-2022-jp", "x-user-defined"]))
def test_any_bytes_become_text_that_every_store_takes(body: bytes, label: str | None) -> None:
    """A14: no NUL, no lone surrogate."""
    text, _ = decode_body(body, label)
    assert "\0" not in text
    text.encode("utf-8")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff")))
def test_utf8_comes_through(text: str) -> None:
    assert decode_body(text.encode(), "utf-8")[0] == text
