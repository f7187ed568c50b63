"""What a body is: HTML, XML, text or bytes for machines, by what is declared and by how it opens [A17]. Pure.

Section numbers are those of the WHATWG MIME Sniffing standard.
"""

from __future__ import annotations

import re
from enum import StrEnum

from amble.core.content_type import MimeType


class Kind(StrEnum):
    """What a body is, for a reader."""

    HTML = "html"
    XML = "xml"
    TEXT = "text"
    BINARY = "binary"


_HEAD_BYTES = 1445  # how much the standard looks at (section 5.2, "resource header")
_NO_OPINION = frozenset(
    {"unknown/unknown", "application/unknown", "*/*", "application/octet-stream", "binary/octet-stream",
     "application/force-download", "application/download"}
)  # fmt: skip
# Section 7.1; a tag name counts only when a space or `>` ends it.
_HTML_START = re.compile(
    rb"(?:\xef\xbb\xbf)?[\t\n\x0c\r ]*<(?:!--|(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title"
    rb"|b|body|br|p)[\t\n\x0c\r >])",
    re.IGNORECASE,
)
_XML_START = re.compile(rb"(?:\xef\xbb\xbf)?[\t\n\x0c\r ]*<\?xml[\t\n\x0c\r ]")
_HTML_ROOT = re.compile(rb"<(?:!doctype html|html)[\t\n\x0c\r >]", re.IGNORECASE)  # XHTML, after its declaration
_BINARY_BYTE = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_UNICODE_MARK = (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")
_MAGIC = re.compile(
    rb"%PDF-|\x89PNG\r\n|GIF8[79]a|\xff\xd8\xff|RIFF....(?:WEBP|WAVE|AVI )|BM.{4}\0\0\0\0|\0\0\x01\0"  # images
    rb"|PK\x03\x04|\x1f\x8b\x08|Rar!\x1a\x07|7z\xbc\xaf\x27\x1c|\x28\xb5\x2f\xfd|BZh[1-9]1AY|\xfd7zXZ\0"  # archives
    rb"|OggS\0|ID3[\x02-\x04]|\x1a\x45\xdf\xa3|fLaC\0|\0\0..ftyp|wOF[F2][\0\x01]|OTTO\0|\0\x01\0\0"  # media, fonts
    rb"|\x7fELF|MZ\x90|\xca\xfe\xba\xbe|\xd0\xcf\x11\xe0",  # programs, old office files
    re.DOTALL,
)


def kind_of(body: bytes, mime: MimeType | None) -> Kind:
    """What a body is: as declared where the bytes allow it, by the bytes where nothing useful is declared [A17].

    A declared text stays text even if it looks like HTML (a listing of source code); only the opening bytes of a known
    binary format overrule it. A declared image that opens as HTML is HTML.
    """
    if mime is not None and mime.is_html:  # most bodies; and no binary format opens with `<`
        return Kind.BINARY if body[:1] != b"<" and _MAGIC.match(body) else Kind.HTML
    head = body[:_HEAD_BYTES]
    if mime is None or mime.essence in _NO_OPINION:
        return _kind_of_unknown(head)
    declared = _declared(mime)
    if declared is Kind.BINARY:
        return Kind.HTML if _HTML_START.match(head) else Kind.BINARY
    if _MAGIC.match(head):
        return Kind.BINARY
    if declared is Kind.XML and _opens_as_html(head):
        return Kind.HTML
    return declared


def _declared(mime: MimeType) -> Kind:
    if mime.essence == "application/xhtml+xml":
        return Kind.HTML
    if mime.is_xml:
        return Kind.XML
    return Kind.TEXT if mime.type == "text" or mime.is_json or mime.is_javascript else Kind.BINARY


def _kind_of_unknown(head: bytes) -> Kind:
    if _opens_as_html(head):
        return Kind.HTML
    if _XML_START.match(head):
        return Kind.XML
    if head.startswith(_UNICODE_MARK):
        return Kind.TEXT
    return Kind.BINARY if _MAGIC.match(head) or _BINARY_BYTE.search(head) else Kind.TEXT


def _opens_as_html(head: bytes) -> bool:
    if _HTML_START.match(head):
        return True
    return _XML_START.match(head) is not None and _HTML_ROOT.search(head) is not None
