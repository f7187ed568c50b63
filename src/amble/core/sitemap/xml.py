"""How far an XML document is read: in pieces, by expat, with every way out of the document closed. Pure.

No document type is read, so no entity can be defined, fetched or expanded; nothing is loaded from anywhere [A18].
"""

from __future__ import annotations

import re
from xml.parsers import expat

from amble.core.sitemap.collect import Collector
from amble.core.sitemap.document import Invalid, Verdict
from amble.core.sitemap.elements import Elements, Stop

# expat keeps every name it ever saw, and an unfinished tag or comment, which before version 2.6 it reads again from
# the start with each piece: quadratic. Real sitemaps stay far below both.
NAMES_MAX = 10_000
TOKEN_BYTES_MAX = 1024 * 1024
_TEXT_CHARS_MAX = 16_384  # longer than any URL that could pass the gate

_TAIL_BYTES = 256
_CLOSING_TAG_CUT = re.compile(rb"</[^<>]*\Z")


class XmlBody:
    """Reads one document; entries go to the collector as their elements close."""

    def __init__(self, collector: Collector, verdict: Verdict) -> None:
        self._verdict = verdict
        # The handlers know nothing of the parser: a cycle would keep the URLs seen in memory until the next collection.
        self._elements = Elements(collector, verdict)
        self._text = self._elements.text
        self._names: dict[str, str] = {}
        self._expat = _parser(self._elements, self._names)
        self._fed_bytes = 0
        self._tail = b""

    def feed(self, text: str) -> bool:
        """Read on. False once nothing more will be read: the document broke or is no sitemap."""
        data = text.encode("utf-8")
        self._tail = (self._tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        self._fed_bytes += len(data)
        self._parse(data, final=False)
        if self._verdict.is_open and (oversize := self._oversize()):
            self._verdict.broken = oversize
            self._elements.salvage(field_is_whole=False)
        return self._verdict.is_open

    def close(self, *, complete: bool) -> None:
        """The end of the body. An incomplete one was cut by a limit, so its missing end is no fault of its own."""
        if complete and self._verdict.is_open:
            self._parse(b"", final=True)
        elif self._verdict.is_open:
            self._salvage()

    def _parse(self, data: bytes, *, final: bool) -> None:
        try:
            self._expat.Parse(data, final)
        except Stop:
            self._elements.salvage(field_is_whole=False)
        except expat.ExpatError as error:
            if self._verdict.kind is None:
                self._verdict.invalid = Invalid.NOT_XML
                return
            self._verdict.broken = f"xml: {expat.ErrorString(error.code)}, line {error.lineno}, column {error.offset}"
            if final:
                self._salvage()
            else:
                self._elements.salvage(field_is_whole=False)

    def _salvage(self) -> None:
        # A location without its end tag may be half a URL; one cut inside the end tag itself is whole.
        self._elements.salvage(field_is_whole=_CLOSING_TAG_CUT.search(self._tail) is not None)

    def _oversize(self) -> str | None:
        """What expat is being made to hoard, if anything. Text beyond the length of any URL is let go."""
        if self._fed_bytes - self._expat.CurrentByteIndex > TOKEN_BYTES_MAX:
            return f"xml: a tag or comment longer than {TOKEN_BYTES_MAX} bytes"
        if len(self._names) > NAMES_MAX:
            return f"xml: more than {NAMES_MAX} different names"
        if len(self._text) > 1 or (self._text and len(self._text[0]) > _TEXT_CHARS_MAX):
            self._text[:] = ["".join(self._text)[:_TEXT_CHARS_MAX]]
        return None


def _parser(elements: Elements, names: dict[str, str]) -> expat.XMLParserType:
    parser = expat.ParserCreate("utf-8", None, names)
    parser.buffer_text = True
    parser.StartElementHandler = elements.start
    parser.EndElementHandler = elements.end
    parser.CharacterDataHandler = elements.text.append  # a C function: text between elements costs next to nothing
    parser.StartDoctypeDeclHandler = elements.refuse_doctype
    return parser
