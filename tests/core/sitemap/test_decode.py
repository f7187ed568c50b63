"""Which characters the bytes of a sitemap are."""

from __future__ import annotations

import codecs
from urllib.parse import quote

import pytest

from amble.core.sitemap.document import Invalid
from amble.core.sitemap.read import PIECE_BYTES, read_sitemap
from tests.core.sitemap.documents import SITEMAP

XML = "<?xml version='1.0' encoding='{}'?><urlset><url><loc>/{}</loc></url></urlset>"
AE = "https://example.com/%C3%A4"

BODIES = [
    # story, body, URL
    ("no declaration is UTF-8", XML.replace(" encoding='{}'", "").format("ä").encode(), AE),
    ("UTF-8 declared", XML.format("UTF-8", "ä").encode(), AE),
    ("UTF-8 marked", codecs.BOM_UTF8 + XML.format("UTF-8", "ä").encode(), AE),
    ("a mark outranks the declaration", codecs.BOM_UTF8 + XML.format("iso-8859-1", "ä").encode(), AE),
    ("Latin-1", XML.format("ISO-8859-1", "ä").encode("latin-1"), AE),
    ("Latin-1 means Windows-1252", XML.format("latin1", "€").encode("cp1252"), "https://example.com/%E2%82%AC"),
    ("Windows-1251", XML.format("windows-1251", "ж").encode("cp1251"), "https://example.com/%D0%B6"),
    ("Shift_JIS", XML.format("Shift_JIS", "日").encode("cp932"), "https://example.com/%E6%97%A5"),
    ("GB2312", XML.format("GB2312", "中").encode("gb18030"), "https://example.com/%E4%B8%AD"),
    ("UTF-16 little end first, marked", XML.format("UTF-16", "ä").encode("utf-16"), AE),
    ("UTF-16 big end first, marked", codecs.BOM_UTF16_BE + XML.format("UTF-16", "ä").encode("utf-16-be"), AE),
    ("UTF-16 little end first, unmarked", XML.format("UTF-16", "ä").encode("utf-16-le"), AE),
    ("UTF-16 big end first, unmarked", XML.format("UTF-16", "ä").encode("utf-16-be"), AE),
    ("UTF-16 declared, UTF-8 written", XML.format("utf-16", "ä").encode(), AE),
    ("a label nobody knows", XML.format("x-unheard-of", "ä").encode(), AE),
    ("A14 a codec that is no charset", XML.format("punycode", "ä").encode(), AE),
    ("A14 escapes are not decoded", XML.format("unicode_escape", r"a\x41").encode(), "https://example.com/a/x41"),
    ("A18 UTF-7 is not decoded", XML.format("UTF-7", "+AOQ-").encode(), "https://example.com/+AOQ-"),
    ("bytes that are no UTF-8", XML.format("UTF-8", "ä").encode("latin-1"), "https://example.com/%EF%BF%BD"),
]


@pytest.mark.parametrize(("body", "url"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_bytes_become_the_characters_they_were_meant_to_be(body: bytes, url: str) -> None:
    document = read_sitemap(body, SITEMAP)
    assert [entry.url for entry in document.entries] == [url]
    assert document.broken is None


def test_a18_a_whole_document_in_utf_7_is_none() -> None:
    body = b"+ADw-urlset+AD4APA-url+AD4APA-loc+AD4-/a+ADw-/loc+AD4APA-/url+AD4APA-/urlset+AD4-"
    assert body.decode("utf-7") == "<urlset><url><loc>/a</loc></url></urlset>"
    assert read_sitemap(body, SITEMAP).invalid is Invalid.NO_URLS


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "shift_jis", "gb18030", "iso-8859-5", "big5"])
@pytest.mark.parametrize("before", range(5))
def test_a_character_may_be_cut_by_the_end_of_a_piece(encoding: str, before: int) -> None:
    path = "ж" if encoding == "iso-8859-5" else "中"
    start, end = XML.format(encoding, path).split("<urlset>")
    width = len("xx".encode(encoding)) - len("x".encode(encoding))
    around = len(f"{start}<urlset><!----><url><loc>/".encode(encoding))
    pad = "x" * ((PIECE_BYTES - around - before) // width)
    body = f"{start}<urlset><!--{pad}-->{end}".encode(encoding)
    assert [entry.url for entry in read_sitemap(body, SITEMAP).entries] == [f"https://example.com/{quote(path)}"]
