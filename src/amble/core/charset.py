"""Which encoding a body is in: byte order mark, header, `<meta>`, XML declaration, then the bytes themselves. Pure.

The order is that of the WHATWG HTML standard, section 13.2.3.2 ("determining the character encoding").
"""

from __future__ import annotations

import codecs
import re
from enum import StrEnum
from typing import NamedTuple

from amble.core.body_kind import Kind
from amble.core.encodings import decode, encoding_of_label

_PRESCAN_BYTES = 1024
_LATE_BYTES = 64 * 1024
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_BE, "utf-16be"), (codecs.BOM_UTF16_LE, "utf-16le"))
_ANY_MARK = tuple(mark for mark, _ in _MARKS)
_TWO_BYTE_XML = ((b"<\0?\0x\0", "utf-16le"), (b"\0<\0?\0x", "utf-16be"))


class CharsetSource(StrEnum):
    """What an encoding was learned from."""

    MARK = "byte_order_mark"
    HEADER = "header"
    META = "meta"
    XML = "xml_declaration"
    BYTES = "bytes"
    DEFAULT = "default"


class Charset(NamedTuple):
    """An encoding, who said so, and how many bytes of mark to skip."""

    encoding: str
    source: CharsetSource
    mark_bytes: int = 0


def charset_of(body: bytes, label: str | None = None, kind: Kind = Kind.HTML) -> Charset:
    """The encoding of a body whose `Content-Type` names `label`.

    With nothing declared, text that is valid UTF-8 beyond ASCII is UTF-8; else a `<meta>` further down is believed, and
    at last windows-1252, the web's own default.
    """
    if body.startswith(_ANY_MARK):
        mark, encoding = next(pair for pair in _MARKS if body.startswith(pair[0]))
        return Charset(encoding, CharsetSource.MARK, len(mark))
    if label is not None and (named := encoding_of_label(label)):
        return Charset(named, CharsetSource.HEADER)
    if kind is Kind.HTML and (named := prescan(body[:_PRESCAN_BYTES])):
        return Charset(named, CharsetSource.META)
    if kind in (Kind.HTML, Kind.XML) and (named := xml_encoding(body[:_PRESCAN_BYTES])):
        return Charset(named, CharsetSource.XML)
    if kind is Kind.XML or _is_utf8(body):
        return Charset("utf-8", CharsetSource.BYTES)
    # A browser that meets the declaration late starts again with it (13.2.3.4, "changing the encoding").
    if kind is Kind.HTML and (named := _declared_late(body[:_LATE_BYTES])):
        return Charset(named, CharsetSource.META)
    return Charset("windows-1252", CharsetSource.DEFAULT)


def decode_body(body: bytes, label: str | None = None, kind: Kind = Kind.HTML) -> tuple[str, Charset]:
    """The text of a body and the encoding it was read in."""
    charset = charset_of(body, label, kind)
    return decode(body[charset.mark_bytes :] if charset.mark_bytes else body, charset.encoding), charset


def _is_utf8(body: bytes) -> bool:
    """Whether the bytes are UTF-8 beyond ASCII, save for a character cut off at the end."""
    if body.isascii():
        return False
    try:
        return not codecs.getincrementaldecoder("utf-8")().decode(body).isascii()
    except UnicodeDecodeError:
        return False


# --- The declaration of XML ----------------------------------------------------------------------------------------

_XML_DECLARATION = re.compile(rb"<\?xml([^>]*)>")
_XML_ENCODING = re.compile(rb"encoding[\x00-\x20]*=[\x00-\x20]*(?:\"([^\"]*)\"|'([^']*)')")


def xml_encoding(head: bytes) -> str | None:
    """The encoding an XML declaration names. It was read byte by byte, so a claim of UTF-16 means UTF-8."""
    for start, encoding in _TWO_BYTE_XML:
        if head.startswith(start):
            return encoding
    declaration = _XML_DECLARATION.match(head)
    value = _XML_ENCODING.search(declaration[1]) if declaration else None
    return _believed(value[1] or value[2] or b"") if value else None


def _believed(label: bytes) -> str | None:
    encoding = encoding_of_label(label.decode("latin-1"))
    return "utf-8" if encoding in ("utf-16be", "utf-16le") else encoding


# --- The prescan for <meta> ----------------------------------------------------------------------------------------

_LATE = re.compile(rb"charset", re.IGNORECASE)
_META = re.compile(rb"<meta[\t\n\x0c\r /]", re.IGNORECASE)
_TAG = re.compile(rb"</?[A-Za-z][^\t\n\x0c\r >]*")
_MARKUP = (b"<!", b"</", b"<?")


def prescan(head: bytes) -> str | None:
    """The encoding that a `<meta>` in these bytes declares, or None ("prescan a byte stream", 13.2.3.2)."""
    at = head.find(b"<")
    while at >= 0:
        if head.startswith(b"<!--", at):
            end = head.find(b"-->", at + 2)  # the dashes that open may also close: `<!-->`
            if end < 0:
                return None
            at = end + 2
        elif meta := _META.match(head, at):
            attributes, at = _attributes(head, meta.end() - 1)
            if attributes is None:
                return None
            if encoding := _declared(attributes):
                return encoding
        elif tag := _TAG.match(head, at):
            attributes, at = _attributes(head, tag.end())
            if attributes is None:
                return None
        elif head.startswith(_MARKUP, at):
            at = head.find(b">", at)
            if at < 0:
                return None
        at = head.find(b"<", at + 1)
    return None


def _declared_late(head: bytes) -> str | None:
    return prescan(head) if _LATE.search(head, _PRESCAN_BYTES - 8) else None


def _declared(attributes: dict[bytes, bytes]) -> str | None:
    """What the attributes of one `<meta>` declare. `charset` speaks for itself and louder than `content`."""
    if b"charset" in attributes:
        encoding = encoding_of_label(attributes[b"charset"].decode("latin-1"))
    elif attributes.get(b"http-equiv") == b"content-type":
        encoding = _encoding_in_content(attributes.get(b"content", b""))
    else:
        return None
    if encoding in ("utf-16be", "utf-16le"):
        return "utf-8"  # the bytes of the tag itself were readable
    return "windows-1252" if encoding == "x-user-defined" else encoding


_IN_CONTENT = re.compile(
    rb"charset[\t\n\x0c\r ]*+=[\t\n\x0c\r ]*+(?:\"([^\"]*+)\"|'([^']*+)'|(?![\"'])([^\t\n\x0c\r ;]*+)|[\"'])"
)


def _encoding_in_content(content: bytes) -> str | None:
    """The encoding in `text/html; charset=...` (2.5.3, "extracting a character encoding from a meta element")."""
    match = _IN_CONTENT.search(content)
    return encoding_of_label((match[1] or match[2] or match[3] or b"").decode("latin-1")) if match else None


_ATTRIBUTE = re.compile(
    rb"[\t\n\x0c\r /]*+"
    rb"(?:>|([^\t\n\x0c\r />][^\t\n\x0c\r />=]*+)[\t\n\x0c\r ]*+"
    rb"(?:=[\t\n\x0c\r ]*+(?:\"([^\"]*+)\"?|'([^']*+)'?|([^\t\n\x0c\r >]*+)))?)"
)


def _attributes(head: bytes, at: int) -> tuple[dict[bytes, bytes] | None, int]:
    """The attributes of a tag, in lower case, and the place of its `>`; None where the bytes end first."""
    found: dict[bytes, bytes] = {}
    while match := _ATTRIBUTE.match(head, at):
        at = match.end()
        if match[1] is None:
            return found, at - 1
        found.setdefault(match[1].lower(), (match[2] or match[3] or match[4] or b"").lower())
    return None, len(head)
