"""Whether a body is a sitemap, and what it lists. Pure."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from types import MappingProxyType

from amble.core.sitemap.collect import Collector, Full
from amble.core.sitemap.decode import decoded
from amble.core.sitemap.dialects import DIALECTS
from amble.core.sitemap.document import Invalid, ReadLimits, SitemapDocument, Verdict
from amble.core.sitemap.text import TextBody
from amble.core.sitemap.unpack import GZIP_MAGIC, PIECE_BYTES, BrokenGzip, unpacked
from amble.core.sitemap.xml import XmlBody

_JUNK_CHARS_MAX = 1024  # warnings and comments that a broken generator may print before its XML declaration
_SPACE = " \t\r\n\ufeff"

_HTML = re.compile(r"(?><!--.*?-->\s*)*+<(?:!doctype\s+html|html|head|body|script|title|meta)\b", re.I | re.S)
_ROOT = re.compile(rf"<(?:[\w.-]+:)?(?:{'|'.join(DIALECTS)})\b", re.I)
_XML_DECLARATION = re.compile(r"<\?xml\s[^>]{0,500}?\?>")
_ARCHIVES = (b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"\0<", b"<\0")

DEFAULT_LIMITS = ReadLimits()


def read_sitemap(body: bytes, url: str, limits: ReadLimits = DEFAULT_LIMITS, *, cut: bool = False) -> SitemapDocument:
    """Everything that `body`, fetched from `url` (after redirects), lists. Never raises for what the body holds.

    `cut`: there was more of it than was fetched. Memory stays flat: a piece is unpacked, decoded, read and let go.
    """
    collector, verdict = Collector(url, limits), Verdict()
    source = _Source(body, limits.body_bytes_max, cut)
    try:
        _read(source, collector, verdict)
    except Full:
        source.truncated = True
    return SitemapDocument(
        url=url,
        kind=None if verdict.invalid else verdict.kind,
        entries=() if verdict.invalid else tuple(collector.entries),
        truncated=source.truncated,
        invalid=verdict.invalid,
        broken=source.broken or verdict.broken,
        body_bytes=source.body_bytes,
        dropped=MappingProxyType(dict(collector.dropped)),
    )


class _Source:
    """The pieces of a body, unpacked, up to the limit; and what was wrong with them, once they have been read."""

    def __init__(self, body: bytes, bytes_max: int, cut: bool) -> None:
        self.body_bytes = 0
        self.truncated = cut
        self.broken: str | None = None
        self._body = body
        self._bytes_max = bytes_max

    def pieces(self) -> Iterator[bytes]:
        try:
            for piece in unpacked(self._body, cut=self.truncated):
                room = self._bytes_max - self.body_bytes
                self.body_bytes += min(len(piece), room)
                yield piece[:room]
                if len(piece) > room:
                    self.truncated = True
                    return
        except BrokenGzip as broken:
            self.broken = str(broken)


def _read(source: _Source, collector: Collector, verdict: Verdict) -> None:
    pieces = source.pieces()
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= PIECE_BYTES:
            break
    verdict.invalid = _not_text(head)
    if verdict.invalid is not None:
        return
    reader: XmlBody | TextBody | None = None
    for text in decoded(head, pieces):
        if reader is None:
            text = _from_its_start(text.lstrip(_SPACE))
            if _HTML.match(text):
                verdict.invalid = Invalid.HTML
                return
            if text:
                reader = (XmlBody if text.startswith("<") else TextBody)(collector, verdict)
        if reader is not None and text and not reader.feed(text):
            return
    if reader is not None:
        reader.close(complete=source.broken is None and not source.truncated)
    else:
        verdict.invalid = Invalid.BAD_GZIP if source.broken else Invalid.EMPTY


def _from_its_start(text: str) -> str:
    """The text without an XML declaration and what a broken generator printed before it."""
    declaration = _XML_DECLARATION.search(text, 0, _JUNK_CHARS_MAX)
    if declaration is None or _HTML.match(text) or _ROOT.search(text, 0, declaration.start()):
        return text
    # The declaration goes too: its encoding has been obeyed, and a misspelt one is no reason to stop.
    return text[declaration.end() :].lstrip(_SPACE)


def _not_text(head: bytes) -> Invalid | None:
    """Why bytes that begin like this, already unpacked once, are not worth reading as text."""
    if head.startswith(GZIP_MAGIC):
        return Invalid.NESTED_GZIP
    if head.startswith(_ARCHIVES) or head[257:262] == b"ustar":
        return Invalid.ARCHIVE
    if b"\0" in head and not head.startswith(_UTF16) and not head.lstrip().startswith(b"<"):
        return Invalid.BINARY
    return None
