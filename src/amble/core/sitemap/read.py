"""Whether a body is a sitemap, and what it lists. Pure."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator
from types import MappingProxyType

from amble.core.body_kind import Kind
from amble.core.charset import charset_of
from amble.core.encodings import codec_of, decode
from amble.core.sitemap.collect import Collector, Full
from amble.core.sitemap.document import Invalid, ReadLimits, SitemapDocument, SitemapKind, Verdict
from amble.core.sitemap.xml import DIALECTS, XmlBody
from amble.core.urls import Refusal

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


# --- Unpacking -----------------------------------------------------------------------------------------------------

PIECE_BYTES = 64 * 1024
GZIP_MAGIC = b"\x1f\x8b"

# One member is the rule and a few thousand the most that block compressors write for 50 MiB; more is an attack on the
# fixed cost of starting one [A5].
_MEMBERS_MAX = 2_000


class BrokenGzip(Exception):
    """The compression breaks off; what came before is good."""


def unpacked(body: bytes, *, cut: bool) -> Iterator[bytes]:
    """Pieces of at most PIECE_BYTES, and then perhaps BrokenGzip. A body that was `cut` may end anywhere."""
    if not body.startswith(GZIP_MAGIC):
        for at in range(0, len(body), PIECE_BYTES):
            yield body[at : at + PIECE_BYTES]
        return
    for _ in range(_MEMBERS_MAX):
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        is_whole = False
        while not is_whole:
            before = member.copy()
            try:
                piece = member.decompress(body, PIECE_BYTES)
            except zlib.error as error:
                yield _up_to_the_fault(before, body)
                raise BrokenGzip(f"gzip: {error}") from None
            is_whole = member.eof
            body = member.unused_data if is_whole else member.unconsumed_tail
            if piece:
                yield piece
            elif not body and not is_whole:
                if cut:
                    return
                raise BrokenGzip("gzip: the data ends too early")
        if not body.startswith(GZIP_MAGIC):  # padding after the last one, or nothing
            return
    raise BrokenGzip(f"gzip: more than {_MEMBERS_MAX} members")


def _up_to_the_fault(member: zlib._Decompress, data: bytes) -> bytes:
    """What zlib had unpacked before it met the fault, which it keeps to itself; a wrong checksum comes last of all."""
    unpacked = bytearray()
    try:
        for at in range(len(data)):
            unpacked += member.decompress(data[at : at + 1])
    except zlib.error:
        pass
    return bytes(unpacked)


# --- Characters ----------------------------------------------------------------------------------------------------


def decoded(head: bytes, rest: Iterable[bytes]) -> Iterator[str]:
    """The characters of a body that begins with `head`. What does not decode becomes U+FFFD, and so does U+0000.

    A text sitemap must be UTF-8 (sitemaps.org), and so is XML that does not say otherwise.
    """
    encoding, _, mark_bytes = charset_of(head.lstrip(b" \t\r\n"), kind=Kind.XML)
    head = head[mark_bytes:]
    codec = codec_of(encoding)
    if codec is None:
        yield decode(head, encoding)
        for piece in rest:
            yield decode(piece, encoding)
        return
    spanning = codecs.getincrementaldecoder(codec)(errors="replace")  # a piece may end inside a character
    yield spanning.decode(head).replace("\0", "\ufffd")
    for piece in rest:
        yield spanning.decode(piece).replace("\0", "\ufffd")
    yield spanning.decode(b"", final=True)


# --- Plain text ----------------------------------------------------------------------------------------------------

_LINE_CHARS_MAX = 16_384  # longer than any URL that could pass the gate


class TextBody:
    """Reads lines; those that name an address go to the collector, prose is counted and left."""

    def __init__(self, collector: Collector, verdict: Verdict) -> None:
        self._collector = collector
        self._verdict = verdict
        self._rest = ""

    def feed(self, text: str) -> bool:
        """Read on; text goes on until its end."""
        lines = (self._rest + text).splitlines(keepends=True)
        self._rest = ""
        if lines and lines[-1][-1] not in "\r\n":
            self._rest = lines.pop()[:_LINE_CHARS_MAX]
        for line in lines:
            self._take(line)
        return True

    def close(self, *, complete: bool) -> None:
        """The end of the body. The last line of a body that was cut may be half a URL, so it is left."""
        if complete:
            self._take(self._rest)
        if self._verdict.kind is None:
            self._verdict.invalid = Invalid.NO_URLS

    def _take(self, line: str) -> None:
        line = line.strip()
        if not line:
            return
        if not self._collector.names_host(line):
            self._collector.dropped[Refusal.NOT_A_URL] += 1
            return
        self._verdict.kind = SitemapKind.TEXT
        self._collector.add(line)
