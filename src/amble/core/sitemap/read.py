"""Whether a body is a sitemap, and what it lists. Takes it whole or as it arrives. Pure."""

from __future__ import annotations

import codecs
import re
from types import MappingProxyType

from amble.core.sitemap.collect import Collector, Full
from amble.core.sitemap.decode import Decoder, decoder_for
from amble.core.sitemap.dialects import DIALECTS
from amble.core.sitemap.document import Invalid, ReadLimits, SitemapDocument, SitemapEntry, SitemapKind, Verdict
from amble.core.sitemap.text import TextBody
from amble.core.sitemap.unpack import GZIP_MAGIC, Unpacker
from amble.core.sitemap.xml import XmlBody

_HEAD_BYTES = 2048  # enough to tell what a body is
_PIECE_CHARS = 64 * 1024  # a parser is fed in pieces of about this size, however small the ones that arrive [A5]
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

    `cut`: there was more of it than was fetched.
    """
    reader = SitemapReader(url, limits)
    entries = reader.feed(body)
    entries += reader.close(cut=cut)
    return reader.document(entries)


class SitemapReader:
    """The same in pieces: feed what arrives, take the entries it completes, close, ask for the document.

    Memory stays flat: a piece is unpacked, decoded, read and let go; only the URLs already seen are kept.
    """

    def __init__(self, url: str, limits: ReadLimits = DEFAULT_LIMITS) -> None:
        self.url = url
        self.finished = False  # nothing more will be read: stop fetching
        self._limits = limits
        self._collector = Collector(url, limits)
        self._unpacker = Unpacker()
        self._head = b""
        self._decoder: Decoder | None = None
        self._waiting: list[str] = []
        self._waiting_chars = 0
        self._body: XmlBody | TextBody | None = None
        self._body_bytes = 0
        self._truncated = False
        self._verdict = Verdict()

    @property
    def kind(self) -> SitemapKind | None:
        """The form of the document, known once its beginning has been read."""
        return self._verdict.kind

    def feed(self, data: bytes) -> list[SitemapEntry]:
        """Read on and return the entries that it completed."""
        for piece in self._unpacker.feed(data):
            if self.finished:
                break
            self._take(piece)
        return self._collector.take()

    def close(self, *, cut: bool = False) -> list[SitemapEntry]:
        """The body has ended, or was `cut` by whoever fetched it. Returns the last entries."""
        self._truncated = self._truncated or cut
        if not self.finished:
            for piece in self._unpacker.close(cut=cut):
                self._take(piece)
        if not self.finished:
            self._end(complete=self._unpacker.broken is None and not cut)
        return self._collector.take()

    def document(self, entries: list[SitemapEntry]) -> SitemapDocument:
        """The verdict, with those entries that the caller still holds."""
        verdict = self._verdict
        return SitemapDocument(
            url=self.url,
            kind=None if verdict.invalid else verdict.kind,
            entries=() if verdict.invalid else tuple(entries),
            truncated=self._truncated,
            invalid=verdict.invalid,
            broken=self._unpacker.broken or verdict.broken,
            namespace=verdict.namespace,
            body_bytes=self._body_bytes,
            dropped=MappingProxyType(dict(self._collector.dropped)),
        )

    # --- Bytes -----------------------------------------------------------------------------------------------------

    def _take(self, piece: bytes) -> None:
        room = self._limits.body_bytes_max - self._body_bytes
        if len(piece) > room:
            piece, self._truncated = piece[:room], True
        self._body_bytes += len(piece)
        if self._decoder is None:
            self._head += piece
            if len(self._head) >= _HEAD_BYTES:
                self._begin()
        else:
            self._read(self._decoder.decode(piece))
        if self._truncated and not self.finished:
            self._end(complete=False)

    def _begin(self) -> None:
        """The head is there: find out what bytes these are."""
        head, self._head = self._head, b""
        self._verdict.invalid = _not_text(head)
        if self._verdict.invalid is not None:
            self.finished = True
            return
        self._decoder, mark_bytes = decoder_for(head)
        self._read(self._decoder.decode(head[mark_bytes:]))

    def _end(self, *, complete: bool) -> None:
        if self._decoder is None:
            self._begin()
        if self._decoder is not None:
            self._read(self._decoder.decode(b"", final=True), flush=True)
        if self.finished:
            return
        self.finished = True
        if self._body is None:
            self._verdict.invalid = Invalid.BAD_GZIP if self._unpacker.broken else Invalid.EMPTY
            return
        try:
            self._body.close(complete=complete)
        except Full:
            self._truncated = True

    # --- Characters ------------------------------------------------------------------------------------------------

    def _read(self, text: str, *, flush: bool = False) -> None:
        self._waiting.append(text)
        self._waiting_chars += len(text)
        if self.finished or (self._waiting_chars < _PIECE_CHARS and not flush):
            return
        text = "".join(self._waiting)
        self._waiting, self._waiting_chars = [], 0
        if self._body is None:
            text = self._choose_body(text.lstrip(_SPACE))
        if self._body is None or not text:
            return
        try:
            self.finished = not self._body.feed(text)
        except Full:
            self._truncated = self.finished = True

    def _choose_body(self, text: str) -> str:
        """Decide by the first characters what reads this, and return the text from where it should start."""
        if not text:
            return text
        declaration = _XML_DECLARATION.search(text, 0, _JUNK_CHARS_MAX)
        if declaration and not _HTML.match(text) and not _ROOT.search(text, 0, declaration.start()):
            # The declaration goes too: its encoding has been obeyed, and a misspelt one is no reason to stop.
            text = text[declaration.end() :].lstrip(_SPACE)
        if _HTML.match(text):
            self._verdict.invalid, self.finished = Invalid.HTML, True
        elif text.startswith("<"):
            self._body = XmlBody(self._collector, self._verdict, allow_doctype=self._limits.allow_doctype)
        else:
            self._body = TextBody(self._collector, self._verdict)
        return text


def _not_text(head: bytes) -> Invalid | None:
    """Why bytes that begin like this, already unpacked once, are not worth reading as text."""
    if head.startswith(GZIP_MAGIC):
        return Invalid.NESTED_GZIP
    if head.startswith(_ARCHIVES) or head[257:262] == b"ustar":
        return Invalid.ARCHIVE
    if b"\0" in head and not head.startswith(_UTF16) and not head.lstrip().startswith(b"<"):
        return Invalid.BINARY
    return None
